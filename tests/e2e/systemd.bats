#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# pincapd as a service of a real systemd: the unit as it is installed, with all that it
# forbids itself; budgets for other services; reload, watchdog, restart and stop.

root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
: "${PINCAP:=$root/build/pincap}" "${T:=$root/build/tests}"
BPFFS=/sys/fs/bpf/pincap

setup() {
	[ "$(id -u)" = 0 ] || skip 'needs root'
	command -v systemd-nspawn >/dev/null || skip 'systemd-nspawn (systemd-container) is not there'
	[ ! -e "$BPFFS" ] || skip 'somebody else'"'"'s kernel side is loaded'
	mkdir -p /sys/fs/bpf
	S=$(mktemp -d)
}

teardown() {
	[ -n "$S" ] || return 0
	rm -rf "$S"
	[ ! -e "$BPFFS" ] || "$PINCAP" unload
}

# What is run inside. Each answer is a line "KEY: VALUE".
probe() {
	cat <<'PROBE'
#!/bin/bash
PATH=/usr/local/bin:$PATH
show() { systemctl show -P "$1" pincapd; }
until_is() { for _ in $(seq 100); do [ "$(show "$1")" = "$2" ] && return; sleep 0.1; done; }
job() {
	systemd-run --quiet --wait --unit="$1" -p LimitMEMLOCK=infinity -p StandardOutput=file:/job.out \
		"-pEnvironment=LD_PRELOAD=$preload" /usr/local/bin/locker /weights 1 1
	tail -n 1 /job.out
}
preload=/usr/local/lib/$(uname -m)-linux-gnu/pincap/libpincap-preload.so
mkdir -p /etc/pincap /etc/systemd/system/pincapd.service.d
printf '[Service]\nWatchdogSec=2s\n' >/etc/systemd/system/pincapd.service.d/test.conf
printf 'budgets:\n- match: /system.slice/job-*.service\n  limit: 8M\n' >/etc/pincap/pincap.yaml
locker --make /weights 16
systemctl daemon-reload
systemctl start pincapd; echo "start: $?"
echo "active: $(show ActiveState) $(show StatusText)"
echo "job: $(job job-1)"
sed -i 's/8M/12M/' /etc/pincap/pincap.yaml
systemctl reload pincapd; echo "reload: $? $(show ActiveState)"
echo "job after reload: $(job job-2)"
echo 'tick: never' >>/etc/pincap/pincap.yaml
systemctl reload pincapd; echo "bad reload: $? $(show ActiveState) $(show StatusText)"
echo "job after bad reload: $(job job-3)"
sed -i /never/d /etc/pincap/pincap.yaml
sleep 3 # longer than the watchdog waits
echo "watched: $(show NRestarts) restarts"
kill -STOP "$(show MainPID)"
until_is NRestarts 1
until_is ActiveState active
echo "hung: $(show NRestarts) restarts, $(show ActiveState)"
kill -9 "$(show MainPID)"
until_is NRestarts 2
until_is ActiveState active
echo "killed: $(show NRestarts) restarts, $(show ActiveState)"
echo "job after the restarts: $(job job-4)"
systemd-run --quiet --unit=job-5 -p LimitMEMLOCK=infinity /usr/local/bin/locker /weights 1000000 1
event() { journalctl -o json MESSAGE_ID=b3f1c5c2f0f34e0d8f4a8e0c6d6a7b15 | grep -o "\"$1\":\"[^\"]*" | tail -n 1; }
for _ in $(seq 50); do [ -n "$(event PINCAP_CGROUP)" ] && break; sleep 0.1; done
systemctl stop job-5
echo "event: $(event PINCAP_EVENT) $(event PINCAP_CGROUP) $(event PINCAP_LIMIT_BYTES)"
# A user whose cgroup is root's: his own systemd gives him a scope to divide.
loginctl enable-linger nobody; systemctl start user@65534; echo "user manager: $?"
systemd-run --quiet --wait --uid=65534 --gid=65534 -p LimitMEMLOCK=infinity \
	-p StandardOutput=file:/user.out -p StandardError=file:/user.err \
	-E XDG_RUNTIME_DIR=/run/user/65534 /usr/local/bin/pincap run --limit 8M -- \
	/usr/local/bin/locker /weights 1 1
echo "user run: $(tail -n 1 /user.out); $(grep -o 'budget 8.0 MiB' /user.err)"
grep refused /user.err | sed 's/^/user: /'
cat "/proc/$(show MainPID)/status" | sed -n 's/^CapBnd:\t0*/bounding: /p'
systemd-analyze --no-pager security pincapd | sed -n 's/^.*Overall exposure level for pincapd.service: \([0-9.]*\).*/exposure: \1/p'
systemctl stop pincapd; echo "stop: $? $(show ActiveState) $(show Result)"
journalctl --no-pager -o cat -u pincapd | grep -E '^(reload|[0-9]+ rule)' | sed 's/^/journal: /'
pincap unload; echo "unload: $?"
PROBE
}

@test 'the unit under a real systemd' {
	# where it is built for, so that nothing is built again
	make -s -C "$root" install O="$(dirname "$PINCAP")" DESTDIR="$S/stage" >/dev/null
	install "$T/locker" "$S/stage/usr/local/bin/"
	probe >"$S/probe.sh"
	run "$BATS_TEST_DIRNAME/nspawn.sh" "$S/stage" "$S/probe.sh"
	[ "$status" != 77 ] || skip "$output"
	echo "$output"
	said() { grep -qxE "$1" <<<"$output" || { echo "missing: $1"; false; }; }
	said 'start: 0'
	said 'active: active 0 budgets, 0 stopped, 0 over; 0 libraries, 0 deaf; no reserve'
	said 'job: 2 of 4 pinned, 2 pageable; passes verified 1 of 1'
	said 'reload: 0 active'
	said 'job after reload: 3 of 4 pinned, 1 pageable; passes verified 1 of 1'
	said 'bad reload: 0 active .*; last reload failed'
	said 'journal: reload: /etc/pincap/pincap.yaml:4: tick: .never. is not a time.*last good configuration stays'
	said 'job after bad reload: 3 of 4 pinned, 1 pageable; passes verified 1 of 1'
	said 'watched: 0 restarts'
	said 'hung: 1 restarts, active'
	said 'killed: 2 restarts, active'
	said 'job after the restarts: 3 of 4 pinned, 1 pageable; passes verified 1 of 1'
	said 'event: "PINCAP_EVENT":"over "PINCAP_CGROUP":"/system.slice/job-5.service "PINCAP_LIMIT_BYTES":"12582912'
	said 'user manager: 0'
	said 'user run: 2 of 4 pinned, 2 pageable; passes verified 1 of 1; budget 8.0 MiB'
	said 'user: pincap: refused 2 requests .*budget of /user.slice/user-65534.slice/user@65534.service/app.slice/pincap-run-.*.scope/pincap-.* full.*'
	said 'bounding: [0-9a-f]+'
	said 'exposure: [0-3]\.[0-9]'
	said 'stop: 0 inactive success'
	said 'unload: 0'
	echo "# $(grep '^exposure' <<<"$output") in systemd-analyze security" >&3
}
