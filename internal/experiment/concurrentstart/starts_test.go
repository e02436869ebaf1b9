package concurrentstart

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// syntheticStarts are six blocks over n, three from 1000 on, and six over the
// concurrency, with a little noise.
func syntheticStarts(t *testing.T, elapsed, cpu func(n float64) float64, rate func(c float64) float64) input {
	t.Helper()
	p, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	in := input{Published: p, CPUs: 2, Held: map[string]bool{"hold": true}, Seed: 1, Missing: map[string]string{"cycles": "no PMU"}}
	noise := func(v float64) float64 { return v * math.Exp(0.01*rng.NormFloat64()) }
	add := func(c study.Cell, blocks int, values map[string]float64) {
		c.ID, c.Target = c.Workload+"+"+strings.Repeat("x", len(in.Cells)), "box"
		in.Cells = append(in.Cells, c)
		for b := range blocks {
			r := sample.Record{Block: b, Cell: c.ID, Values: map[string][]float64{}}
			for _, metric := range slices.Sorted(maps.Keys(values)) { // so that each has the same noise in every run of the test
				r.Values[metric] = []float64{noise(values[metric])}
			}
			in.Records = append(in.Records, r)
		}
	}
	for _, n := range []int{1, 50, 500, 1000, 2000} {
		blocks := 6
		if n >= 1000 {
			blocks = 3
		}
		e, c := elapsed(float64(n)), cpu(float64(n))
		add(study.Cell{Workload: "start", Copies: n, Concurrency: 100}, blocks, map[string]float64{
			"elapsed": e, "task-clock": c, "cpu": c, "machine-cpu": c + 0.1*e, "starts-per-second": float64(n) / e, "group-cpu-pressure": 0.5 * e,
		})
	}
	for _, c := range []int{1, 2, 4, 8, 16, 32, 64, 100} {
		x := rate(float64(c))
		add(study.Cell{Workload: "concurrency", Copies: 200, Concurrency: c}, 6, map[string]float64{"elapsed": 200 / x, "starts-per-second": x})
	}
	add(study.Cell{Workload: "hold", Copies: 50, Concurrency: 100}, 2, map[string]float64{"elapsed": 1, "payload-pss": 20 << 10, "available-drop": 3 << 20})
	return in
}

// sixBlocks gives the cells of three blocks three more.
func sixBlocks(in input) input {
	for _, c := range in.Cells {
		if c.Workload != "start" || c.Copies < 1000 {
			continue
		}
		for _, r := range in.Records {
			if r.Cell == c.ID && r.Block < 3 {
				r.Block += 3
				in.Records = append(in.Records, r)
			}
		}
	}
	return in
}

func usl(c float64) float64 { return 20 * c / (1 + 0.05*(c-1) + 0.002*c*(c-1)) }

