package unixbench

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// law is the truth of a synthetic test: its score in one container, and how
// much of it each of n containers gets.
type law struct {
	score float64
	share func(n float64) float64
	cpu   bool // has a score by CPU time, which does not fall
	host  float64
}

func oneByN(n float64) float64             { return 1 / n }
func upTo(k float64) func(float64) float64 { return func(n float64) float64 { return min(1, k/n) } }

// syntheticUnix runs laws: by environment and test, over the host and a
// container target, with lognormal noise on repetitions and on containers.
func syntheticUnix(t *testing.T, laws map[string]map[string]law, counts []int, repetitions int, noise, uneven float64) input {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	in := input{Published: loongson(t)}
	for _, environment := range []string{envAllN, envOneCPU, envAllOne} {
		for _, test := range append(slices.Clone(in.Published.Tests), "file-copy-1024", "file-copy-256", "file-copy-4096") {
			l, ok := laws[environment][test]
			if !ok {
				continue
			}
			add := func(target string, n int, control bool, score float64) {
				c := study.Cell{ID: fmt.Sprintf("%s/%s+%s+x%d", target, test, environment, n), Target: target, Workload: test, Environment: environment, Copies: n, Control: control, Group: fmt.Sprintf("%s+%s+x%d", test, environment, n)}
				in.Cells = append(in.Cells, c)
				for b := range repetitions {
					level := score * math.Exp(noise*rng.NormFloat64())
					r := sample.Record{Seq: len(in.Records), Block: b, Cell: c.ID, Values: map[string][]float64{sample.UnixContainersOverlap: {0.99}}}
					for range n {
						v := level * math.Exp(uneven*rng.NormFloat64())
						r.Values[sample.UnixScore] = append(r.Values[sample.UnixScore], v)
						if l.cpu {
							r.Values[sample.UnixCPUScore] = append(r.Values[sample.UnixCPUScore], v/l.share(float64(n)))
						}
					}
					in.Records = append(in.Records, r)
				}
			}
			add("host", 1, true, l.score*l.host)
			for _, n := range counts {
				add("box", n, false, l.score*l.share(float64(n)))
			}
		}
	}
	return in
}

var laws = map[string]map[string]law{
	envOneCPU: {
		"dhrystone2":       {1000, oneByN, false, 1},
		"whetstone":        {500, oneByN, true, 1},
		"process-creation": {300, func(n float64) float64 { return math.Pow(n, -1.1) }, false, 1.25},
		"file-copy-1024":   {50, oneByN, false, 1},
	},
	envAllN: {
		"dhrystone2": {2000, oneByN, false, 1 / 1.04},
		"whetstone":  {900, oneByN, true, 1},
	},
	envAllOne: {
		"dhrystone2": {1000, upTo(2), false, 1},
		"whetstone":  {500, upTo(2), true, 1},
	},
}

// wholeLaws are laws of all tests of UnixBench in every environment.
func wholeLaws() map[string]map[string]law {
	whole := map[string]map[string]law{}
	for environment, share := range map[string]func(float64) float64{envOneCPU: oneByN, envAllN: oneByN, envAllOne: upTo(2)} {
		whole[environment] = maps.Clone(laws[environment])
		for _, test := range allTests() {
			if _, has := whole[environment][test]; !has {
				whole[environment][test] = law{1000, share, false, 1}
			}
		}
	}
	return whole
}

