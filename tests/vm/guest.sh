#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In the guest: run tests, one line of TAP each. One that fails shows what it said.
# What is only long, and not more telling for it, is shortened: emulation is slow.
#
# usage: guest.sh TEST..., see check.sh
set -u
export CMOCKA_MESSAGE_OUTPUT=TAP
export PINCAP_TEST_OPS="${PINCAP_TEST_OPS:-20000}" PINCAP_TEST_PAUSES="${PINCAP_TEST_PAUSES:-10}" \
	PINCAP_TEST_CHURN="${PINCAP_TEST_CHURN:-200}" PINCAP_TEST_ROUNDS="${PINCAP_TEST_ROUNDS:-500}" PINCAP_TEST_REPETITIONS="${PINCAP_TEST_REPETITIONS:-5}" \
	PINCAP_TEST_SECONDS="${PINCAP_TEST_SECONDS:-4}" PINCAP_TEST_RUNS="${PINCAP_TEST_RUNS:-20}" \
	PINCAP_TEST_DEATH_MS="${PINCAP_TEST_DEATH_MS:-5000}" PINCAP_TEST_SWEEPS="${PINCAP_TEST_SWEEPS:-4}" \
	PINCAP_TEST_MIXES="${PINCAP_TEST_MIXES:-600}" PINCAP_TEST_UNSEEN="${PINCAP_TEST_UNSEEN:-8}" \
	PINCAP_TEST_KILLS="${PINCAP_TEST_KILLS:-4}" PINCAP_TEST_RANGES="${PINCAP_TEST_RANGES:-4000}"
limit=300 # seconds for one test
n=0
out=/tmp/out

seconds() { cut -d. -f1 /proc/uptime; }
count() { grep -cE "$1" $out; }

# Of a cmocka test's exit code and cases; empty is well.
judge() {
	planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' $out | tail -n 1)
	skipped=$(count '^(not )?ok .*# *SKIP')
	failed=$(($(count '^not ok ') - $(count '^not ok .*# *SKIP')))
	passed=$(($(count '^ok ') - $(count '^ok .*# *SKIP')))
	if [ "$failed" != 0 ]; then
		echo "$failed of ${planned:-?} failed"
	elif [ "$skipped" != 0 ]; then
		echo "$skipped of ${planned:-?} did not run"
	elif [ "$1" != 0 ] || [ "$passed" != "${planned:-0}" ]; then
		echo "$passed of ${planned:-?} passed, exit code $1"
	fi
}

run() {
	name=$1
	shift
	n=$((n + 1))
	start=$(seconds)
	timeout -s KILL $limit "$@" >$out 2>&1
	rc=$?
	cases=
	case $name in
	kernel-* | daemon-*)
		wrong=$(judge $rc)
		cases=", $(count '^ok ') cases" ;;
	*)
		wrong=
		[ $rc = 0 ] || wrong="exit code $rc" ;;
	esac
	if [ -z "$wrong" ]; then
		echo "ok $n - $name$cases, $(($(seconds) - start)) s"
	else
		echo "not ok $n - $name: $wrong, $(($(seconds) - start)) s"
		grep -v '^ok ' $out | head -n 60 | sed 's/^/# /'
	fi
}

loaded() { [ -e /sys/fs/bpf/pincap ]; }

unload() { pincap unload && ! loaded; }

# One line that names the least kernel, and nothing loaded.
minimum() {
	! pincap load >/tmp/words 2>&1 || return 1
	cat /tmp/words
	[ "$(wc -l </tmp/words)" = 1 ] && grep -q 'Linux 6\.1 or' /tmp/words && ! loaded
}

case ${1-} in
unload | minimum) # a function, under `timeout`
	[ "${GUEST_SELF-}" ] && { "$1"; exit; } ;;
esac
export GUEST_SELF=1
echo "# Linux $(uname -r)"
for t; do
	case $t in
	load | doctor) run "$t" pincap "$t" ;;
	unload | minimum) run "$t" ./guest.sh "$t" ;;
	kernel-*) run "$t" "build/tests/kernel/test_${t#kernel-}" ;;
	daemon-*) run "$t" "build/tests/daemon/test_${t#daemon-}" ;;
	*) run "$t" false ;;
	esac
done
