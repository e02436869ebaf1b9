#!/usr/bin/env bash
# Runs all tests and then fails if one was skipped that may not be.
# make test calls it after set-up.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The real runtimes share two cores: one package at a time keeps their
# time-outs meaningful.
scripts/gotest.sh ./... --format pkgname --jsonfile "$log" -- -count=1 -p 1 -timeout 40m "$@"

# Tests that may never skip in CI: a skip here means that the machine was not
# set up, and that what the test guards may have rotted.
may_not_skip='^(TestHost|TestNative|TestRunc|TestCrun|TestRunsc|TestPage|TestCommandLine|TestImportLaw|TestMicrovm$|TestQ35$|TestFaults|TestStratoVirtStandIn|TestDocker|TestPodman|TestContainerd|TestFiveHundred|TestChatterLearnsNothing$|TestEnginesAndGuests$|TestEveryPathCarries$|TestObjectIsOfItsSource|TestConfigure$|TestLocksOfTheRealKernel$|TestStacksOfTheRealKernel$|TestOthersDoNotCount$|TestHiddenNamesAreSaid$|TestDescendantsFromBefore$|TestSharedWaitsStandApart$|TestUnixStrcmpLiesWithinACacheLine$|TestBootsAreARun$|TestInterruptedBootsAreKept$|TestUnmetDependency$)'
skipped=$(python3 - "$log" "$may_not_skip" <<'PY'
import json, re, sys
for line in open(sys.argv[1]):
    event = json.loads(line)
    if event.get("Action") == "skip" and re.match(sys.argv[2], event.get("Test", "")):
        print(event["Package"], event["Test"])
PY
)
if [ -n "$skipped" ]; then
	printf 'these tests may not skip:\n%s\n' "$skipped" >&2
	exit 1
fi
