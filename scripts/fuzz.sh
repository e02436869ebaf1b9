#!/usr/bin/env bash
# Runs every fuzz target of the module, each for some time, as many at once as there are
# CPUs: the decoders of what others made. A target's findings are kept in its package's
# testdata/fuzz, where go test runs them from then on; go test keeps the rest of the corpus
# in its cache.
# An input is made smaller in few tries: decoders that go over maps in random order reach
# other code each time, and a target would spend all of its time on one input.
# A decoder that takes more memory than its limit (internal/limit) fails.
#
#     scripts/fuzz.sh [TIME]     of each target; 10s by default
set -euo pipefail
cd "$(dirname "$0")/.."
export time=${1:-10s}

# over says whether a target failed of nothing but the end of its time: before Go 1.27
# go test says so at times (go.dev/issue/75804). An input that fails is written down, and a
# target that hangs is told as one.
over() {
	grep -qx ' *context deadline exceeded' <<<"$1" && ! grep -qE 'Failing input written|hung or terminated|panic' <<<"$1"
}

# fuzz runs one target, FILE:NAME, and says how it ended in one piece.
fuzz() {
	local package target=${1#*:} out
	package=./$(dirname "${1%%:*}")
	if { out=$(go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x -parallel 1 2>&1) || over "$out"; } && [[ $out != *'no fuzz tests to fuzz'* ]]; then
		printf 'fuzz %-40s %s: %s\n' "$package" "$target" "$(grep -o 'execs: [0-9]*' <<<"$out" | tail -n 1)"
	else
		printf 'fuzz %-40s %s FAILED\n%s\n' "$package" "$target" "$out"
		return 1
	fi
}
export -f fuzz over

targets=$(git grep -oE '^func Fuzz\w+' -- '*_test.go' | sed 's/func //')
if ! xargs -P "$(nproc)" -I '{}' bash -c 'fuzz "$1"' fuzz '{}' <<<"$targets"; then
	echo "fuzz: a target failed" >&2
	exit 1
fi
echo "$(wc -l <<<"$targets") passed"
