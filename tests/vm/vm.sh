#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Boot a stock Debian kernel under QEMU and run a shell command in it, as root, in a
# tree that has what `make tests` built (build/pincap, build/tests/kernel/*), with
# pincap, bpftool and busybox in PATH and cgroup v2 with memory and pids. Prints what
# the command prints and ends as it did:
#
#   tests/vm/vm.sh 6.12 'pincap load && pincap doctor'
#   tests/vm/vm.sh newest 'pincap load && build/tests/kernel/test_count'
#   tests/vm/vm.sh -a lockdown=integrity -d 512 6.1 'mkswap /dev/vda && swapon /dev/vda'
#
# usage: vm.sh [OPTION...] KERNEL COMMAND [FILE...]
#   -m MIB       memory (1024)           -a ARGS     more for the kernel's command line
#   -c CPUS      processors (2)          -t SECONDS  give up after (300)
#   -d MIB       an empty disk /dev/vda  -l FILE     keep the console there
# KERNEL is a name from tests/vm/kernels; FILEs (named from the top of the tree) are
# taken along. Environment: as fetch.sh and initramfs.sh, and QEMU.
#
# Exit code 77: that kernel cannot be had. 125: the guest died, did not boot or took too
# long, or the kernel complained (WARNING, BUG...); the console's end is shown.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
memory=1024 cpus=2 disk= args= limit=300 keep=
while getopts m:c:d:a:t:l: option; do
	case $option in
	m) memory=$OPTARG ;;
	c) cpus=$OPTARG ;;
	d) disk=$OPTARG ;;
	a) args=$OPTARG ;;
	t) limit=$OPTARG ;;
	l) keep=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { sed -n 's/^# usage: /usage: /p' "$0" >&2; exit 2; }
name=$1
shift

kernel=$("$here/fetch.sh" "$name")
dir=$(mktemp -d)
qemu=
finish() {
	[ -z "$qemu" ] || kill "$qemu" 2>/dev/null || :
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 125' INT TERM HUP

drive=
if [ "$disk" ]; then
	MODULES="virtio_pci virtio_blk ${MODULES-}"
	truncate -s "${disk}M" "$dir/disk"
	drive="-drive file=$dir/disk,format=raw,if=virtio,cache=unsafe"
fi
MODULES=${MODULES-} "$here/initramfs.sh" "$kernel" "$dir/initrd" "$@"

# thread=single: QEMU before 8.1 may run a stale int3 when one processor patches code
# that another is about to run, and the guest dies, in up to one boot in twenty.
accel=tcg,thread=single cpu=max
[ ! -w /dev/kvm ] || accel=kvm cpu=host
: >"$dir/console"
: >"$dir/verdict"
timeout -k 5 "$limit" "${QEMU:-qemu-system-x86_64}" -accel "$accel" -cpu "$cpu" -m "$memory" \
	-smp "$cpus" -nodefaults -display none -no-reboot -bios qboot.rom $drive \
	-serial "file:$dir/console" -serial stdio -serial "file:$dir/verdict" \
	-kernel "$kernel/vmlinux" -initrd "$dir/initrd" \
	-append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr $args" \
	</dev/null 2>"$dir/qemu" & # so that a signal to us ends it
qemu=$!
ended=0
wait "$qemu" || ended=$?
qemu=

[ -z "$keep" ] || tr -d '\r' <"$dir/console" >"$keep"
rc=$(sed -n 's/^exit \([0-9]*\)$/\1/p' "$dir/verdict")
if [ -z "$rc" ]; then
	[ "$ended" = 0 ] || echo "QEMU ended with $ended (124: more than $limit s)" >&2
	echo "the guest did not finish; its console ends:" >&2
	{ cat "$dir/qemu"; tr -d '\r' <"$dir/console"; } | tail -n 30 >&2
	exit 125
fi
if grep -v '^exit ' "$dir/verdict" >&2; then
	echo "the kernel complained" >&2
	exit 125
fi
exit "$rc"
