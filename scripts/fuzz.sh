#!/usr/bin/env bash
# Runs every fuzz target of the module in turn, each for some time: the decoders of
# what others made. A target's findings are kept in its package's testdata/fuzz, where
# go test runs them from then on; go test keeps the rest of the corpus in its cache.
# An input is made smaller in few tries: decoders that go over maps in random order reach
# other code each time, and a target would spend all of its time on one input.
# A decoder that takes more memory than its limit (internal/limit) fails.
#
#     scripts/fuzz.sh [TIME]     of each target; 10s by default
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0
# Whether a target failed of nothing but the end of its time: before Go 1.27 go test says
# so at times (go.dev/issue/75804). An input that fails is written down, and a target that
# hangs is told as one.
over() {
	grep -qx ' *context deadline exceeded' "$log" && ! grep -qE 'Failing input written|hung or terminated|panic' "$log"
}
while IFS=: read -r file target; do
	package=./$(dirname "$file")
	if go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x -parallel 2 >"$log" 2>&1 || over; then
		passed=$((passed + 1))
		printf 'fuzz %-40s %s: %s\n' "$package" "$target" "$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)"
	else
		failed=$((failed + 1))
		printf 'fuzz %-40s %s FAILED\n' "$package" "$target"
		cat "$log"
	fi
done < <(git grep -oE '^func Fuzz[A-Za-z]+' -- '*_test.go' | sed 's/func //')
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
