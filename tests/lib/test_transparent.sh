#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Where nothing is loaded, the preload library must not be noticed: same output,
# same exit code. And it must export and need what it says, no more.
#
# usage: test_transparent.sh BUILD-DIR SOURCE-DIR

set -u
O=$(cd "${1:-build}" && pwd) || exit 1
src=$(cd "${2:-.}" && pwd) || exit 1
lib=$O/libpincap-preload.so
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0
cases=0
unset PINCAP_LOG PINCAP_NOTIFY

check() {
	name=$1
	shift
	cases=$((cases + 1))
	if "$@"; then
		echo "ok $cases - $name"
	else
		failed=$((failed + 1))
		echo "not ok $cases - $name"
	fi
}

# The same command without and with the library.
same() {
	name=$1
	shift
	if ! command -v "$1" >/dev/null; then
		cases=$((cases + 1))
		echo "ok $cases - $name # SKIP no $1"
		return
	fi
	(cd "$tmp" && "$@" >out.a 2>err.a; echo $? >rc.a)
	(cd "$tmp" && LD_PRELOAD=$lib "$@" >out.b 2>err.b; echo $? >rc.b)
	check "$name: output" cmp -s "$tmp/out.a" "$tmp/out.b"
	check "$name: messages" cmp -s "$tmp/err.a" "$tmp/err.b"
	check "$name: exit code" cmp -s "$tmp/rc.a" "$tmp/rc.b"
}

exports() {
	nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
}

cat >"$tmp/lock.py" <<'PY'
import ctypes, mmap, os, threading
libc = ctypes.CDLL(None, use_errno=True)
m = mmap.mmap(-1, 1 << 20)
a = ctypes.addressof(ctypes.c_char.from_buffer(m))
libc.mlock.argtypes = libc.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def vmlck():
    return [l for l in open("/proc/self/status") if l.startswith("VmLck")][0].strip()
for size in (0, 1, 4096, 1 << 20, 1 << 47, (1 << 64) - 1):
    ctypes.set_errno(0)
    print(size, libc.mlock(a, size), ctypes.get_errno(), vmlck())
    print(size, libc.munlock(a, size), ctypes.get_errno(), vmlck())
print(libc.mlock(0x1000, 4096), ctypes.get_errno())
print(libc.mlockall(0x40), ctypes.get_errno())
fd = os.open("/dev/null", os.O_RDONLY)
print("lowest descriptor", fd, sorted(os.listdir("/proc/self/fd"))[:2])
if os.fork() == 0:
    libc.mlock(a, 4096)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))
t = [threading.Thread(target=lambda: libc.mlock(a, 4096)) for _ in range(8)]
[x.start() for x in t]; [x.join() for x in t]
print(vmlck())
PY
printf 'int main(void) { return 3; }\n' >"$tmp/a.c"
printf 'int main(void) { return }\n' >"$tmp/bad.c"

same "bash" bash -c 'echo hello; for i in 1 2 3; do echo $i | cat; done; exec 3<&0; ls /proc/self/fd; exit 5'
same "bash: command not found" bash -c 'no-such-command-here'
same "bash: death by signal" bash -c 'kill -SEGV $$'
same "python3" python3 lock.py
same "gcc -c" sh -c 'gcc -c a.c -o a.o && cat a.o'
same "gcc -c, error" gcc -c bad.c
same "env" sh -c 'env -u LD_PRELOAD -u _ sort -c a.c; ulimit -a'

# PINCAP_LOG speaks, one line per decision, on stderr only.
if command -v python3 >/dev/null; then
	LD_PRELOAD=$lib PINCAP_LOG=1 python3 -c '
import ctypes
b = ctypes.create_string_buffer(8192)
libc = ctypes.CDLL(None)
libc.mlock(b, ctypes.c_size_t(4096)); libc.mlock(b, ctypes.c_size_t(0))' >"$tmp/out" 2>"$tmp/err"
	check "log: stdout" test ! -s "$tmp/out"
	check "log: two lines" test "$(grep -c '^pincap\[[0-9]*\]: mlock: [a-z, ]*, [0-9]* bytes$' "$tmp/err")" = 2
	check "log: nothing else" test "$(wc -l <"$tmp/err")" = 2
fi

# Exports: hooks.def and pincap.h, nothing else.
sed -n 's/^\(PIN\|ALLOC\|FREE\)(\([a-zA-Z0-9_]*\),.*/\2/p' "$src/userspace/lib/hooks.def" >"$tmp/hooks"
sed -n 's/^[a-z].*[ *]\(pincap_[a-z_]*\)(.*;$/\1/p' "$src/userspace/lib/pincap.h" | sort >"$tmp/api"
sort "$tmp/hooks" "$tmp/api" >"$tmp/both"
check "hooks.def was read" test "$(wc -l <"$tmp/hooks")" -ge 14
check "pincap.h was read" test "$(wc -l <"$tmp/api")" -ge 8
exports "$lib" >"$tmp/nm"
check "exports of the preload library" diff "$tmp/both" "$tmp/nm"
exports "$O/libpincap.so.1" >"$tmp/nm"
check "exports of libpincap" diff "$tmp/api" "$tmp/nm"
for f in "$lib" "$O/libpincap.so.1"; do
	needed=$(readelf -d "$f" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
	check "$f needs libc only, not $needed" test "$needed" = "libc.so.6 "
	check "$f has no constructor of its own" test \
		"$(readelf -S -W "$f" | awk '/\.init_array/ { print $6 + 0 }')" -le 8
done

# The header alone, in C and C++, before and after the kernel interface.
for lang in c c++; do
	for order in 'pincap.h bpf/intf.h' 'bpf/intf.h pincap.h' 'pincap.h'; do
		for h in $order; do
			[ "$h" = pincap.h ] && h=userspace/lib/pincap.h
			printf '#include "%s"\n' "$h"
		done >"$tmp/h.$lang"
		printf 'int main(void) { struct pincap_info i = { sizeof(i) }; return pincap_status(&i); }\n' >>"$tmp/h.$lang"
		check "$lang: $order" gcc -x $lang -Wall -Wextra -Wno-missing-field-initializers \
			-Werror -I"$src" -fsyntax-only "$tmp/h.$lang"
	done
done

echo "1..$cases"
[ "$failed" = 0 ]
