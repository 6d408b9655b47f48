# SPDX-License-Identifier: MIT
# What the tests with the real HIP runtime on the emulated GPU driver share: a
# scratch directory, a driver and a cgroup for each test, programs that are
# driven line by line, and one look at all figures at once.
# shellcheck shell=bash

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
: "${PINCAP:=$root/build/pincap}" "${T:=$root/build/tests}" "${BPFTOOL:=bpftool}"
export PINCAP T BPFTOOL

BPFFS=/sys/fs/bpf/pincap
MIB=$((1024 * 1024))
# The command that follows gets the driver's other half behind pincap's library.
SHIMMED=(sh -c 'LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$SHIM exec "$@"' sh)

# ---- set up and tear down ----

# Once per file. models SIZE...: files of 48 tensors of SIZE MiB each.
file_begin() {
	[ "$(id -u)" = 0 ] || return 0
	[ -e "$BPFFS" ] && export WAS_LOADED=1
	MODELS=$(mktemp -d)
	export MODELS
	chmod 755 "$MODELS"
	for size in "$@"; do
		"$T/mkmodel" "$MODELS/$size" "$size" 48 1
	done
}

file_end() {
	[ "$(id -u)" = 0 ] || return 0
	rm -rf "$MODELS"
	[ -n "$WAS_LOADED" ] || [ ! -e "$BPFFS" ] || "$PINCAP" unload
}

# Before each test; then start_driver.
test_begin() {
	[ "$(id -u)" = 0 ] || skip 'needs root'
	for f in "$PINCAP" "$T/kfd-driver" "$T/loader" "$T/gpu_life"; do
		[ -x "$f" ] || { echo "$f is missing: make tests"; return 1; }
	done
	unset SUDO_UID SUDO_GID SUDO_USER LD_PRELOAD PINCAP_NOTIFY PINCAP_LOG PINCAP_DEBUG
	MOUNT=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	OWN=$(sed -n 's/^0:://p' /proc/self/cgroup)
	CG=${OWN%/}/e2e-$$-$BATS_TEST_NUMBER
	mkdir "$MOUNT$CG"
	S=$(mktemp -d)
	chmod 755 "$S"
	started=()
	export PINCAP_KFD=$S/kfd KFD_SHIM_DEVICE=$S/kfd SHIM=$T/libkfd-shim.so
}

# After each, whatever became of it.
test_end() {
	[ -n "$S" ] || return 0
	echo 1 >"$MOUNT$CG/cgroup.kill"
	for pid in "${started[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
	done
	[ -z "$LOOKER_PID" ] || kill "$LOOKER_PID" 2>/dev/null || true
	stop_driver
	! grep -qs " $S/kfd " /proc/mounts || umount -l "$S/kfd"
	wait_for "find $MOUNT$CG -depth -type d -exec rmdir {} + 2>/dev/null; [ ! -d $MOUNT$CG ]"
	rm -rf "$S"
}

start_driver() {
	[ -e "$S/kfd" ] || : >"$S/kfd"
	"$T/kfd-driver" "$S/kfd" "$@" >"$S/driver.out" 3>&- &
	driver=$!
	wait_for "grep -q ready $S/driver.out"
	[ -n "$LOOKER_PID" ] || start_looker # before there are pipes that it would keep open
}

stop_driver() {
	[ -n "$driver" ] || return 0
	kill "$driver" 2>/dev/null || true
	wait "$driver" || true
	driver=
}

# ---- waiting ----

# A condition, for at most 30 s.
wait_for() {
	local end=$((SECONDS + 30))
	until eval "$1"; do
		[ $SECONDS -lt $end ] || { echo "never came true: $1"; return 1; }
		sleep 0.02
	done
}

# A moment of 0 to $1 ms.
random_pause() {
	local ms=$((RANDOM * $1 / 32768))
	sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
}

# Same numbers again: PINCAP_TEST_SEED=N.
seed_random() {
	local seed=${PINCAP_TEST_SEED:-$RANDOM}
	echo "# $BATS_TEST_DESCRIPTION: PINCAP_TEST_SEED=$seed" >&3
	RANDOM=$seed
}

is_empty() {
	grep -qx 'populated 0' "$MOUNT$1/cgroup.events"
}

