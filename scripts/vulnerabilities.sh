#!/usr/bin/env bash
# Compares the modules and the standard library that tare calls with Go's database of
# vulnerabilities, and fails for one that its code reaches.
#
#   scripts/vulnerabilities.sh
#
# $GOVULNDB is another database than https://vuln.go.dev.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
GOBIN=$work go install golang.org/x/vuln/cmd/govulncheck@v1.1.4
"$work/govulncheck" ${GOVULNDB:+-db "$GOVULNDB"} ./cmd/tare
