#!/usr/bin/env bash
# Installs the Debian package of this machine's architecture in a fresh Debian 12 and 13 and
# removes it: it is as Debian wants it (lintian), its program weighs, and nothing stays. The
# static program of the archive gives a first result in a root file system that holds nothing
# else. The OCI image is loaded and run by podman. make test-package calls it. LACKING=skip
# skips, by name, where Debian's packages cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

lacks() {
	if [ "${LACKING:-}" = skip ]; then
		echo "test-package: SKIPPED: $*"
		exit 0
	fi
	echo "test-package: $*" >&2
	exit 1
}

architecture=$(dpkg --print-architecture)
scripts/setup.sh package || lacks "mmdebstrap cannot be had"
ARCHITECTURES=${architecture/mips64el/mips64le} scripts/dist.sh

# inside runs a command in $root, with this machine's /proc, /sys and /dev in a mount
# namespace that ends with it.
inside() {
	unshare --mount sh -c 'root=$0; mount --bind "$root" "$root"; for dir in proc sys dev; do mount --rbind "/$dir" "$root/$dir"; done
		exec unshare --root="$root" --wd=/ "$@"' "$root" "$@"
}
# files lists what is there, but for what packages' own tools write down.
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log -o -path ./tmp \) -prune -o -print | sort); }
weighs() { # COMMAND...: the command says what native costs
	inside "$@" >"$work/said"
	grep -q native "$work/said"
}

test_package() { # SUITE
	root=$work/$1
	mmdebstrap --quiet --variant=minbase --include=lintian,man-db,bash-completion "$1" "$root" ||
		lacks "a fresh Debian $1 cannot be made: its packages cannot be had"
	cp dist/*_"$architecture".deb "$root/tare.deb"
	files >"$work/before"
	inside lintian --allow-root --fail-on error,warning --suppress-tags bad-distribution-in-changes-file /tare.deb
	inside dpkg -i /tare.deb
	inside tare version
	inside man -P cat tare-weigh >"$work/page" 2>&1
	grep -q 'Weigh a command' "$work/page"
	inside bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader tare || [ $? = 124 ]; complete -p tare'
	weighs tare weigh --on host,native --blocks 2 -- true
	inside dpkg --purge tare
	files >"$work/after"
	diff "$work/before" "$work/after"
	echo "test-package: in Debian $1 installed, used and removed without a trace"
}

export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
unset TARE_STATE XDG_CACHE_HOME
test_package bookworm
test_package trixie

root=$work/bare
mkdir -p "$root"/{bin,tmp,proc,sys,dev}
tar -xzf dist/*.tar.gz -C "$root/bin" --strip-components=1 --wildcards '*/tare'
tar -tzf dist/*.tar.gz >"$work/said"
for file in man/tare-weigh.1.gz completions/_tare LICENSE; do grep -q "^tare_[^/]*/$file$" "$work/said"; done
weighs /bin/tare weigh --on host,native --blocks 2 -- /bin/tare version
# Nothing can install there what set-up finds missing.
code=0
inside /bin/tare setup --yes >"$work/said" 2>&1 || code=$?
[ $code = 4 ]
grep -q 'none of apt-get' "$work/said"
echo "test-package: the static program weighs where there is nothing else"

command -v podman >/dev/null || lacks "podman is not installed, which runs the OCI image"
scripts/test-image.sh dist/*.oci.tar
