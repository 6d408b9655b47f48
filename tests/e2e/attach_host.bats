#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `pincap attach-host`. Nothing here touches the machine's own /etc: every step
# runs in a mount namespace of its own, with a copy of /etc and with what `make
# install` installs on /usr/local.

bats_require_minimum_version 1.5.0

setup_file() {
	[ "$(id -u)" = 0 ] || return 0
	INSTALLED=$BATS_FILE_TMPDIR/installed
	export INSTALLED
	make -s -C "$BATS_TEST_DIRNAME/../.." O="$(dirname "$PINCAP")" DESTDIR="$INSTALLED" \
		PREFIX=/usr/local install >/dev/null
}

setup() {
	[ -n "$PINCAP" ] || skip 'PINCAP is not set'
	[ "$(id -u)" = 0 ] || skip 'needs root'
	[ "$(uname -m)" = x86_64 ] || skip 'x86-64 only'
	unset LD_PRELOAD PINCAP_NOTIFY PINCAP_LOG PINCAP_DEBUG
	S=$(mktemp -d)
	chmod 755 "$S"
	cp -a /etc "$S/etc"
	rm -f "$S/etc/ld.so.preload"
	cp -a "$INSTALLED/usr/local" "$S/local"
	file=$S/etc/ld.so.preload
	entry='/usr/local/$LIB/pincap/libpincap-preload.so'
	lib=/usr/local/lib/x86_64-linux-gnu/pincap/libpincap-preload.so
	export S entry lib
	MOUNT=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
}

teardown() {
	[ -n "$S" ] || return 0
	[ -z "$CG" ] || rmdir "$MOUNT$CG" || { sleep 0.2 && rmdir "$MOUNT$CG"; }
	[ -z "$loaded" ] || "$PINCAP" unload
	rm -rf "$S"
}

# A bash script in the namespace; stdout to $S/out, stderr to $S/err, code in $status.
inside() {
	status=0
	unshare -m --propagation private bash -c '
		mount --bind "$S/local" /usr/local && mount -t tmpfs -o mode=755 none /run &&
			[ ! -e /run/pincap ] && mount --bind "$S/etc" /etc || exit 99
		PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
		eval "$1"' bash "$1" >"$S/out" 2>"$S/err" || status=$?
	[ "$status" != 99 ]
}

attach_host() {
	inside "pincap attach-host $*"
	grep -vE 'is on another file system than /|^ERROR: ld.so: object .a. from' "$S/err" >"$S/words" || true
}

# Refused in one line, which holds $1, and the file is as before.
refused() {
	[ "$status" = 1 ]
	[ "$(wc -l <"$S/words")" = 1 ]
	grep -q -- "$1" "$S/words"
	[ ! -e "$S/etc/.ld.so.preload.pincap" ]
}

@test 'the machine itself is not touched' {
	before=$(cat /etc/ld.so.preload 2>/dev/null || true)
	attach_host on
	[ "$status" = 0 ]
	[ "$(cat /etc/ld.so.preload 2>/dev/null || true)" = "$before" ]
	[ -s "$file" ]
}

@test 'on, on again, off, off again' {
	attach_host status
	[ "$(head -n 1 "$S/out")" = off ]
	attach_host on
	[ "$status" = 0 ]
	[ "$(cat "$file")" = "$entry" ]
	[ "$(stat -c %u:%g:%a "$file")" = 0:0:644 ]
	inode=$(stat -c %i "$file")
	attach_host on
	[ "$status" = 0 ]
	[ "$(stat -c %i "$file")" = "$inode" ]
	attach_host status
	[ "$status" = 0 ]
	[ "$(head -n 1 "$S/out")" = "on: $entry" ]
	grep -Eq '^processes: [0-9]+ managed, [0-9]+ unmanaged' "$S/out"
	attach_host off
	[ "$status" = 0 ]
	[ ! -e "$file" ]
	attach_host off
	[ "$status" = 0 ]
	[ ! -e "$file" ]
}