func TestStartsFindTheLaws(t *testing.T) {
	in := syntheticStarts(t,
		func(n float64) float64 { return 0.02 * math.Pow(n, 1.3) },
		func(n float64) float64 { return 0.01 * math.Pow(n, 1.02) }, usl)
	few := describe(in).Curves[0]
	s := describe(sixBlocks(in))
	if len(s.Curves) != 1 || len(s.Scaling) != 1 || len(s.Held) != 1 {
		t.Fatalf("%d curves, %d over the concurrency, %d held", len(s.Curves), len(s.Scaling), len(s.Held))
	}
	c := s.Curves[0]
	if c.Elapsed == nil || c.Elapsed.Best != stats.LawPower || c.CPU == nil || c.CPU.Fits[0].Name == stats.LawExponential {
		t.Fatalf("laws %+v, %+v, %s", c.Elapsed, c.CPU, c.NoLaw)
	}
	b := c.Elapsed.Fits[0].B
	if math.Abs(b.Value-1.3) > 0.01 || b.Interval.Low > 1.3 || b.Interval.High < 1.3 || b.Interval.Method == stats.MethodNone {
		t.Errorf("exponent %+v", b)
	}
	if e := c.ElapsedExponent; e == nil || math.Abs(e.Value-1.3) > 0.1 || e.Interval.Method == stats.MethodNone {
		t.Errorf("last doubling %+v", e)
	}
	if got := c.Over(2000, 50); math.Abs(got/math.Pow(40, 1.3)-1) > 0.05 {
		t.Errorf("2000 over 50: %v", got)
	}
	u := s.Scaling[0].USL
	if u == nil || u.Peak == nil || math.Abs(u.Peak.Value-math.Sqrt(0.95/0.002)) > 3 || u.Peak.Interval.Method == stats.MethodNone {
		t.Errorf("USL %+v (%s)", u, s.Scaling[0].NoLaw)
	}
	// Few blocks have a range in place of an interval, and what rests on them is
	// provisional.
	if l := few.Elapsed; l.Best != "" || !l.Provisional || l.Fits[0].Name != stats.LawPower || !strings.Contains(l.Why, "fewer than 6 blocks of some level") {
		t.Errorf("laws of six and three blocks: %+v", l)
	}
	if i := few.Elapsed.Fits[0].B.Interval; i.Method != stats.MethodRange || i.Level != 0.75 || i.Low >= i.High {
		t.Errorf("exponent of six and three blocks: %+v", i)
	}
	if text := describeLaw(*few.Elapsed); !strings.HasSuffix(text, "(provisional: too few blocks)") || strings.Contains(text, "[") {
		t.Errorf("%q", text)
	}
	c = few
	if i := c.At(2000).Values["elapsed"].Interval; i.Method != stats.MethodRange || i.Low >= i.High {
		t.Errorf("three blocks: %+v", i)
	}
	if i := c.At(50).Values["elapsed"].Interval; i.Method != stats.MethodOrder {
		t.Errorf("six blocks: %+v", i)
	}
}

// grid are starts at every concurrency of every number of instances, in each
// environment.
func grid(t *testing.T, copies, concurrency []int, environments ...string) input {
	t.Helper()
	in := syntheticStarts(t, func(n float64) float64 { return n }, func(n float64) float64 { return n }, usl)
	in.Cells, in.Records = nil, nil
	for _, environment := range environments {
		for _, n := range copies {
			for _, c := range concurrency {
				cell := study.Cell{Workload: "start", Target: "box", Environment: environment, Copies: n, Concurrency: c, ID: fmt.Sprint(environment, n, c)}
				in.Cells = append(in.Cells, cell)
				for b := range 6 {
					rate := usl(float64(min(c, n))) * (1 + 0.001*float64(b))
					in.Records = append(in.Records, sample.Record{Block: b, Cell: cell.ID, Values: map[string][]float64{"elapsed": {float64(n) / rate}, "starts-per-second": {rate}}})
				}
			}
		}
	}
	return in
}

// Of a grid the law over n is told at each concurrency, and that over the
// concurrency for each n that has three which it can reach.
func TestStartsOfAGrid(t *testing.T) {
	names := func(s *description) (curves, scaling []string) {
		for _, c := range s.Curves {
			curves = append(curves, fmt.Sprintf("%s: %d", c.Name, len(c.Points)))
		}
		for _, g := range s.Scaling {
			scaling = append(scaling, fmt.Sprintf("%s of %d: %d", g.Name, g.N, len(g.Points)))
		}
		return curves, scaling
	}
	for name, c := range map[string]struct {
		in              input
		curves, scaling []string
	}{
		"two concurrencies":   {grid(t, []int{1, 50, 500}, []int{10, 100}, ""), []string{"box (10 at once): 3", "box (100 at once): 3"}, nil},
		"three":               {grid(t, []int{1, 50, 500}, []int{1, 10, 40}, ""), []string{"box (1 at once): 3", "box (10 at once): 3", "box (40 at once): 3"}, []string{"box of 50: 3", "box of 500: 3"}},
		"one n":               {grid(t, []int{200}, []int{1, 4, 16}, ""), nil, []string{"box of 200: 3"}},
		"one n, two":          {grid(t, []int{200}, []int{1, 4}, ""), nil, []string{"box of 200: 2"}},
		"one alone":           {grid(t, []int{200}, []int{4}, ""), []string{"box: 1"}, nil},
		"environments":        {grid(t, []int{1, 50, 500}, []int{10}, "small", "large"), []string{"box (small): 3", "box (large): 3"}, nil},
		"environments, grids": {grid(t, []int{1, 50}, []int{0, 10}, "small", ""), []string{"box (small, all at once): 2", "box (small, 10 at once): 2", "box (all at once): 2", "box (10 at once): 2"}, nil},
	} {
		s := describe(c.in)
		if curves, scaling := names(s); !slices.Equal(curves, c.curves) || !slices.Equal(scaling, c.scaling) {
			t.Errorf("%s: curves %q, over the concurrency %q", name, curves, scaling)
		}
		for _, curve := range s.Curves {
			if len(curve.Points) > 2 && curve.Elapsed == nil {
				t.Errorf("%s: %s has no law: %s", name, curve.Name, curve.NoLaw)
			}
		}
	}
}

