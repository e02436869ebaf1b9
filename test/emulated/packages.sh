#!/usr/bin/env bash
# Fetches Debian packages of one architecture through an apt configuration of
# its own, and unpacks them: nothing is installed, no foreign architecture is
# added to this machine, and no root is needed.
#
#   packages.sh emulator    QEMU's emulators of both CPUs, with their libraries
#   packages.sh mips64le    a kernel, runc, crun and busybox for Loongson-3
#   packages.sh emulator-arm64
#   packages.sh loong64     the same for LoongArch
#   packages.sh arm64       the same for arm64, without a kernel
#   packages.sh mips64le engines    dockerd, containerd and podman besides
#   packages.sh loong64 engines
#   packages.sh arm64 engines
#
# The last line printed is the directory that holds them: root/ (the packages,
# unpacked) and packages (names and versions). Directories are kept below
# ${XDG_CACHE_HOME:-~/.cache}/tare/loongson by the digest of those versions.
# $DEBIAN_MIRROR replaces deb.debian.org. Exit code 3: the index or a package,
# which is named, cannot be had.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tare/loongson
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
	printf 'packages.sh: %s\n' "$*" >&2
	exit 1
}

lacking() {
	printf 'packages.sh: %s\n' "$*" >&2
	exit 3
}

for tool in apt-get apt-cache dpkg dpkg-deb tar xz sha256sum; do
	command -v "$tool" >/dev/null || fail "the program $tool is missing: scripts/setup.sh loongson installs it"
done
[ -r "$keyring" ] || fail "the package debian-archive-keyring is missing: scripts/setup.sh loongson installs it"

# What the engines call, without what only a user's desktop would.
engines=()
if [ "${2:-}" = engines ]; then
	engines=(docker.io containerd podman netavark iptables nftables)
	[ "$1" != loong64 ] || engines+=(docker-cli) # in bookworm a part of docker.io
fi

# The suites: bookworm is the last release with mips64el; loong64 has none yet,
# so that its versions move; trixie's QEMU is the first whose LoongArch machine
# boots such kernels.
case "${1:-}" in
emulator)
	architecture=$(dpkg --print-architecture) suite=trixie kernel=
	wanted=(qemu-system-mips qemu-system-misc qemu-efi-loongarch64)
	;;
emulator-arm64)
	architecture=$(dpkg --print-architecture) suite=trixie kernel=
	wanted=(qemu-system-arm)
	;;
arm64)
	architecture=arm64 suite=bookworm kernel=
	wanted=(runc crun busybox-static "${engines[@]}")
	;;
mips64le)
	architecture=mips64el suite=bookworm kernel=linux-image-loongson-3
	wanted=(runc crun busybox-static "${engines[@]}")
	;;
loong64)
	architecture=loong64 suite=sid kernel=linux-image-loong64
	wanted=(runc crun busybox-static "${engines[@]}")
	;;
*)
	sed -n '2,20s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

apt=$cache/apt/$architecture-$suite
mkdir -p "$apt"/{lists/partial,archives/partial,etc/empty}
: >"$apt/status"
cat >"$apt/etc/sources.list" <<-END
	deb [signed-by=$keyring] $mirror $suite main
END
# An unstable suite's index has a date after which it is no longer believed. A
# mirror that is behind serves an old one, signed all the same, and the test
# wants working packages, not the newest.
cat >"$apt/etc/apt.conf" <<-END
	APT::Architecture "$architecture";
	#clear APT::Architectures;
	APT::Architectures { "$architecture"; };
	APT::Sandbox::User "";
	Acquire::Languages "none";
	Acquire::Check-Valid-Until "false";
	Acquire::Retries "3";
	Dir::State "$apt";
	Dir::State::status "$apt/status";
	Dir::State::lists "$apt/lists";
	Dir::Cache "$apt";
	Dir::Cache::archives "$apt/archives";
	Dir::Etc::sourcelist "$apt/etc/sources.list";
	Dir::Etc::sourceparts "$apt/etc/empty";
	Dir::Etc::preferences "/dev/null";
	Dir::Etc::preferencesparts "$apt/etc/empty";
END
export APT_CONFIG=$apt/etc/apt.conf

# The index is refreshed once a day. Without a network the last one serves.
if [ -z "$(find "$apt/fetched" -mtime -1 2>/dev/null)" ]; then
	if apt-get -qq update >&2; then
		touch "$apt/fetched"
	elif [ ! -e "$apt/fetched" ]; then
		lacking "the index of Debian's $suite for $architecture could not be fetched from $mirror (apt-get said why above)"
	fi
fi

known() { [ -n "$(apt-cache show "$1" 2>/dev/null)" ]; }

for name in "${wanted[@]}" $kernel; do
	known "$name" || lacking "Debian's $suite has no package $name for $architecture"
done

# The kernel's package depends on what makes an initrd: only its own parts are
# taken (it was split in 2026).
parts=()
if [ -n "$kernel" ]; then
	image=$(apt-cache depends --important "$kernel" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
	[ -n "$image" ] || lacking "Debian's $suite: $kernel depends on no kernel for $architecture"
	for name in "$image" "${image/image/binary}" "${image/image/modules}"; do
		known "$name" && parts+=("$name")
	done
fi

version() { apt-cache show --no-all-versions "$1" | sed -n 's/^Version: //p'; }

list=$(
	plan=$(apt-get -s --no-install-recommends install "${wanted[@]}") || lacking "apt cannot install ${wanted[*]} of $suite for $architecture: $plan"
	sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p' <<<"$plan" | sed "s/:$architecture=/=/"
	for name in "${parts[@]}"; do echo "$name=$(version "$name")"; done
)
list=$(sort -u <<<"$list")
dir=$cache/$1${2:+-$2}-$(sha256sum <<<"$list" | cut -c 1-16)

if [ ! -e "$dir/packages" ]; then
	printf 'packages.sh: fetching %s packages of Debian %s for %s\n' "$(wc -l <<<"$list")" "$suite" "$architecture" >&2
	work=$(mktemp -d "$cache/fetch.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	mkdir -p "$work"/{debs,root/usr}
	# shellcheck disable=SC2086 # one argument a line
	(cd "$work/debs" && apt-get -qq download $list >&2) || lacking "a package of Debian's $suite for $architecture could not be fetched (apt-get said which above)"
	# One /usr, as Debian has it since bookworm, whatever the package's age.
	for top in bin sbin lib lib32 lib64; do
		mkdir -p "$work/root/usr/$top"
		ln -s "usr/$top" "$work/root/$top"
	done
	for deb in "$work"/debs/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink --no-same-owner -C "$work/root" --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
	done
	rm -rf "$work/debs"
	echo "$list" >"$work/packages"
	chmod 0755 "$work"
	# Another run may have made it in the meantime: the same packages.
	mv -T "$work" "$dir" 2>/dev/null || [ -e "$dir/packages" ] || fail "$work could not be moved to $dir"
fi
echo "$dir"
