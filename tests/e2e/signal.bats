#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The signal to the library: lowered below what is in use, a budget reaches the
# workload as STOP, and from then on the kernel is not even asked; RESUME follows
# when it is raised. And without the signal, admission alone holds the workload.

load common

setup_file() {
	file_begin 2
}

teardown_file() {
	file_end
}

setup() {
	test_begin
	start_driver
}

teardown() {
	test_end
}

# The loader, with more than enough, up to its tensor $1 of 48.
begin_load() {
	first=$1
	shift
	talk a -v --limit 2G -- "$@" "${SHIMMED[@]}" "$T/loader" "$MODELS/2" --loop 6 --pause
	hear a
	for ((i = 2; i <= first; i++)); do
		say_and_hear a
	done
	[ "$line" = "registered $first" ]
	agree "$cg"
	[ "$stat_charges $stat_refused" = "$first 0" ]
	gpu=$stat_gpu
}

# pass NUMBER PINNED: the loader's next pass, and what it says of it.
pass() {
	say_and_hear a
	[ "$line" = "pass $1: $2 pinned, $((48 - $2)) pageable, 48 verified" ]
}

# counted CHARGES REFUSED
counted() {
	agree "$cg"
	echo "charges $stat_charges, refused $stat_refused; expected $1, $2"
	[ "$stat_charges $stat_refused" = "$1 $2" ]
	[ "$map_charges $map_refused" = "$1 $2" ]
}

# Of the last 28 tensors none: in the first round they are tried one by one, then
# in each of three passes.
try_in_vain() {
	for i in $(seq 21 48); do
		say_and_hear a
		[ "$line" = "refused $i" ]
	done
	tried=28
	for p in 1 2 3; do
		pass $p 20
		tried=$((tried + 28))
	done
}

@test 'STOP is obeyed: no request reaches the kernel until RESUME' {
	begin_load 20
	"$PINCAP" set "$cg" limit=64M
	wait_for 'grep -q "^pincap: STOP: .* of 64.0 MiB" "$S/a.err"'
	counted 20 0
	try_in_vain
	counted 20 0
	[ "$stat_gpu" = "$gpu" ]
	[ "$(grep -c '^pincap: RESUME' "$S/a.err")" = 0 ]
	"$PINCAP" set "$cg" limit=2G
	wait_for 'grep -q "^pincap: RESUME: .* of 2.0 GiB" "$S/a.err"'
	pass 4 48
	counted 48 0
	pass 5 48
	answer a
	hang_up a
	[ "$status" = 0 ]
	result a
	[ "$pinned" = 48 ]
	cat "$S/a.err"
	[ "$(grep -c '^pincap: STOP' "$S/a.err")" = 1 ]
	[ "$(grep -c '^pincap: RESUME' "$S/a.err")" = 1 ]
	[ "$(grep -c '^pincap: refused' "$S/a.err")" = 0 ]
	grep -qx "pincap: 1 STOP, 1 RESUME, acknowledged by 1 of 1; $tried requests withheld ($((tried * 2)).0 MiB)" "$S/a.err"
	echo "# $tried requests withheld, 0 asked" >&3
}

@test 'STOP is in force to the end: acknowledged, and all verified' {
	begin_load 20
	"$PINCAP" set "$cg" limit=64M
	wait_for 'grep -q "^pincap: STOP: .* of 64.0 MiB" "$S/a.err"'
	try_in_vain
	for p in 4 5; do
		pass $p 20
		tried=$((tried + 28))
	done
	pass 6 20 # and waits; what it gives back at the end would be a RESUME
	tried=$((tried + 28))
	counted 20 0
	"$PINCAP" set "$cg" limit=0
	answer a
	hang_up a
	[ "$status" = 0 ]
	result a
	[ "$pinned" = 20 ]
	cat "$S/a.err"
	grep -qx "pincap: 1 STOP, 0 RESUME, acknowledged by 1 of 1; $tried requests withheld ($((tried * 2)).0 MiB)" "$S/a.err"
}

# What the kernel is asked while nobody is told, and how it ends.
held_by_admission() {
	"$PINCAP" set "$cg" limit=64M
	counted 20 0
	try_in_vain
	counted 20 "$tried"
	[ "$stat_gpu" = "$gpu" ]
	[ "$stat_refused_bytes" = $((tried * 2 * MIB)) ]
	"$PINCAP" set "$cg" limit=2G
	pass 4 48
	counted 48 "$tried"
	answer a '' 2
	hang_up a
	[ "$status" = 0 ]
	result a
	[ "$pinned" = 48 ]
	cat "$S/a.err"
	grep -q "^pincap: refused $tried requests ($((tried * 2)).0 MiB): budget of $cg full" "$S/a.err"
	[ "$(grep -c 'withheld' "$S/a.err")" = 0 ]
	echo "# $tried requests asked and refused" >&3
}

# Nobody was told anything, so nobody is said to have been.
told_nobody() {
	[ "$(grep -cE '^pincap: [0-9]+ STOP, [0-9]+ RESUME, acknowledged by 0 of 0$' "$S/a.err")" -le 1 ]
	[ "$(grep -c 'acknowledged by [0-9]* of [^0]' "$S/a.err")" = 0 ]
}

@test 'without a socket in the environment admission holds it alone' {
	begin_load 20 env -u PINCAP_NOTIFY
	held_by_admission
	told_nobody
}

@test 'with the socket removed admission holds it alone' {
	begin_load 20 sh -c 'rm "$PINCAP_NOTIFY"; exec "$@"' sh
	held_by_admission
	told_nobody
}

@test 'with a controller that hangs admission holds it alone' {
	begin_load 20
	kill -STOP "${runner[a]}"
	"$PINCAP" set "$cg" limit=64M
	counted 20 0
	try_in_vain
	counted 20 "$tried"
	"$PINCAP" set "$cg" limit=2G
	pass 4 48
	counted 48 "$tried"
	kill -CONT "${runner[a]}"
	answer a '' 2
	hang_up a
	[ "$status" = 0 ]
	result a
	grep -q "^pincap: refused $tried requests" "$S/a.err"
}

@test 'the controller dies while the library is stopped: it asks again' {
	"$PINCAP" load
	begin_load 20
	"$PINCAP" set "$cg" limit=64M
	wait_for 'grep -q "^pincap: STOP" "$S/a.err"'
	say_and_hear a
	[ "$line" = 'refused 21' ]
	counted 20 0
	kill -9 "${runner[a]}"
	wait "${runner[a]}" || true # its socket is closed when it is gone, not when kill returns
	say_and_hear a
	[ "$line" = 'refused 22' ]
	counted 20 1
	"$PINCAP" set "$cg" limit=2G
	say_and_hear a
	[ "$line" = 'registered 23' ]
	counted 21 1
	answer a '' 60
	hang_up a
	[ "$status" = 137 ] # pincap's
	result a
	[ "$pinned" = 48 ]
	nothing_left
}
