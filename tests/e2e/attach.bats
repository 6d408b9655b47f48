#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `pincap attach`: a running process under a budget.

bats_require_minimum_version 1.5.0

setup() {
	[ -n "$PINCAP" ] || skip 'PINCAP is not set'
	[ "$(id -u)" = 0 ] || skip 'needs root'
	unset LD_PRELOAD PINCAP_NOTIFY PINCAP_DEBUG
	MOUNT=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	OWN=$(sed -n 's/^0:://p' /proc/self/cgroup)
	CG=${OWN%/}/e2e-attach-$$-$BATS_TEST_NUMBER
	mkdir "$MOUNT$CG"
	[ -e /sys/fs/bpf/pincap ] || loaded=1
	S=$(mktemp -d)
	started=
}

teardown() {
	[ -n "$S" ] || return 0
	for pid in $started; do
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	wait_for "find $MOUNT$CG -depth -type d -exec rmdir {} + 2>/dev/null; [ ! -d $MOUNT$CG ]"
	[ -z "$loaded" ] || [ ! -e /sys/fs/bpf/pincap ] || "$PINCAP" unload
	rm -rf "$S"
}

# A condition, for at most 10 s.
wait_for() {
	for _ in $(seq 200); do
		eval "$1" && return 0
		sleep 0.05
	done
	echo "never came true: $1"
	return 1
}

# start COMMAND...: runs in $CG, its pid in $pid; over when it says "ready".
start() {
	bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' bash "$MOUNT$CG" "$@" \
		>"$S/program" 2>&1 3>&- &
	pid=$!
	started="$started $pid"
	wait_for "grep -q ready $S/program"
}

# Locks 3 MiB, and has eight more threads.
start_locker() {
	start env "$@" python3 -c '
import ctypes, mmap, threading, time
libc = ctypes.CDLL(None)
m = mmap.mmap(-1, 3 << 20)
assert libc.mlock(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), ctypes.c_size_t(3 << 20)) == 0
for _ in range(8): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)'
}

split() {
	status=0
	"$@" >"$S/out" 2>"$S/err" || status=$?
}

# One line with $1 in it, exit code 1, nobody moved.
refused() {
	[ "$status" = 1 ]
	[ "$(wc -l <"$S/err")" = 1 ]
	grep -q -- "$1" "$S/err"
	[ ! -s "$S/out" ]
}

cgroup_of() {
	sed -n 's/^0:://p' "/proc/$1/cgroup"
}

# field NAME CGROUP
field() {
	"$PINCAP" stat --json "$2" | python3 -c '
import json, sys
def find(x):
    if isinstance(x, dict):
        if x.get("cgroup") == sys.argv[2]: return x
        x = list(x.values())
    for y in x if isinstance(x, list) else []:
        r = find(y)
        if r: return r
print(find(json.load(sys.stdin))[sys.argv[1]])' "$1" "$2"
}

