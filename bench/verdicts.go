package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/tarelab/tare/internal/analysis"
)

// longBars take hours, and are measured where they are named (make test-long).
func longBars() []bar {
	return []bar{
		{"aa-rounds",
			verdicts("bench/same.yaml", "native/spawn", 200, func(found int) bool { return found <= 16 })},
		{"planted",
			verdicts("bench/planted.yaml", "native", 100, func(found int) bool { return found >= 90 })},
	}
}

// verdicts counts the runs of a study in which some row of a target shows a
// difference, with one CPU kept busy by something else. The bar is a share of all
// runs; RUNS makes fewer, whose share answers nothing.
func verdicts(studyFile, target string, runs int, met func(found int) bool) func(context.Context) (result, error) {
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
		found := 0
		for range made {
			s, err := report(ctx, "run", studyFile)
			if err != nil {
				return result{}, err
			}
			if s.differs(target) {
				found++
			}
		}
		r := result{fmt.Sprintf("%d of %d", found, made), analysis.LimitOpen}
		switch {
		case made < runs:
		case met(found):
			r.met = analysis.LimitMet
		default:
			r.met = analysis.LimitBroken
		}
		return r, nil
	}
}

// differs says whether any primary row of a target is slower or faster.
func (s seen) differs(target string) bool {
	for _, t := range s.Claims.Tables {
		for _, r := range t.Rows {
			if t.Primary && r.Target == target && !r.AA && r.Effect != nil && r.Effect.Verdict.Shown() {
				return true
			}
		}
	}
	return false
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