@test 'entries, comments, mode and owner of others stay' {
	printf '# by hand\n/lib/x86_64-linux-gnu/libm.so.6' >"$file"
	chown 0:4 "$file"
	chmod 604 "$file"
	cp -p "$file" "$S/before"
	attach_host on
	[ "$status" = 0 ]
	[ "$(tail -n 1 "$file")" = "$entry" ]
	head -n 2 "$file" | cmp - <(cat "$S/before"; echo)
	[ "$(stat -c %u:%g:%a "$file")" = 0:4:604 ]
	attach_host off
	[ "$status" = 0 ]
	cmp "$file" <(cat "$S/before"; echo)
	[ "$(stat -c %u:%g:%a "$file")" = 0:4:604 ]
}

@test 'a file that is not as it should be is left alone' {
	ln -s other "$file"
	attach_host on
	refused 'symbolic link'
	[ -L "$file" ]
	rm "$file"
	mkdir "$file"
	attach_host on
	refused 'not a text file'
	rmdir "$file"
	printf 'a\0b' >"$file"
	attach_host on
	refused 'not a text file'
	: >"$file"
	chmod 600 "$file"
	attach_host on
	refused 'not readable by every user'
	[ ! -s "$file" ]
}

@test 'who is not root' {
	inside 'setpriv --reuid 65534 --clear-groups pincap attach-host on'
	cp "$S/err" "$S/words"
	refused 'needs root'
	inside 'setpriv --reuid 65534 --clear-groups pincap attach-host off'
	cp "$S/err" "$S/words"
	refused 'needs root'
	inside 'setpriv --reuid 65534 --clear-groups pincap attach-host status'
	[ "$status" = 0 ]
}

@test 'usage errors are 2' {
	for args in '' onn 'on off' '--library x on' '--no-such-option on'; do
		attach_host $args
		[ "$status" = 2 ]
	done
	[ ! -e "$file" ]
}

@test 'a library that others could change, or not read, is refused' {
	cd "$S/local"
	real=$S$(echo "$lib" | sed 's|^/usr||')
	chown 65534 "$real"
	attach_host on
	refused "'$lib' belongs to user 65534"
	chown 0 "$real"
	for mode in 664 646; do
		chmod $mode "$real"
		attach_host on
		refused "'$lib' can be written by others"
	done
	chmod 640 "$real"
	attach_host on
	refused "'$lib' cannot be read"
	chmod 644 "$real"
	dir=$(dirname "$real")
	chmod 1777 "$dir"
	attach_host on
	refused "'$(dirname "$lib")' can be written by others"
	chmod 700 "$dir"
	attach_host on
	refused "'$(dirname "$lib")' cannot be entered"
	chmod 755 "$dir"
	chown 65534 "$(dirname "$dir")"
	attach_host on
	refused "belongs to user 65534"
	[ ! -e "$file" ]
}

@test 'a path that the file cannot hold, a name that is not ours' {
	for dir in 'with space' with:colon 'with#comment' 'with$LIB'; do
		mkdir "$S/local/$dir"
		cp "$S/local/lib/x86_64-linux-gnu/pincap/libpincap-preload.so" "$S/local/$dir/"
		attach_host "--library '/usr/local/$dir/libpincap-preload.so' on"
		refused 'must not lie on a path'
	done
	cp "$S/local/lib/x86_64-linux-gnu/pincap/libpincap-preload.so" "$S/local/other.so"
	attach_host --library /usr/local/other.so on
	refused 'is not called'
	attach_host --library /no/such/libpincap-preload.so on
	refused 'No such file'
	[ ! -e "$file" ]
}

# build NAME: C source on stdin, into a directory of its own, with stand-ins.
build() {
	cp -a "$S/local/lib" "$S/local/lib32" "$S/"
	mkdir -p "$S/local/$1"
	cp -a "$S/lib" "$S/lib32" "$S/local/$1/"
	gcc -shared -fPIC -w -Wl,-z,now -o "$S/local/$1/lib/x86_64-linux-gnu/pincap/libpincap-preload.so" -x c -
	bad=/usr/local/$1/lib/x86_64-linux-gnu/pincap/libpincap-preload.so
}