# ---- programs ----

# enter COMMAND...: becomes it, in the test's cgroup.
enter() {
	local fd
	for fd in "${to[@]}" "${from[@]}"; do
		exec {fd}>&-
	done
	echo "$BASHPID" >"$MOUNT$CG/cgroup.procs"
	exec "$@" 3>&-
}

# talk NAME ARGUMENTS...: `pincap run ARGUMENTS`, to be driven by `answer NAME` and
# `hear NAME`. Its pid: ${runner[NAME]}; its stderr: $S/NAME.err.
declare -gA runner=() to=() from=() # -g: this file is read inside a function
talk() {
	local name=$1 w r
	shift
	rm -f "$S/$name.in" "$S/$name.out"
	mkfifo "$S/$name.in" "$S/$name.out"
	enter "$PINCAP" run "$@" <"$S/$name.in" >"$S/$name.out" 2>"$S/$name.err" &
	runner[$name]=$!
	started+=($!)
	exec {w}>"$S/$name.in" {r}<"$S/$name.out"
	to[$name]=$w from[$name]=$r
	cg=$CG/pincap-${runner[$name]}
}

# answer NAME [TEXT [TIMES]]
answer() {
	local i
	for ((i = 0; i < ${3:-1}; i++)); do
		echo "$2"
	done >&"${to[$1]}"
}

# hear NAME: the next line, in $line.
hear() {
	read -r -t 30 -u "${from[$1]}" line || { echo "$1 says nothing"; cat "$S/$1.err"; return 1; }
}

say_and_hear() {
	answer "$1" "$2"
	hear "$1"
}

# hang_up NAME: no more answers. The rest goes to $S/NAME.rest, the exit code to $status.
hang_up() {
	local w=${to[$1]} r=${from[$1]}
	exec {w}>&-
	timeout 20 cat <&"$r" >"$S/$1.rest"
	exec {r}<&-
	status=0
	wait "${runner[$1]}" || status=$?
	unset "runner[$1]" "to[$1]" "from[$1]"
}

# run_all NAME ARGUMENTS...: the same, without a word in between.
run_all() {
	local name=$1
	shift
	status=0
	(enter "$PINCAP" run "$@") </dev/null >"$S/$name.rest" 2>"$S/$name.err" || status=$?
}

# The process that `pincap run` NAME started.
child_of() {
	child=$(pgrep -P "${runner[$1]}" | head -n 1)
	[ -n "$child" ]
}

# ---- figures ----

# look CGROUP: as variables stat_* from `pincap stat --json`, map_* from bpftool,
# driver_* from the driver's own table, root_* from stat for the root, and `dead`,
# records of processes that are no more.
look() {
	local pair
	echo "$1" >&"${LOOKER[1]}"
	read -r -t 30 -u "${LOOKER[0]}" looked || { echo 'cannot read the figures'; return 1; }
	for pair in $looked; do
		declare -g "${pair%%=*}=${pair#*=}"
	done
}

start_looker() {
	coproc LOOKER { exec python3 -u -c "$looker" "$PINCAP" "$BPFTOOL" "$BPFFS" "$S/kfd" 3>&-; }
	started+=("$LOOKER_PID")
}

looker=$(cat <<'PYTHON'
import json, os, subprocess, sys

pincap, bpftool, bpffs, kfd = sys.argv[1:]
FIELDS = ("current locked pinned gpu held peak peak_gpu limit charges refused "
          "refused_bytes").split()

def call(*argv):
    return json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)

def dump(name):
    return call(bpftool, "-j", "map", "dump", "pinned", f"{bpffs}/maps/{name}")

def is_dead(pid):
    return not os.path.exists(f"/proc/{pid}")

