package kernelwaits

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// made is what an arm of a made-up study measures in the middle: the elapsed
// time of its 100 starts, and the wait for the lock in its watched twin.
type made struct{ elapsed, wait float64 }

// causesOf judges a single intervention on an arm, from so many blocks with a
// scatter of 1 %, against a control that takes 1 s and waits 2 s.
func causesOf(t *testing.T, blocks int, expect study.Expect, wait string, arm made) cause {
	t.Helper()
	return causesAmong(t, nil, 1, blocks, expect, wait, arm)[0]
}

// causesAmong judges it so many times, by the noise of some tables.
func causesAmong(t *testing.T, tables []analysis.Table, times, blocks int, expect study.Expect, wait string, arm made) []cause {
	t.Helper()
	in := analysis.Input{Margin: 0.05, Seed: 1}
	var records []sample.Record
	rng := rand.New(rand.NewPCG(3, 4))
	add := func(target string, control bool, m made) {
		plain := study.Cell{ID: target, Target: target, Control: control, Concurrency: 32, Copies: 100}
		watched := plain
		watched.ID, watched.Probe, watched.Unwatched = target+"~locks", study.ProbeLocks, target
		in.Cells = append(in.Cells, plain, watched)
		for b := range blocks {
			noisy := func(v float64) float64 { return v * math.Exp(0.01*rng.NormFloat64()) }
			walls := make([]float64, 100)
			for i := range walls {
				walls[i] = noisy(m.elapsed / 3)
			}
			records = append(records, sample.Record{Block: b, Cell: plain.ID, Values: map[string][]float64{sample.Elapsed: {noisy(m.elapsed)}, sample.Wall: walls}},
				sample.Record{Block: b, Cell: watched.ID, Values: map[string][]float64{"wait-rtnl": {noisy(m.wait)}}})
		}
	}
	add("native", true, made{1, 2})
	add("arm", false, arm)
	in.Data = analysis.NewData(in.Cells, len(records))
	for i := range records {
		in.Data.Add(&records[i])
	}
	st := study.Study{Control: "native"}
	for range times {
		st.Interventions = append(st.Interventions, study.Intervention{Name: "it", Target: "arm", Expect: expect, Wait: wait})
	}
	all := causes(in, tables, nil, st, p99Of(t, records), nil)
	if len(all) != times {
		t.Fatalf("%d causes", len(all))
	}
	return all
}

