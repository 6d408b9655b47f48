#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a budget is for: a small memory cgroup in which too much is pinned. Without a
# budget it swaps and thrashes, or the OOM killer comes; with one it does not, and
# all data are right. Swap and faults are looked at, never time.

load common

setup_file() {
	file_begin
	[ "$(id -u)" = 0 ] || return 0
	. "$root/tests/pressure/memory.bash"
	D=$(mktemp -d -p /var/tmp) # on a disk: what is in a tmpfs is not to be dropped
	export D
	"$T/locker" --make "$D/weights" 192
	"$T/locker" --make "$D/small" 128
	"$T/mkmodel" "$D/model" 1 128 1
	swap_begin "pressure-$$-" "$D"
	export swap SWAP_FD OF_FILE=pressure-$$-
	"$PINCAP" load # not inside: its maps would be charged to the small cgroup
}

teardown_file() {
	[ "$(id -u)" = 0 ] || return 0
	. "$root/tests/pressure/memory.bash"
	swap_end
	rm -rf "$D"
	file_end
}

setup() {
	test_begin
	. "$root/tests/pressure/memory.bash"
	memory_find || skip 'no memory controller to make a cgroup with'
	GROUP=
	start_driver
}

teardown() {
	[ -z "$GROUP" ] || memory_remove "$GROUP"
	test_end
}

needs_swap() {
	[ "${swap%% *}" = ready ] || skip "${swap#skip }"
}

# in_memory MIB OPTION COMMAND...: in a memory cgroup of its own, with figures as
# memory_run leaves them. OPTION: no-swap or nothing. What it says: $S/out, $S/err.
in_memory() {
	memory_make "$OF_FILE$BATS_TEST_NUMBER" $(($1 * MIB)) "$2"
	memory_run "${@:3}" >"$S/out" 2>"$S/err"
	memory_remove "$GROUP"
	GROUP=
	echo "$*: exit $status, swap $((swap_bytes / MIB)) MiB at the peak, $major_faults major faults," \
		"$oom_kills OOM kills, $seconds s"
	cat "$S/out" "$S/err"
}

# T28 of a machine with little memory.
@test 'mlock: what swaps and thrashes without a budget does not with one' {
	needs_swap
	drop_from_cache "$D/weights"
	in_memory 264 '' "$T/locker" "$D/weights" 2 96
	[ "$status" = 0 ]
	grep -qx '48 of 48 pinned, 0 pageable; passes verified 2 of 2' "$S/out"
	[ "$(awk '/ in swap at the end$/ { print $1 }' "$S/out")" -ge $((16 * 1024)) ]
	[ "$swap_bytes" -ge $((16 * MIB)) ]
	without=$major_faults
	[ "$without" -ge 20000 ]

	drop_from_cache "$D/weights"
	in_memory 264 '' "$PINCAP" run --limit 128M -- "$T/locker" "$D/weights" 2 96
	[ "$status" = 0 ]
	grep -qx '32 of 48 pinned, 16 pageable; passes verified 2 of 2' "$S/out"
	[ "$(awk '/ in swap at the end$/ { print $1 }' "$S/out")" -lt 1024 ]
	echo "# major faults: $without without, $major_faults with a budget" >&3
	[ $((major_faults * 100)) -lt $((without * 40)) ]
}

# The driver holds the pages of what is registered, which only its own figure shows.
@test 'HIP: what swaps and thrashes without a budget does not with one' {
	needs_swap
	loader=("${SHIMMED[@]}" env KFD_SHIM_HOLD=1 "$T/loader" "$D/model" --loop 2 --work 64)
	in_memory 264 '' "${loader[@]}"
	[ "$status" = 0 ]
	grep -qx '128 of 128 pinned, 0 pageable; copies verified 128 of 128' "$S/out"
	[ "$swap_bytes" -ge $((16 * MIB)) ]
	without=$major_faults
	[ "$without" -ge 10000 ]

	in_memory 264 '' "$PINCAP" run --limit 128M -- "${loader[@]}"
	[ "$status" = 0 ]
	[[ "$(tail -n 1 "$S/out")" =~ ^([0-9]+)\ of\ 128\ pinned,\ [0-9]+\ pageable\;\ copies\ verified\ 128\ of\ 128$ ]]
	[ "${BASH_REMATCH[1]}" -gt 0 ]
	[ "${BASH_REMATCH[1]}" -lt 128 ]
	[ "$swap_bytes" = 0 ]
	echo "# major faults: $without without, $major_faults with a budget" >&3
	[ $((major_faults * 100)) -lt $((without * 40)) ]
	# counted once: the hold itself moves no counter
	grep -q ': budget 128.0 MiB, peak .* (locked 0 B, pinned 0 B, gpu ' "$S/err"
}

# T29
@test 'mlock: the OOM killer comes without a budget, and not with one' {
	drop_from_cache "$D/small"
	in_memory 64 no-swap "$T/locker" "$D/small" 2 8
	[ "$status $oom_kills" = '137 1' ]
	drop_from_cache "$D/small"
	in_memory 64 no-swap "$PINCAP" run --limit 32M -- "$T/locker" "$D/small" 2 8
	[ "$status $oom_kills" = '0 0' ]
	grep -qx '8 of 32 pinned, 24 pageable; passes verified 2 of 2' "$S/out"
}

