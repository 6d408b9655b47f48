#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Make the guest's file system: busybox, and below /pincap what is built, under the
# names it has in the source tree, with the shared libraries that it needs.
#
# usage: initramfs.sh KERNEL-DIR OUT COMMAND [FILE...]
# FILE: more to take along, named from the top of the source tree.
# Environment: O (build), BPFTOOL, MODULES (kernel modules to load at start, with what
# they depend on), PINCAP_TEST_* (handed on).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kernel=$1 out=$2 command=$3
shift 3
O=${O:-build}
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.libs"' EXIT
chmod 755 "$root" # becomes /, which others must be able to pass

mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/etc" "$root/run" "$root/modules.d" \
	"$root/pincap/build/tests/kernel" "$root/pincap/build/old" "$root/pincap/build/tests/daemon"
cp "$(command -v busybox)" "$root/bin/"
for applet in $(busybox --list); do
	[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
ln -s bin "$root/sbin"
ln -s ../proc/self/mounts "$root/etc/mtab"
printf '%s:x:%s:%s::/:/bin/sh\n' root 0 0 nobody 65534 65534 >"$root/etc/passwd"
printf '%s:x:%s:\n' root 0 nogroup 65534 >"$root/etc/group"
cp "$here/init" "$root/init"
cp "$here/guest.sh" "$root/pincap/"
printf '%s\n' "$command" >"$root/command"

cp "${BPFTOOL:-/usr/sbin/bpftool}" "$root/bin/"
cp "$O/pincap" "$O/pincapd" "$O/libpincap-preload.so" "$root/pincap/build/"
cp "$O/old/pincap" "$root/pincap/build/old/"
ln -s ../pincap/build/pincap "$root/bin/pincap"
cp "$O/tests/kfd-driver" "$root/pincap/build/tests/"
for dir in kernel daemon; do
	for f in "$O/tests/$dir"/*; do
		[ ! -x "$f" ] || cp "$f" "$root/pincap/build/tests/$dir/"
	done
done
for f; do
	mkdir -p "$root/pincap/$(dirname "$f")"
	cp -aL "$f" "$root/pincap/$f"
done

{
	echo 'export PINCAP=/pincap/build/pincap PINCAP_OLD=/pincap/build/old/pincap BPFTOOL=/bin/bpftool'
	echo 'export PINCAPD=/pincap/build/pincapd ACTOR=/pincap/build/tests/kernel/actor'
	env | sed -n "s/^\(PINCAP_TEST_[A-Z_]*\)=\(.*\)/export \1='\2'/p"
} >"$root/environment"

# A machine without its libraries would only say "not found".
find "$root/bin" "$root/pincap" -type f -perm -u+x | while read -r f; do
	ldd "$f" 2>/dev/null | grep -o '/[^ ]*' || :
done | sort -u >"$root.libs"
# glibc opens this one by itself, to end a thread.
gcc -print-file-name=libgcc_s.so.1 >>"$root.libs"
while read -r lib; do
	mkdir -p "$root${lib%/*}"
	cp -L "$lib" "$root$lib"
done <"$root.libs"

: >"$root/modules"
if [ "${MODULES-}" ]; then
	# modprobe knows the order; it wants a tree DIR/lib/modules/VERSION
	version=$(ls "$kernel/modules")
	mkdir -p "$root/tree/lib"
	ln -s "$kernel/modules" "$root/tree/lib/modules"
	[ -e "$kernel/modules/$version/modules.dep.bin" ] || depmod -b "$root/tree" "$version"
	for m in $MODULES; do
		modprobe -d "$root/tree" -S "$version" --show-depends "$m"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r ko; do
		name=$(basename "$ko" .xz)
		case $ko in
		*.xz) xz -dc "$ko" >"$root/modules.d/$name" ;;
		*) cp "$ko" "$root/modules.d/$name" ;;
		esac
		echo "/modules.d/$name" >>"$root/modules"
	done
	rm -r "$root/tree"
fi
(cd "$root" && find . | cpio -o -H newc --quiet -R 0:0) >"$out"
