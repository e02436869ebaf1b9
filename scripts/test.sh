#!/usr/bin/env bash
# Runs all tests and then fails if one did not run that has to (scripts/guarded).
# make test calls it after set-up.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The real runtimes share two cores: one package at a time keeps their
# time-outs meaningful.
scripts/gotest.sh ./... --format pkgname --jsonfile "$log" -- -count=1 -p 1 -timeout 40m "$@"

# What this machine cannot have, so that tests of it may skip.
lacks=()
command -v cargo >/dev/null || lacks+=(cargo)
[ -n "$(apt-cache show clang-14 2>/dev/null)" ] || lacks+=(clang-14)
command -v perf >/dev/null || lacks+=(perf)
python3 scripts/guard.py "$log" scripts/guarded "${lacks[@]}"
