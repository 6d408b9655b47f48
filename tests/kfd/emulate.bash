# SPDX-License-Identifier: MIT
# The emulated GPU driver for a demonstration on a machine without a GPU.
# shellcheck shell=bash

# emulate DIR: starts it on DIR/kfd; $driver is its pid, $shim the library that
# belongs to it in the workload. Says so, or ends the demonstration.
emulate() {
	touch "$1/kfd"
	"$T/kfd-driver" "$1/kfd" >"$1/ready" &
	driver=$!
	for _ in $(seq 100); do
		grep -q ready "$1/ready" && break
		kill -0 "$driver" 2>/dev/null || break
		sleep 0.05
	done
	grep -q ready "$1/ready" || { echo "demo: the emulated driver did not start" >&2; exit 1; }
	export PINCAP_KFD=$1/kfd KFD_SHIM_DEVICE=$1/kfd
	shim=$T/libkfd-shim.so
	echo "GPU: none here; the driver is emulated, the HIP runtime is the real one:"
	echo "     $(ldd "$T/loader" | sed -n 's/.*=> \(.*libamdhip64[^ ]*\).*/\1/p' | xargs realpath)"
}
