#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Run tests in a guest, as TAP: a line per test, then one for the guest itself, which
# must have come to its end without a complaint of the kernel. A kernel that cannot be
# had is one skipped case.
#
# usage: check.sh KERNEL [TEST...]
# TEST: load, doctor, unload, kernel-NAME (tests/kernel/test_NAME.c), daemon-NAME, or
# minimum (pincap says that the kernel is too old). Without any: load, unload and all of the
# kernel side, or `minimum`.
# Environment: LIMIT, seconds for the whole guest (1500); O, as vm.sh; PINCAP_TRIGGER
# and PINCAP_GPU_TRIGGER, as `pincap load --help`.
set -u
here=$(cd "$(dirname "$0")" && pwd)
kernel=$1
shift
export O="${O:-build}"
log=$O/tests/log/vm-$kernel.console
mkdir -p "${log%/*}"

if [ $# = 0 ]; then
	case $kernel in
	5.*) set -- minimum ;;
	*)	# These load and unload by themselves; for the others it is done once.
		own='kernel-cases kernel-options kernel-full kernel-gpu_full kernel-upgrade'
		shared=$(cd "$here/../kernel" && for f in test_*.c; do f=${f%.c}; echo "kernel-${f#test_}"; done |
			grep -vxE "$(echo "$own" | tr ' ' '|')")
		set -- load doctor $shared unload $own ;;
	esac
fi

# Both kinds of trigger load on most kernels; unless told, pincap takes the better.
force="PINCAP_TRIGGER=${PINCAP_TRIGGER-} PINCAP_GPU_TRIGGER=${PINCAP_GPU_TRIGGER-}"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 1' INT TERM HUP
MODULES=fuse "$here/vm.sh" -t "${LIMIT:-1500}" -l "$log" "$kernel" "$force ./guest.sh $*" >"$out" 2>"$out.err" &
guest=$!
trap 'kill $guest 2>/dev/null; wait $guest; rm -f "$out" "$out.err"' EXIT
wait $guest
rc=$?
if [ $rc = 77 ]; then
	echo "ok 1 - $kernel # SKIP $(tail -n 1 "$out.err")"
	echo 1..1
	exit
fi
cat "$out"
ran=$(grep -cE '^(not )?ok ' "$out")
if [ $rc = 0 ] && [ "$ran" = $# ]; then
	echo "ok $((ran + 1)) - $(grep -oE '^# Linux .*' "$out" | cut -c3-) to its end, without a complaint"
else
	echo "not ok $((ran + 1)) - $kernel: $ran of $# tests ran, exit code $rc"
	sed 's/^/# /' "$out.err"
	failed=1
fi
echo "1..$((ran + 1))"
! grep -q '^not ok' "$out" && [ -z "${failed-}" ]
