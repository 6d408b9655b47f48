#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Puts errors back into the kernel side, one at a time, and sees that the test that is
# there for it fails. Speaks TAP.
#
# usage: mutants.sh BUILD_DIRECTORY
set -u
O=$(realpath "$1")
export CMOCKA_MESSAGE_OUTPUT=TAP
tries=5 # an error that is a race may miss its moment

# name, test, its filter
mutants=(
	'APART threads leader_stays'  # cgroup and amounts are not exchanged as one
	'NO_LOCK threads leader_stays' # two CPUs change a record at a time
	'EXIT_ONLY life no_mappings'  # not every address space passes exit_mmap
)

# The test's own verdict: "not ok" of that case. A mutant that does not load, or a test
# that dies, has shown nothing.
is_caught() {
	PINCAP=$dir/pincap PINCAP_TRIGGER=mmap_lock PINCAP_TEST_SECONDS=3 \
		"$O/tests/kernel/test_$test" "$filter" >"$dir/tap" 2>"$dir/err"
	grep -q "^not ok 1 - $filter" "$dir/tap"
}

echo "1..${#mutants[@]}"
n=0
for m in "${mutants[@]}"; do
	read -r name test filter <<<"$m"
	dir=$O/mutants/$name
	n=$((n + 1)) caught=0
	if ! make -s O="$dir" MUTANT="$name" CFLAGS=-O1 "$dir/pincap" >"$O/mutants.log" 2>&1; then
		cat "$O/mutants.log" >&2
		echo "not ok $n - $name does not build"
		continue
	fi
	for ((i = 1; i <= tries && !caught; i++)); do
		is_caught && caught=$i
	done
	if [ "$caught" != 0 ]; then
		echo "ok $n - $name is caught by $test $filter, at try $caught"
	else
		echo "not ok $n - $name goes unnoticed by $test $filter"
		cat "$dir/tap" "$dir/err" >&2
	fi
done
