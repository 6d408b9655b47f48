#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `pincap run` as a wrapper: exit codes, signals, identity, cgroups, words.
# Needs root, and $PINCAP, the path of the program.

bats_require_minimum_version 1.5.0

setup() {
	[ -n "$PINCAP" ] || skip 'PINCAP is not set'
	[ "$(id -u)" = 0 ] || skip 'needs root'
	unset SUDO_UID SUDO_GID SUDO_USER LD_PRELOAD PINCAP_NOTIFY PINCAP_DEBUG
	MOUNT=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	OWN=$(sed -n 's/^0:://p' /proc/self/cgroup)
	[ "$OWN" = / ] && OWN=
	out=$BATS_TEST_TMPDIR/out
	err=$BATS_TEST_TMPDIR/err
}

teardown() {
	if [ -n "$made" ]; then
		for pid in $(cat "$MOUNT$made/cgroup.procs" 2>/dev/null); do
			kill -9 "$pid" 2>/dev/null || true
		done
		wait_for "rmdir $MOUNT$made 2>/dev/null || [ ! -d $MOUNT$made ]"
	fi
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

# stdout to $out, stderr to $err, exit code to $status.
split() {
	status=0
	"$@" >"$out" 2>"$err" || status=$?
}

lines() {
	wc -l <"$1"
}

code_of() {
	run -"$1" "${@:2}"
}

# ---- exit codes ----

@test 'the exit code is the command'\''s' {
	for code in 0 1 7 125 126 127 255; do
		code_of $code "$PINCAP" run -q sh -c "exit $code"
	done
}

@test '127: not found; 126: cannot be run' {
	split "$PINCAP" run -q no-such-command-here
	[ "$status" = 127 ]
	[ "$(lines "$err")" = 1 ]
	grep -q "no-such-command-here" "$err"
	split "$PINCAP" run -q /no/such/path
	[ "$status" = 127 ]
	split "$PINCAP" run -q /etc/passwd
	[ "$status" = 126 ]
	[ "$(lines "$err")" = 1 ]
	split "$PINCAP" run -q /etc
	[ "$status" = 126 ]
}

@test 'a failed exec leaves no cgroup and no socket' {
	split "$PINCAP" run -q no-such-command-here
	[ -z "$(find "$MOUNT$OWN" -maxdepth 1 -name 'pincap-*' -newer "$BATS_TEST_TMPDIR")" ]
	[ -z "$(find /run/pincap -name 'run-*' -newer "$BATS_TEST_TMPDIR" 2>/dev/null)" ]
}

@test '125: our own failure, in one line, and the command does not run' {
	split setpriv --reuid 65534 --clear-groups "$PINCAP" run touch "$BATS_TEST_TMPDIR/ran"
	[ "$status" = 125 ]
	[ "$(lines "$err")" = 1 ]
	[ ! -e "$BATS_TEST_TMPDIR/ran" ]
	split "$PINCAP" run --user no-such-user touch "$BATS_TEST_TMPDIR/ran"
	[ "$status" = 125 ]
	[ "$(lines "$err")" = 1 ]
	grep -q -- "--user 'no-such-user'" "$err"
	[ ! -e "$BATS_TEST_TMPDIR/ran" ]
}

@test 'death by a signal is passed on' {
	for sig in TERM INT KILL HUP USR1 SEGV; do
		run sh -c "$PINCAP run -q sh -c 'kill -$sig \$\$'; echo \$?"
		[ "${lines[-1]}" = $((128 + $(kill -l $sig))) ]
	done
	# a real death, not an exit code that looks like one
	run python3 -c 'import subprocess, sys
print(subprocess.run([sys.argv[1], "run", "-q", "sh", "-c", "kill -TERM $$"]).returncode)' "$PINCAP"
	[ "$output" = -15 ]
}

# ---- command line ----

@test 'options end at the command, with and without --' {
	run -0 "$PINCAP" run -q echo --limit 8X -q --help
	[ "$output" = '--limit 8X -q --help' ]
	run -0 "$PINCAP" run -q --limit 1G -- echo -- x
	[ "$output" = '-- x' ]
	run -0 "$PINCAP" run --limit=1G -q -- sh -c 'echo $1' -- --quiet
	[ "$output" = --quiet ]
}

