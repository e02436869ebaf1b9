#!/usr/bin/env bash
# Runs all tests and then fails if one did not run that has to (scripts/guarded).
# make test calls it after set-up.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log" "$log".*' EXIT

# The real runtimes share two cores: one package at a time keeps their time-outs
# meaningful. The two longest wait for one CPU most of the time, an engine's start or an
# emulated guest, and run side by side.
beside='internal/driver/(engine|vm)$'
both=$(go list ./internal/driver/... | grep -E "$beside")
others=$(go list ./... | grep -vE "$beside")
failed=0
scripts/gotest.sh "$both" --format pkgname --jsonfile "$log.both" -- -count=1 -p 2 -timeout 40m "$@" || failed=$?
scripts/gotest.sh "$others" --format pkgname --jsonfile "$log.others" -- -count=1 -p 1 -timeout 40m "$@" || failed=$?
[ "$failed" = 0 ] || exit "$failed"
cat "$log.both" "$log.others" >"$log"

# What this machine cannot have, so that tests of it may skip.
lacks=()
command -v cargo >/dev/null || lacks+=(cargo)
[ -n "$(apt-cache show clang-14 2>/dev/null)" ] || lacks+=(clang-14)
command -v perf >/dev/null || lacks+=(perf)
python3 scripts/guard.py "$log" scripts/guarded "${lacks[@]}"
