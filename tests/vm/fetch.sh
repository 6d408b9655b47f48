#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Have a kernel of the list `kernels` in the cache and print its directory:
#   vmlinux   the ELF kernel
#   modules/  one directory, named as `uname -r` of it
# What is there is not asked for again; remove the directory to have a newer one.
# Exit code 77, and the reason, when it cannot be had.
#
# The host's apt is left alone: lists, cache and sources are our own, and only how to
# reach the archive (proxies, timeouts) is taken from its configuration.
#
# usage: fetch.sh NAME
# Environment: PINCAP_VM_CACHE (${XDG_CACHE_HOME:-/var/cache}/pincap/vm),
# PINCAP_VM_ARCHIVE (http://deb.debian.org).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
name=$1
cache=${PINCAP_VM_CACHE:-${XDG_CACHE_HOME:-/var/cache}/pincap/vm}
archive=${PINCAP_VM_ARCHIVE:-http://deb.debian.org}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
dir=$cache/$name

cannot() {
	echo "kernel $name cannot be had: $*" >&2
	exit 77
}

set -f # the pattern is for us
set -- $(awk -v n="$name" '$1 == n { print $2, $3 }' "$here/kernels")
[ $# = 2 ] || { echo "no kernel '$name'; there are: $(awk '!/^#/ { print $1 }' "$here/kernels" | tr '\n' ' ')" >&2; exit 2; }
suite=$1 pattern=$2
set +f

if [ -e "$dir/vmlinux" ]; then
	echo "$dir"
	exit
fi
mkdir -p "$cache" 2>/dev/null || cannot "no writable cache '$cache' (PINCAP_VM_CACHE)"
exec 9>"$cache/lock"
flock -w 900 9 || cannot "somebody else has been fetching for 15 minutes"
if [ -e "$dir/vmlinux" ]; then
	echo "$dir"
	exit
fi

tmp=$(mktemp -d "$cache/new-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/state/lists/partial" "$tmp/cache/archives/partial" "$tmp/deb" "$tmp/root" "$tmp/kernel"
: >"$tmp/status"
case $suite in
*-security) repo=$archive/debian-security ;;
*) repo=$archive/debian ;;
esac
echo "deb [arch=amd64 signed-by=$keys] $repo $suite main" >"$tmp/sources.list"
{
	apt-config dump | grep -iE '^Acquire::(https?|Check|Retries|ForceIPv)' || :
	cat <<-END
	Dir::Etc::Main "/dev/null";
	Dir::Etc::Parts "/dev/null";
	Dir::Etc::SourceList "$tmp/sources.list";
	Dir::Etc::SourceParts "/dev/null";
	Dir::Etc::Preferences "/dev/null";
	Dir::Etc::PreferencesParts "/dev/null";
	Dir::State "$tmp/state";
	Dir::State::Status "$tmp/status";
	Dir::Cache "$tmp/cache";
	Dir::Log "$tmp";
	APT::Architecture "amd64";
	APT::Architectures { "amd64"; };
	APT::Sandbox::User "$(id -un)";
	Acquire::Languages "none";
	Acquire::http::Timeout "20";
	END
} >"$tmp/apt.conf"
export APT_CONFIG=$tmp/apt.conf

quietly() { # the last line that says why not
	timeout "$1" "$2" "$3" "$4" $5 >"$tmp/log" 2>&1 || cannot "$(grep -E '^[EW]:' "$tmp/log" | tail -n 1)"
}
quietly 120 apt-get -q=2 --error-on=any update

# Of the versions there are, the newest whose package can still be asked about.
image=$(apt-cache pkgnames linux-image- | while read -r p; do
	case $p in
	*-dbg | *-unsigned) ;;
	$pattern) echo "$p" ;;
	esac
done | sort -V | tail -n 1)
[ "$image" ] || cannot "no $pattern in $suite"

# Since Linux 7 the image is a metapackage of linux-binary-X and linux-modules-X.
parts() {
	apt-cache show "$1" | sed -n 's/^Depends: //p' | tr ',|' '\n\n' |
		sed -nE 's/^ *(linux-(binary|modules)-[0-9][^ ]*).*/\1/p' | sort -u
}
packages=$image
for p in $(parts "$image"); do
	packages="$packages $p"
done
(cd "$tmp/deb" && quietly 600 apt-get -q=2 download "$packages")

for d in "$tmp"/deb/*.deb; do
	dpkg-deb -x "$d" "$tmp/root"
done
for z in "$tmp"/root/boot/vmlinuz-* "$tmp"/root/lib/modules/*/vmlinuz "$tmp"/root/usr/lib/modules/*/vmlinuz; do
	[ ! -e "$z" ] || "$here/extract.sh" "$z" "$tmp/kernel/vmlinux"
done
[ -e "$tmp/kernel/vmlinux" ] || cannot "no kernel in $packages"
mkdir "$tmp/kernel/modules"
for m in "$tmp"/root/lib/modules/* "$tmp"/root/usr/lib/modules/*; do
	[ ! -d "$m" ] || cp -a "$m" "$tmp/kernel/modules/"
done
rm -f "$tmp"/kernel/modules/*/vmlinuz
rm -rf "$dir"
mv "$tmp/kernel" "$dir"
echo "$dir"
