#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The main job: a model loader pins its weights through AMD's HIP runtime, first
# without a budget, then under one. With a GPU it uses the GPU; without, the
# emulated driver of tests/kfd, on which the real libamdhip64 runs its real code.
#
# Environment: PINCAP, T (where the test programs are), LIMIT (512M).
set -euo pipefail
limit=${LIMIT:-512M} tensors=48 mib=16
[ "$(id -u)" = 0 ] || { echo "demo: needs root (sudo make demo)" >&2; exit 1; }

dir=$(mktemp -d)
driver=
finish() {
	[ -z "$driver" ] || { kill "$driver" && wait "$driver" || :; } 2>/dev/null
	rm -rf "$dir"
}
trap finish EXIT
# shellcheck source=tests/kfd/emulate.bash
. "$(dirname "$0")/kfd/emulate.bash"

preload=
if [ -c /dev/kfd ]; then
	echo "GPU: /dev/kfd"
else
	emulate "$dir"
	preload="LD_PRELOAD=\${LD_PRELOAD:+\$LD_PRELOAD:}$shim "
fi
"$T/mkmodel" "$dir/model.safetensors" $mib $tensors >/dev/null
echo "model: $tensors tensors of $mib MiB, safetensors"

# What the driver held at the most for the run that ended last.
driver_peak() {
	[ -z "$driver" ] || sed -n 's/^gone pid .* peak_bytes \([0-9]*\)$/\1/p' "$dir/kfd" | tail -n 1
}

# One run under the limit $1; the counters are pincap's own words.
load() {
	local rc=0 held
	"$PINCAP" run --limit "$1" -- sh -c "${preload}exec '$T/loader' '$dir/model.safetensors'" \
		2>"$dir/err" || rc=$?
	sed 's/^/  /' "$dir/err"
	held=$(driver_peak)
	[ -z "$held" ] || awk -v b="$held" 'BEGIN { printf "  driver: held %.1f MiB at the most\n", b / 1048576 }'
	echo "  exit code $rc"
	return $rc
}

printf '\n== without a budget ==\n'
load infinity
printf '\n== pincap run --limit %s ==\n' "$limit"
load "$limit"
