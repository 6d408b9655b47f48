#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What can be checked without running anything, as TAP: format, analysers, the
# other compiler, who includes whom, what `install` installs.
#
# usage: static.sh BUILD-DIR
set -u
O=$1
n=0
out=$(mktemp)
dest=$(mktemp -d)
trap 'rm -rf "$out" "$dest"' EXIT

check() {
	name=$1
	shift
	n=$((n + 1))
	if "$@" >"$out" 2>&1; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		tail -n 30 "$out" | sed 's/^/# /'
	fi
}

# Each line of stdin is a breach.
none() { ! grep . ; }

layers() {
	{
		grep -rnE '#include "userspace/(control|cli|daemon|lib)' userspace/common
		grep -rnE '#include "userspace/(cli|daemon|lib)' userspace/control
		grep -rnE '#include "userspace/(cli|lib)' userspace/daemon
		grep -rnE '#include "userspace/(control|cli)' userspace/lib
		grep -rnE '#include "bpf/' userspace | grep -v '"bpf/intf.h"'
		grep -rlE '#include <bpf/(lib)?bpf.h>' userspace | grep -vE 'control/(kernel|probe)'
		grep -rlE '#include <c?yaml' userspace | grep -v 'control/config_'
		grep -rlE '#include <libcgroup.h>' userspace | grep -v 'common/cgroup.c'
	} | none
}

installed() {
	make -s O="$O" DESTDIR="$dest" PREFIX=/usr LIBDIR=/usr/lib install || return 1
	! grep -r '@[A-Z]*@' "$dest/usr/lib/systemd" || return 1
	for f in bin/pincap bin/pincapd share/doc/pincap/pincap.yaml lib/systemd/system/pincapd.service \
		lib/libpincap.so.1 lib/libpincap.so lib/libpincap.a \
		lib/pincap/libpincap-preload.so include/pincap.h lib/pkgconfig/libpincap.pc; do
		test -e "$dest/usr/$f" || { echo "missing: $f"; return 1; }
	done
	printf '#include <pincap.h>\nint main(void) { return !pincap_version(); }\n' >"$dest/a.c"
	(
		export PKG_CONFIG_LIBDIR=$dest/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
		cc $(pkg-config --cflags libpincap) -o "$dest/a" "$dest/a.c" \
			$(PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --libs libpincap) &&
			LD_LIBRARY_PATH=$dest/usr/lib "$dest/a" && rm "$dest/a" "$dest/a.c"
	) &&
		make -s O="$O" DESTDIR="$dest" PREFIX=/usr LIBDIR=/usr/lib uninstall &&
		! find "$dest" -type f | grep .
}

check 'clang-format' make -s O="$O" lint-format
check 'cppcheck' make -s O="$O" lint-cppcheck
check 'clang-tidy' make -s O="$O" lint-tidy
check 'clang builds without a warning' make -s -j2 O="$O/clang" CC=clang tests
check 'includes point downward' layers
check 'install and uninstall' installed
echo "1..$n"
