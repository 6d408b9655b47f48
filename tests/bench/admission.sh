#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The cost of admission under a budget, two levels deep; and beside it what an
# option of an unknown level costs while pincap is not loaded, as the same ratio.
#
# usage: admission.sh BENCH_ADMISSION
set -eu
bench=$1
"$PINCAP" run --quiet --limit 1G -- "$bench"
