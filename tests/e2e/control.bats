#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The commands through pincapd: what users may read and set, `run` by one of them, and
# `reload`. nobody (65534) owns the cgroup `own`; `other` is root's.

bats_require_minimum_version 1.5.0

setup() {
	[ -n "$PINCAP" ] || skip 'PINCAP is not set'
	[ "$(id -u)" = 0 ] || skip 'needs root'
	unset LD_PRELOAD PINCAP_NOTIFY PINCAP_DEBUG SUDO_UID SUDO_GID SUDO_USER
	MOUNT=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	OWN=$(sed -n 's/^0:://p' /proc/self/cgroup)
	CG=${OWN%/}/e2e-control-$$-$BATS_TEST_NUMBER
	mkdir -p "$MOUNT$CG/own/job" "$MOUNT$CG/other"
	chown 65534:65534 "$MOUNT$CG/own" "$MOUNT$CG/own/cgroup.procs" "$MOUNT$CG/own/job" \
		"$MOUNT$CG/own/job/cgroup.procs"
	[ -e /sys/fs/bpf/pincap ] || loaded=1
	S=$(mktemp -d)
	chmod 755 "$S"
	# Wherever the tree is, users must be able to read these.
	cp "$PINCAP" "${PINCAP%/*}/libpincap-preload.so" "$T/lock" "$S"
	export PINCAP_CONTROL=$S/control.sock
	daemon=
}

