#!/usr/bin/env bash
# Runs the tests of every package that starts goroutines under Go's race detector, as root.
# Without the scripts of the command line: they call other programs, and take tens of
# minutes under the detector. It is no stage of make test.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t packages < <(git grep -lE '^\s*go (func\b|[a-zA-Z_.]+\()|\.Go\(' -- 'internal/*.go' ':!*_test.go' | xargs -n 1 dirname | sort -u | sed 's,^,./,')
[ ${#packages[@]} -gt 0 ]
CGO_ENABLED=1 go test -race -short -count=1 -p 1 -timeout 20m -skip TestCommandLine "${packages[@]}"
