#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The last results of check-vm as a table, tests by kernels.
#
# usage: table.sh LOGDIR KERNEL...
dir=$1
shift
for k; do
	[ ! -e "$dir/vm-$k.tap" ] || sed "s/^/$k /" "$dir/vm-$k.tap"
done | awk '
function cell(text) { if (!(test in seen)) { seen[test] = 1; tests[++n] = test } got[test, $1] = text }
!($1 in column) { column[$1] = 1; kernels[++m] = $1 }
/# SKIP/ { test = "guest"; cell("skip"); next }
$2 == "ok" { test = $5; sub(/,$/, "", test); if (test == "Linux") { test = "guest"; cell($6) } else cell("ok") }
$2 == "not" && $3 == "ok" { test = $6; sub(/:$/, "", test); if (test == $1) test = "guest"; cell("FAIL") }
END {
	printf "%-20s", ""
	for (i = 1; i <= m; i++) printf " %-8s", kernels[i]
	for (j = 1; j <= n; j++) {
		printf "\n%-20s", tests[j]
		for (i = 1; i <= m; i++) { g = got[tests[j], kernels[i]]; sub(/[-+].*/, "", g); printf " %-8s", g == "" ? "." : g }
	}
	print ""
}'
