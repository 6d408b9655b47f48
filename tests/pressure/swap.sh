#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Swap for as long as stdin is open and the parent lives: a zram device of its own, or,
# where there is no zram, a file on a loop device. Says "ready DEVICE" or "skip REASON".
# Gone with it is every memory cgroup whose name begins with PREFIX, and who is in it:
# so nothing stays behind, whatever becomes of the one who asked.
#
# usage: swap.sh PREFIX
set -u
here=$(dirname "$0")
# shellcheck source=tests/pressure/memory.bash
. "$here/memory.bash"
prefix=$1 asker=$PPID bytes=$((1 << 30)) file='' device='' number=''
control=/sys/class/zram-control
trap '' INT TERM HUP

skip() {
	echo "skip $*"
	exit 0
}

make_zram() {
	[ -e $control/hot_add ] || modprobe zram 2>/dev/null
	number=$(cat $control/hot_add 2>/dev/null) || return 1
	device=/dev/zram$number
	echo $bytes >"/sys/block/zram$number/disksize" && return
	echo "$number" >$control/hot_remove
	number=''
	return 1
}

# Not a sparse one, and not in memory; smaller, for it is written in full.
make_file() {
	file=$(mktemp -p /var/tmp pincap-swap-XXXXXX)
	dd if=/dev/zero of="$file" bs=1M count=256 status=none &&
		device=$(losetup --find --show "$file")
}

remove() {
	swapoff "$device" 2>/dev/null
	if [ -n "$number" ]; then
		echo 1 >"/sys/block/zram$number/reset"
		echo "$number" >$control/hot_remove
	elif [ -n "$device" ]; then
		losetup --detach "$device"
	fi
	[ -z "$file" ] || rm -f "$file"
}

# Above the swap that the host may have: there it stays unused.
{ [ "${PRESSURE_SWAP:-zram}" = zram ] && make_zram; } || make_file 2>/dev/null || {
	remove 2>/dev/null
	skip 'neither zram nor a loop device for swap'
}
if ! { mkswap "$device" && swapon --priority 32767 "$device"; } >/dev/null 2>&1; then
	remove 2>/dev/null
	skip "swapon of $device is not permitted"
fi
echo "ready $device"
exec >/dev/null 2>&1
# A child of the one who asked may have stdin open when he is dead.
while kill -0 "$asker"; do
	read -r -t 1
	[ $? -gt 128 ] || break
done
memory_remove_all "$prefix"
remove