func studied(t *testing.T, in input) *description {
	t.Helper()
	u, err := describe(in)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// An environment that was measured as another has its numbers under its own name.
func TestEnvironmentsThatAreOne(t *testing.T) {
	in := syntheticUnix(t, map[string]map[string]law{envAllN: laws[envAllN]}, []int{1, 2, 3, 4}, 3, 0.001, 0)
	for i := range in.Cells {
		in.Cells[i].Limits.Same = []string{envOneCPU, envAllOne}
	}
	u := studied(t, in)
	for _, environment := range []string{envOneCPU, envAllOne} {
		for _, test := range []string{"dhrystone2", indexName} {
			clock := map[string]clockKind{"dhrystone2": wallClock, indexName: cpuClock}[test]
			c, measured := u.Curve("box", environment, test, clock), u.Curve("box", envAllN, test, clock)
			if c == nil || c.MeasuredAs != envAllN || measured.MeasuredAs != "" || c.Law == nil || c.At(2).Data.Value != measured.At(2).Data.Value {
				t.Errorf("%s, %s: %+v", environment, test, c)
			}
		}
	}
	if claim := u.Claims[0]; len(claim.Here) != 1 || claim.Verdict != finding.BorneOut {
		t.Errorf("the fall on one CPU is not asked of the environment that stands for it: %+v", claim)
	}
	told := strings.Join(u.Findings, "\n")
	if !strings.Contains(told, "comes to the same") || strings.Contains(told, "box, one CPU:") {
		t.Errorf("findings:\n%s", told)
	}
	if got := scoresOfTarget(in, "box"); len(got) != 3 || len(got[envAllOne]["dhrystone2"]) != 3 {
		t.Errorf("scores to compare: %v", got)
	}
}

// Without noise, every law comes back with its parameters.
func TestStudyFindsTheLaws(t *testing.T) {
	u := studied(t, syntheticUnix(t, laws, []int{1, 2, 3, 4, 8}, 3, 0, 0))
	for _, test := range []struct {
		environment, test string
		clock             clockKind
		decay             float64
		falls             fall
		serial            float64 // -1: not asked
		capacity          float64 // 0: does not bend
	}{
		{envOneCPU, "dhrystone2", wallClock, 1, fallsAsOneN, 1, 1},
		{envOneCPU, "whetstone", wallClock, 1, fallsAsOneN, 1, 1},
		{envOneCPU, "whetstone", cpuClock, 0, fallsNot, 0, 0},
		{envOneCPU, "process-creation", wallClock, 1.1, fallsAsOneN, -1, 1},
		{envAllOne, "dhrystone2", wallClock, decayOf([]float64{1, 2, 3, 4, 8}, []float64{1, 1, 2. / 3, 0.5, 0.25}), fallsSlower, -1, 2},
	} {
		c := u.Curve("box", test.environment, test.test, test.clock)
		if c == nil || c.Law == nil {
			t.Errorf("%s, %s: no law", test.environment, test.test)
			continue
		}
		l := c.Law
		name := test.environment + " " + c.Name()
		same(t, name+", b", l.Decay.Value, test.decay)
		if l.Falls != test.falls {
			t.Errorf("%s falls %s, want %s", name, l.Falls, test.falls)
		}
		if l.USL == nil || test.serial >= 0 && math.Abs(l.USL.Contention.Value-test.serial) > 1e-6 {
			t.Errorf("%s: USL %+v, want serial %v", name, l.USL, test.serial)
		}
		switch {
		case test.capacity == 0 && l.Capacity != nil:
			t.Errorf("%s bends at %v, and should not", name, l.Capacity.Value)
		case test.capacity > 0 && (l.Capacity == nil || test.decay <= 1 && math.Abs(l.Capacity.Value-test.capacity) > 1e-6):
			t.Errorf("%s bends at %+v, want %v", name, l.Capacity, test.capacity)
		}
	}
}

// The index holds the tests that both have, Whetstone by CPU time; the one by
// wall time holds all.
func TestStudyIndexes(t *testing.T) {
	u := studied(t, syntheticUnix(t, laws, []int{1, 2, 4}, 3, 0, 0))
	index := u.Curve("box", envOneCPU, "index", cpuClock)
	if got := strings.Join(index.Tests, " "); got != "dhrystone2 whetstone process-creation" {
		t.Errorf("the index holds %s", got)
	}
	same(t, "index of one", index.At(1).Data.Value, math.Cbrt(1000*500*300))
	same(t, "index of four by that of one", index.At(4).ToOne.Value, math.Cbrt(0.25*1*math.Pow(4, -1.1)))
	same(t, "index on the host", index.At(0).Data.Value, math.Cbrt(1000*500*300*1.25))
	wall := u.Curve("box", envOneCPU, "index", wallClock)
	if !slices.Contains(wall.Tests, "file-copy-1024") || len(wall.Tests) != 4 {
		t.Errorf("the index by wall time holds %v", wall.Tests)
	}
	p := u.PublishedCurve(envOneCPU, "index")
	same(t, "published index over the same tests", p.At(4).ToOne.Value,
		math.Cbrt(244.5/740.0*199.9/199.9*72.8/266.1))
	same(t, "index as published", u.PublishedCurve(envOneCPU, indexAsPublished).At(4).ToOne.Value, 142.5/444.0)
}

// An exponent stands beside a published one over the same numbers of containers.
func TestExponentsOverTheSameCounts(t *testing.T) {
	for _, test := range []struct {
		counts, both []int
	}{{[]int{1, 2, 3, 4, 8}, []int{1, 2, 3, 4}}, {[]int{1, 2}, []int{1, 2}}} {
		u := studied(t, syntheticUnix(t, wholeLaws(), test.counts, 3, 0, 0))
		l := u.Curve("box", envAllOne, "dhrystone2", wallClock).Law
		if !slices.Equal(l.Beside.Counts, test.both) {
			t.Fatalf("of %v over %v", test.counts, l.Beside.Counts)
		}
		n, here := make([]float64, len(test.both)), make([]float64, len(test.both))
		there := make([]float64, len(test.both))
		for i, count := range test.both {
			n[i], here[i] = float64(count), upTo(2)(float64(count))
			there[i] = u.PublishedCurve(envAllOne, "dhrystone2").At(count).Data.Value
		}
		same(t, "b here", l.Beside.Decay.Value, decayOf(n, here))
		same(t, "b published", l.Beside.Published.Decay.Value, decayOf(n, there))
		if text := strings.Join(u.Findings, "\n") + u.Claims[0].Here[0].Computed; !strings.Contains(text, "; over "+rangeOf(test.both)+" published b = ") || !strings.Contains(text, "b over "+rangeOf(test.both)) {
			t.Errorf("the range is not told:\n%s", text)
		}
	}
}

// Data_N, fairness and intervals of one cell, by hand.
func TestPointByHand(t *testing.T) {
	in := input{Published: loongson(t)}
	in.Cells = []study.Cell{
		{ID: "h", Target: "host", Workload: "execl", Copies: 1, Control: true},
		{ID: "h2", Target: "host", Workload: "execl", Copies: 1, AA: true},
		{ID: "1", Target: "box", Workload: "execl", Copies: 1}, {ID: "2", Target: "box", Workload: "execl", Copies: 2},
	}
	add := func(cell string, block int, scores ...float64) {
		in.Records = append(in.Records, sample.Record{Cell: cell, Block: block, Values: map[string][]float64{sample.UnixScore: scores, sample.UnixContainersOverlap: {0.99 - 0.01*float64(block)}}})
	}
	add("1", -1, 9999) // cold
	for b, v := range []float64{100, 110, 120} {
		add("h", b, v)
		add("h2", b, 1)
		add("1", b, v/2)
		add("2", b, v/8, 3*v/8)
	}
	in.Records = append(in.Records, sample.Record{Cell: "2", Block: 3, Failure: &sample.Failure{Message: "died"}})
	c := studied(t, in).Curve("box", "", "execl", wallClock)
	two := c.At(2)
	same(t, "Data_2", two.Data.Value, 110./4)
	same(t, "fairness", two.Spread.Fairness.Value, 0.8)
	same(t, "slowest by fastest", two.Spread.Slowest, 1./3)
	same(t, "overlap", two.Overlap, 0.97)
	same(t, "to one", two.ToOne.Value, 0.5)
	same(t, "to the host", c.At(1).ToHost.Value, 0.5)
	if two.Failed != 1 || len(two.Repetitions) != 3 {
		t.Errorf("%d failed, %d repetitions", two.Failed, len(two.Repetitions))
	}
	// t(2 degrees, 0.975) = 4.302653 times the standard error of the logs.
	logs := []float64{math.Log(100), math.Log(110), math.Log(120)}
	m := (logs[0] + logs[1] + logs[2]) / 3
	sd := math.Sqrt(((logs[0]-m)*(logs[0]-m) + (logs[1]-m)*(logs[1]-m) + (logs[2]-m)*(logs[2]-m)) / 2)
	want := 110. / 4 * math.Exp(4.302653*sd/math.Sqrt(3))
	if i := two.Data.Interval; math.Abs(i.High/want-1) > 1e-6 || i.Method != stats.MethodStudentLog {
		t.Errorf("interval %+v, want up to %v", i, want)
	}
	if i := two.ToOne.Interval; math.Abs(i.High-0.5) > 1e-9 {
		t.Errorf("a ratio that is the same in each repetition has %+v", i)
	}
}

// With noise, the intervals hold the truth about as often as they say.
func TestIntervalsCover(t *testing.T) {
	one := map[string]map[string]law{envOneCPU: {"dhrystone2": {1000, oneByN, false, 1}}}
	held, runs := 0, 300
	for i := range runs {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		in := syntheticUnix(t, one, []int{1, 2, 4}, 3, 0, 0)
		for _, r := range in.Records {
			noise := math.Exp(0.05 * rng.NormFloat64())
			for j := range r.Values[sample.UnixScore] {
				r.Values[sample.UnixScore][j] *= noise
			}
		}
		b := studied(t, in).Curve("box", envOneCPU, "dhrystone2", wallClock).Law.Decay
		if b.Interval.Low <= 1 && 1 <= b.Interval.High {
			held++
		}
	}
	if share := float64(held) / float64(runs); share < 0.91 || share > 0.99 {
		t.Errorf("a 95 %% interval of three repetitions held the truth in %.1f %% of the runs", 100*share)
	}
}

func TestClaimsHere(t *testing.T) {
	u := studied(t, syntheticUnix(t, wholeLaws(), []int{1, 2, 3, 4, 8}, 3, 1e-4, 1e-4))
	want := map[int]finding.Verdict{0: finding.BorneOut, 1: finding.BorneOut, 2: finding.BorneOut, 3: finding.NotBorne, 4: finding.NotBorne, 5: finding.BorneOut, 6: finding.BorneOut, 7: finding.NotBorne, 8: finding.NotBorne}
	for i, verdict := range want {
		c := u.Claims[i]
		if len(c.Here) != 1 || c.Here[0].Verdict != verdict {
			t.Errorf("%s: here %+v, want %s", c.Text, c.Here, verdict)
		}
	}
	for _, i := range []int{9, 10, 11, 12, 13} { // two machines, or the publication itself
		if len(u.Claims[i].Here) != 0 {
			t.Errorf("%s was answered: %+v", u.Claims[i].Text, u.Claims[i].Here)
		}
	}
	// One repetition, or noise as large as the claim, leaves it open.
	for name, in := range map[string]input{
		"one repetition": syntheticUnix(t, laws, []int{1, 2, 3, 4}, 1, 0, 0),
		"noise":          syntheticUnix(t, laws, []int{1, 2, 3, 4}, 3, 0.2, 0),
	} {
		if got := studied(t, in).Claims[5].Here[0]; got.Verdict != finding.Open {
			t.Errorf("%s: %+v, want open", name, got)
		}
	}
}

// What was published of the index is asked where all of its tests ran, and a claim
// over several things is not borne out by some of them.
func TestClaimsOverFewer(t *testing.T) {
	u := studied(t, syntheticUnix(t, laws, []int{1, 2, 3, 4, 8}, 3, 1e-4, 1e-4))
	if here := u.Claims[0].Here; len(here) != 1 || here[0].Verdict != finding.Open || !strings.Contains(here[0].Computed, " of 8 were measured") {
		t.Errorf("the fall of three tests: %+v", here)
	}
	for _, i := range []int{3, 6} {
		if len(u.Claims[i].Here) != 0 {
			t.Errorf("%s was answered over three tests: %+v", u.Claims[i].Text, u.Claims[i].Here)
		}
	}
	if all := strings.Join(u.Findings, "\n"); strings.Contains(all, "index") && strings.Contains(all, "the index over") {
		t.Errorf("something is found of an index of three tests:\n%s", all)
	}
	slow := map[string]map[string]law{envOneCPU: {"dhrystone2": {1000, upTo(8), false, 1}}, envAllOne: laws[envAllOne]}
	u = studied(t, syntheticUnix(t, slow, []int{1, 2, 3, 4, 8}, 3, 1e-4, 1e-4))
	if here := u.Claims[0].Here; len(here) != 1 || here[0].Verdict != finding.NotBorne {
		t.Errorf("one test that does not fall refutes that all do: %+v", here)
	}
	if here := u.Claims[2].Here; len(here) != 1 || here[0].Verdict != finding.Open {
		t.Errorf("whetstone in 8 containers, with one copy alone: %+v", here)
	}
}

// A run on a busy machine claims nothing; trials of several instances, which
// press the machine themselves, do not make it one.
func TestRefusesABusyMachine(t *testing.T) {
	for _, test := range []struct {
		name    string
		warning sample.Warning
		alone   bool
		refused bool
	}{
		{"others at work", sample.Warning{Kind: sample.Busy, Share: 0.6}, true, true},
		{"its own containers at work", sample.Warning{Kind: sample.Busy, Share: 0.5}, false, false},
		{"another warning", sample.Warning{Kind: sample.Overlapped, Share: 0.9, Least: 0.98}, true, false},
	} {
		in := syntheticUnix(t, laws, []int{1, 2, 3, 4}, 3, 1e-4, 0)
		for i := range in.Records {
			if one := strings.HasSuffix(in.Records[i].Cell, "+x1"); one == test.alone && i%2 == 0 {
				in.Records[i].Warnings = []sample.Warning{test.warning}
			}
		}
		u := studied(t, in)
		if got := u.Claims[0].Here[0].Verdict; (got == finding.Refused) != test.refused || (u.Refused != "") != test.refused {
			t.Errorf("%s: %s, %q", test.name, got, u.Refused)
		}
		if got := strings.HasPrefix(u.Headline[0], "Refused: "); got != test.refused {
			t.Errorf("%s: the headline begins %q", test.name, u.Headline[0])
		}
	}
}

// A table that the price list refuses is refused by the study, too, with the
// index that holds it and the claims that rest on it, and with those alone.
func TestRefusesWhatTheTablesRefuse(t *testing.T) {
	stolenIn := func(spoilt func(cell string) bool) input {
		in := syntheticUnix(t, wholeLaws(), []int{1, 2, 3, 4, 8}, 3, 1e-4, 1e-4)
		data := analysis.NewData(in.Cells, len(in.Records))
		for i := range in.Records {
			r := &in.Records[i]
			r.Values[sample.Wall], r.Values[sample.Steal] = []float64{2}, []float64{0}
			if spoilt(r.Cell) {
				r.Values[sample.Steal] = []float64{0.3}
			}
			data.Add(r)
		}
		score := []sample.Metric{{Name: sample.UnixScore, Better: sample.Higher}}
		metrics := map[string][]sample.Metric{}
		for _, c := range in.Cells {
			metrics[c.Workload] = score
		}
		in.Tables = analysis.Analyze(analysis.Input{Cells: in.Cells, Metrics: metrics, Data: data, Blocks: 3, Planned: len(in.Records)}).Tables
		return in
	}
	one := stolenIn(func(cell string) bool { return strings.Contains(cell, "process-creation+"+envOneCPU) })
	u := studied(t, one)
	if u.Refused != "" || !strings.Contains(u.Findings[0], "Refused, with every claim that rests on them: process-creation (one CPU): The hypervisor stole") {
		t.Errorf("the run: %q; the first finding: %s", u.Refused, u.Findings[0])
	}
	for i, want := range map[int]finding.Verdict{0: finding.Refused, 1: finding.BorneOut, 2: finding.BorneOut, 3: finding.Refused, 4: finding.NotBorne, 5: finding.BorneOut, 6: finding.BorneOut, 8: finding.Refused} {
		if got := u.Claims[i].Here[0].Verdict; got != want {
			t.Errorf("%s: %s, want %s", u.Claims[i].Text, got, want)
		}
	}
	for _, test := range []string{"process-creation", "index"} {
		if c := u.Curve("box", envOneCPU, test, publishedClock(map[string]string{"index": "whetstone"}[test])); c.Refused == "" || c.Law.Falls != fallsRefused {
			t.Errorf("%s: %q, falls %s", test, c.Refused, c.Law.Falls)
		}
	}
	if all := strings.Join(u.Findings, "\n"); !strings.Contains(all, "box, one CPU: nothing is claimed of the index") || strings.Contains(all, "the largest difference is process-creation") {
		t.Errorf("findings:\n%s", all)
	}
	side := side{Name: "here", Target: "box", Scores: scoresOfTarget(one, "box"), RefusedTests: refusals(one).Tests}
	m, err := compareSides(side, sideOf(t, "ryzen5"))
	if err != nil || !strings.Contains(strings.Join(m.Warnings, "\n"), "here: refused, with the indexes that hold them: process-creation (one CPU): The hypervisor") {
		t.Errorf("compared: %v, %q", err, m.Warnings)
	}
	both, err := compareSides(side, side)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		environment, test string
		refused           bool
	}{{envOneCPU, "process-creation", true}, {envOneCPU, "index", true}, {envOneCPU, "dhrystone2", false}, {envAllN, "index", false}} {
		if why := both.row(t, row.environment, row.test).Refused; (why != "") != row.refused {
			t.Errorf("row %s in %s: refused %q", row.test, row.environment, why)
		}
	}
	all := studied(t, stolenIn(func(string) bool { return true }))
	if !strings.HasPrefix(all.Refused, "36 of 36 tests in their environments are refused") || all.Claims[1].Here[0].Verdict != finding.Refused {
		t.Errorf("the run: %q, %+v", all.Refused, all.Claims[1].Here)
	}
}

