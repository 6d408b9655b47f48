#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Boot a real systemd as PID 1 over an overlay of this system, with what `make install`
# staged put into /usr, and run a script in it as root; prints what the script prints.
# The kernel side is this machine's.
#
# usage: nspawn.sh STAGE SCRIPT
# Exit code 77: it does not boot here, for the reason that is printed.
set -eu
stage=$1 script=$2
work=$(mktemp -d)

cleanup() {
	umount "$work/root" "$work/upper" 2>/dev/null || :
	rm -rf "$work"
	# what nspawn leaves in every hierarchy
	for dir in /sys/fs/cgroup/{,*/}{payload,supervisor}; do
		[ ! -d "$dir" ] || find "$dir" -depth -type d -exec rmdir {} \; 2>/dev/null || :
	done
}
trap cleanup EXIT

mkdir "$work/upper" "$work/root"
mount -t tmpfs tmpfs "$work/upper"
mkdir "$work/upper/u" "$work/upper/w"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper/u,workdir=$work/upper/w" \
	"$work/root" || { echo 'no overlay can be mounted here'; exit 77; }

units=$work/root/etc/systemd/system
rm -rf "$units"/*.wants "$work/root/etc/pincap"
: >"$work/root/etc/machine-id"
ln -sf /lib/systemd/system/multi-user.target "$units/default.target"
mkdir -p "$units/multi-user.target.wants"
cp -a "$stage/usr/." "$work/root/usr/"
install -m 755 "$script" "$work/root/probe.sh"
cat >"$units/probe.service" <<U
[Unit]
After=dbus.service systemd-logind.service
[Service]
Type=oneshot
StandardOutput=append:/probe.out
StandardError=append:/probe.out
ExecStart=/probe.sh
ExecStopPost=/bin/systemctl poweroff --force
U
ln -sf /etc/systemd/system/probe.service "$units/multi-user.target.wants/"

# Without the filter bpf() is EPERM in there, and cgroups are not found by their ids.
timeout 120 systemd-nspawn -D "$work/root" --register=no --keep-unit --boot --private-network \
	--capability=all --system-call-filter='bpf perf_event_open open_by_handle_at' --bind /sys/fs/bpf \
	--bind-ro /sys/kernel/btf >"$work/console" 2>&1 || :
[ -s "$work/root/probe.out" ] || { tail -n 3 "$work/console"; exit 77; }
cat "$work/root/probe.out"
