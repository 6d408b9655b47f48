#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What people read: explain, the table to cat, and who may.

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
	"$PINCAP" load
	talk a --limit 512M -- "${SHIMMED[@]}" "$T/gpu_life"
	hear a
	say_and_hear a start
	say_and_hear a "register 8 $((2 * MIB))"
	pid=$(tail -n 1 "$MOUNT$cg/cgroup.procs")
	look "$cg"
}

teardown() {
	test_end
}

@test 'explain a process: its buffers by size' {
	run "$PINCAP" explain "$pid"
	[ "$status" = 0 ]
	[[ "$output" = *"budget of $cg: "*" of 512.0 MiB in use"* ]]
	[[ "$output" = *'2.0 MiB x 8 = 16.0 MiB  (registered memory)'* ]]
	[[ "$output" = *'32.0 KiB x 1 = 32.0 KiB  (the driver'*'GTT)'* ]]
}

@test 'explain a cgroup: its processes, the budgets above' {
	"$PINCAP" set "$CG" limit=1G
	run "$PINCAP" explain "$CG"
	[ "$status" = 0 ]
	[[ "$output" = *"budget of $CG: "*" of 1.0 GiB in use; refused 0 requests"* ]]
	[[ "$output" = *"$pid "*'locked 0 B, pinned 0 B, gpu '* ]]
	[[ "$output" = *'largest:'*"$pid 2.0 MiB x 8 = 16.0 MiB  (registered memory)"* ]]
}

@test 'explain what is not there' {
	run "$PINCAP" explain 999999999
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	run "$PINCAP" explain /nobody/here
	[ "$status" = 1 ]
	run "$PINCAP" explain
	[ "$status" = 2 ]
}

@test 'memory that is mlocked and registered is said to be counted twice' {
	talk b --limit infinity -- env KFD_SHIM_LOCK=1 "${SHIMMED[@]}" "$T/gpu_life"
	hear b
	say_and_hear b start
	say_and_hear b "register 4 $((2 * MIB))"
	run "$PINCAP" explain "$(tail -n 1 "$MOUNT$cg/cgroup.procs")"
	[ "$status" = 0 ]
	[[ "$output" = *'locked mappings '*' resident'* ]]
	[[ "$output" = *'counted twice   '*' are mlocked and in the driver'* ]]
}

# An actor (tests/kernel/actor.c) that holds what is said: its pid is $act.
start_actor() {
	talk b --limit infinity --no-preload -- "$T/kernel/actor"
	hear b
	act=$(tail -n 1 "$MOUNT$cg/cgroup.procs")
}

act() {
	say_and_hear b "$1"
	[[ "$line" = '0 0 '* ]]
}

explained() {
	run "$PINCAP" explain "$1"
	echo "$output"
	[ "$status" = 0 ]
}

@test 'explain: classes and sizes, locked against resident, waste by rounding' {
	start_actor
	act "map 0 $((8 * MIB)) 3 0"
	act "lock2 0 0 $((8 * MIB)) 1"
	act "touch 0 0 $MIB"
	act "mapfile 1 $((4 * MIB)) $((4 * MIB))"
	act "lock 1 0 $((4 * MIB))"
	explained "$act"
	[[ "$output" = *'locked mappings 2 of 12.0 MiB in all, 5.0 MiB resident'* ]]
	[[ "$output" = *'anonymous       1 locked, 8.0 MiB, 1.0 MiB resident'* ]]
	[[ "$output" = *'shared memory   1 locked, 4.0 MiB, 4.0 MiB resident'* ]]
	[[ "$output" = *'8.0 MiB x 1 = 8.0 MiB, 1.0 MiB resident  (anonymous)'* ]]
	[[ "$output" = *'rounding        8.0 MiB '*'7.0 MiB (never touched) to 7.0 MiB '* ]]
	[[ "$output" = *'physical        5.0 MiB (5242880 bytes), an estimate'* ]]
	[[ "$output" != *'counted twice'* ]]
	explained "$cg" # of a cgroup: the classes of each, the largest of all
	[[ "$output" = *"$act actor"*'anonymous       1 locked, 8.0 MiB, 1.0 MiB resident'* ]]
	[[ "$output" = *'largest:'*"$act 8.0 MiB x 1"*"$act 4.0 MiB x 1 = 4.0 MiB, 4.0 MiB resident  (shared memory)"* ]]
}

