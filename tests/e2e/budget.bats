#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A budget from end to end: the loader on the real HIP runtime, the emulated GPU
# driver under it, and `pincap run` around it. What is admitted fits, what is not
# stays pageable, nothing is lost, and the kernel's figure is the driver's.

load common

setup_file() {
	file_begin 2 16
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

# share LIMIT BASE TENSOR (MiB, bytes, MiB): how many fit.
share() {
	echo $((($1 * MIB - $2) / ($3 * MIB)))
}

@test '48 tensors of 16 MiB under 512M: right at every pause, and to the end' {
	talk a --limit 512M -- "${SHIMMED[@]}" "$T/loader" "$MODELS/16" --pause
	pinned=0 refused=0 requests=0 gpu=0
	for i in $(seq 48); do
		hear a
		agree "$cg"
		child_of a
		[ "$driver_pids" = "$child" ]
		case $line in
		"registered $i")
			pinned=$((pinned + 1))
			[ "$stat_current" -le $((512 * MIB)) ]
			[ "$i" = 1 ] && base=$((stat_gpu - 16 * MIB))
			[ "$stat_gpu" = $((base + pinned * 16 * MIB)) ]
			;;
		"refused $i")
			refused=$((refused + 1))
			[ "$stat_gpu" = "$gpu" ]
			[ "$driver_userptr_allocs" = "$requests" ]
			;;
		*)
			false
			;;
		esac
		[ "$stat_charges $map_charges" = "$pinned $pinned" ]
		[ "$stat_refused $map_refused" = "$refused $refused" ]
		[ "$stat_refused_bytes" = $((refused * 16 * MIB)) ]
		[ "$stat_limit $map_limit" = "$((512 * MIB)) $((512 * MIB))" ]
		[ "$stat_peak" -le $((512 * MIB)) ] # not even for a moment
		requests=$driver_userptr_allocs gpu=$stat_gpu
		[ "$i" = 48 ] || answer a
	done
	[ "$pinned" = "$(share 512 "$base" 16)" ]
	[ "$driver_refused" = 0 ]
	echo "# base $base, pinned $pinned, refused $refused, gpu $gpu" >&3
	hang_up a
	[ "$status" = 0 ]
	[ "$(tail -n 1 "$S/a.rest")" = "$pinned of 48 pinned, $refused pageable; copies verified 48 of 48" ]
	one_summary a '512.0 MiB' "$refused" "$((refused * 16)).0 MiB" "$cg"
}

@test 'the runtime never hears of what is refused, by its own log' {
	# what the loader's process says goes to a file of its own
	LOG=$S/log PINCAP_LOG=1 AMD_LOG_LEVEL=3 talk a --limit 128M -- \
		sh -c 'exec "$@" 2>"$LOG"' sh "${SHIMMED[@]}" "$T/loader" "$MODELS/2" --pause
	hear a
	look "$cg"
	base=$((stat_gpu - 2 * MIB))
	answer a '' 48
	hang_up a
	[ "$status" = 0 ]
	result a
	[ "$pinned" = "$(share 128 "$base" 2)" ]
	[ "$(grep -c 'hipHostRegister: admitted, 2097152 bytes' "$S/log")" = "$pinned" ]
	[ "$(grep -c 'hipHostRegister: refused, budget, 2097152 bytes' "$S/log")" = "$pageable" ]
	[ "$(grep -c 'hipHostRegister (' "$S/log")" = "$pinned" ]
	[ "$(grep -c 'hipHostRegister: Returned hipSuccess' "$S/log")" = "$pinned" ]
}

@test 'the base of the runtime counts: a request that would fit without it is refused' {
	talk a --limit infinity -- "${SHIMMED[@]}" "$T/gpu_life"
	hear a
	say_and_hear a start
	agree "$cg"
	base=$stat_gpu
	[ "$base" -gt $((8 * MIB)) ]
	"$PINCAP" set "$cg" limit=$((base + 4 * MIB))
	say_and_hear a "register 1 $base"
	[ "$line" = 'registered 0' ]
	agree "$cg"
	[ "$stat_gpu $stat_refused" = "$base 1" ]
	say_and_hear a "register 1 $((4 * MIB))"
	[ "$line" = 'registered 1' ]
	agree "$cg"
	[ "$stat_gpu $stat_limit" = "$((base + 4 * MIB)) $((base + 4 * MIB))" ]
	say_and_hear a 'register 1 4096'
	[ "$line" = 'registered 0' ]
	say_and_hear a unregister
	hang_up a
	[ "$status" = 0 ]
}

@test 'limit 0: nothing is pinned, everything is there' {
	run_all a --limit 0 -- "${SHIMMED[@]}" "$T/loader" "$MODELS/2"
	[ "$status" = 0 ]
	result a
	[ "$pinned" = 0 ]
	[ "$(grep -c ': budget 0 B, peak' "$S/a.err")" = 1 ]
}

