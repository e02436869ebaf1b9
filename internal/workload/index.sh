#!/bin/sh
# tare-index [SECONDS [PASSES]]: the Unix index of this machine, as tare index prints it,
# by a shell and awk alone. It runs the tests of the Unix index with one copy, then with
# one copy for each CPU. A test's score is 10 times its rate over the baseline's; the worst
# third of the passes is left out; the index is the geometric mean of the tests' scores
# (docs/unix-index.md).
set -eu
seconds=${1:-2} passes=${2:-3}
case $seconds in '' | *[!0-9.]*) echo "tare-index: SECONDS $seconds: must be a number" >&2; exit 2 ;; esac
case $passes in '' | 0* | *[!0-9]*) echo "tare-index: PASSES $passes: must be a whole number, at least 1" >&2; exit 2 ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
# Name, unit, baseline, whether UnixBench times it by CPU time, its program and arguments.
cat >"$dir/tests" <<'END'
@TESTS@
END
cpus=$(nproc)
copies=1
while :; do
	: >"$dir/passes"
	pass=0
	while [ "$pass" -lt "$passes" ]; do
		while read -r name unit baseline cpu program arguments; do
			# shellcheck disable=SC2086 # words
			if ! "$program" $arguments --seconds="$seconds" --copies="$copies" --dir="$dir" </dev/null >"$dir/lines"; then
				echo "tare-index: the test $name failed" >&2
				exit 1
			fi
			sed "s/^/$name $pass /" "$dir/lines" >>"$dir/passes"
		done <"$dir/tests"
		pass=$((pass + 1))
	done
	awk -v copies="$copies" -v passes="$passes" '
		function field(name) { # of a line of JSON; "" where it is not there
			if (!match($0, "\"" name "\":[-+.0-9e]+")) return ""
			return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
		}
		FNR == NR { tests[++n] = $1; unit[$1] = $2; baseline[$1] = $3; cpu[$1] = $4; next }
		{
			wall[$1, $2] += field("value")
			clocked = field("cpu_value")
			if (clocked == "") lacks[$1] = 1
			bycpu[$1, $2] += clocked
		}
		END {
			printf "\n%d %s\n%-22s %5s %12s %14s %10s %10s\n", copies, copies == 1 ? "copy" : "copies", "System Benchmarks", "", "BASELINE", "RESULT", "INDEX", "all passes"
			drop = int(passes / 3)
			for (i = 1; i <= n; i++) {
				t = tests[i]
				timed = cpu[t] && !lacks[t]
				all = 0
				for (p = 0; p < passes; p++) {
					all += log(10 * wall[t, p] / baseline[t])
					score[p] = log(10 * (timed ? bycpu[t, p] : wall[t, p]) / baseline[t])
				}
				for (p = 1; p < passes; p++) for (q = p; q > 0 && score[q] < score[q - 1]; q--) { x = score[q]; score[q] = score[q - 1]; score[q - 1] = x }
				kept = 0
				for (p = drop; p < passes; p++) kept += score[p]
				kept /= passes - drop
				total += kept
				overall += all / passes
				printf "%-22s %5s %12.1f %14.1f %10.1f %10.1f\n", t (timed ? " (*)" : ""), unit[t], baseline[t], exp(kept) * baseline[t] / 10, exp(kept), exp(all / passes)
			}
			printf "%-22s %44.1f %10.1f\n", "Index Score", exp(total / n), exp(overall / n)
		}' "$dir/tests" "$dir/passes"
	[ "$copies" -lt "$cpus" ] || break
	copies=$cpus
done
echo
echo "INDEX as UnixBench 5.1.3 has it: the worst third of the passes left out; (*) by CPU time"