teardown() {
	[ -n "$S" ] || return 0
	stop_daemon
	echo 1 >"$MOUNT$CG/cgroup.kill"
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

# start_daemon [YAML]
start_daemon() {
	write_config "$1"
	"$PINCAP"d --config "$S/config" >"$S/log" 2>&1 3>&- &
	daemon=$!
	wait_for '[ -S "$S/control.sock" ]'
}

write_config() {
	printf 'notify_socket: %s\ncontrol_socket: %s\n%s\n' "$S/notify.sock" "$S/control.sock" \
		"$1" >"$S/config"
}

stop_daemon() {
	[ -n "$daemon" ] || return 0
	kill "$daemon" 2>/dev/null || true
	wait "$daemon" || true
	daemon=
}

# as_user CGROUP COMMAND...: nobody, in a cgroup below the test's. A user has a program
# of his own: this one may open neither maps nor bpffs.
as_user() {
	local cg=$1
	shift
	bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec setpriv --reuid 65534 --regid 65534 \
		--clear-groups -- "$@"' bash "$MOUNT$CG/$cg" "$@" 3>&-
}

limit_of() {
	"$PINCAP" stat --json "$CG/$1" | python3 -c 'import json, sys
print(json.load(sys.stdin)["cgroups"][0]["limit"])'
}

@test 'without a daemon a user is told what is missing' {
	run -125 as_user own "$S/pincap" run true
	[ "$output" = 'pincap: run: needs root, or pincapd to ask, which does not run here' ]
	run -1 as_user own "$S/pincap" set "$CG/own/job" limit=1M
	[ "$output" = 'pincap: set a budget: needs root, or pincapd to ask, which does not run here' ]
	run -1 as_user own "$S/pincap" stat
	[ "$output" = 'pincap: stat: needs root, or pincapd to ask, which does not run here' ]
	run -1 "$PINCAP" reload
	[ "$output" = 'pincap: reload: pincapd does not run here' ]
}

@test 'a user sets budgets below his own cgroup, up to what those above have' {
	start_daemon
	"$PINCAP" set "$CG/own" limit=64M
	as_user own "$S/pincap" set "$CG/own/job" limit=32M high=16M
	[ "$(limit_of own/job)" = $((32 << 20)) ]
	as_user own "$S/pincap" set "$CG/own/job" limit=64M
	run -1 as_user own "$S/pincap" set "$CG/own/job" limit=65M
	[[ "$output" = *'a cgroup further up has a limit of 64.0 MiB; no more than that' ]]
	[ "$(limit_of own/job)" = $((64 << 20)) ]
	as_user own "$S/pincap" set "$CG/own/job" limit=infinity
	[ "$(limit_of own/job)" = None ]
	run -1 as_user own "$S/pincap" set "$CG/own/job" min=1M
	[[ "$output" = *'only limit and high'* ]]
}

@test 'a user sets nothing elsewhere, his own delegated directory included' {
	start_daemon
	for where in own other .; do
		run -1 as_user own "$S/pincap" set "$CG/$where" limit=1M
		[[ "$output" = *'not below a cgroup whose directory is yours' ]]
	done
	run -1 as_user own "$S/pincap" set / limit=1M
	[ "$(limit_of own)$(limit_of other)" = NoneNone ]
}

@test "what a rule says is not a user's to change" {
	start_daemon "budgets: [{match: '$CG/own/*', limit: 8M}]"
	[ "$(limit_of own/job)" = $((8 << 20)) ]
	run -1 as_user own "$S/pincap" set "$CG/own/job" limit=1M
	[[ "$output" = *'set by a rule of the configuration' ]]
	[ "$(limit_of own/job)" = $((8 << 20)) ]
}

@test 'everybody reads what concerns his own cgroups' {
	start_daemon
	"$PINCAP" set "$CG/own/job" limit=1M
	"$PINCAP" set "$CG/other" limit=2M
	mkdir "$MOUNT$CG/other/in"
	"$PINCAP" set "$CG/other/in" limit=3M
	run -0 as_user other/in "$S/pincap" stat
	[[ "$output" = *"$CG/other"* && "$output" = *"$CG/other/in"* ]] # binds him
	[[ "$output" = *"$CG/own/job"* ]]				# his own, wherever he is
	run -0 as_user own "$S/pincap" stat --json
	[[ "$output" = *"$CG/own/job"* && "$output" != *"$CG/other"* ]]
	run -1 as_user own "$S/pincap" stat "$CG/other"
	[[ "$output" = *'neither yours nor above yours'* ]]
	run -0 as_user own "$S/pincap" stat "$CG/own/job"
	[[ "$output" = *'1.0 MiB'* ]]
}

@test 'the group of the configuration reads everything' {
	start_daemon 'group: "65533"'
	"$PINCAP" set "$CG/other" limit=2M
	bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec setpriv --reuid 65534 --regid 65534 \
		--groups 65533 -- "$@"' bash "$MOUNT$CG/own" "$S/pincap" stat >"$S/out"
	grep -q "$CG/other" "$S/out"
	run -0 as_user own "$S/pincap" stat
	[[ "$output" != *"$CG/other"* ]]
}

@test 'run by a user, in his own cgroup' {
	start_daemon
	"$PINCAP" set "$CG/own" limit=64M
	rmdir "$MOUNT$CG/own/job"
	run -0 as_user own "$S/pincap" run --limit 1M -- sh -c "id -u; '$S/lock' 524288; '$S/lock' 2097152; true"
	echo "$output"
	[ "${lines[0]}" = 65534 ]
	[ "${lines[1]}" = 'plain: locked' ]
	[ "${lines[2]}" = 'plain: Cannot allocate memory' ]
	[[ "$output" = *'sh: budget 1.0 MiB, peak 512.0 KiB'* ]]
	[[ "$output" = *'refused 1 request (2.0 MiB): budget of '*'/own/pincap-'*' full'* ]]
	[ -z "$(find "$MOUNT$CG/own" -name 'pincap-*')" ]
}

@test 'run by a user: exit codes, the limit above, auto within it' {
	start_daemon
	"$PINCAP" set "$CG/own" limit=16M
	run -7 as_user own "$S/pincap" run -q --limit 1M -- sh -c 'exit 7'
	run -127 as_user own "$S/pincap" run -q --limit 1M -- "$S/missing"
	run -125 as_user own "$S/pincap" run --limit 17M -- true
	[[ "$output" = *'--limit 17.0 MiB: a cgroup further up has a limit of 16.0 MiB'* ]]
	run -0 as_user own "$S/pincap" run -- true
	[[ "$output" = *'limit 16.0 MiB (auto'* ]]
	[ -z "$(find "$MOUNT$CG/own" -name 'pincap-*')" ]
}

@test "run where the cgroup is root's and there is no systemd of the user" {
	start_daemon
	run -125 as_user other env -u DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR="$S/none" \
		"$S/pincap" run --limit 1M -- true
	[[ "$output" = *'our own cgroup is not ours to divide'* ]]
}

@test 'root sets budgets beside a daemon, and it keeps them over a reload' {
	start_daemon "budgets: [{match: '$CG/other', limit: 8M}]"
	"$PINCAP" set "$CG/own" limit=2M
	"$PINCAP" reload
	[ "$(limit_of own)" = $((2 << 20)) ]
	[ "$(limit_of other)" = $((8 << 20)) ]
	run -1 "$PINCAP" run --limit 3M -- "$S/lock" 4194304
	[[ "$output" = *'budget 3.0 MiB'* ]]
}

@test 'reload: another rule, a fault, and who may' {
	start_daemon "budgets: [{match: '$CG/other', limit: 8M}]"
	write_config "budgets: [{match: '$CG/other', limit: 9M}]"
	run -0 "$PINCAP" reload
	[ "$output" = 'pincap: reloaded' ]
	[ "$(limit_of other)" = $((9 << 20)) ]
	write_config "budgets: [{match: '$CG/other', limit: 9Q}]"
	run -1 "$PINCAP" reload
	[[ "$output" = "pincap: reload: $S/config:3: "*9Q* ]]
	[ "$(limit_of other)" = $((9 << 20)) ]
	run -0 "$PINCAP" doctor
	[[ "$output" = *"$S/config:3: "*9Q* ]]
	run -1 as_user own "$S/pincap" reload
	[[ "$output" = *'only root may have the configuration read again' ]]
	[ "$(limit_of other)" = $((9 << 20)) ]
}

@test 'garbage, floods and silence at the socket harm nobody' {
	start_daemon
	python3 - "$S/control.sock" <<'PYTHON'
import os, random, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
def dial():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(5)
    s.connect(sys.argv[1])
    return s
random.seed(1)
for i in range(2000):
    s = dial()
    try:
        s.send(os.urandom(random.choice((1, 3, 63, 64, 65, 72, 4096, 65536))))
        s.recv(65536)
    except OSError:
        pass
    s.close()
silent = []
for i in range(200):  # more than a user has places for
    try:
        silent.append(dial())
    except OSError:
        break
print(len(silent))
PYTHON
	[ -d "/proc/$daemon" ]
	# Others have their places, and this user has them again.
	"$PINCAP" reload
	wait_for 'as_user own "$S/pincap" stat >/dev/null 2>&1'
}
