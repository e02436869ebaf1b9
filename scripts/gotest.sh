#!/usr/bin/env bash
# Runs Go tests, and a handful of failures once more: real kernels, guests and
# daemons on a shared machine fail by themselves at times. Each such test is named
# at the end, for what needs two runs may be rotting.
#
#   scripts/gotest.sh PACKAGES [FLAG OF GOTESTSUM...] -- [FLAG OF GO TEST...]
set -uo pipefail
packages=$1
shift
again=$(mktemp)
trap 'rm -f "$again"' EXIT
failed=0
go run gotest.tools/gotestsum@v1.13.0 --packages "$packages" \
	--rerun-fails=1 --rerun-fails-max-failures=12 --rerun-fails-run-root-test --rerun-fails-report "$again" "$@" || failed=$?
if [ -s "$again" ]; then
	printf 'these tests did not pass at once:\n' >&2
	cat "$again" >&2
fi
exit "$failed"