@test 'rubbish sizes: one line that names the option, exit code 2, nothing run' {
	for size in '' 8X -1 1.5 '1 G' 0x10 1e9 nan 101% 99999999999G auto8 8G8; do
		split "$PINCAP" run --limit "$size" touch "$BATS_TEST_TMPDIR/ran"
		[ "$status" = 2 ]
		[ "$(lines "$err")" = 1 ]
		grep -q -- "--limit '$size'" "$err"
		[ ! -s "$out" ]
	done
	[ ! -e "$BATS_TEST_TMPDIR/ran" ]
}

@test 'usage errors are 2' {
	code_of 2 "$PINCAP"
	code_of 2 "$PINCAP" no-such-command
	code_of 2 "$PINCAP" run
	code_of 2 "$PINCAP" run --no-such-option true
	code_of 2 "$PINCAP" run --limit
	code_of 2 "$PINCAP" run --cgroup '' true
}

@test 'help and version go to stdout' {
	for args in --help --version 'run --help'; do
		split "$PINCAP" $args
		[ "$status" = 0 ]
		[ -s "$out" ]
		[ ! -s "$err" ]
	done
}

@test 'auto is the default, and is printed' {
	split "$PINCAP" run true
	[ "$status" = 0 ]
	grep -Eq '^pincap: limit [0-9.]+ [KMGT]iB \(auto: of [0-9.]+ [KMGT]iB RAM, .* swap\)$' "$err"
	split "$PINCAP" run --limit auto true
	grep -q '(auto: of' "$err"
	split "$PINCAP" run --limit 512M true
	! grep -q auto "$err" || false
	grep -q '^pincap: true: budget 512.0 MiB, peak' "$err"
	split "$PINCAP" run --limit infinity true
	grep -q '^pincap: true: budget infinity' "$err"
}

@test 'every line begins with our name, and -q leaves none' {
	split "$PINCAP" run --limit 1G true
	! grep -v '^pincap: ' "$err" || false
	split "$PINCAP" run -q --limit 1G true
	[ ! -s "$err" ]
}

# ---- the command's surroundings ----

@test 'stdin, stdout and stderr pass through untouched' {
	head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/data"
	"$PINCAP" run -q cat <"$BATS_TEST_TMPDIR/data" >"$out" 2>"$err"
	cmp "$BATS_TEST_TMPDIR/data" "$out"
	[ ! -s "$err" ]
	split "$PINCAP" run -q sh -c 'printf "a\0b"; printf "c\0d" >&2'
	[ "$(od -An -c "$out" | tr -d ' ')" = 'a\0b' ]
	[ "$(od -An -c "$err" | tr -d ' ')" = 'c\0d' ]
}

@test 'a summary that nobody reads does not change the exit code' {
	run bash -c "'$PINCAP' run --limit 1G sh -c 'sleep 0.2; exit 7' 2> >(exec true); echo \$?"
	[ "${lines[-1]}" = 7 ]
	code_of 7 bash -c "'$PINCAP' run --limit 1G sh -c 'exit 7' >&- 2>&-"
}

@test 'descriptors, signal mask, ignored signals and limits are those we were given' {
	show='ls /proc/self/fd | wc -l; grep -E "^Sig(Blk|Ign)" /proc/self/status; ulimit -n'
	sh -c "$show" >"$BATS_TEST_TMPDIR/bare"
	"$PINCAP" run -q sh -c "$show" >"$out"
	diff "$BATS_TEST_TMPDIR/bare" "$out"
	sh -c "trap '' HUP CHLD; ulimit -n 100; exec sh -c '$show'" >"$BATS_TEST_TMPDIR/bare"
	sh -c "trap '' HUP CHLD; ulimit -n 100; exec $PINCAP run -q sh -c '$show'" >"$out"
	diff "$BATS_TEST_TMPDIR/bare" "$out"
}

@test 'the environment gets the library and the socket, and keeps the rest' {
	[ -e "$(dirname "$PINCAP")/libpincap-preload.so" ] || skip 'no library beside the program'
	run -0 env FOO=bar LD_PRELOAD=libc.so.6 "$PINCAP" run -q sh -c 'echo $FOO $LD_PRELOAD; test -S "$PINCAP_NOTIFY"; echo $?'
	[[ "${lines[0]}" = "bar "*/libpincap-preload.so:libc.so.6 ]]
	[ "${lines[1]}" = 0 ]
	run -0 "$PINCAP" run -q --no-preload sh -c 'echo "<$LD_PRELOAD>"'
	[ "$output" = '<>' ]
}

