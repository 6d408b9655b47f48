#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Where a run may happen and what it leaves: depth, parents, the root, cgroups that
# others use, closed descriptors, a tree that was moved.

load common

setup_file() {
	file_begin
}

teardown_file() {
	file_end
}

setup() {
	test_begin
	start_driver
	unset PINCAP_KFD
}

teardown() {
	test_end
}

# lock MIB: mlocks so many buffers of 1 MiB and says how many it got.
locker=$(cat <<'PYTHON'
import ctypes, mmap, sys
libc = ctypes.CDLL(None)
libc.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
maps = [mmap.mmap(-1, 1 << 20) for _ in range(int(sys.argv[1]))]
got = [libc.mlock(ctypes.addressof(ctypes.c_char.from_buffer(m)), 1 << 20) for m in maps]
print(got.count(0), flush=True)
sys.stdin.read()
PYTHON
)

@test 'deeper than the kernel side walks: charged to the ancestor there, and bound' {
	"$PINCAP" load
	"$PINCAP" set "$CG" limit=2M
	deep=$CG$(printf '/n%s' $(seq 70))
	mkdir -p "$MOUNT$deep"
	exec {w}> >(bash -c 'echo $$ >"$1"; exec python3 -c "$2" 6' sh "$MOUNT$deep/cgroup.procs" \
		"$locker" >"$S/out" 3>&-)
	wait_for "grep -q . $S/out"
	[ "$(cat "$S/out")" = 6 ]
	look "$CG"
	[ "$stat_locked" = $((6 * MIB)) ]
	exec {w}>&-
	wait_for 'look $CG; [ "$map_locked" = 0 ]'
	# with the library it is held to the budget above
	run_all deep --no-preload -- true
	LD_PRELOAD=${PINCAP%/*}/libpincap-preload.so bash -c \
		'echo $$ >"$1"; exec python3 -c "$2" 6 </dev/null' sh \
		"$MOUNT$deep/cgroup.procs" "$locker" >"$S/out"
	[ "$(cat "$S/out")" = 2 ]
}

@test 'a path that is too deep leaves nothing behind' {
	run_all a --limit 4M --cgroup "$CG$(printf '/n%s' $(seq 70))" -- true
	[ "$status" = 125 ]
	grep -q 'deeper than 64 levels' "$S/a.err"
	[ ! -e "$MOUNT$CG/n1" ]
}

@test 'parents that were made go with the cgroup, others stay' {
	mkdir "$MOUNT$CG/there"
	run_all a --limit 4M --cgroup "$CG/there/made/too" -- true
	[ "$status" = 0 ]
	[ -d "$MOUNT$CG/there" ]
	[ ! -e "$MOUNT$CG/there/made" ]
}

@test 'the root is not to be budgeted by a run' {
	run_all a --limit 4M --cgroup / -- true
	[ "$status" = 125 ]
	[ "$(wc -l <"$S/a.err")" = 1 ]
	grep -q 'everybody' "$S/a.err"
}

@test 'a cgroup that others use: its budget is changed aloud, its past is not ours' {
	mkdir "$MOUNT$CG/shared"
	"$PINCAP" load
	"$PINCAP" set "$CG/shared" limit=4M
	run_all a --cgroup "$CG/shared" -- python3 -c "$locker" 10
	[ "$(cat "$S/a.rest")" = 4 ]
	run_all b --cgroup "$CG/shared" --limit 3M -- python3 -c "$locker" 10
	[ "$(cat "$S/b.rest")" = 3 ]
	grep -q 'had a budget of 4.0 MiB; it is 3.0 MiB now' "$S/b.err"
	! grep -q 'over by' "$S/b.err" || false
	look "$CG/shared"
	[ "$stat_limit" = $((4 * MIB)) ]
}

@test 'closed descriptors: no word goes astray' {
	(enter "$PINCAP" run --limit 4M -- sh -c 'ls -l /proc/self/fd >"$0"' "$S/fds") \
		<&- >&- 2>&-
	[ ! -s /run/pincap/lock ]
	! grep -q ' [012] -> /dev/null' "$S/fds"
}

@test 'an installation that was moved finds its library' {
	make -s -C "$root" O="${PINCAP%/*}" DESTDIR="$S/dest" PREFIX=/usr install
	mv "$S/dest/usr" "$S/elsewhere"
	PINCAP=$S/elsewhere/bin/pincap run_all a --limit 2M -- python3 -c "$locker" 6
	[ "$(cat "$S/a.rest")" = 2 ]
}

@test 'each of two runs with the same pid has a socket' {
	for i in 1 2; do
		(enter unshare -pf "$PINCAP" run --limit 4M -- sh -c \
			'[ -S "$PINCAP_NOTIFY" ] && echo yes; cat' <"$S" >"$S/$i" 2>"$S/$i.err") &
		started+=($!)
	done
	wait_for "grep -q yes $S/1 && grep -q yes $S/2"
	! grep -q ignoring "$S/1.err" "$S/2.err"
}

# hold CGROUP COMMAND...: a locker of 3 MiB there until {w} is closed; COMMAND runs it.
hold() {
	local at=$1
	shift
	exec {w}> >(bash -c 'echo $$ >"$0"; exec "$@"' "$MOUNT${at%/}/cgroup.procs" "$@" \
		python3 -c "$locker" 3 >"$S/out" 3>&-)
	wait_for "grep -q . $S/out"
}

@test 'all that is counted is in the root: it cannot be attributed, and is said to be so' {
	"$PINCAP" load
	[[ "$("$PINCAP" stat)" != *'cannot attribute'* ]]
	hold /
	"$PINCAP" stat --json >"$S/stat"
	! awk '$NF != 1 && NR > 1 { n++ } END { exit !n }' /sys/fs/bpf/pincap/iters/processes ||
		skip 'somebody else locks memory here'
	grep -q '"cannot_attribute": true' "$S/stat"
	"$PINCAP" stat | head -n 1 | grep -q "^cannot attribute: .*'pincap run'"
	"$PINCAP" doctor | grep -q "cannot attribute: .*'pincap run'"
	exec {w}>&-
	wait_for '! "$PINCAP" stat | grep -q "cannot attribute"'
	hold "$CG"
	! "$PINCAP" stat | grep -q 'cannot attribute' || false
	exec {w}>&-
}

@test 'in a cgroup namespace: counted and bound outside, and looked at from inside' {
	"$PINCAP" load
	"$PINCAP" set "$CG" limit=2M
	hold "$CG" unshare -C
	[ "$(cat "$S/out")" = 3 ]
	look "$CG"
	[ "$stat_locked" = $((3 * MIB)) ]
	[ "$map_locked" = $((3 * MIB)) ]
	# the namespace's root is the workload's cgroup
	mkdir "$S/inside"
	(enter unshare -Cm sh -c 'umount -l "$1" && mount -t cgroup2 none "$2" && exec "$0" stat --json /' \
		"$PINCAP" "$MOUNT" "$S/inside") >"$S/stat"
	grep -q "\"id\": $(stat -c %i "$MOUNT$CG")" "$S/stat"
	grep -q "\"locked\": $((3 * MIB))" "$S/stat"
	# what lies outside is said to, and not to be found, in one line
	(enter unshare -Cm sh -c 'umount -l "$1" && mount -t cgroup2 none "$2" && exec "$0" stat' \
		"$PINCAP" "$MOUNT" "$S/inside") | grep -q ' (outside 1)$'
	run unshare -Cm sh -c 'umount -l "$1" && mount -t cgroup2 none "$2" && exec "$0" stat /no/such' \
		"$PINCAP" "$MOUNT" "$S/inside"
	[ "$status" = 1 ]
	[ "${#lines[@]}" = 1 ]
	exec {w}>&-
	wait_for 'look $CG; [ "$map_locked" = 0 ]'
	# admission asks the cgroup outside, too
	(export LD_PRELOAD=${PINCAP%/*}/libpincap-preload.so
		enter unshare -C python3 -c "$locker" 6) </dev/null >"$S/out"
	[ "$(cat "$S/out")" = 2 ]
}

@test 'cgroup v2 mounted elsewhere is found' {
	"$PINCAP" load
	hold "$CG"
	mkdir "$S/elsewhere"
	unshare -m sh -c 'mount --bind "$1" "$2" && umount -l "$1" && exec "$0" stat --json "$3"' \
		"$PINCAP" "$MOUNT" "$S/elsewhere" "$CG" >"$S/stat"
	grep -q "\"cgroup\": \"$CG\"" "$S/stat"
	grep -q "\"locked\": $((3 * MIB))" "$S/stat"
	exec {w}>&-
}