// p99Of are the 99th percentiles of some records.
func p99Of(t *testing.T, records []sample.Record) map[string]analysis.Series {
	t.Helper()
	p99, err := p99ByBlock(func(yield func(sample.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p99
}

// A cause is judged among all that were asked, and on the ground that its tables
// stand on: eight blocks allow five of these verdicts and not seven.
func TestCausesAreJudgedByTheRulesOfTables(t *testing.T) {
	timing := func(noise float64, refused string) []analysis.Table {
		return []analysis.Table{{Metric: sample.Metric{Name: sample.Elapsed}, Noise: noise, Refused: refused}}
	}
	for _, test := range []struct {
		name    string
		tables  []analysis.Table
		times   int
		want    causeVerdict
		because string
	}{
		{"five", timing(0.05, ""), 5, causeShown, "changes with them"},
		{"seven", nil, 7, causeNotShown, "8 blocks are too few to judge all interventions: 9 are needed"},
		{"a busy machine", timing(0, "The machine was busy."), 1, causeNoVerdict, "The machine was busy"},
		{"a busy machine while watched", []analysis.Table{{Metric: sample.Metric{Name: "wait-rtnl"}, Refused: "It was busy."}}, 1, causeNoVerdict, "nothing is claimed: It was busy"},
	} {
		c := causesAmong(t, test.tables, test.times, 8, study.ExpectFaster, "wait-rtnl", made{0.5, 0.1})[0]
		if c.Verdict != test.want || !strings.Contains(c.Because, test.because) {
			t.Errorf("%s: %s (%s), want %s (...%s...)", test.name, c.Verdict, c.Because, test.want, test.because)
		}
	}
}

func TestVerdictsOnCauses(t *testing.T) {
	const wait = "wait-rtnl"
	for _, test := range []struct {
		name    string
		blocks  int
		expect  study.Expect
		wait    string
		arm     made
		want    causeVerdict
		because string
	}{
		{"taken away, and the wait with it", 8, study.ExpectFaster, wait, made{0.5, 0.1}, causeShown, "faster as predicted"},
		{"the wait is gone altogether", 8, study.ExpectFaster, wait, made{0.5, 0}, causeShown, "changes with them"},
		{"faster, and the wait stays", 8, study.ExpectFaster, wait, made{0.5, 2}, causeNotShown, "wait for the lock"},
		{"no wait is named", 8, study.ExpectFaster, "", made{0.5, 2}, causeNotShown, "no wait is watched"},
		{"a wait that nobody watched", 8, study.ExpectFaster, "wait-unheard-of", made{0.5, 2}, causeNotShown, "was not watched in both arms"},
		{"no faster", 8, study.ExpectFaster, wait, made{1, 0.1}, causeRefuted, "not faster"},
		{"slower instead", 8, study.ExpectFaster, wait, made{2, 0.1}, causeRefuted, "not faster"},
		{"put in, and the wait with it", 8, study.ExpectSlower, wait, made{2, 8}, causeShown, "slower as predicted"},
		{"no slower", 8, study.ExpectSlower, wait, made{1, 8}, causeRefuted, "not slower"},
		{"slower, with less waiting", 8, study.ExpectSlower, wait, made{2, 1}, causeNotShown, "wait for the lock"},
		{"nothing predicted, nothing seen", 8, study.ExpectNone, "", made{1, 2}, causePredicted, "no effect"},
		{"nothing predicted, and an effect", 8, study.ExpectNone, "", made{2, 2}, causeRefuted, "there is an effect"},
		{"too few blocks", 3, study.ExpectFaster, wait, made{0.5, 0.1}, causeNotShown, "too few"},
	} {
		c := causesOf(t, test.blocks, test.expect, test.wait, test.arm)
		if c.Verdict != test.want || !strings.Contains(c.Because, test.because) {
			t.Errorf("%s: %s (%s), want %s (...%s...)", test.name, c.Verdict, c.Because, test.want, test.because)
		}
	}
}

func TestEffectsOfACause(t *testing.T) {
	c := causesOf(t, 8, study.ExpectFaster, "wait-rtnl", made{0.5, 0.2})
	for _, e := range []struct {
		name string
		*analysis.Effect
		want float64
	}{{"starts", c.Starts, 2}, {"p99", c.P99, 0.5}, {"wait", c.Watched, 0.1}} {
		if e.Effect == nil || math.Abs(e.Ratio/e.want-1) > 0.03 || e.Interval.Low > e.want || e.Interval.High < e.want {
			t.Errorf("%s: %+v, want %g", e.name, e.Effect, e.want)
		}
	}
	if c.FewCopies {
		t.Error("100 starts give a p99")
	}
}

// What is surely gained ranks before what may be more and is less sure; what costs
// most stands last, behind what is not shown.
func TestCausesAreRankedByTheirIntervals(t *testing.T) {
	in := analysis.Input{Margin: 0.05, Seed: 1}
	arms := map[string]func(b int) float64{
		"control": func(int) float64 { return 1 },
		"sure":    func(b int) float64 { return 0.5 + 0.001*float64(b) },
		"wide":    func(b int) float64 { return 0.2 + 0.06*float64(b) }, // its median is better
		"same":    func(b int) float64 { return 1 + 0.001*float64(b) },
		"worse":   func(b int) float64 { return 2 + 0.001*float64(b) },
		"worst":   func(b int) float64 { return 3 + 0.001*float64(b) },
	}
	names := []string{"worst", "wide", "same", "worse", "sure"}
	for _, name := range append([]string{"control"}, names...) {
		in.Cells = append(in.Cells, study.Cell{ID: name, Target: name, Control: name == "control", Concurrency: 32})
	}
	in.Data = analysis.NewData(in.Cells, 8*len(in.Cells))
	for b := range 8 {
		for name, took := range arms {
			in.Data.Add(&sample.Record{Block: b, Cell: name, Values: map[string][]float64{sample.Elapsed: {took(b)}}})
		}
	}
	st := study.Study{Control: "control"}
	for _, name := range append(names, "absent") {
		st.Interventions = append(st.Interventions, study.Intervention{Name: name, Target: name, Expect: study.ExpectFaster})
	}
	var got []string
	for _, c := range causes(in, []analysis.Table{{Metric: sample.Metric{Name: sample.Elapsed}, Noise: 0.03}}, nil, st, nil, map[string]string{"absent": "no such thing"}) {
		got = append(got, c.Name)
		if cannot := c.Verdict == causeCannot; cannot != (c.Name == "absent") || cannot && c.Because != "no such thing" {
			t.Errorf("%s: %s (%s)", c.Name, c.Verdict, c.Because)
		}
		if c.Starts != nil && math.Abs(c.Noise-0.03) > 1e-9 {
			t.Errorf("%s: noise floor %g", c.Name, c.Noise)
		}
	}
	if want := "sure wide same absent worse worst"; strings.Join(got, " ") != want {
		t.Errorf("ranked %q, want %q", got, want)
	}
}

// An arm may have a control of its own.
func TestCausesAgainstAnotherTarget(t *testing.T) {
	in := analysis.Input{Margin: 0.05, Seed: 1}
	for _, target := range []string{"native", "docker", "docker/quiet"} {
		in.Cells = append(in.Cells, study.Cell{ID: target, Target: target, Control: target == "native", Concurrency: 16})
	}
	in.Data = analysis.NewData(in.Cells, 24)
	for b := range 8 {
		for name, took := range map[string]float64{"native": 1, "docker": 4, "docker/quiet": 2} {
			in.Data.Add(&sample.Record{Block: b, Cell: name, Values: map[string][]float64{sample.Elapsed: {took * (1 + float64(b)/1000)}}})
		}
	}
	st := study.Study{Control: "native", Interventions: []study.Intervention{{Name: "it", Target: "docker/quiet", Against: "docker", Concurrency: 16, Expect: study.ExpectFaster}}}
	if c := causes(in, nil, nil, st, nil, nil)[0]; c.Verdict != causeNotShown || math.Abs(c.Starts.Ratio-2) > 1e-9 {
		t.Errorf("%+v, %+v", c, c.Starts)
	}
}

// TestCausesThatWereNotMeasured get no verdict, and no number.
func TestCausesThatWereNotMeasured(t *testing.T) {
	st := study.Study{Control: "native", Interventions: []study.Intervention{{Name: "it", Target: "absent", Expect: study.ExpectFaster}}}
	c := causes(analysis.Input{}, nil, nil, st, nil, nil)
	if len(c) != 1 || c[0].Verdict != causeNotShown || c[0].Starts != nil || c[0].P99 != nil || c[0].Watched != nil {
		t.Errorf("%+v", c)
	}
}

// TestCausesOfWork compares two workloads in one target, by their rate: more of
// it is faster.
func TestCausesOfWork(t *testing.T) {
	in := analysis.Input{Margin: 0.05, Seed: 1, Metrics: map[string][]sample.Metric{"moved": {{Name: "cycles"}}, "favoured": {{Name: "cycles"}}}}
	for _, name := range []string{"moved", "favoured"} {
		in.Cells = append(in.Cells, study.Cell{ID: name, Workload: name, Target: "vm", Control: true})
	}
	in.Data = analysis.NewData(in.Cells, 16)
	for b := range 8 {
		for name, rate := range map[string]float64{"moved": 100, "favoured": 300} {
			in.Data.Add(&sample.Record{Block: b, Cell: name, Values: map[string][]float64{"cycles": {rate * (1 + float64(b)/1000)}}})
		}
	}
	for _, test := range []struct {
		arm, against string
		expect       study.Expect
		ratio        float64
		want         causeVerdict
	}{
		{"favoured", "moved", study.ExpectFaster, 3, causeNotShown}, {"moved", "favoured", study.ExpectFaster, 1. / 3, causeRefuted},
		{"favoured", "moved", study.ExpectNone, 3, causeRefuted}, {"favoured", "favoured", study.ExpectNone, 1, causePredicted},
	} {
		st := study.Study{Control: "vm", Interventions: []study.Intervention{{Name: "it", Workload: test.arm, Against: test.against, Expect: test.expect}}}
		c := causes(in, nil, nil, st, nil, nil)[0]
		if c.Verdict != test.want || c.Starts == nil || math.Abs(c.Starts.Ratio-test.ratio) > 1e-9 {
			t.Errorf("%+v: %s (%s), %+v", test, c.Verdict, c.Because, c.Starts)
		}
	}
}

// What an arm still waits for says why it gains no more: its own threads' waits,
// without a parent's in vfork, whose child has rows of its own.
func TestWhatIsLeftOfTheWaits(t *testing.T) {
	in := analysis.Input{Cells: []study.Cell{{ID: "pool~locks", Target: "pool", Probe: study.ProbeLocks, Copies: 10}, {ID: "native~locks", Control: true, Probe: study.ProbeLocks, Copies: 10}}}
	waits := []watchedCell{{Cell: "pool~locks", Trials: 2, Rows: []profile.Row{
		{Name: "rtnl_mutex", Kind: profile.Mutex, Total: 100, Kernel: true}, {Name: "rtnl_mutex", Kind: profile.Mutex, Total: 100, Shared: true},
		{Name: profile.VFork, Kind: profile.Sleep, Total: 100}, {Name: "namespace_sem", Kind: profile.RWSem, Total: 30},
		{Name: "RCU grace period", Kind: profile.Sleep, Total: 60}, {Name: "a", Kind: profile.Mutex, Total: 6}, {Name: "b", Kind: profile.Mutex, Total: 4},
	}}}
	got := leftOf(in, study.Intervention{Target: "pool"}, "native", waits)
	want := []leftWait{{"RCU grace period", 0.6, 3}, {"namespace_sem", 0.3, 1.5}, {"a", 0.06, 0.3}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := leftOf(in, study.Intervention{Target: "absent"}, "native", waits); got != nil {
		t.Errorf("%v of an arm that nobody watched", got)
	}
}