// An exponent whose interval reaches across a limit is not told as one way.
func TestFallIsUndecided(t *testing.T) {
	for _, test := range []struct {
		value, low, high float64
		want             fall
	}{
		{1, 0.9, 1.1, fallsAsOneN}, {1, 0.7, 1.3, fallsSomehow}, {0.44, -0.54, 1.43, fallsSomehow},
		{0.01, -0.02, 0.04, fallsNot}, {0.01, -0.2, 0.04, fallsSomehow}, {0.4, 0.3, 0.5, fallsSlower}, {1.5, 1.4, 1.6, fallsFaster},
	} {
		if got := fallOf(stats.Estimate{Value: test.value, Interval: stats.Interval{Low: test.low, High: test.high, Method: stats.MethodStudent}}); got != test.want {
			t.Errorf("%v [%v, %v]: %s, want %s", test.value, test.low, test.high, got, test.want)
		}
	}
	if got := fallOf(stats.Exact(0.73)); got != fallsSlower {
		t.Errorf("a number without an interval: %s", got)
	}
}

func TestFindings(t *testing.T) {
	u := studied(t, syntheticUnix(t, wholeLaws(), []int{1, 2, 3, 4, 8}, 3, 0.002, 0.02))
	all := strings.Join(u.Findings, "\n")
	for _, want := range []string{
		"box, one CPU: the index over 9 tests falls",
		"whetstone by CPU time does not fall, b = ",
		"CPU time stands still while a container waits",
		"one container against the host: index ",
		"the largest difference is process-creation, -",
		"the curves bend at 2.0",
		"all containers were at work in 99.0 % or more",
		"Jain's index is 1.000",
		"12 scores fall as 1/n: dhrystone2, whetstone (wall time), execl, ",
		"in 4 containers 0.3",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no finding says %q:\n%s", want, all)
		}
	}
	for _, f := range u.Findings {
		if strings.Contains(f, "NaN") || strings.Contains(f, "Inf") || strings.Contains(f, "%!") {
			t.Errorf("unreadable: %s", f)
		}
	}
	if !strings.Contains(u.Note, "2 degrees of freedom") {
		t.Errorf("note: %s", u.Note)
	}
}