# ---- identity ----

@test 'under sudo the command is the invoking user' {
	show='id -u; id -g; id -G; echo "$HOME $USER $LOGNAME $SHELL"'
	run -0 env SUDO_UID=65534 SUDO_GID=65534 SUDO_USER=nobody HOME=/root "$PINCAP" run -q sh -c "$show"
	[ "${lines[0]}" = 65534 ]
	[ "${lines[1]}" = 65534 ]
	[ "${lines[2]}" = "$(id -G nobody)" ]
	IFS=: read -r _ _ _ _ _ home shell < <(getent passwd nobody)
	[ "${lines[3]}" = "$home nobody nobody $shell" ]
	# it can neither come back nor read what is root's
	run -0 env SUDO_UID=65534 SUDO_GID=65534 "$PINCAP" run -q grep -E '^(Uid|Gid|CapEff|CapPrm)' /proc/self/status
	[ "${lines[0]}" = "$(printf 'Uid:\t65534\t65534\t65534\t65534')" ]
	[ "${lines[1]}" = "$(printf 'Gid:\t65534\t65534\t65534\t65534')" ]
	[[ "${lines[2]}" = *0000000000000000 ]]
	[[ "${lines[3]}" = *0000000000000000 ]]
	# its own files
	run -0 env SUDO_UID=65534 SUDO_GID=65534 "$PINCAP" run -q sh -c 'f=$(mktemp); stat -c %u $f; rm $f'
	[ "$output" = 65534 ]
}

@test '--user takes a name or a number, and overrides sudo' {
	for user in daemon "$(id -u daemon)"; do
		run -0 env SUDO_UID=65534 SUDO_GID=65534 "$PINCAP" run -q --user "$user" id -un
		[ "$output" = daemon ]
	done
	run -0 env SUDO_UID=65534 SUDO_GID=65534 "$PINCAP" run -q --user root id -u
	[ "$output" = 0 ]
	run -0 env SUDO_UID=0 SUDO_GID=0 "$PINCAP" run -q id -u
	[ "$output" = 0 ]
}

@test 'a SUDO_UID that is no number is an error, not root' {
	for uid in x -1 4294967295 '0x10' ''; do
		split env SUDO_UID="$uid" SUDO_GID=65534 "$PINCAP" run -q id -u
		[ "$status" = 125 ]
		[ ! -s "$out" ]
	done
}

@test 'what the invoking user may not run is 126' {
	install -m 700 /bin/true "$BATS_TEST_TMPDIR/mine"
	chmod 755 "$BATS_TEST_TMPDIR"
	code_of 126 env SUDO_UID=65534 SUDO_GID=65534 "$PINCAP" run -q "$BATS_TEST_TMPDIR/mine"
}

# ---- signals ----

# Runs "$@" in the background with a command that notes the signals it gets.
start_noter() {
	"$@" bash -c 'for s in INT TERM HUP QUIT USR1 USR2 WINCH; do trap "echo $s" $s; done
		trap "exit 42" CONT; echo ready; while :; do sleep 0.05; done' >"$out" 2>"$err" &
	noter=$!
	wait_for "grep -q ready $out"
}

