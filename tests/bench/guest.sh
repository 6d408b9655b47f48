#!/bin/sh
# SPDX-License-Identifier: MIT
# In the guest: the operations of bench_accounting without pincap and with it, in turn.
# Prints "off NAME NS" and "on NAME NS" lines, as accounting.py reads them.
set -eu
measure() { build/tests/bench_accounting | sed "s/^/$1	/"; }

i=0
while [ $i -lt "${PINCAP_TEST_ROUNDS:-6}" ]; do
	[ $((i % 2)) = 1 ] || measure off
	pincap load
	measure on
	pincap stat --json / | sed -n 's/^  "trigger": "\(.*\)",$/trigger	\1	0/p'
	pincap unload
	[ $((i % 2)) = 0 ] || measure off
	i=$((i + 1))
done