// One repetition has no interval: its findings describe, its falls and the
// claims that rest on it are open. Published rows keep their way.
func TestOneRepetitionClaimsNothing(t *testing.T) {
	u := studied(t, syntheticUnix(t, laws, []int{1, 2, 3, 4, 8}, 1, 1e-3, 1e-3))
	if u.Findings[0] != onceFinding || u.Headline[0] != onceFinding {
		t.Errorf("flat: %s", u.Findings[0])
	}
	for _, f := range slices.Concat(u.Findings, u.Headline) {
		if strings.Contains(f, "(no interval)") {
			t.Errorf("said twice: %s", f)
		}
		for _, claim := range []string{"fall as", "falls as", "not fall", "its intervals"} {
			if strings.Contains(f, claim) {
				t.Errorf("%q is claimed: %s", claim, f)
			}
		}
	}
	if all := strings.Join(u.Findings, "\n"); !strings.Contains(all, "whose way to fall is open: dhrystone2") || !strings.Contains(all, "whetstone by CPU time has b = ") {
		t.Errorf("findings:\n%s", all)
	}
	for _, c := range u.Curves {
		if c.Law == nil {
			continue
		}
		if c.Law.Falls != fallsOpen || c.Law.Beside != nil && c.Law.Beside.Published.Falls == fallsOpen {
			t.Errorf("%s: falls %s, %+v", c.Name(), c.Law.Falls, c.Law.Beside)
		}
	}
	for _, c := range u.Claims {
		for _, here := range c.Here {
			if here.Verdict != finding.Open {
				t.Errorf("%s: %+v", c.Text, here)
			}
		}
	}
}

