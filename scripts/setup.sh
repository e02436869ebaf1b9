#!/usr/bin/env bash
# Installs what the machine lacks, and nothing that it has. Safe to run twice.
#
#   scripts/setup.sh build    the C cross compiler (the ziglang wheel)
#   scripts/setup.sh weigh    ... and what the survey weighs
#   scripts/setup.sh test     ... and what the tests use
#   scripts/setup.sh trim     what container-vm-trim makes its disk and kernel with
#   scripts/setup.sh loongson what make test-loongson fetches and unpacks packages with
#   scripts/setup.sh bench    ... and containerd-stress, which make bench compares with
#   scripts/setup.sh tools    runsc (and youki, where cargo is installed), from source
#
# Debian packages are installed by name; everything else goes below
# ${XDG_CACHE_HOME:-~/.cache}/tare, by pinned version.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/tare
zig_version=0.17.0
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
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# The C cross compiler: one wheel for all five architectures.
zig() {
	[ "$("$cache/zig-$zig_version/ziglang/zig" version 2>/dev/null)" = "$zig_version" ] && return 0
	python3 -m pip --version >/dev/null 2>&1 || packages python3-pip
	say "installing the ziglang $zig_version wheel"
	rm -rf "$cache/zig-$zig_version"
	python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-compile --target "$cache/zig-$zig_version" "ziglang==$zig_version" || {
		say "is there a ziglang $zig_version wheel for $(uname -m)? There are for x86_64 and aarch64: make dist builds tare for this machine there"
		return 1
	}
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

node() {
	command -v npm >/dev/null 2>&1 || packages nodejs npm
}

# gVisor is built from its Go module: Debian's package is from 2022 and cannot
# use systrap. Its version moves only here.
runsc() {
	[ -x "$cache/tools/runsc" ] && [ "$(cat "$cache/tools/runsc.version" 2>/dev/null)" = "$runsc_version" ] && return 0
	say "building runsc $runsc_version (a few minutes)"
	local work
	work=$(mktemp -d)
	(
		cd "$work"
		go mod init tools >/dev/null 2>&1
		go get "gvisor.dev/gvisor/runsc@$runsc_version" >/dev/null 2>&1
		CGO_ENABLED=0 go build -ldflags "-X gvisor.dev/gvisor/runsc/version.version=$runsc_version" -o runsc gvisor.dev/gvisor/runsc
	)
	mkdir -p "$cache/tools"
	mv "$work/runsc" "$cache/tools/runsc"
	echo "$runsc_version" >"$cache/tools/runsc.version"
	rm -rf "$work"
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
	[ -x "$cache/tools/containerd-stress" ] && return 0
	say "building containerd-stress $stress_version"
	local work
	work=$(mktemp -d)
	(
		cd "$work"
		go mod init tools >/dev/null 2>&1
		go get "github.com/containerd/containerd/cmd/containerd-stress@$stress_version" >/dev/null 2>&1
		CGO_ENABLED=0 go build -o containerd-stress github.com/containerd/containerd/cmd/containerd-stress
	)
	mkdir -p "$cache/tools"
	mv "$work/containerd-stress" "$cache/tools/containerd-stress"
	rm -rf "$work"
}

lint() {
	[ -x "$cache/tools/golangci-lint-$lint_version" ] && return 0
	say "building golangci-lint $lint_version"
	GOBIN="$cache/tools" go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$lint_version"
	mv "$cache/tools/golangci-lint" "$cache/tools/golangci-lint-$lint_version"
}

case "${1:-}" in
build) zig && node ;;
weigh) packages runc crun docker.io containerd podman containernetworking-plugins busybox-static sysbench fio iperf3 e2fsprogs "$(emulator)" && zig && node && runsc ;;
trim) packages mmdebstrap e2fsprogs "$(emulator)" gcc make flex bison bc perl libc6-dev libelf-dev lz4 && zig && node ;;
# The emulators and the guests' packages come from test/loongson/packages.sh,
# which installs nothing on this machine.
loongson) packages apt dpkg tar xz-utils coreutils debian-archive-keyring && zig && node ;;
bench) "$0" weigh && stress ;;
tools) runsc && youki ;;
test) packages runc crun docker.io containerd podman containernetworking-plugins busybox-static sysbench fio iperf3 e2fsprogs "$(emulator)" chromium gcc make flex bison bc perl libelf-dev lz4 clang-14 llvm-14 && zig && node && runsc && youki && lint ;;
*)
	sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
