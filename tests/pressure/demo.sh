#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Too much pinned in a small memory cgroup, with swap: first without pincap, then
# under a budget, side by side. Once by mlock, and once through AMD's HIP runtime, on
# the emulated driver, which holds the pages as the real one would.
#
# Environment: PINCAP, T (where the test programs are), LIMIT (128M).
set -euo pipefail
limit=${LIMIT:-128M} memory_mib=264
[ "$(id -u)" = 0 ] || { echo "demo: needs root (sudo make demo-pressure)" >&2; exit 1; }
tests=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tests/pressure/memory.bash
. "$tests/pressure/memory.bash"
# shellcheck source=tests/kfd/emulate.bash
. "$tests/kfd/emulate.bash"

dir=$(mktemp -d -p /var/tmp) # the weights have to be on a disk
driver='' loaded=''
finish() {
	[ -z "$driver" ] || { kill "$driver" && wait "$driver" || :; } 2>/dev/null
	swap_end
	[ -z "$loaded" ] || "$PINCAP" unload
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

memory_find || { echo "demo: no memory controller to make a cgroup with" >&2; exit 1; }
swap_begin "pressure-$$" "$dir"
[ "${swap%% *}" = ready ] || { echo "demo: ${swap#skip }" >&2; exit 1; }

# Not inside: the maps would be charged to the small cgroup.
[ -e /sys/fs/bpf/pincap ] || { "$PINCAP" load; loaded=1; }

# one COLUMN COMMAND...: runs it, and remembers the figures by column.
declare -A figure=()
one() {
	local column=$1 line
	shift
	memory_make "pressure-$$" $((memory_mib << 20))
	memory_run "$@" >"$dir/out" 2>"$dir/err"
	line=$(grep -E '^[0-9]+ of [0-9]+ pinned, ' "$dir/out") || line='? pinned, ? pageable; ? verified ?'
	figure[swap$column]="$((swap_bytes >> 20)) MiB"
	figure[end$column]=$(awk '/ in swap at the end$/ { printf "%d MiB", $1 / 1024 }' "$dir/out")
	figure[faults$column]=$major_faults
	figure[pinned$column]=${line%% pinned,*}
	line=${line#* pinned, }
	figure[pageable$column]=${line%% pageable*}
	figure[verified$column]=${line##*verified }
	figure[exit$column]=$status
	figure[seconds$column]="$seconds s"
	memory_remove "$GROUP"
}

row() {
	printf '  %-32s %14s %18s\n' "$1" "${figure[${2}1]}" "${figure[${2}2]}"
}

table() {
	printf '  %-32s %14s %18s\n' '' 'without pincap' "--limit $limit"
	row 'swap at the peak' swap
	[ -z "${figure[end1]}${figure[end2]}" ] || row 'swap at the end' end
	row 'major faults' faults
	row "$1 pinned" pinned
	row "$1 left pageable" pageable
	row "$2 verified" verified
	row 'exit code' exit
	row 'wall time (for information)' seconds
}

budget() {
	one 2 "$PINCAP" run --limit "$limit" -- "$@"
}

echo "a memory cgroup of $memory_mib MiB, swap on ${swap#ready }"
printf '\n== mlock: 192 MiB of weights, 96 MiB of other work, 10 passes over both ==\n'
"$T/locker" --make "$dir/weights" 192
drop_from_cache "$dir/weights"
one 1 "$T/locker" "$dir/weights" 10 96
drop_from_cache "$dir/weights"
budget "$T/locker" "$dir/weights" 10 96
table '4 MiB pieces' passes

printf '\n== HIP: 128 tensors of 1 MiB, 64 MiB of other work, 5 passes over both ==\n'
preload=
if [ -c /dev/kfd ]; then
	echo "GPU: /dev/kfd"
else
	emulate "$dir"
	export KFD_SHIM_HOLD=1
	preload="LD_PRELOAD=\${LD_PRELOAD:+\$LD_PRELOAD:}$shim "
fi
"$T/mkmodel" "$dir/model" 1 128
hip=(sh -c "${preload}exec '$T/loader' '$dir/model' --loop 5 --work 64")
one 1 "${hip[@]}"
budget "${hip[@]}"
table tensors copies
