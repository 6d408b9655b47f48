#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The releases of AMD's HIP runtime, in classic and in SVM mode: at every pause the
# kernel's gpu figure is what the driver holds, whatever the runtime makes of a
# call. The newer ones come from Debian's newer suites, unpacked beside the system;
# a release that cannot be had is a skip with its reason.

load common

setup_file() {
	file_begin
	export ROCM=${ROCM:-${T%/tests}/rocm}
	mkdir -p "$ROCM"
}

teardown_file() {
	file_end
}

setup() {
	test_begin
	start_driver
	"$PINCAP" load # the counters are looked at when the run is over, too
}

teardown() {
	test_end
}

# begin VERSION LIBRARY [NAME=VALUE...]: the words of tests/rocm/pins.c, on a release.
begin() {
	local version=$1 library=$2
	shift 2
	if [ "$version" = 5.2.3 ]; then
		talk a --no-preload -- env "$@" "${SHIMMED[@]}" "$T/pins" "$library"
	else
		"$root/tests/rocm/fetch.sh" "$ROCM" "$version" >"$S/fetch" 2>&1 ||
			skip "HIP $version: $(tail -n 1 "$S/fetch")"
		talk a --no-preload -- env "$@" "$root/tests/rocm/run.sh" "$ROCM" "$version" \
			--preload "$SHIM" "$T/pins" "$library"
	fi
	hear a
	[ "$line" = 'ok ready 1' ]
}

# word TEXT ANSWER: and then both sides agree. The gpu figure: $stat_gpu.
word() {
	say_and_hear a "$1"
	[[ "$line" = $2 ]] || { echo "$1: $line"; cat "$S/a.err"; return 1; }
	agree "$cg"
}

# rose BYTES: since the last look at `was`.
rose() {
	local by=$((stat_gpu - was))
	was=$stat_gpu
	[ "$by" -eq "$1" ] || { echo "gpu rose by $by, not $1"; return 1; }
}

# What every mode has in common. $1: what unregister gives back of 16 MiB, $2: what
# the munmap that follows does.
play() {
	word "copy $((4 * MIB))" 'ok copy *' # queues, and what else comes with the first
	was=$stat_gpu
	word "register 1 $((64 * MIB))" 'ok register 1'
	rose $((64 * MIB))
	word 'register-again 1' 'ok *'
	rose 0
	word 'unregister 1' '*'
	word 'munmap 1' '*'
	was=$stat_gpu
	word "register 2 $((16 * MIB))" 'ok register 2'
	rose $((16 * MIB))
	word 'unregister 2' 'ok unregister 2'
	rose "-$1"
	word 'munmap 2' 'ok munmap 2'
	rose "-$2"
	word "hostmalloc $((32 * MIB))" 'ok *'
	rose $((32 * MIB))
	word hostfree 'ok *'
	rose -$((32 * MIB))
	word "managed $((32 * MIB))" 'ok *'
	rose $((32 * MIB))
	word free 'ok *'
	rose -$((32 * MIB))
	word "copy $((256 * MIB))" 'ok copy *'
	rose 0
	word "register 3 $((8 * MIB))" 'ok register 3'
}

leave_without_freeing() {
	answer a exit
	hang_up a
	[ "$status" = 0 ]
	nothing_left
}

die() {
	kill -9 $(cat "$MOUNT$cg/cgroup.procs")
	hang_up a
	nothing_left
}

@test 'HIP 5.2.3, classic' {
	begin 5.2.3 libamdhip64.so.5
	play $((16 * MIB)) 0
	leave_without_freeing
}

@test 'HIP 5.7.1, classic' {
	begin 5.7.1 libamdhip64.so.5
	play $((16 * MIB)) 0
	leave_without_freeing
}

@test 'HIP 5.7.1, SVM' {
	begin 5.7.1 libamdhip64.so.5 KFD_SHIM_SVM=1
	play 0 $((16 * MIB))
	die
}

@test 'HIP 6.4.3, classic' {
	begin 6.4.3 libamdhip64.so.6
	play $((16 * MIB)) 0
	die
}

@test 'HIP 6.4.3, SVM' {
	begin 6.4.3 libamdhip64.so.6 KFD_SHIM_SVM=1
	play 0 $((16 * MIB))
	leave_without_freeing
}

@test "a render node's buffers" {
	stop_driver
	export PINCAP_DRM=$S/render
	: >"$S/render"
	start_driver --render "$S/render"
	talk a --no-preload -- "$T/render_client" "$S/render"
	hear a
	say_and_hear a "create $((8 * MIB)) gtt"
	first=${line#created }
	agree "$cg"
	[ "$stat_gpu" = $((8 * MIB)) ]
	say_and_hear a "create $((8 * MIB)) vram"
	agree "$cg"
	[ "$stat_gpu" = $((8 * MIB)) ]
	say_and_hear a "userptr $((4 * MIB))"
	agree "$cg"
	[ "$stat_gpu" = $((12 * MIB)) ]
	say_and_hear a "close $first"
	agree "$cg"
	[ "$stat_gpu" = $((4 * MIB)) ]
	say_and_hear a 'close 4711'
	[[ "$line" = *failed* ]]
	agree "$cg"
	[ "$stat_gpu" = $((4 * MIB)) ]
	answer a exit
	hang_up a
	nothing_left
}