def look(cgroup):
    ret = {}
    # before stat, which sweeps: the bare map has to be right, too
    mount = next(l.split()[1] for l in open("/proc/mounts") if l.split()[2] == "cgroup2")
    cgid = os.stat(mount + cgroup).st_ino
    entry = {}
    for e in dump("cgroups"):
        if e["formatted"]["key"] == cgid:
            entry = e["formatted"]["value"]
    for f in FIELDS:
        value = entry.get(f, 2**64 - 1 if f == "limit" else 0)
        ret["map_" + f] = "infinity" if value == 2**64 - 1 else value
    for name, row in zip(("stat_", "root_"), (
            call(pincap, "stat", "--json", cgroup)["cgroups"][0],
            call(pincap, "stat", "--json", "/")["cgroups"][0])):
        for f in FIELDS:
            ret[name + f] = "infinity" if row[f] is None else row[f]
    dead = ["process:%d" % e["formatted"]["value"]["tgid"] for e in dump("processes")
            if is_dead(e["formatted"]["value"]["tgid"])]
    dead += ["buffer:%d" % e["formatted"]["value"]["tgid"] for e in dump("buffers")
             if is_dead(e["formatted"]["value"]["tgid"])]
    dead += ["thread:%d" % e["formatted"]["key"] for e in dump("threads")
             if is_dead(e["formatted"]["key"]) and
             (e["formatted"]["value"]["lock"] or e["formatted"]["value"]["driver"])]
    ret["dead"] = ",".join(dead)
    ret["driver_pids"] = ret["driver_gpu"] = ret["driver_peak"] = ""
    for words in map(str.split, open(kfd)):
        if words[0] == "pid":
            sep = "," if ret["driver_pids"] else ""
            ret["driver_pids"] += sep + words[1]
            ret["driver_gpu"] += sep + words[3]
            ret["driver_peak"] += sep + words[7]
        elif words[0] == "total":
            ret["driver_total"] = words[2]
        elif words[0] == "allocs":
            ret.update(("driver_" + k, v) for k, v in zip(words[::2], words[1::2]))
    return ret

for line in sys.stdin:
    print(" ".join(f"{k}={v}" for k, v in look(line.strip()).items()), flush=True)
PYTHON
)

# agree CGROUP: nothing but gpu is in use, and it is what the driver holds for the
# one process that has it open, whichever way it is read.
agree() {
	look "$1"
	if [ "$stat_gpu" != "$driver_gpu" ] || [ "$map_gpu" != "$driver_gpu" ] ||
		[ "$stat_current" != "$stat_gpu" ] || [ "$map_current" != "$map_gpu" ] ||
		[ "$stat_locked$stat_pinned$stat_held$map_locked$map_pinned$map_held" != 000000 ]; then
		echo "kernel and driver do not agree: $looked"
		return 1
	fi
}

# Nothing is left of anybody, neither here nor with the driver.
nothing_left() {
	wait_for 'grep -qx "total gpu_bytes 0" "$S/kfd"'
	look "$CG"
	if [ "$stat_current$map_current$root_gpu$root_held" != 0000 ] || [ -n "$dead" ]; then
		echo "left behind: $looked"
		return 1
	fi
}

# ---- what was said ----

# result NAME: $pinned and $pageable, with all copies verified.
result() {
	local pattern='^([0-9]+) of 48 pinned, ([0-9]+) pageable; copies verified 48 of 48$'
	[[ "$(tail -n 1 "$S/$1.rest")" =~ $pattern ]] || { cat "$S/$1.rest" "$S/$1.err"; return 1; }
	pinned=${BASH_REMATCH[1]} pageable=${BASH_REMATCH[2]}
}

# one_summary NAME BUDGET COUNT MIB WHO: stderr is it and nothing else, and says that
# COUNT requests of MIB in total were refused because the budget of WHO is full.
one_summary() {
	local err=$S/$1.err requests=requests
	[ "$3" != 1 ] || requests=request
	cat "$err"
	[ "$(grep -c "^pincap: .*: budget $2, peak" "$err")" = 1 ]
	[ "$(grep -c '^pincap: refused ' "$err")" = 1 ]
	grep -qx "pincap: refused $3 $requests ($4): budget of $5 full; memory stayed pageable" "$err"
	[ "$(grep -c '^pincap: over by ' "$err")" -le 1 ]
	[ "$(grep -c '^pincap: [0-9]* STOP, ' "$err")" -le 1 ]
	[ "$(grep -c '^pincap: [0-9]* RELEASE, ' "$err")" -le 1 ]
	[ "$(grep -vcE '^pincap: (.*: budget .*, peak|refused|over by|[0-9]+ STOP,|[0-9]+ RELEASE,) ?' "$err")" = 0 ]
}