@test 'a library that would break programs is found out before anything changes' {
	build undefined <<<'void no_such_function(void); void f(void) { no_such_function(); }'
	attach_host --library "$bad" on
	refused 'self-test of .*: exit code 127.*nothing was changed'
	build dies <<<'void abort(void); __attribute__((constructor)) void f(void) { abort(); }'
	attach_host --library "$bad" on
	refused 'self-test of .*: signal 6'
	build hangs <<<'int pause(void); __attribute__((constructor)) void f(void) { pause(); }'
	attach_host --library "$bad" on
	refused 'self-test of .*: does not end'
	echo text >"$S/local/hangs/lib/x86_64-linux-gnu/pincap/libpincap-preload.so"
	attach_host --library "$bad" on
	refused 'self-test of .*: ld.so complains'
	[ ! -e "$file" ]
}

@test 'one that breaks programs only when it is on is taken back' {
	code='int access(const char *, int); void _exit(int);
		__attribute__((constructor)) void f(void) { if (!access("/etc/on", 0)) _exit(3); }'
	build later <<<"${code/\/etc\/on//etc/ld.so.preload}"
	attach_host --library "$bad" on
	refused 'self-test with .*: exit code 3; taken back'
	[ ! -e "$file" ]
	printf '# mine\n' >"$file"
	chmod 640 "$file"
	chmod o+r "$file"
	build later <<<"int geteuid(void), getuid(void); void _exit(int);
		__attribute__((constructor)) void f(void) { if (geteuid() != getuid()) _exit(3); }"
	attach_host --library "$bad" on
	refused 'a set-user-ID program: exit code 3; taken back'
	[ "$(cat "$file")" = '# mine' ]
	[ "$(stat -c %a "$file")" = 644 ]
}

@test 'with the library gone, status says damaged and off works' {
	attach_host on
	inside "rm $lib; pincap attach-host status"
	[ "$status" = 1 ]
	grep -q "^damaged: '$lib': No such file" "$S/out"
	inside "pincap attach-host off"
	[ "$status" = 0 ]
	[ ! -e "$file" ]
}

