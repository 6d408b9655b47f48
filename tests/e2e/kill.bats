#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# kill -9 of `pincap run` and of its workload at random moments. The workload
# outlives pincap and stays within its budget, no count is left behind, and who
# comes next starts clean and leaves nothing.

load common

LIMIT=128M

setup_file() {
	file_begin 2
	# these are about the one user there is
	[ ! -e "$BPFFS" ] || "$PINCAP" unload
}

teardown_file() {
	file_end
}

setup() {
	test_begin
	start_driver
	ls -A /sys/fs/bpf >"$S/bpffs"
}

teardown() {
	test_end
}

# The loader in a shell of its own that outlives pincap: $S/began with its pid,
# $S/code at the end.
start_workload() {
	rm -f "$S/began" "$S/code" "$S/a.rest"
	S=$S enter "$PINCAP" run --limit $LIMIT -- sh -c '
		echo $$ >"$S/began"
		"$@" >"$S/a.rest" 2>"$S/loader.err"
		echo $? >"$S/code.new"
		mv "$S/code.new" "$S/code"
		exit "$(cat "$S/code")"' sh "${SHIMMED[@]}" "$T/loader" "$MODELS/2" --loop 2 \
		</dev/null >/dev/null 2>"$S/a.err" &
	runner[a]=$!
	started+=($!)
}

# How many this budget has room for, undisturbed.
undisturbed() {
	start_workload
	wait "${runner[a]}"
	result a
	share=$pinned
	[ "$share" -gt 0 ]
	[ "$share" -lt 48 ]
}

# Of the dead no trace, even before anybody cleans up.
no_trace() {
	wait_for 'is_empty "$CG"'
	if [ -e "$BPFFS/maps/cgroups" ]; then
		nothing_left
	else
		wait_for 'grep -qx "total gpu_bytes 0" "$S/kfd"'
	fi
}

nothing_remains() {
	[ ! -e "$BPFFS" ]
	ls -A /sys/fs/bpf | diff "$S/bpffs" -
	[ -z "$(find "$MOUNT$CG" -mindepth 1 -type d)" ]
	[ -z "$(find /run/pincap -name "run-${runner[a]}.sock" 2>/dev/null)" ]
}

# $1 even: a command that pins nothing; odd: the loader, which gets its full share.
next_is_clean() {
	if [ $(($1 % 2)) = 0 ]; then
		run_all next --limit 512M -- true
		[ "$status" = 0 ]
		[ "$(cat "$S/next.err")" = 'pincap: true: budget 512.0 MiB, peak 0 B' ]
	else
		run_all next --limit $LIMIT -- "${SHIMMED[@]}" "$T/loader" "$MODELS/2"
		[ "$status" = 0 ]
		result next
		[ "$pinned" = "$share" ]
	fi
	nothing_remains
}

@test 'kill -9 of pincap run, 10 times: the workload goes on within its budget' {
	seed_random
	undisturbed
	survived=0
	for round in $(seq 10); do
		start_workload
		random_pause 1500
		kill -9 "${runner[a]}" 2>/dev/null || true
		wait "${runner[a]}" || true
		wait_for 'is_empty "$CG"'
		if [ -e "$S/began" ]; then
			survived=$((survived + 1))
			[ "$(cat "$S/code")" = 0 ]
			[ ! -s "$S/loader.err" ]
			result a
			[ "$pinned" = "$share" ]
		fi
		no_trace
		next_is_clean "$round"
	done
	echo "# killed before the workload began: $((10 - survived)); survived: $survived" >&3
}

@test 'kill -9 of the workload, 10 times: no count is left' {
	seed_random
	undisturbed
	killed=0
	for round in $(seq 10); do
		start_workload
		wait_for '[ -s "$S/began" ]'
		random_pause 800
		# the loader itself, and with it the shell that waits for it
		for pid in $(cat "$MOUNT$CG/pincap-${runner[a]}/cgroup.procs" 2>/dev/null); do
			kill -9 "$pid" 2>/dev/null || true
		done
		status=0
		wait "${runner[a]}" || status=$?
		if [ -e "$S/code" ]; then
			[ "$status" = 0 ] || [ "$status" = 137 ]
		else
			killed=$((killed + 1))
			[ "$status" = 137 ]
			grep -q ': budget 128.0 MiB, peak' "$S/a.err"
		fi
		[ ! -e "$BPFFS" ] # that run cleaned up after itself
		no_trace
		next_is_clean "$round"
	done
	echo "# killed while it worked: $killed of 10" >&3
}

@test 'counts while pincap is dead, to the byte; and unload beside a living workload' {
	talk a --limit $LIMIT -- "${SHIMMED[@]}" "$T/loader" "$MODELS/2" --pause
	for i in $(seq 10); do
		[ "$i" = 1 ] || answer a
		hear a
	done
	[ "$line" = 'registered 10' ]
	kill -9 "${runner[a]}"
	wait "${runner[a]}" || true
	agree "$cg"
	base=$((stat_gpu - 20 * MIB))
	for i in $(seq 11 44); do
		say_and_hear a
		agree "$cg"
		[ "$stat_current" -le $((128 * MIB)) ]
	done
	[ "$line" = 'refused 44' ]
	[ "$stat_charges" = $(((128 * MIB - base) / (2 * MIB))) ]
	# a second run beside it neither takes its budget nor the kernel side away
	run_all next --limit 512M -- true
	[ "$status" = 0 ]
	agree "$cg"
	[ "$stat_limit" = $((128 * MIB)) ]
	"$PINCAP" unload
	[ ! -e "$BPFFS" ]
	# nobody counts, nobody refuses
	say_and_hear a
	[ "$line" = 'registered 45' ]
	answer a '' 10
	hang_up a
	[ "$status" = 137 ]
	result a
	is_empty "$CG"
	share=$pinned
	next_is_clean 0
}

@test 'kill -9 of load: all or nothing, and the next load works' {
	seed_random
	for round in $(seq 6); do
		"$PINCAP" load &
		pid=$!
		random_pause 800
		kill -9 $pid 2>/dev/null || true
		wait $pid || true
		"$PINCAP" load
		look "$CG"
		[ "$root_current" = 0 ]
		"$PINCAP" unload
		[ ! -e "$BPFFS" ]
		ls -A /sys/fs/bpf | diff "$S/bpffs" -
	done
}
