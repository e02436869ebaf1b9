package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// looks are the numbers of interleaved pairs at which a ratio is judged: it is
// measured until one of them has an answer.
var looks = []int{20, 40, 60}

// pairs are those of bars that are judged once.
const pairs = 20

// paired measures a ratio of two numbers, pair by pair, until the bar has an answer.
func paired(judge func([]float64, float64, int) analysis.Bar, bar float64, ours, bare func() (float64, error)) (result, error) {
	var ratios []float64
	var b analysis.Bar
	for _, look := range looks {
		for len(ratios) < look {
			x, y, err := inTurn(len(ratios), ours, bare)
			if err != nil {
				return result{}, err
			}
			ratios = append(ratios, x/y)
		}
		if b = judge(ratios, bar, len(looks)); b.Met != analysis.LimitOpen {
			break
		}
	}
	return describe(b), nil
}

// inTurn measures both of the n-th pair, from 0: every second time the other one
// goes first.
func inTurn(n int, ours, bare func() (float64, error)) (x, y float64, err error) {
	if n%2 == 1 {
		y, x, err = inTurn(0, bare, ours)
		return x, y, err
	}
	if x, err = ours(); err != nil {
		return 0, 0, err
	}
	y, err = bare()
	return x, y, err
}

// limits runs a study and judges its limits, all of which must be met.
func limits(file string) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return result{}, err
		}
		st, err := study.Parse(file, text)
		if err != nil {
			return result{}, err
		}
		s, err := reported(judged(output(ctx, []string{tare, "run", "--json", file})))
		if err != nil {
			return result{}, err
		}
		answers, err := gate.Judge(st.Limits, gate.Run{Tables: s.Claims.Tables})
		if err != nil {
			return result{}, err
		}
		return answered(answers), nil
	}
}

// judged takes the exit codes of limits that are not met for what they are: a report
// is there all the same.
func judged(out []byte, err error) ([]byte, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 5 && exit.ExitCode() <= 7 {
		return out, nil
	}
	return out, err
}

// answered is the result of a study's limits: the worst answer's.
func answered(answers []gate.Answer) result {
	worst := gate.Worst(answers)
	for _, a := range answers {
		if a.Verdict == worst {
			shown := fmt.Sprintf("%s, %d blocks", a.Measured(), a.Blocks)
			if a.Measured() == "" {
				shown = a.Why
			}
			return result{shown, analysis.Met(worst)}
		}
	}
	return result{"no limit", analysis.LimitOpen}
}

// describe shows a bar's ratio with its interval.
func describe(b analysis.Bar) result {
	return result{fmt.Sprintf("%.3f [%.3f, %.3f] over %d pairs", b.Ratio, b.Interval.Low, b.Interval.High, b.Pairs), b.Met}
}

// below judges a number that must not exceed a limit.
func below(value, limit float64, shown string) (result, error) {
	if value <= limit {
		return result{shown, analysis.LimitMet}, nil
	}
	return result{shown, analysis.LimitBroken}, nil
}

// repeats is how often a number is measured that is no ratio of a pair: the fewest
// that have an interval.
const repeats = stats.MinimumBlocks

// repeated measures a number some times, whose median must not exceed a limit.
func repeated(limit float64, show func(float64) string, once func() (float64, error)) (result, error) {
	var all []float64
	for range repeats {
		v, err := once()
		if err != nil {
			return result{}, err
		}
		all = append(all, v)
	}
	e := stats.OverBlocks(all)
	shown := fmt.Sprintf("%s [%s, %s], median of %d", show(e.Value), show(e.Interval.Low), show(e.Interval.High), len(all))
	return result{shown, analysis.Limit{Least: math.Inf(-1), Most: limit}.Judge(e.Interval)}, nil
}
