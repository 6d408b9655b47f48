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
	export PRELOAD=${T%/tests}/libpincap-preload.so
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

# The modes of the releases: name, version, library, environment.
mode() {
	case $1 in
	5.2.3-classic) release=5.2.3 library=libamdhip64.so.5 svm= ;;
	5.7.1-classic) release=5.7.1 library=libamdhip64.so.5 svm= ;;
	5.7.1-svm) release=5.7.1 library=libamdhip64.so.5 svm=1 ;;
	6.4.3-classic) release=6.4.3 library=libamdhip64.so.6 svm= ;;
	6.4.3-svm) release=6.4.3 library=libamdhip64.so.6 svm=1 ;;
	esac
}

# begin MODE [attached]: the words of tests/rocm/pins.c, with pincap's library or without.
begin() {
	local with=(env) attach=--no-preload preload=$SHIM
	mode "$1"
	[ -z "$svm" ] || with=(env KFD_SHIM_SVM=1)
	if [ "$2" = attached ]; then
		attach=-q preload=$PRELOAD:$SHIM
	fi
	if [ "$release" = 5.2.3 ]; then
		talk a "$attach" -- "${with[@]}" "${SHIMMED[@]}" "$T/pins" "$library"
	else
		"$root/tests/rocm/fetch.sh" "$ROCM" "$release" >"$S/fetch" 2>&1 ||
			skip "HIP $release: $(tail -n 1 "$S/fetch")"
		talk a "$attach" -- "${with[@]}" "$root/tests/rocm/run.sh" "$ROCM" "$release" \
			--preload "$preload" "$T/pins" "$library"
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

# What unregister gives back of BYTES, and what the munmap after it.
by_unregister() { [ -n "$svm" ] && echo 0 || echo "-$1"; }
by_munmap() { [ -n "$svm" ] && echo "-$1" || echo 0; }

# A pointer that is registered twice is held once, and until it is unmapped, or in
# classic mode until the process ends: the runtime forgets it at the first unregister.
register_twice() {
	word "register 1 $((64 * MIB))" 'ok register 1'
	rose $((64 * MIB))
	word 'register-again 1' 'ok register-again 1'
	rose 0
	word 'unregister 1' 'ok unregister 1'
	rose 0
	word 'unregister 1' 'failed unregister 713'
	rose 0
	word 'munmap 1' 'ok munmap 1'
	rose "$(by_munmap $((64 * MIB)))"
}

# Pageable memory is pinned for the time of its copy: the peaks say how much.
copy_pageable() {
	word "copy $((256 * MIB))" 'ok copy *'
	rose 0
	echo "# $release ${svm:+svm}: base $((was / 1024)) KiB, peak $((stat_peak_gpu / 1024)) KiB" >&3
	[ "$stat_peak_gpu" = "$driver_peak" ]
	[ "$map_peak_gpu" = "$driver_peak" ]
	[ "$driver_peak" -ge $((was + 16 * MIB)) ]
}

play() {
	word "copy $((4 * MIB))" 'ok copy *' # queues, and what else comes with the first
	was=$stat_gpu
	copy_pageable
	word "register 2 $((16 * MIB))" 'ok register 2'
	rose $((16 * MIB))
	word 'unregister 2' 'ok unregister 2'
	rose "$(by_unregister $((16 * MIB)))"
	word 'munmap 2' 'ok munmap 2'
	rose "$(by_munmap $((16 * MIB)))"
	word "hostmalloc $((32 * MIB))" 'ok *'
	rose $((32 * MIB))
	word hostfree 'ok *'
	rose -$((32 * MIB))
	word "managed $((32 * MIB))" 'ok *'
	rose $((32 * MIB))
	word free 'ok *'
	rose -$((32 * MIB))
	register_twice
}

# Holds one of each kind when it ends.
hold() {
	word "register 3 $((8 * MIB))" 'ok register 3'
	word "hostmalloc $((4 * MIB))" 'ok *'
	word "managed $((2 * MIB))" 'ok *'
	[ "$stat_gpu" -ge $((14 * MIB)) ]
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

whole_life() {
	begin "$1" "$2"
	play
	hold
	if [ "$2" = attached ]; then
		[ "$stat_charges" -ge 6 ] # it was asked, and nothing is held
	else
		[ "$stat_charges" = 0 ]
	fi
	leave_without_freeing
}

short_life() {
	begin "$1" "$2"
	hold
	die
}

@test 'HIP 5.2.3, classic' { whole_life 5.2.3-classic; }
@test 'HIP 5.7.1, classic' { whole_life 5.7.1-classic; }
@test 'HIP 5.7.1, SVM' { whole_life 5.7.1-svm; }
@test 'HIP 6.4.3, classic' { whole_life 6.4.3-classic; }
@test 'HIP 6.4.3, SVM' { whole_life 6.4.3-svm; }

@test 'HIP 5.2.3, classic, killed' { short_life 5.2.3-classic; }
@test 'HIP 5.7.1, classic, killed' { short_life 5.7.1-classic; }
@test 'HIP 5.7.1, SVM, killed' { short_life 5.7.1-svm; }
@test 'HIP 6.4.3, classic, killed' { short_life 6.4.3-classic; }
@test 'HIP 6.4.3, SVM, killed' { short_life 6.4.3-svm; }

@test 'HIP 5.2.3, classic, library attached' { whole_life 5.2.3-classic attached; }
@test 'HIP 5.7.1, classic, library attached' { whole_life 5.7.1-classic attached; }
@test 'HIP 5.7.1, SVM, library attached' { whole_life 5.7.1-svm attached; }
@test 'HIP 6.4.3, classic, library attached' { whole_life 6.4.3-classic attached; }
@test 'HIP 6.4.3, SVM, library attached' { whole_life 6.4.3-svm attached; }

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
