#!/usr/bin/env bash
# Makes a kernel of what containers need and the disk of a container host, boots
# them and proves that containers run. Both are kept below the cache directory by
# the digest of what they are made of: the second time there is only the boot.
# make test-trim calls it. LACKING=skip skips, by name, where Debian's packages
# cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# lacks WHAT: skips where that is allowed, and fails elsewhere.
lacks() {
	if [ "${LACKING:-}" = skip ]; then
		echo "test-trim: SKIPPED: $*"
		exit 0
	fi
	echo "test-trim: $*" >&2
	exit 1
}

[ "$(uname -m)" = x86_64 ] || lacks "container hosts are made for x86-64 alone, and this is $(uname -m)"
scripts/setup.sh trim || lacks "the Debian packages of scripts/setup.sh trim cannot be had"
code=0
bin/tare --state "$work/state" trim prove vm/trimmed --quick 2>&1 | tee "$work/said" || code=$?
case $code in
4) lack=$(grep -o "Debian's packages cannot be had: .*" "$work/said") && lacks "$lack" ;;
esac
exit "$code"
