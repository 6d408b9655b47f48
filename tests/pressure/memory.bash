# SPDX-License-Identifier: MIT
# A memory cgroup to run something in, v1 or v2, swap to go with it, and what
# became of its memory.
# shellcheck shell=bash disable=SC2034 # the figures are for others

# Where memory cgroups are made: $MEMORY, and which version: $MEMORY_VERSION. With v1
# below our own; with v2 at the root, for a cgroup that has processes has no
# controllers for its children.
memory_find() {
	local own
	MEMORY=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)
	if [ -n "$MEMORY" ]; then
		MEMORY_VERSION=1
		own=$(sed -n 's/^[0-9]*:[^:]*\bmemory\b[^:]*:\(.*\)$/\1/p' /proc/self/cgroup)
		[ ! -d "$MEMORY$own" ] || MEMORY=${MEMORY}${own%/}
		return 0
	fi
	MEMORY_VERSION=2
	MEMORY=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$MEMORY" ] && grep -qw memory "$MEMORY/cgroup.subtree_control" 2>/dev/null
}

# memory_make NAME BYTES [no-swap]: $GROUP, its directory.
memory_make() {
	GROUP=$MEMORY/$1
	mkdir "$GROUP" || return 1
	if [ "$MEMORY_VERSION" = 1 ]; then
		echo "$2" >"$GROUP/memory.limit_in_bytes"
		# swap and memory together; absent where swap is not accounted
		[ -z "${3:-}" ] || [ ! -e "$GROUP/memory.memsw.limit_in_bytes" ] ||
			echo "$2" >"$GROUP/memory.memsw.limit_in_bytes"
	else
		echo "$2" >"$GROUP/memory.max"
		[ -z "${3:-}" ] || echo 0 >"$GROUP/memory.swap.max"
	fi
}

# Whoever is in it dies, and it goes.
memory_remove() {
	local end=$((SECONDS + 30)) pid
	while [ -d "$1" ]; do
		for pid in $(find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null); do
			kill -9 "$pid" 2>/dev/null
		done
		find "$1" -depth -type d -exec rmdir {} + 2>/dev/null
		[ $SECONDS -lt $end ] || return 1
		[ ! -d "$1" ] || sleep 0.02
	done
}

memory_remove_all() {
	local d
	memory_find || return 0
	for d in "$MEMORY/$1"*; do
		[ ! -d "$d" ] || memory_remove "$d"
	done
}

# memory_stat NAME: of memory.stat, children included.
memory_stat() {
	local text
	text=$(<"$GROUP/memory.stat") # in one piece: the kernel makes it anew at each read
	[[ $text =~ (^|[[:space:]])$1\ ([0-9]+) ]] && echo "${BASH_REMATCH[2]}"
}

memory_swap_bytes() {
	if [ "$MEMORY_VERSION" = 1 ]; then
		memory_stat total_swap
	else
		cat "$GROUP/memory.swap.current"
	fi
}

memory_major_faults() {
	if [ "$MEMORY_VERSION" = 1 ]; then
		memory_stat total_pgmajfault
	else
		memory_stat pgmajfault
	fi
}

memory_oom_kills() {
	local file=memory.events
	[ "$MEMORY_VERSION" = 2 ] || file=memory.oom_control
	sed -n 's/^oom_kill //p' "$GROUP/$file"
}

# memory_run COMMAND...: in the cgroup. Then there are $status, $swap_bytes (the most,
# looked at 20 times a second), $major_faults, $oom_kills and $seconds.
memory_run() {
	local now began=$SECONDS pid
	(
		echo "$BASHPID" >"$GROUP/cgroup.procs"
		[ -z "${SWAP_FD:-}" ] || exec {SWAP_FD}>&-
		exec "$@" 3>&-
	) &
	pid=$!
	swap_bytes=0
	while kill -0 $pid 2>/dev/null; do
		now=$(memory_swap_bytes)
		[ "$now" -le "$swap_bytes" ] || swap_bytes=$now
		sleep 0.05
	done
	status=0
	wait $pid || status=$?
	[ ! -e "$GROUP/memory.swap.peak" ] || swap_bytes=$(cat "$GROUP/memory.swap.peak")
	major_faults=$(memory_major_faults)
	oom_kills=$(memory_oom_kills)
	seconds=$((SECONDS - began))
}

# Its pages are nobody's: who reads them next is charged for them.
drop_from_cache() {
	sync "$1"
	dd if="$1" iflag=nocache count=0 status=none
}

# swap_begin PREFIX DIR: swap, until swap_end or our death; $swap says "ready DEVICE", or
# "skip REASON". Memory cgroups whose name begins with PREFIX go with it.
swap_begin() {
	mkfifo "$2/swap.in" "$2/swap.out"
	setsid "$(dirname "${BASH_SOURCE[0]}")/swap.sh" "$1" <"$2/swap.in" >"$2/swap.out" 3>&- &
	SWAP_PID=$!
	exec {SWAP_FD}>"$2/swap.in"
	read -r swap <"$2/swap.out"
}

swap_end() {
	[ -n "${SWAP_FD:-}" ] || return 0
	exec {SWAP_FD}>&-
	SWAP_FD=
	wait "$SWAP_PID" || :
}
