#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Install the Debian packages that building and testing need.
# --missing: only if one is missing, and say nothing if none is.
set -eu

build='gcc g++ libc6-dev make git pkg-config clang llvm bpftool libbpf-dev libelf-dev zlib1g-dev
	libcgroup-dev libcyaml-dev libyaml-dev libjansson-dev libsystemd-dev'
hip='libamdhip64-dev libdrm-dev'
tests='systemd-container dbus-user-session libpam-systemd libcmocka-dev liburing-dev bats python3 binutils util-linux mount procps libclang-rt-14-dev'
vm='qemu-system-x86 busybox-static cpio kmod xz-utils zstd lz4 debian-archive-keyring'
lint='clang-format clang-tidy cppcheck'

missing() {
	for p in $build $hip $tests $vm $lint; do
		case $(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null || :) in
		ii*) ;;
		*) echo "$p" ;;
		esac
	done
}

need=$(missing | tr '\n' ' ')
[ "$need" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "these packages are missing; install them as root: $need" >&2
	exit 1
fi
echo "installing: $need"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends $need; } >"$log" 2>&1; then
	cat "$log" >&2
	exit 1
fi
