#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A HIP runtime newer than the system's, unpacked beside it with all that it
# needs (its C library included), from the Debian suite that has it. Nothing is
# installed: apt runs on lists, a cache and a status of its own, all below DIR.
#
# usage: fetch.sh DIR 5.7.1|6.4.3	makes DIR/root-VERSION, once; run.sh uses it
# Exits with 77 and a reason if it cannot be had.
set -euo pipefail

usage() {
	echo "usage: fetch.sh DIR 5.7.1|6.4.3" >&2
	exit 2
}

skip() {
	echo "rocm: $1"
	exit 77
}

[ $# = 2 ] || usage
version=$2
case $version in
5.7.1) suites='trixie' package=libamdhip64-5 ;;
6.4.3) suites='sid forky' package=libamdhip64-6 ;;
*) usage ;;
esac
mkdir -p "$1"
dir=$(cd "$1" && pwd)
root=$dir/root-$version
apt=$dir/apt-$version

exec 9>"$dir/lock"
flock 9
[ ! -d "$root" ] || exit 0
for tool in apt-get apt-cache apt-config dpkg dpkg-deb; do
	command -v $tool >/dev/null || skip "no $tool: not a Debian system"
done

# The first mirror of Debian itself that the system uses, in either format.
mirror() {
	find /etc/apt/sources.list /etc/apt/sources.list.d -type f -exec cat {} + 2>/dev/null |
		sed 's/#.*//' | grep -oE '[a-z+]+://[^ ]+/debian/?( |$)' | tr -d ' ' | sed 1q
}

# The system's way through proxies and its keys are kept, its hooks are not.
write_config() {
	rm -rf "$apt"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/etc/parts"
	: >"$apt/status"
	echo "deb $1 $2 main" >"$apt/etc/sources.list"
	apt-config dump --no-empty --format '%F "%v";%n' Acquire |
		grep -v IndexTargets >"$apt/apt.conf"
	cat >>"$apt/apt.conf" <<-END
		Acquire::Languages "none";
		Acquire::Retries "3";
		Dir::Etc::sourcelist "$apt/etc/sources.list";
		Dir::Etc::sourceparts "$apt/etc/parts";
		Dir::Etc::parts "$apt/etc/parts";
		Dir::Etc::preferences "$apt/etc/preferences";
		Dir::Etc::preferencesparts "$apt/etc/parts";
		Dir::State "$apt";
		Dir::State::lists "$apt/lists";
		Dir::State::status "$apt/status";
		Dir::Cache "$apt/cache";
		APT::Sandbox::User "root";
		APT::Install-Recommends "false";
		APT::Get::Download-Only "true";
	END
	export APT_CONFIG=$apt/apt.conf
}

# True: the lists of suite $1 have the version that is wanted.
has_version() {
	apt-get -qq update >"$apt/log" 2>&1 || return 1
	[[ $(apt-cache policy "$package") == *"Candidate: $version"[-+~]* ]]
}

# To the side first, so that what is there is whole.
unpack() {
	local deb
	rm -rf "$root.new"
	mkdir "$root.new"
	for deb in "$apt"/cache/archives/*.deb; do
		dpkg-deb -x "$deb" "$root.new" || return 1
	done
	mv "$root.new" "$root"
}

url=$(mirror || :)
[ "$url" ] || skip "no Debian mirror in /etc/apt"
found=
for suite in $suites; do
	write_config "$url" "$suite"
	has_version || continue
	found=$suite
	break
done
[ "$found" ] || skip "HIP $version is not to be had from $suites"
apt-get -qq -y install "$package" libc6 >"$apt/log" 2>&1 || {
	tail -n 3 "$apt/log" >&2
	skip "cannot download HIP $version from $found"
}
unpack || skip "cannot unpack HIP $version"
rm -rf "$apt"
echo "rocm: HIP $version of $found in root-$version"