@test 'explain: mlocked and registered is 8 MiB of memory, counted 16 (T26)' {
	start_actor
	act "map 0 $((8 * MIB)) 3 0"
	act "lock 0 0 $((8 * MIB))"
	act 'ring 0'
	act "register 0 0 0 $((8 * MIB))"
	explained "$act"
	[[ "$output" = *'locked 8.0 MiB, pinned 8.0 MiB, gpu 0 B'* ]]
	if [[ "$output" != *'addresses that the kernel does not tell'* ]]; then
		[[ "$output" = *'8.0 MiB x 1 = 8.0 MiB  (registered with io_uring)'* ]]
		[[ "$output" = *'counted twice   8.0 MiB are mlocked and registered with io_uring'* ]]
		[[ "$output" = *'(8388608 bytes)'* ]]
	fi
	# 5 MiB asked for, 8 MiB registered: how much was asked for nobody tells
	[[ "$output" = *'rounding        16.0 MiB '*' 0 B (never touched) to 8.0 MiB '* ]]
}

@test 'explain: one file locked twice is there once (T26)' {
	start_actor
	act "mapfile 2 $((8 * MIB)) $((8 * MIB))"
	act "twin 3 2 $((8 * MIB))"
	act "lock 2 0 $((8 * MIB))"
	act "lock 3 0 $((8 * MIB))"
	explained "$act"
	[[ "$output" = *'locked 16.0 MiB, '* ]]
	[[ "$output" = *'counted twice   8.0 MiB are the same pages'* ]]
	[[ "$output" = *'physical        8.0 MiB (8388608 bytes)'* ]]
}

@test 'explain: shared memory locked by two processes is there once (T26)' {
	start_actor
	act "mapfile 2 $((8 * MIB)) $((8 * MIB))"
	act "lock 2 0 $((8 * MIB))"
	act "fork 2 $((8 * MIB))"
	wait_for 'look $cg; [ "$stat_locked" = $((16 * MIB)) ]'
	explained "$cg"
	[ "$(grep -c 'shared memory   1 locked, 8.0 MiB, 8.0 MiB resident' <<<"$output")" = 2 ]
	[[ "$output" = *'all together:'*'counted twice   8.0 MiB are the same pages'* ]]
	[[ "$output" = *'physical        8.0 MiB (8388608 bytes)'* ]]
}

@test 'the table to cat says the same, to whom it may' {
	table=/sys/fs/bpf/pincap/iters/processes
	row=$(awk -v p="$pid" '$1 == p' "$table")
	[ "$(echo "$row" | awk '{ print $5 }')" = "$stat_gpu" ]
	[ "$(echo "$row" | awk '{ print $8 }')" = "$(stat -c %i "$MOUNT$cg")" ]
	! setpriv --reuid=65534 --regid=65534 --clear-groups cat "$table" || false
	"$PINCAP" load --group nogroup
	setpriv --reuid=65534 --regid=65534 --clear-groups cat "$table" | grep -q "^ *$pid "
	run "$PINCAP" load --group no-such-group
	[ "$status" = 1 ]
}

@test 'the table of the cgroups says what stat says' {
	table=/sys/fs/bpf/pincap/iters/cgroups
	name=$(printf 'bad\033name')
	mkdir "$MOUNT$cg/$name"
	"$PINCAP" set "$cg/$name" limit=1G
	id=$(stat -c %i "$MOUNT$cg")
	row=$(awk -v id="$id" '$1 == id' "$table")
	look "$cg"
	[ "$(echo "$row" | awk '{ print $3, $6, $8, $NF }')" = "$stat_gpu $stat_gpu 536870912 ${cg##*/}" ]
	awk '$1 == "CGROUP_ID" { next } $1 == parent { found = 1; level = $2 }
	     found && $NF == "bad?name" && $2 == level + 1 && $8 == 1073741824 { ok = 1 }
	     END { exit !ok }' parent="$id" "$table"
	rmdir "$MOUNT$cg/$name"
	! setpriv --reuid=65534 --regid=65534 --clear-groups cat "$table"
	"$PINCAP" load --group nogroup
	setpriv --reuid=65534 --regid=65534 --clear-groups cat "$table" | grep -q "^ *$id "
}

