package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/analysis"
)

// longBars take hours, and are measured where they are named (make test-long).
func longBars() []bar {
	// A table's verdicts are false in at most 5 % of runs, so a run has one table.
	same := []string{"cpu", "syscalls", "pipes", "faults"}
	return []bar{
		{"aa-rounds", verdicts(200, func(n int) []string {
			return []string{"bench/same.yaml", "--workloads=" + same[n%len(same)]}
		}, func(s seen) verdict { return s.verdict("native/spawn", analysis.Slower, analysis.Faster) },
			func(found int) bool { return found <= 16 })},
		{"planted", verdicts(100, func(int) []string { return []string{"bench/planted.yaml"} },
			func(s seen) verdict { return s.verdict("native", analysis.Slower) },
			func(found int) bool { return found >= 90 })},
	}
}

// verdict is what a run says of a target: nothing, that there is a difference, or that
// nothing can be compared.
type verdict int

const (
	none verdict = iota
	shown
	refused
)

// verdicts counts the runs of a study, started with the arguments of each, in which a
// difference is shown, with one CPU kept busy by something else. The bar is a share of
// all runs; RUNS makes fewer, whose share answers nothing.
func verdicts(runs int, arguments func(n int) []string, of func(seen) verdict, met func(found int) bool) func(context.Context) (result, error) {
	return func(ctx context.Context) (result, error) {
		made := runs
		if text := os.Getenv("RUNS"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return result{}, fmt.Errorf("RUNS=%s: name a number of runs, at least 1", text)
			}
			made = min(n, runs)
		}
		stop := keepBusy()
		defer stop()
		found, began := map[verdict]int{}, time.Now()
		for n := range made {
			s, err := report(ctx, "run", arguments(n)...)
			if err != nil && ctx.Err() != nil && n > 0 {
				made = n // Ctrl-C: the runs before it count
				break
			}
			if err != nil {
				return result{}, err
			}
			found[of(s)]++
			left := time.Since(began) / time.Duration(n+1) * time.Duration(made-n-1)
			fmt.Fprintf(os.Stderr, "bench: run %d of %d: a difference in %d, %d not comparable, about %s left\n", n+1, made, found[shown], found[refused], left.Round(time.Minute))
		}
		r := result{fmt.Sprintf("%d of %d, %d not comparable", found[shown], made, found[refused]), analysis.LimitOpen}
		switch {
		case made < runs:
		case met(found[shown]):
			r.met = analysis.LimitMet
		default:
			r.met = analysis.LimitBroken
		}
		return r, nil
	}
}

// verdict says whether any primary row of a target has one of the verdicts, or whether
// none could be compared.
func (s seen) verdict(target string, asked ...analysis.Verdict) verdict {
	said := refused
	for _, t := range s.Claims.Tables {
		for _, r := range t.Rows {
			switch {
			case !t.Primary || r.Target != target || r.AA || r.Effect == nil || r.Effect.Verdict == analysis.NotComparable:
			case slices.Contains(asked, r.Effect.Verdict):
				return shown
			default:
				said = none
			}
		}
	}
	return said
}

// keepBusy keeps one CPU busy until it is stopped.
func keepBusy() (stop func()) {
	done := make(chan struct{})
	go func() {
		for n := uint(0); ; n++ {
			if n%(1<<20) == 0 {
				select {
				case <-done:
					return
				default:
				}
			}
		}
	}()
	return func() { close(done) }
}