@test 'limit infinity: all are pinned, and nothing is complained about' {
	run_all a --limit infinity -- "${SHIMMED[@]}" "$T/loader" "$MODELS/16"
	[ "$status" = 0 ]
	result a
	[ "$pinned" = 48 ]
	[ "$(wc -l <"$S/a.err")" = 1 ]
	grep -q ': budget infinity, peak' "$S/a.err"
}

@test 'nested runs: the tighter budget decides, and is named' {
	talk a --limit 256M -- "$PINCAP" run --limit 1G -- \
		"${SHIMMED[@]}" "$T/loader" "$MODELS/16" --pause
	hear a
	child_of a # the inner pincap
	look "$cg/pincap-$child"
	[ "$stat_gpu $stat_limit" = "$driver_gpu $((1024 * MIB))" ]
	inner=$child
	base=$((stat_gpu - 16 * MIB))
	answer a '' 47
	for _ in $(seq 47); do
		hear a
	done
	agree "$cg"
	agree "$cg/pincap-$inner"
	[ "$stat_peak" -le $((256 * MIB)) ]
	hang_up a
	[ "$status" = 0 ]
	result a
	[ "$pinned" = "$(share 256 "$base" 16)" ]
	cat "$S/a.err"
	[ "$(grep -c ': budget 256.0 MiB, peak' "$S/a.err")" = 1 ]
	[ "$(grep -c ': budget 1.0 GiB, peak' "$S/a.err")" = 1 ]
	# both tell, and both name the outer
	[ "$(grep -c ": budget of $cg full" "$S/a.err")" = 2 ]
}

@test 'nested runs: the inner one where it is the tighter' {
	run_all a --limit 1G -- "$PINCAP" run --limit 256M -- \
		"${SHIMMED[@]}" "$T/loader" "$MODELS/16"
	[ "$status" = 0 ]
	result a
	[ "$pinned" -gt 0 ]
	[ "$pinned" -lt 16 ]
	cat "$S/a.err"
	grep -qE "^pincap: refused $pageable requests .*: budget of $CG/pincap-[0-9]+/pincap-[0-9]+ full" "$S/a.err"
	# the outer one knows of them, and not of a budget of its own that was full
	grep -qx "pincap: refused $pageable requests ($((pageable * 16)).0 MiB): budget of a cgroup below full; memory stayed pageable" "$S/a.err"
}

@test 'two loaders at once in one cgroup share one limit' {
	shared=$CG/shared
	mkdir "$MOUNT$shared"
	for name in a b; do
		talk $name --cgroup "$shared" --limit 512M -- \
			"${SHIMMED[@]}" "$T/loader" "$MODELS/16" --pause
		hear $name
	done
	look "$shared"
	[ "$stat_current $map_current" = "$driver_total $driver_total" ]
	base=$((stat_current - 2 * 16 * MIB)) # of both
	for _ in $(seq 47); do
		answer a
		answer b
		look "$shared" # while both are at it
		[ "$stat_current" -le $((512 * MIB)) ]
		[ "$map_current" -le $((512 * MIB)) ]
		hear a
		hear b
	done
	look "$shared"
	[ "$stat_peak" -le $((512 * MIB)) ]
	[ "$stat_current $map_current $stat_held" = "$driver_total $driver_total 0" ]
	[ "$stat_charges" = "$(share 512 "$base" 16)" ]
	[ "$((stat_charges + stat_refused))" = 96 ]
	charges=$stat_charges
	hang_up a
	[ "$status" = 0 ]
	result a
	sum=$pinned
	# the budget is not the first one's alone
	look "$shared"
	[ "$stat_limit" = $((512 * MIB)) ]
	hang_up b
	[ "$status" = 0 ]
	result b
	[ $((sum + pinned)) = "$charges" ]
}

@test 'an unprivileged user gets as much' {
	run_all root --limit 128M -- "${SHIMMED[@]}" "$T/loader" "$MODELS/2"
	[ "$status" = 0 ]
	result root
	as_root=$pinned
	[ "$as_root" -gt 0 ]
	# the tree may be closed to others
	cp "$PINCAP" "$(dirname "$PINCAP")/libpincap-preload.so" "$SHIM" "$T/loader" "$S"
	PINCAP=$S/pincap SHIM=$S/libkfd-shim.so
	run_all nobody --limit 128M --user nobody -- sh -c 'id -u >&2; exec "$@"' sh \
		"${SHIMMED[@]}" "$S/loader" "$MODELS/2"
	[ "$status" = 0 ]
	result nobody
	[ "$pinned" = "$as_root" ]
	[ "$(head -n 1 "$S/nobody.err")" = "$(id -u nobody)" ]
}