@test 'a trigger that is forced is in force, or it is an error' {
	"$PINCAP" stat --json / | grep -q '"trigger": "\(fexit\|mmap_lock\)"'
	run "$PINCAP" load --trigger nonsense
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	now=$("$PINCAP" stat --json / | sed -n 's/.*"trigger": "\(fexit\|mmap_lock\)".*/\1/p')
	"$PINCAP" load --trigger "$now"
	other=fexit
	[ "$now" != fexit ] || other=mmap_lock
	run "$PINCAP" load --trigger "$other"
	[ "$status" = 1 ]
	[[ "$output" = *"is loaded with '$now'"* ]]
	"$PINCAP" doctor | grep -q "^  trigger *$now "
}

@test 'programs, links and maps carry name and version' {
	"$BPFTOOL" prog show name mm_exited | grep -q 'tool = "pincap"'
	"$BPFTOOL" prog show name mm_exited | grep -q 'version = "0\.'
	"$BPFTOOL" map dump pinned "$BPFFS/maps/buffers" | grep -q '"kind": 1'
	"$BPFTOOL" link show pinned "$BPFFS/links/mm_exited" | grep -q " prog "
}

@test 'what has a name in bpftool: a link, its program, each map that is pinned' {
	id=$("$BPFTOOL" link show pinned "$BPFFS/links/mm_exited" | sed -n 's/.* prog \([0-9]*\).*/\1/p')
	"$BPFTOOL" prog show id "$id" | grep -q ' name mm_exited '
	for map in cgroups processes buffers ranges; do
		"$BPFTOOL" map show pinned "$BPFFS/maps/$map" | grep -q " name $map "
		"$BPFTOOL" map show name "$map" | grep -q " name $map "
	done
}

@test 'stat --tree: parents first, indented, the sum of their children and their own' {
	mkdir -p "$MOUNT$CG/t/b" "$MOUNT$CG/t/a/deep"
	at=0
	for place in t t/b t/a t/a/deep; do
		at=$((at + 1))
		mkfifo "$S/fifo$at"
		(cd / && exec bash -c 'echo $$ >"$0" && exec "$1" <"$2"' "$MOUNT$CG/$place/cgroup.procs" \
			"$T/kernel/actor" "$S/fifo$at" >"$S/out$at" 3>&-) &
		started+=($!)
		exec {w}>"$S/fifo$at"
		wait_for "[ \$(wc -l <$S/out$at) = 1 ]"
		echo "map 0 $((at * MIB)) 3 0" >&"$w"
		wait_for "[ \$(wc -l <$S/out$at) = 2 ]"
		echo "lock 0 0 $((at * MIB))" >&"$w"
		wait_for "[ \$(wc -l <$S/out$at) = 3 ]"
	done
	"$PINCAP" stat --tree "$CG/t/b" "$CG/t/a/deep" "$CG/t" "$CG/t/a" >"$S/tree"
	cat "$S/tree"
	# own 1 + b's 2 + a's 3 + deep's 4
	awk '$1 ~ /^[0-9.]+$/ { print $1 $2, $NF }' "$S/tree" >"$S/got"
	printf '%s\n' '10.0MiB t' '7.0MiB a' '4.0MiB deep' '2.0MiB b' | diff - "$S/got"
	awk '$1 ~ /^[0-9.]+$/ { match($0, / *[^ ]+$/); print RLENGTH - length($NF) }' \
		"$S/tree" >"$S/indent"
	first=$(head -n 1 "$S/indent")
	printf '%s\n' "$first" $((first + 2)) $((first + 4)) $((first + 2)) | diff - "$S/indent"
}
