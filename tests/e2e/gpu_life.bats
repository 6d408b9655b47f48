#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every way in which memory leaves the GPU driver's hands brings the class `gpu`
# back: unregister, exit, a violent death, exec. A child of fork has nothing of
# its parent's, a failed call counts nothing, and handles that are used again at
# once are not mistaken for each other.

load common

setup_file() {
	file_begin 2
}

teardown_file() {
	file_end
}

setup() {
	test_begin
}

teardown() {
	test_end
}

begin_life() {
	talk a --limit "${1:-infinity}" -- "${SHIMMED[@]}" "$T/gpu_life"
	hear a
	say_and_hear a start
	agree "$cg"
	base=$stat_gpu
	[ "$base" -gt 0 ]
}

@test 'unregister gives back, as often as one likes' {
	start_driver
	begin_life
	for _ in 1 2 3; do
		say_and_hear a "register 8 $((2 * MIB))"
		[ "$line" = 'registered 8' ]
		agree "$cg"
		[ "$stat_gpu" = $((base + 16 * MIB)) ]
		say_and_hear a unregister
		[ "$line" = 'unregistered 8' ]
		agree "$cg"
		[ "$stat_gpu" = "$base" ]
	done
	hang_up a
	[ "$status" = 0 ]
}

@test 'exit without freeing' {
	start_driver
	"$PINCAP" load
	begin_life
	say_and_hear a "register 8 $((2 * MIB))"
	agree "$cg"
	[ "$stat_gpu" = $((base + 16 * MIB)) ]
	answer a exit
	hang_up a
	[ "$status" = 0 ]
	look "$CG"
	[ "$stat_current $map_current $stat_gpu" = '0 0 0' ] # at once
	nothing_left
	"$PINCAP" unload
}

@test 'exec: the new program begins with nothing' {
	start_driver
	begin_life
	say_and_hear a "register 8 $((2 * MIB))"
	say_and_hear a exec
	[ "$line" = 'ready 0' ]
	look "$cg"
	[ "$stat_current $map_current $stat_gpu $stat_held" = '0 0 0 0' ]
	wait_for 'grep -qx "total gpu_bytes 0" "$S/kfd"'
	# and can begin anew
	say_and_hear a start
	agree "$cg"
	[ "$stat_gpu" = "$base" ]
	say_and_hear a "register 8 $((2 * MIB))"
	agree "$cg"
	[ "$stat_gpu" = $((base + 16 * MIB)) ]
	hang_up a
	[ "$status" = 0 ]
}

@test 'a forked child counts nothing, alive or dead' {
	start_driver
	begin_life
	say_and_hear a "register 8 $((2 * MIB))"
	say_and_hear a fork
	child=${line#child }
	[ -d "/proc/$child" ]
	agree "$cg"
	[ "$stat_gpu" = $((base + 16 * MIB)) ]
	"$BPFTOOL" -j map dump pinned $BPFFS/maps/processes | python3 -c '
import json, sys
for e in json.load(sys.stdin):
	v = e["formatted"]["value"]
	assert v["tgid"] != int(sys.argv[1]) or v["gpu"] + v["held"] == 0, v' "$child"
	say_and_hear a reap
	[ "$line" = 'reaped 0' ]
	agree "$cg"
	[ "$stat_gpu" = $((base + 16 * MIB)) ]
	say_and_hear a unregister
	agree "$cg"
	[ "$stat_gpu" = "$base" ]
	hang_up a
	[ "$status" = 0 ]
}

@test 'kill -9 at 20 random points while it registers' {
	seed_random
	start_driver
	"$PINCAP" load
	most=0
	for round in $(seq 20); do
		limit=infinity
		[ $((round % 2)) = 0 ] || limit=128M
		talk a --limit $limit -- "${SHIMMED[@]}" "$T/loader" "$MODELS/2" --pause
		hear a
		child_of a
		agree "$cg"
		answer a '' $((RANDOM % 40))
		random_pause 10
		answer a '' 48
		random_pause 10
		kill -9 "$child"
		hang_up a
		[ "$status" = 137 ]
		look "$CG"
		# with the process, not later
		[ "$stat_current $map_current $root_gpu $root_held" = '0 0 0 0' ]
		got=$(grep -c registered "$S/a.rest" || true)
		[ "$got" -le "$most" ] || most=$got
		nothing_left
	done
	[ "$most" -gt 0 ]
	"$PINCAP" unload
}

@test 'what the driver refuses counts nothing' {
	start_driver --limit $((128 * MIB))
	talk a --limit 4G -- "${SHIMMED[@]}" "$T/loader" "$MODELS/2" --pause
	refused=0
	for i in $(seq 48); do
		hear a
		agree "$cg"
		[ "$stat_refused" = 0 ]
		[ "$line" != "refused $i" ] || refused=$((refused + 1))
		[ "$i" = 48 ] || answer a
	done
	[ "$refused" -gt 0 ]
	[ "$driver_refused" -ge "$refused" ]
	[ "$stat_gpu" -le $((128 * MIB)) ]
	[ "$stat_peak" -le $((130 * MIB)) ] # one held meanwhile
	hang_up a
	[ "$status" = 0 ]
	result a
	[ "$pageable" = "$refused" ]
}

# threads COUNT ROUNDS, compared at rest with the last ones still registered.
compare_threads() {
	say_and_hear a "threads $1 $2"
	[[ "$line" = 'threads '* ]]
	agree "$cg"
	echo "# $1 threads: ${line#threads } registered, at rest $stat_gpu of $driver_gpu" >&3
	say_and_hear a unregister
	agree "$cg"
	[ "$stat_gpu" = "$base" ]
}

@test 'handles used again at once by several threads stay exact' {
	start_driver
	begin_life
	compare_threads 8 250
	compare_threads 2 500
	look "$cg"
	[ "$stat_charges $stat_refused" = '3001 0' ]
	hang_up a
	[ "$status" = 0 ]
}

@test 'the same with a budget for half of them' {
	start_driver
	begin_life
	"$PINCAP" set "$cg" limit=$((base + MIB / 2))
	compare_threads 8 250
	[ "$stat_peak" -le $((base + MIB / 2)) ]
	hang_up a
	[ "$status" = 0 ]
}
