#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Take the ELF kernel out of an x86 bzImage: QEMU starts it by PVH, and the guest
# need not decompress itself under emulation.
#
# usage: extract.sh BZIMAGE OUT
set -eu
img=$1 out=$2

num() { od -An -t"$1" -j"$2" -N"$3" "$img" | tr -d ' '; }

# The boot protocol's setup_sects, payload_offset and payload_length.
start=$((($(num u1 497 1) + 1) * 512 + $(num u4 584 4)))
length=$(num u4 588 4)
payload() { tail -c +$((start + 1)) "$img" 2>/dev/null | head -c "$length"; }

case $(num x1 "$start" 4) in
fd377a58) unpack='xz -dc --single-stream' ;;
28b52ffd) unpack='zstd -dcq' ;;
02214c18) unpack='lz4 -dcq' ;;
*) echo "$img: unknown compression" >&2; exit 1 ;;
esac
payload | $unpack >"$out" 2>/dev/null || : # the size follows the stream: no decompressor likes it
[ "$(head -c 4 "$out" | od -An -c | tr -d ' ')" = '177ELF' ] || { echo "$img: no ELF inside" >&2; exit 1; }
