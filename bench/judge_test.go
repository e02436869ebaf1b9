package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// A ratio is judged after 20, 40 and 60 pairs only, and what goes first changes
// from pair to pair.
func TestPairsEndAtALook(t *testing.T) {
	for name, c := range map[string]struct {
		ratio, sd float64
		pairs     int
		met       analysis.Met
	}{
		"at once":     {1.2, 0.01, 20, analysis.LimitMet},
		"not met":     {0.5, 0.01, 20, analysis.LimitBroken},
		"never clear": {0.98, 2, 60, analysis.LimitOpen},
	} {
		r := rand.New(rand.NewPCG(1, 1))
		var order []string
		got, err := paired(analysis.AtLeast, 0.98, func() (float64, error) {
			order = append(order, "ours")
			return c.ratio * math.Exp(c.sd*r.NormFloat64()), nil
		}, func() (float64, error) {
			order = append(order, "bare")
			return 1, nil
		})
		if err != nil || got.met != c.met || !strings.Contains(got.seen, fmt.Sprintf("over %d pairs", c.pairs)) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if len(order) != 2*c.pairs || !slices.Equal(order[:4], []string{"ours", "bare", "bare", "ours"}) {
			t.Errorf("%s: %d measured, the first of them %q", name, len(order), order[:4])
		}
	}
	if _, err := paired(analysis.AtLeast, 1, func() (float64, error) { return 0, errors.New("broken") }, func() (float64, error) { return 1, nil }); err == nil {
		t.Error("a pair that fails gives a result")
	}
}

// Runs that are refused say nothing: without 20 answers there is none.
func TestRefusedTwinsDoNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		verdicts []analysis.Verdict // in turn, again and again
		seen     string
		met      analysis.Met
	}{
		"all refused": {[]analysis.Verdict{analysis.NotComparable}, "0 of 0 differ, 40 more refused", analysis.LimitOpen},
		"half":        {[]analysis.Verdict{analysis.NotComparable, analysis.Same}, "0 of 20 differ, 20 more refused", analysis.LimitMet},
		"too many":    {[]analysis.Verdict{analysis.Slower, analysis.Open}, "10 of 20 differ, 0 more refused", analysis.LimitBroken},
	} {
		n := 0
		got, err := twins(20, 40, func() (analysis.Verdict, error) {
			n++
			return c.verdicts[(n-1)%len(c.verdicts)], nil
		})
		if err != nil || got.seen != c.seen || got.met != c.met {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A number that is measured some times has an interval, and all of it counts.
func TestRepeatedNumbers(t *testing.T) {
	for want, values := range map[analysis.Met][]float64{
		analysis.LimitMet:    {1, 2, 1, 2, 1, 2},
		analysis.LimitOpen:   {1, 2, 1, 2, 1, 9},
		analysis.LimitBroken: {7, 8, 7, 8, 7, 9},
	} {
		n := 0
		got, err := repeated(5, seconds, func() (float64, error) {
			n++
			return values[n-1], nil
		})
		if err != nil || got.met != want || !strings.HasSuffix(got.seen, "median of 6") {
			t.Errorf("%v: %+v, %v", values, got, err)
		}
	}
}

// A ratio whose interval contains its bound has no answer: 2.94 [2.84, 3.08] does not
// meet "at least 3".
func TestLimitsOfAStudy(t *testing.T) {
	text, err := os.ReadFile("native-crun.yaml")
	if err != nil {
		t.Fatal(err)
	}
	st, err := study.Parse("native-crun.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	for ratio, want := range map[[3]float64]analysis.Met{
		{2.84, 2.94, 3.08}: analysis.LimitOpen, {3.01, 3.2, 3.4}: analysis.LimitMet, {2.5, 2.6, 2.7}: analysis.LimitBroken,
	} {
		e := &analysis.Effect{Ratio: ratio[1], Interval: stats.Interval{Low: ratio[0], High: ratio[2], Level: 0.95, Method: stats.MethodRank}, Blocks: 60}
		answers, err := gate.Judge(st.Limits, gate.Run{Tables: []analysis.Table{{Group: "start", Workload: "start", Metric: sample.Metric{Name: sample.Ready}, Rows: []analysis.Row{
			{Target: "native", Control: true}, {Target: "crun", Effect: e},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := answered(answers); got.met != want || !strings.HasSuffix(got.seen, "× native, 60 blocks") {
			t.Errorf("%v: %+v, want %s", ratio, got, want)
		}
	}
}

// One bar that cannot be measured leaves the others their rows, and what has no
// answer is not met.
func TestTheTableIsWhole(t *testing.T) {
	says := func(r result, err error) func(context.Context) (result, error) {
		return func(context.Context) (result, error) { return r, err }
	}
	var out bytes.Buffer
	_, err := measure(t.Context(), []bar{
		{"good", says(result{"0.9", analysis.LimitMet}, nil)},
		{"broken", says(result{}, errors.New("no such program"))},
		{"unclear", says(result{"1.0", analysis.LimitOpen}, nil)},
		{"slow", says(result{"2.0", analysis.LimitBroken}, nil)},
	}, []promise{{Name: "broken", Promise: "it works"}}, &out)
	if err == nil || err.Error() != "broken: no such program\nunclear: open\nslow: broken" {
		t.Error(err)
	}
	for _, text := range []string{"good", "it works", "error", "unclear", "slow", "2.0"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in\n%s", text, out.String())
		}
	}
	results, err := measure(t.Context(), []bar{{"good", says(result{"0.9", analysis.LimitMet}, nil)}}, nil, &out)
	if err != nil || results["good"].seen != "0.9" {
		t.Errorf("%v, %v", results, err)
	}
}