@test 'signals sent to us are handed on, each once' {
	# a job of a shell without job control ignores INT and QUIT: have it reset
	start_noter python3 -c 'import os, signal, sys
for s in (signal.SIGINT, signal.SIGQUIT): signal.signal(s, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$PINCAP" run -q
	for sig in INT TERM HUP QUIT USR1 USR2 WINCH; do
		kill -$sig $noter
		wait_for "grep -qx $sig $out"
	done
	kill -CONT $noter
	status=0
	wait $noter || status=$?
	[ "$status" = 42 ]
	[ "$(lines "$out")" = 8 ]
}

@test 'TERM to us ends the command, and us like it' {
	"$PINCAP" run -q sleep 1000 &
	pid=$!
	wait_for "[ -n \"\$(cat $MOUNT$OWN/pincap-$pid/cgroup.procs 2>/dev/null)\" ] && pgrep -P $pid -x sleep >/dev/null"
	kill -TERM $pid
	status=0
	wait $pid || status=$?
	[ "$status" = 143 ]
	[ ! -d "$MOUNT$OWN/pincap-$pid" ]
}

@test 'ctrl-C and ctrl-Z on a terminal reach the command once, as without us' {
	run -0 timeout 30 python3 "$BATS_TEST_DIRNAME/run_tty.py" "$PINCAP"
}

# ---- cgroups ----

@test 'the command begins in a fresh cgroup below ours, which is gone afterwards' {
	run -0 "$PINCAP" run -q sh -c 'sed -n s/^0:://p /proc/self/cgroup; echo $PPID'
	[ "${lines[0]}" = "$OWN/pincap-${lines[1]}" ]
	[ ! -d "$MOUNT${lines[0]}" ]
	[ ! -e "/run/pincap/run-${lines[1]}.sock" ]
}

@test 'empty cgroups that the command made go too' {
	run -0 "$PINCAP" run -q sh -c 'p=$(sed -n s/^0:://p /proc/self/cgroup); mkdir -p '"$MOUNT"'$p/a/b; echo $p'
	[ ! -d "$MOUNT$output" ]
}

@test '--cgroup: made and removed if it is missing, left alone if it was there' {
	made=$OWN/pincap-e2e-$$
	run -0 "$PINCAP" run -q --limit 1G --cgroup "$made" sed -n s/^0:://p /proc/self/cgroup
	[ "$output" = "$made" ]
	[ ! -d "$MOUNT$made" ]
	mkdir "$MOUNT$made"
	for path in "$made" "$MOUNT$made/" "${made#/}"; do
		run -0 "$PINCAP" run -q --limit 1G --cgroup "$path" sed -n s/^0:://p /proc/self/cgroup
		[ "$output" = "$made" ]
	done
	[ -d "$MOUNT$made" ]
	split "$PINCAP" run --cgroup "$made/../x" true
	[ "$status" = 125 ]
	[ "$(lines "$err")" = 1 ]
}

@test 'a daemon that stays keeps its cgroup, and is told of; later it is cleaned up' {
	split "$PINCAP" run --limit 1G sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $!; sed -n s/^0:://p /proc/self/cgroup'
	[ "$status" = 0 ]
	daemon=$(sed -n 1p "$out")
	made=$(sed -n 2p "$out")
	[ "$(cat "$MOUNT$made/cgroup.procs")" = "$daemon" ]
	grep -q "^pincap: processes remain in $made" "$err"
	kill -9 "$daemon"
	wait_for "[ -z \"\$(cat $MOUNT$made/cgroup.procs)\" ]"
	"$PINCAP" run -q true
	[ ! -d "$MOUNT$made" ]
}

@test 'kill -9 of us leaves the command running; the next run cleans up' {
	"$PINCAP" run -q sh -c "echo started; sleep 1000" >"$out" &
	pid=$!
	made=$OWN/pincap-$pid
	wait_for "grep -q started $out"
	kill -9 $pid
	wait $pid || true
	[ -n "$(cat "$MOUNT$made/cgroup.procs")" ]
	code_of 0 "$PINCAP" run -q true
	[ -n "$(cat "$MOUNT$made/cgroup.procs")" ] # untouched
	for p in $(cat "$MOUNT$made/cgroup.procs"); do
		kill -9 "$p"
	done
	wait_for "[ -z \"\$(cat $MOUNT$made/cgroup.procs)\" ]"
	code_of 0 "$PINCAP" run -q true
	[ ! -d "$MOUNT$made" ]
	[ ! -e "/run/pincap/run-$pid.sock" ]
}

@test 'runs nest, and run side by side' {
	run -0 "$PINCAP" run -q "$PINCAP" run -q sed -n s/^0:://p /proc/self/cgroup
	[[ "$output" =~ ^$OWN/pincap-[0-9]+/pincap-[0-9]+$ ]]
	pids=
	for i in 1 2 3 4 5 6 7 8; do
		"$PINCAP" run -q sh -c "sleep 0.3; exit $i" &
		pids="$pids $!"
	done
	i=0
	for pid in $pids; do
		i=$((i + 1))
		status=0
		wait "$pid" || status=$?
		[ "$status" = $i ]
	done
}