func TestStudyWithoutScores(t *testing.T) {
	in := syntheticUnix(t, laws, []int{1, 2}, 1, 0, 0)
	for i := range in.Records {
		in.Records[i].Values, in.Records[i].Failure = nil, &sample.Failure{Message: "no"}
	}
	if _, err := describe(in); err == nil {
		t.Error("a study without a score")
	}
}

// Failures may leave the fewest and the most containers no repetition in common.
func TestLawOfDisjointRepetitions(t *testing.T) {
	c := curve{Points: []point{
		{N: 1, Repetitions: []float64{10, 11}, blocks: map[int]float64{1: 10, 2: 11}},
		{N: 4, Repetitions: []float64{9}, blocks: map[int]float64{0: 9}},
	}}
	if l := fitLaw(c); l != nil {
		t.Errorf("a law of two points that have no repetition in common: %+v", l)
	}
}

// An interval that holds for many cases together has the degrees of freedom of the point
// with the fewest repetitions.
func TestIntervalOfManyCasesAfterAFailure(t *testing.T) {
	u := &description{Repetitions: 3}
	e := stats.Estimate{Value: 1, Interval: stats.Interval{Low: 0.9, High: 1.1}}
	whole := curve{Points: []point{{N: 1, Repetitions: []float64{1, 2, 3}}}}
	failed := curve{Points: []point{{N: 1, Repetitions: []float64{1, 2, 3}}, {N: 2}, {N: 4, Repetitions: []float64{1, 2}}}}
	for name, c := range map[string]struct {
		curve curve
		nu    float64
	}{"whole": {whole, 2}, "one repetition less": {failed, 1}} {
		student := distuv.StudentsT{Sigma: 1, Nu: c.nu}
		want := 1 + 0.1*student.Quantile(1-0.025/8)/student.Quantile(0.975)
		if got := u.value(&c.curve, e).Together(8).High; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: up to %v, want %v", name, got, want)
		}
	}
}