// What is never under way at once is no concurrency: the law does not see it.
func TestScalingEndsAtN(t *testing.T) {
	s := describe(grid(t, []int{8}, []int{1, 2, 4, 8, 16, 100}, ""))
	g := s.Scaling[0]
	if len(g.Points) != 6 || g.USL == nil || math.Abs(g.USL.Contention.Value-0.05) > 0.01 {
		t.Errorf("%+v (%s)", g.USL, g.NoLaw)
	}
}

func TestStartsSharesAddUp(t *testing.T) {
	s := describe(syntheticStarts(t, func(n float64) float64 { return 0.02 * n }, func(n float64) float64 { return 0.01 * n }, usl))
	for _, p := range s.Curves[0].Points {
		sh := p.Shares
		// The CPUs could do 2 x elapsed; a quarter went to the containers, 5 % to others.
		if math.Abs(sh[shareOwn]-0.25) > 0.02 || math.Abs(sh[shareOthers]-0.05) > 0.03 || math.Abs(sh[shareOwn]+sh[shareOthers]+sh[shareIdle]-1) > 0.02 || math.Abs(sh[shareQueue]-0.5) > 0.02 {
			t.Errorf("n = %d: %v", p.N, sh)
		}
	}
	// A window that is longer than elapsed does not make more than all.
	over := sharesOf(map[string][]float64{"elapsed": {1}, "machine-cpu": {2.2}, "cpu": {1.1}}, 2, false)
	if over[shareIdle] != 0 || math.Abs(over[shareOwn]-0.5) > 1e-9 || math.Abs(over[shareOwn]+over[shareOthers]-1) > 1e-9 {
		t.Errorf("%v", over)
	}
	if none := sharesOf(map[string][]float64{"elapsed": {1}}, 2, false); len(none) != 0 {
		t.Errorf("without counters %v", none)
	}
}

// Where there is no task-clock, the daemon's CPU time is in the law of CPU time as
// it is in task-clock; where nobody could read it, the law says so and no verdict
// rests on it.
func TestCPULawHoldsTheDaemon(t *testing.T) {
	grouped := func() input {
		in := sixBlocks(syntheticStarts(t, func(n float64) float64 { return 0.02 * math.Pow(n, 1.3) }, func(n float64) float64 { return 0.01 * n }, usl))
		copies := map[string]int{}
		for _, c := range in.Cells {
			copies[c.ID] = c.Copies
		}
		for _, r := range in.Records {
			delete(r.Values, "task-clock")
			if cpu := r.Values["cpu"]; len(cpu) > 0 { // a daemon that does as much for one as for many, again for each of them
				r.Values["daemon-cpu"] = []float64{cpu[0] * float64(copies[r.Cell])}
			}
		}
		return in
	}
	in := grouped()
	c := describe(in).Curves[0]
	if e := c.CPUExponent; e == nil || math.Abs(e.Value-2) > 0.1 || c.CPU == nil || math.Abs(c.CPU.Fit(stats.LawPower).B.Value-2) > 0.1 {
		t.Errorf("%+v, %+v", c.CPUExponent, c.CPU)
	}
	in = grouped()
	in.Unread = map[string]string{"box": "the user's daemon"}
	s := describe(in)
	for _, claim := range judged(t, s)[:2] {
		if here := claim.Here[0]; here.Verdict != finding.Open || !strings.Contains(here.Computed, "CPU time (without the user's daemon)") {
			t.Errorf("%+v", here)
		}
	}
}

