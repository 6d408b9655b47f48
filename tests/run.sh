#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Run tests that speak TAP and add them up: every "ok", "not ok" and "# SKIP" line
# is a case. A program that dies, runs too long or says nothing is a failed case.
# The last line is "N passed, N failed, N skipped"; 1 if anything failed.
#
# usage: run.sh LOGDIR NAME=COMMAND...
set -u
logs=$1
shift
mkdir -p "$logs"
passed=0 failed=0 skipped=0
limit=${TEST_TIMEOUT:-600}
export CMOCKA_MESSAGE_OUTPUT=TAP
declare -a reasons=()

count() { grep -cE "$1" "$2" || :; }

for t in "$@"; do
	name=${t%%=*} log=$logs/${t%%=*}.tap
	start=$SECONDS
	timeout -k 10 "$limit" bash -c "${t#*=}" >"$log" 2>"$log.err" </dev/null
	rc=$?
	skip=$(count '^ok .*# *[Ss][Kk][Ii][Pp]' "$log")
	bad=$(count '^not ok ' "$log")
	ok=$(($(count '^ok ' "$log") - skip))
	plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log" | tail -n 1)
	if [ $((ok + bad + skip)) = 0 ] || { [ "$rc" != 0 ] && [ "$bad" = 0 ]; } ||
		[ "${plan:-0}" != $((ok + bad + skip)) ]; then
		bad=$((bad + 1))
		echo "not ok $name itself: exit code $rc, $ok ok, plan ${plan:-none}" >>"$log"
	fi
	printf '%-20s %3d passed, %d failed, %d skipped  (%d s)\n' "$name" "$ok" "$bad" "$skip" \
		$((SECONDS - start))
	if [ "$bad" -gt 0 ]; then
		grep -A 25 -E '^not ok' "$log" | head -n 80
		tail -n 40 "$log.err"
	fi
	while read -r line; do
		reasons+=("$name: ${line#ok }")
	done < <(grep -E '^ok .*# *[Ss][Kk][Ii][Pp]' "$log")
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
for r in "${reasons[@]+"${reasons[@]}"}"; do
	echo "skipped: $r"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
