#!/usr/bin/env bash
# Makes a kernel of what containers need and the disk of a container host, boots
# them and proves that containers run; then makes an image to take away, boots it
# alone, and uses its Docker. Kernels and Debian's files are kept below the cache
# directory by the digest of what they are made of: the second time there are only
# the boots.
# make test-trim calls it. LACKING=skip skips, by name, where Debian's packages
# cannot be had, and leaves the kernel that tare trim learn builds to make test-long:
# on a fresh machine each kernel takes many minutes.
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
# prove proves, and leaves the exit code and what was said.
prove() {
	code=0
	bin/tare --state "$work/state" trim prove vm/trimmed --quick 2>&1 | tee "$work/said" || code=$?
}

prove
if [ "$code" = 3 ]; then
	# As with the other tests: engines and guests on a shared machine fail by
	# themselves at times, and what fails twice is broken.
	echo "test-trim: the kernel did not pass at once, and is put to the proof once more" >&2
	prove
fi
if [ "$code" = 4 ] && lack=$(grep -o "Debian's packages cannot be had: .*" "$work/said"); then
	lacks "$lack"
fi
[ "$code" = 0 ] || exit "$code"
tests=. more=()
[ "${LACKING:-}" != skip ] || tests='^TestImage$' more=(-skip-lacking)
scripts/gotest.sh ./test/trimimage --format standard-verbose -- -count=1 -timeout 55m -run "$tests" -args -tare "$PWD/bin/tare" "${more[@]}"