// What nobody could read of the instances' CPU time is not called others'.
func TestStartsSharesNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string][]float64
		unread bool
	}{
		"no group was read":         {map[string][]float64{"elapsed": {1}, "machine-cpu": {1.5}}, false},
		"the payload's group alone": {map[string][]float64{"elapsed": {1}, "machine-cpu": {1.5}, "cpu": {0.1}}, true},
	} {
		got := sharesOf(c.values, 2, c.unread)
		_, own := got[shareOwn]
		_, others := got[shareOthers]
		if own || others || got[shareBusy] != 0.75 || got[shareIdle] != 0.25 {
			t.Errorf("%s: %v", name, got)
		}
	}
	in := syntheticStarts(t, func(n float64) float64 { return 0.02 * n }, func(n float64) float64 { return 0.01 * n }, usl)
	in.Unread = map[string]string{"box": "daemons"}
	s := describe(in)
	if c := s.Curves[0]; c.Unread != "daemons" || !strings.Contains(findingsOf(s)[0], "for the containers and others, not told apart") {
		t.Errorf("%q: %q", c.Unread, findingsOf(s)[0])
	}
}

// What the hypervisor gave to others is no time that no CPU explains.
func TestStolenTimeIsNotIdle(t *testing.T) {
	values := map[string][]float64{"elapsed": {2}, "machine-cpu": {1}, "cpu": {1}, "steal": {1}}
	got := sharesOf(values, 2, false)
	if got[shareOwn] != 0.25 || got[shareStolen] != 0.25 || got[shareIdle] != 0.5 {
		t.Errorf("%v", got)
	}
	values["steal"] = []float64{4}
	got = sharesOf(values, 2, false)
	if got[shareOwn] != 0.2 || got[shareStolen] != 0.8 || got[shareIdle] != 0 {
		t.Errorf("more than there was: %v", got)
	}
	delete(values, "steal")
	if _, told := sharesOf(values, 2, false)[shareStolen]; told {
		t.Error("nobody told of stolen time")
	}
}

// Where trials failed, the values of one block stay together: what is left of two
// levels is of other blocks, though as many.
func TestBlocksAreNotMispaired(t *testing.T) {
	in := syntheticStarts(t, func(n float64) float64 { return 0.02 * n }, func(n float64) float64 { return 0.01 * n }, usl)
	lost := map[int]int{1: 0, 50: 5} // block by the number of instances
	copies := map[string]int{}
	for _, c := range in.Cells {
		if c.Workload == "start" {
			copies[c.ID] = c.Copies
		}
	}
	for i, r := range in.Records {
		if b, some := lost[copies[r.Cell]]; some && b == r.Block {
			in.Records[i].Failure = &sample.Failure{Fault: sample.FaultTarget, Message: "lost"}
		}
	}
	levels := levelsOf(describe(in).Curves[0].Points[:2], "elapsed", instancesOf)
	if got := levels[0].Blocks; !slices.Equal(got, []int32{1, 2, 3, 4, 5}) {
		t.Errorf("the blocks of 1 container are %v", got)
	}
	if got := levels[1].Blocks; !slices.Equal(got, []int32{0, 1, 2, 3, 4}) {
		t.Errorf("the blocks of 50 containers are %v", got)
	}
	if stats.SameBlocks(levels) || !stats.SameBlocks(levels[:1]) {
		t.Error("values of other blocks would be drawn together")
	}
}