@test 'a running process, with all its threads, in a cgroup of its own' {
	start_locker
	split "$PINCAP" attach -p "$pid" --limit 64M --high 32M
	[ "$status" = 0 ]
	made=$CG/pincap-$pid
	[ "$(cat "$S/out")" = "$made" ]
	[ "$(cat "$MOUNT$made/cgroup.procs")" = "$pid" ]
	for task in /proc/"$pid"/task/*; do
		[ "$(sed -n 's/^0:://p' "$task/cgroup")" = "$made" ]
	done
	[ "$(ls "/proc/$pid/task" | wc -l)" = 9 ]
	[ "$(field current "$made")" = $((3 << 20)) ]
	[ "$(field limit "$made")" = $((64 << 20)) ]
	[ "$(field high "$made")" = $((32 << 20)) ]
	[ "$(grep -c '^pincap: unmanaged: ' "$S/err")" = 1 ]
}

@test 'again: the budget changes, the place does not' {
	start_locker
	"$PINCAP" attach -p "$pid" --limit 64M
	split "$PINCAP" attach -p "$pid" --limit 2M
	[ "$status" = 0 ]
	[ "$(cat "$S/out")" = "$CG/pincap-$pid" ]
	[ "$(cgroup_of "$pid")" = "$CG/pincap-$pid" ]
	[ "$(field limit "$CG/pincap-$pid")" = $((2 << 20)) ]
	grep -q 'it is over' "$S/err"
	# without a limit, the one it has stays
	split "$PINCAP" attach -p "$pid"
	[ "$(field limit "$CG/pincap-$pid")" = $((2 << 20)) ]
	kill -0 "$pid"
}

@test 'one that has the library is managed, and is held by its budget' {
	cp "$(dirname "$PINCAP")/libpincap-preload.so" "$S/"
	chmod 755 "$S"
	start_locker LD_PRELOAD="$S/libpincap-preload.so"
	split "$PINCAP" attach -p "$pid" --limit 64M
	[ "$status" = 0 ]
	grep -q '^pincap: managed: ' "$S/err"
	! grep -q unmanaged "$S/err"
}

@test '--cgroup: made if it is missing' {
	start_locker
	split "$PINCAP" attach -p "$pid" --limit 64M --cgroup "$CG/a/b"
	[ "$status" = 0 ]
	[ "$(cat "$S/out")" = "$CG/a/b" ]
	[ "$(cgroup_of "$pid")" = "$CG/a/b" ]
	split "$PINCAP" attach -p "$pid" --cgroup /
	refused 'the root has everybody in it'
	[ "$(cgroup_of "$pid")" = "$CG/a/b" ]
}

@test 'what it leaves is cleaned up by the next run' {
	start_locker
	"$PINCAP" attach -p "$pid" --limit 64M
	made=$CG/pincap-$pid
	"$PINCAP" run -q true
	[ -d "$MOUNT$made" ]
	kill -9 "$pid"
	wait "$pid" || true
	wait_for "grep -qx 'populated 0' $MOUNT$made/cgroup.events"
	"$PINCAP" run -q true
	[ ! -d "$MOUNT$made" ]
	# and nothing is left loaded for it
	[ -z "$loaded" ] || [ ! -e /sys/fs/bpf/pincap ]
}

@test 'who cannot be attached' {
	split "$PINCAP" attach -p 999999999
	refused 'there is no process 999999999'
	sh -c 'exit 0' &
	gone=$!
	wait $gone
	split "$PINCAP" attach -p $gone
	refused "there is no process $gone"
	start_locker
	thread=$(ls "/proc/$pid/task" | grep -vx "$pid" | head -n 1)
	split "$PINCAP" attach -p "$thread"
	refused "$thread is a thread"
	[ "$(cgroup_of "$pid")" = "$CG" ]
	split setpriv --reuid 65534 --clear-groups "$PINCAP" attach -p "$pid"
	refused 'needs root'
}

@test 'a kernel thread' {
	kthread=$(ps -o pid= --ppid 2 2>/dev/null | head -n 1)
	[ -n "$kthread" ] || skip 'none to be seen'
	split "$PINCAP" attach -p $kthread
	refused 'is a kernel thread'
}

@test 'a zombie has ended' {
	start python3 -c '
import os, time
if os.fork() == 0: os._exit(0)
print("ready", flush=True)
time.sleep(1000)'
	wait_for "ps -o pid=,stat= --ppid $pid | grep -q Z"
	zombie=$(ps -o pid= --ppid "$pid" | tr -d ' ')
	split "$PINCAP" attach -p "$zombie"
	refused "there is no process $zombie"
}

@test 'a threaded subtree is left as it is' {
	mkdir "$MOUNT$CG/t"
	start_locker
	echo threaded >"$MOUNT$CG/t/cgroup.type"
	split "$PINCAP" attach -p "$pid"
	refused 'threaded subtree'
	[ "$(cgroup_of "$pid")" = "$CG" ]
	[ ! -d "$MOUNT$CG/pincap-$pid" ]
}

@test 'a cgroup whose children have controllers takes nobody in' {
	controller=$(cut -d' ' -f1 "$MOUNT$CG/cgroup.controllers")
	[ -n "$controller" ] || skip 'no controllers in cgroup v2 here'
	mkdir -p "$MOUNT$CG/inner/leaf"
	echo "+$controller" >"$MOUNT$CG/inner/cgroup.subtree_control"
	start_locker
	split "$PINCAP" attach -p "$pid" --cgroup "$CG/inner"
	refused 'has controllers enabled'
	[ "$(cgroup_of "$pid")" = "$CG" ]
}

@test 'usage errors are 2' {
	for args in '' '-p' '-p x' '-p 0' '-p -1' '-p 1x' '-p 1 --limit 8X' '-p 1 --high nan' '-p 1 extra' '-p 1 --no-such'; do
		split "$PINCAP" attach $args
		[ "$status" = 2 ]
		[ ! -s "$S/out" ]
	done
	split "$PINCAP" attach --help
	[ "$status" = 0 ]
}