@test 'moved, it is one entry again' {
	printf '/opt/x/libpincap-preload.so\nlibm.so.6 /opt/libpincap-preload.so\n' >"$file"
	attach_host status
	[ "$status" = 1 ]
	attach_host on
	[ "$status" = 0 ]
	[ "$(cat "$file")" = "libm.so.6 
$entry" ]
}

@test '32-bit programs must not print errors: no stand-in, no entry' {
	[ -e /lib/ld-linux.so.2 ] || skip 'no 32-bit ld.so here'
	rm -r "$S/local/lib32/pincap" "$S/local/lib/i386-linux-gnu/pincap"
	attach_host on
	refused '32-bit programs .* no stand-in'
	[ ! -e "$file" ]
}

@test 'the stand-in is a library that does not want an executable stack' {
	stand_in=$S/local/lib32/pincap/libpincap-preload.so
	readelf -h "$stand_in" | grep -q 'Class:.*ELF32'
	readelf -lW "$stand_in" | grep -q 'GNU_STACK.* RW '
	! readelf -dW "$stand_in" | grep -q NEEDED || false
	cmp "$stand_in" "$S/local/lib/i386-linux-gnu/pincap/libpincap-preload.so"
}

@test 'programs that start meanwhile find the old file or the new one' {
	inside '
		(while [ ! -e /run/end ]; do /bin/true || echo failed >&2; done) &
		for i in 1 2 3 4 5; do
			pincap attach-host on 2>/dev/null || echo on failed >&2
			pincap attach-host off 2>/dev/null || echo off failed >&2
		done
		touch /run/end
		wait'
	[ "$status" = 0 ]
	[ ! -s "$S/err" ]
	[ ! -e "$file" ]
}

@test 'killed at any moment, the file is whole, and the next one works' {
	printf '# mine\n' >"$file"
	for ms in 005 020 050 080 110 150 200 300; do
		inside "timeout -s KILL 0.$ms pincap attach-host on 2>/dev/null"
		grep -qx '# mine' "$file"
		[ "$(wc -l <"$file")" = 1 ] || [ "$(tail -n 1 "$file")" = "$entry" ]
	done
	attach_host on
	[ "$status" = 0 ]
	attach_host off
	[ "$(cat "$file")" = '# mine' ]
}

@test 'one at a time' {
	inside 'mkdir /run/pincap; exec 9>/run/pincap/attach-host.lock; flock 9; pincap attach-host on'
	cp "$S/err" "$S/words"
	refused 'another'
}

@test 'upgrade in place: no program sees the library missing' {
	inside '
		pincap attach-host on 2>/dev/null
		(while [ ! -e /run/end ]; do /bin/true; done) &
		for i in 1 2 3; do
			make -s -C '"$BATS_TEST_DIRNAME/../.. O=$(dirname "$PINCAP")"' PREFIX=/usr/local install
		done >/dev/null
		touch /run/end
		wait'
	[ "$status" = 0 ]
	[ ! -s "$S/err" ]
}

# ---- what it is for ----

# A budget of 1 MiB around this shell's children.
budget() {
	[ -e /sys/fs/bpf/pincap ] || loaded=1
	"$PINCAP" load
	OWN=$(sed -n 's/^0:://p' /proc/self/cgroup)
	CG=${OWN%/}/e2e-host-$$
	mkdir "$MOUNT$CG"
	"$PINCAP" set "$CG" limit=1M
	install -d "$S/local/t"
	install "$T/lock" "$T/lock-static" "$S/local/t/"
	install -m 4755 "$T/lock" "$S/local/t/lock-setuid"
	in="echo \$\$ >$MOUNT$CG/cgroup.procs;"
}

@test 'a login shell'\''s programs ask, and keep to the budget' {
	budget
	[ ! -e "$file" ]
	inside "$in /usr/local/t/lock 4194304"
	[ "$(cat "$S/out")" = 'plain: locked' ] # unmanaged
	attach_host on
	for start in 'env -i sh -lc' 'su root -s /bin/sh -c' 'su - root -c' 'bash -c'; do
		inside "$in $start '/usr/local/t/lock 4194304'"
		[ "$(cat "$S/out")" = 'plain: Cannot allocate memory' ]
		inside "$in $start '/usr/local/t/lock 524288'"
		[ "$(cat "$S/out")" = 'plain: locked' ]
	done
	attach_host off
	inside "$in sh -lc '/usr/local/t/lock 4194304'"
	[ "$(cat "$S/out")" = 'plain: locked' ]
}

@test 'another user'\''s, and set-user-ID ones, whatever his environment says' {
	budget
	attach_host on
	nobody='setpriv --reuid 65534 --regid 65534 --clear-groups env PINCAP_LOG=1'
	inside "$in ulimit -l unlimited; $nobody /usr/local/t/lock 4194304"
	[ "$(cat "$S/out")" = 'plain: Cannot allocate memory' ]
	grep -q '^pincap\[[0-9]*\]: mlock: refused, budget, 4194304 bytes$' "$S/err"
	# in secure mode: loaded, asked, and deaf to PINCAP_LOG
	inside "$in $nobody /usr/local/t/lock-setuid 4194304"
	[ "$(cat "$S/out")" = 'secure: Cannot allocate memory' ]
	[ ! -s "$S/err" ]
	inside "$in su nobody -s /bin/sh -c 'ulimit -l; /usr/local/t/lock 8192'"
	[ "$(tail -n 1 "$S/out")" = 'plain: locked' ]
	[ ! -s "$S/err" ]
}

@test 'static programs run as ever, unmanaged' {
	budget
	attach_host on
	inside "$in /usr/local/t/lock-static 4194304"
	[ "$(cat "$S/out")" = 'plain: locked' ]
	[ ! -s "$S/err" ]
}