func judged(t *testing.T, s *description) []finding.Claim {
	t.Helper()
	claims, err := claimsOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestPublishedStartsRecomputed(t *testing.T) {
	rising := func(n float64) float64 { return 0.02 * math.Pow(n, 1.3) }
	few := describe(syntheticStarts(t, rising, func(n float64) float64 { return 0.01 * math.Pow(n, 1.02) }, usl))
	grows := describe(sixBlocks(syntheticStarts(t, rising, func(n float64) float64 { return 0.01 * math.Pow(n, 1.02) }, usl)))
	same := describe(sixBlocks(syntheticStarts(t,
		func(n float64) float64 { return 0.02 * n }, func(n float64) float64 { return 0.01 * math.Pow(n, 1.5) }, usl)))
	for i, want := range []struct {
		computed    string
		by          finding.Verdict
		here, other finding.Verdict
	}{
		{"n^1.12", finding.BorneOut, finding.BorneOut, finding.NotBorne},
		{"n^1.43", finding.BorneOut, finding.BorneOut, finding.NotBorne},
		{"exponential is off by", finding.NotBorne, finding.NotBorne, finding.NotBorne},
	} {
		c, other := judged(t, grows)[i], judged(t, same)[i]
		if !strings.Contains(c.Computed, want.computed) || c.Verdict != want.by {
			t.Errorf("%s: %s, %s", c.Text, c.Verdict, c.Computed)
		}
		if c.Here[0].Verdict != want.here || other.Here[0].Verdict != want.other {
			t.Errorf("%s: here %+v, other %+v", c.Text, c.Here, other.Here)
		}
	}
	// Three blocks of each of the two largest numbers decide nothing, neither of the
	// last doubling nor of the law; their range is no interval of 95 %.
	for i, want := range []finding.Verdict{finding.Open, finding.Open, finding.Open} {
		if got := judged(t, few)[i].Here[0]; got.Verdict != want || i < 2 && !strings.Contains(got.Computed, "a level of 75 %") {
			t.Errorf("of three blocks: %+v", got)
		}
	}
	if e := few.Curves[0].CPUExponent.Interval; e.Method != stats.MethodRange || e.Level != 0.75 || e.Low >= e.High {
		t.Errorf("of three blocks: %+v", e)
	}
	last := grows.Published[len(grows.Published)-1]
	if math.Abs(last.ElapsedBy50-62.17) > 0.01 || math.Abs(last.ElapsedBy1-1403.6) > 0.1 {
		t.Errorf("%+v", last)
	}
}

// What the tables refuse, the study does not claim: the numbers stay, the verdicts
// and the laws that rest on them go.
func TestStartsOfRefusedGroups(t *testing.T) {
	in := sixBlocks(syntheticStarts(t, func(n float64) float64 { return 0.02 * math.Pow(n, 1.3) }, func(n float64) float64 { return 0.01 * n }, usl))
	quiet := describe(in)
	for i := range in.Cells {
		in.Cells[i].Group = in.Cells[i].ID
	}
	of := func(workload string, copies int) string {
		i := slices.IndexFunc(in.Cells, func(c study.Cell) bool { return c.Workload == workload && c.Copies == copies })
		return in.Cells[i].Group
	}
	in.Tables = []analysis.Table{
		{Group: of("start", 50), Primary: true, Refused: "The control failed."},
		{Group: of("hold", 50), Primary: true, Refused: "The control failed."},
		{Group: of("concurrency", 200), Refused: "Another metric drifted."},
	}
	s := describe(in)
	for i, c := range judged(t, s) {
		if len(c.Here) != 1 || c.Here[0].Verdict != finding.Refused || judged(t, quiet)[i].Here[0].Verdict == finding.Refused {
			t.Errorf("%s: %+v", c.Text, c.Here)
		}
	}
	c := s.Curves[0]
	if c.Refused == "" || c.At(50).Refused == "" || c.At(500).Refused != "" || c.Elapsed == nil || s.Scaling[0].Refused != "" {
		t.Errorf("curve %q, points %+v, scaling %q", c.Refused, c.Points, s.Scaling[0].Refused)
	}
	said := strings.Join(findingsOf(s), " ")
	if !strings.HasPrefix(said, "Refused, with every claim that rests on them: "+of("start", 50)+", "+of("hold", 50)+": The control failed.") ||
		strings.Contains(said, "Elapsed time grows") || !strings.Contains(said, "nothing is claimed of 50 containers held") {
		t.Errorf("%q", findingsOf(s))
	}
}

func TestStartsOfFailedTrials(t *testing.T) {
	in := syntheticStarts(t, func(n float64) float64 { return n }, func(n float64) float64 { return n }, usl)
	for i := range in.Records {
		in.Records[i].Values = nil
		in.Records[i].Failure = &sample.Failure{Fault: sample.FaultTarget, Message: "no room"}
	}
	s := describe(in)
	c := s.Curves[0]
	if c.Elapsed != nil || c.NoLaw == "" || c.Points[0].Failed != 6 || !strings.Contains(c.Points[0].Failure, "no room") {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(strings.Join(findingsOf(s), " "), "no trial gave numbers") {
		t.Errorf("%q", findingsOf(s))
	}
}
