#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs a program on a HIP runtime that fetch.sh has unpacked, with that root's
# own loader and C library. LD_PRELOAD is not for it: libraries to be preloaded
# are named by --preload, separated by colons.
#
# usage: run.sh DIR 5.7.1|6.4.3 [--preload LIBS] PROG [ARG...]
set -euo pipefail

usage() {
	echo "usage: run.sh DIR 5.7.1|6.4.3 [--preload LIBS] PROG [ARG...]" >&2
	exit 2
}

[ $# -ge 3 ] || usage
[ -d "$1/root-$2" ] || { echo "rocm: no '$1/root-$2'; run fetch.sh first" >&2; exit 77; }
root=$(cd "$1" && pwd)/root-$2
shift 2
preload=
if [ "$1" = --preload ]; then
	[ $# -ge 3 ] || usage
	preload=$2
	shift 2
fi
prog=$(command -v "$1") || { echo "rocm: no program '$1'" >&2; exit 127; }
shift

loader=$(find "$root" -name 'ld-linux-*.so.*' -print -quit)
[ "$loader" ] || { echo "rocm: no loader in '$root'" >&2; exit 77; }
paths=$(find "$root" -name '*.so.*' -not -path '*/gconv/*' -printf '%h\n' | sort -u | paste -sd :)
unset LD_PRELOAD LD_LIBRARY_PATH
exec "$loader" --library-path "$paths" ${preload:+--preload "$preload"} "$prog" "$@"
