package unixbench

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/vmm"
)

// The environments of docker-on-loongson, as a study names its levels.
const (
	envOneCPU = "1cpu-1copy"     // one CPU, one copy in each container
	envAllN   = "allcpu-ncopies" // all CPUs, a copy for each of them in each container
	envAllOne = "allcpu-1copy"   // all CPUs, one copy in each container
	indexName = "index"
)

// clockKind is the clock that a score was taken by.
type clockKind string

// The clocks. UnixBench 5.1.3 takes Whetstone by CPU time, all else by wall time.
const (
	wallClock clockKind = "wall"
	cpuClock  clockKind = "cpu"
)

// input is a run of the Unix tests in 0..n containers.
type input struct {
	Cells     []study.Cell     // Workload is the test's published name, Copies the number of containers at once
	Records   []sample.Record  // finished trials in any order; failed ones are counted
	Tables    []analysis.Table // of the same run, by Analyze: a test whose tables are refused is refused here too
	Published *source
	Whetstone string // the variant, see side
	// Emulated says why the CPU is an emulated one; its scores never stand
	// beside real machines', and nothing is claimed of them. "" for a real one.
	Emulated string
	Accels   map[string]string // as Input has them: of guests under TCG nothing is claimed either
}

// point is one test in n containers at once.
type point struct {
	N int `json:"n"` // 0: on the host, without a container
	// Data is the published study's Data_N: the mean over the containers of a
	// repetition, then over repetitions.
	Data stats.Estimate `json:"data"`
	// Repetitions are the means over containers, in the order of blocks. Beside
	// an interval of few repetitions they are what there is to see.
	Repetitions []float64       `json:"repetitions"`
	Failed      int             `json:"failed,omitempty"`
	Spread      *spread         `json:"spread,omitempty"`  // between containers; nil below two
	Overlap     float64         `json:"overlap,omitempty"` // least share of the timed window that all containers worked in; 0 = not known
	ToOne       *stats.Estimate `json:"toOne,omitempty"`   // by the score in one container of the same repetition
	ToHost      *stats.Estimate `json:"toHost,omitempty"`  // by the score on the host of the same repetition

	blocks map[int]float64 // of Repetitions
}

// spread says how evenly n containers were served.
type spread struct {
	Fairness stats.Estimate `json:"fairness"` // Jain's index, mean over repetitions: 1 is even, 1/n is all to one
	Slowest  float64        `json:"slowest"`  // slowest by fastest container, of the worst repetition

	each []float64 // Jain's index of each repetition
}

// curve is one test over the number of containers.
type curve struct {
	Target      string    `json:"target"`
	Environment string    `json:"environment"`
	MeasuredAs  string    `json:"measuredAs,omitempty"` // the environment that was measured, where this one comes to the same on this machine; "" where it was itself
	Test        string    `json:"test"`                 // as published; "index"
	Clock       clockKind `json:"clock"`                // that the score was taken by
	Tests       []string  `json:"tests,omitempty"`      // of an index: the tests it holds
	Points      []point   `json:"points"`               // by rising N
	Law         *fallLaw  `json:"law,omitempty"`        // of the fall; nil with fewer than two numbers of containers
	Refused     string    `json:"refused,omitempty"`    // why nothing is claimed of it; "" where something may be
}

// At is the point of n containers, nil where there is none.
func (c curve) At(n int) *point {
	for i := range c.Points {
		if c.Points[i].N == n {
			return &c.Points[i]
		}
	}
	return nil
}

// platform is one machine's scores in one container.
type platform struct {
	Name        string                    `json:"name"`
	Environment string                    `json:"environment"`
	Scores      map[string]stats.Estimate `json:"scores"` // by test, "index" over Tests included
	Tests       []string                  `json:"tests"`
	Here        bool                      `json:"here"` // this machine
	// Refused says of this machine's tests why nothing is claimed of them.
	Refused map[string]string `json:"refused,omitempty"`
}

// description is what a run of the Unix tests says, beside what was published.
type description struct {
	Citation string  `json:"citation"`
	Curves   []curve `json:"curves"`
	// Published are the publication's own rows. Its index holds file-copy scores
	// that its tables do not list, so a second index is recomputed over the
	// listed tests that were run here too: that is the one to compare.
	Published []curve         `json:"published"`
	Platforms []platform      `json:"platforms"`
	Claims    []finding.Claim `json:"-"`
	Findings  []string        `json:"-"`
	Headline  []string        `json:"-"` // the findings in a few sentences
	// Tests are the tests that both indexes hold, in published order; Listed is how
	// many the publication lists. Over fewer no claim is made of an index.
	Tests  []string `json:"tests"`
	Listed int      `json:"listed"`
	// Refused says why the run carries no claim: the machine was disturbed. The
	// numbers are there all the same, to be looked at. "" for a quiet run, of
	// which single curves may be refused.
	Refused     string `json:"refused,omitempty"`
	Whetstone   string `json:"whetstone,omitempty"` // the variant that ran here, see side
	Repetitions int    `json:"repetitions"`         // most of any point
	Note        string `json:"note"`                // how the intervals were made
}

// Curve finds a curve of the run, nil where it was not measured.
func (u *description) Curve(target, environment, test string, clock clockKind) *curve {
	return find(u.Curves, target, environment, test, clock)
}

// WhyRefused says why nothing is claimed of one of the run's curves, "" where
// something may be.
func (u *description) WhyRefused(c curve) string { return cmp.Or(u.Refused, c.Refused) }

// PublishedCurve finds a row of the publication, nil where there is none.
func (u *description) PublishedCurve(environment, test string) *curve {
	i := slices.IndexFunc(u.Published, func(c curve) bool { return c.Environment == environment && c.Test == test })
	if i < 0 {
		return nil
	}
	return &u.Published[i]
}

func find(curves []curve, target, environment, test string, clock clockKind) *curve {
	i := slices.IndexFunc(curves, func(c curve) bool {
		return c.Target == target && c.Environment == environment && c.Test == test && c.Clock == clock
	})
	if i < 0 {
		return nil
	}
	return &curves[i]
}

// describe puts a run of the Unix tests beside the published one. It fails
// where no cell of the run gave a score, and where the publication lacks a table.
func describe(in input) (*description, error) {
	refused := refusals(in)
	u := &description{Citation: in.Published.Citation, Refused: refused.Run, Whetstone: in.Whetstone}
	u.Curves = curvesOf(in)
	if len(u.Curves) == 0 {
		return nil, errors.New("no trial of this run gave a Unix score: see its failures")
	}
	u.Tests = commonTests(u.Curves, in.Published)
	u.Listed = len(in.Published.Tests) - 1 // without the index
	u.Curves = append(u.Curves, indexCurves(u.Curves, u.Tests)...)
	for i := range u.Curves {
		u.Curves[i].Law = fitLaw(u.Curves[i])
		u.Curves[i].Law.leaveOpen()
		u.Curves[i].refuse(refused.Tests)
		if in.Accels[u.Curves[i].Target] == string(vmm.TCG) {
			u.Curves[i].refuseAs("The CPU of " + u.Curves[i].Target + " is emulated (TCG): its scores are the emulator's and no machine's performance.")
		}
		for _, p := range u.Curves[i].Points {
			u.Repetitions = max(u.Repetitions, len(p.Repetitions))
		}
	}
	u.Published = publishedCurves(in.Published, u.Tests)
	for _, c := range u.Curves {
		if row := u.PublishedCurve(c.Environment, c.Test); c.Law != nil && row != nil && row.Clock == c.Clock {
			c.Law.Beside = beside(c, *row)
		}
	}
	var err error
	if u.Platforms, err = platforms(u, in.Published, in.Emulated); err != nil {
		return nil, err
	}
	if u.Claims, err = checkClaims(u, in.Published); err != nil {
		return nil, err
	}
	u.Note = intervalNote(u.Repetitions)
	if in.Whetstone == variantKept && slices.Contains(u.Tests, "whetstone") {
		u.Note += " Whetstone here " + keptText + "."
	}
	u.Findings, u.Headline = findings(u), headline(u)
	var first []string
	if text := refused.Finding(); text != "" {
		first = append(first, text)
	}
	if u.Repetitions < 2 && len(u.Findings) > 0 {
		first = append(first, onceFinding)
	}
	u.Findings, u.Headline = slices.Concat(first, u.Findings), slices.Concat(first, u.Headline)
	return u, nil
}

// intervalNote says what the intervals rest on.
func intervalNote(repetitions int) string {
	if repetitions < 2 {
		return "One repetition has no interval: nothing here can be more than a first look."
	}
	return fmtNote(repetitions)
}

// curveKey is what the cells of one curve share.
type curveKey struct {
	target, environment, test string
	clock                     clockKind
}

// curvesOf gathers the records by curve. Every container target's curve
// begins with the host's cell of one instance as n = 0.
func curvesOf(in input) []curve {
	cells := map[string]study.Cell{}
	for _, c := range in.Cells {
		if !c.AA {
			cells[c.ID] = c
		}
	}
	points := map[curveKey]map[int]*point{}
	for _, r := range in.Records {
		c, ok := cells[r.Cell]
		if !ok || r.Block < 0 {
			continue
		}
		for _, m := range []struct {
			metric string
			clock  clockKind
		}{{sample.UnixScore, wallClock}, {sample.UnixCPUScore, cpuClock}} {
			key := curveKey{c.Target, c.Environment, c.Workload, m.clock}
			if points[key] == nil {
				points[key] = map[int]*point{}
			}
			points[key][c.Copies] = points[key][c.Copies].add(c.Copies, r, m.metric)
		}
	}
	return withSame(in.Cells, arrange(in.Cells, points))
}

// withSame adds the curves of the environments that were not measured because
// they come to the same as one that was. They stand after those that were.
func withSame(cells []study.Cell, curves []curve) []curve {
	var environments []string
	of := map[string]string{}
	for _, c := range cells {
		for _, other := range c.Limits.Same {
			if of[other] == "" {
				of[other], environments = c.Environment, append(environments, other)
			}
		}
	}
	measured := curves
	for _, environment := range environments {
		for _, c := range measured {
			if c.Environment != of[environment] {
				continue
			}
			c.Environment, c.MeasuredAs, c.Points = environment, c.Environment, slices.Clone(c.Points)
			curves = append(curves, c)
		}
	}
	return curves
}

// add takes one trial; p may be nil.
func (p *point) add(n int, r sample.Record, metric string) *point {
	if p == nil {
		p = &point{N: n, blocks: map[int]float64{}}
	}
	if r.Failure != nil {
		p.Failed++
		return p
	}
	scores := r.Values[metric]
	if len(scores) == 0 || slices.ContainsFunc(scores, func(v float64) bool { return !(v > 0) || math.IsInf(v, 0) }) {
		return p
	}
	p.blocks[r.Block] = stats.Mean(scores)
	if overlap := r.Values[sample.UnixContainersOverlap]; len(overlap) == 1 && (p.Overlap == 0 || overlap[0] < p.Overlap) {
		p.Overlap = overlap[0]
	}
	if len(scores) > 1 {
		p.spread(scores)
	}
	return p
}

// spread takes one repetition's containers.
func (p *point) spread(scores []float64) {
	fairness, err := fairness(scores)
	if err != nil {
		return // not reached: the scores are above 0
	}
	if p.Spread == nil {
		p.Spread = &spread{Slowest: 1}
	}
	s := p.Spread
	s.each = append(s.each, fairness)
	s.Fairness.Value = stats.Mean(s.each)
	s.Fairness.Interval = stats.Student(s.Fairness.Value, s.each)
	s.Slowest = min(s.Slowest, slices.Min(scores)/slices.Max(scores))
}

// arrange makes curves of the points, in the order of the cells.
func arrange(cells []study.Cell, points map[curveKey]map[int]*point) []curve {
	var curves []curve
	hosts := map[string]bool{} // targets that are the control
	for _, c := range cells {
		hosts[c.Target] = hosts[c.Target] || c.Control
	}
	seen := map[curveKey]bool{}
	for _, c := range cells {
		for _, clock := range []clockKind{wallClock, cpuClock} {
			key := curveKey{c.Target, c.Environment, c.Workload, clock}
			if seen[key] || !scored(points[key]) {
				continue
			}
			seen[key] = true
			curve := curve{Target: c.Target, Environment: c.Environment, Test: c.Workload, Clock: clock}
			if !hosts[c.Target] {
				curve.Points = hostPoint(hosts, key, points)
			}
			for _, n := range slices.Sorted(maps.Keys(points[key])) {
				curve.Points = append(curve.Points, *points[key][n])
			}
			curve.finish()
			curves = append(curves, curve)
		}
	}
	return curves
}

func scored(points map[int]*point) bool {
	for _, p := range points {
		if len(p.blocks) > 0 {
			return true
		}
	}
	return false
}

// hostPoint is n = 0 of a container target's curve: one instance on the host.
func hostPoint(hosts map[string]bool, key curveKey, points map[curveKey]map[int]*point) []point {
	for name, isHost := range hosts {
		key.target = name
		if p := points[key][1]; isHost && p != nil {
			zero := *p
			zero.N = 0
			return []point{zero}
		}
	}
	return nil
}

// finish computes what follows from the blocks of each point, and drops points
// without any score that did not fail either.
func (c *curve) finish() {
	c.Points = slices.DeleteFunc(c.Points, func(p point) bool { return len(p.blocks) == 0 && p.Failed == 0 })
	for i := range c.Points {
		p := &c.Points[i]
		p.Repetitions = inOrder(p.blocks)
		if p.Data.Value == 0 && len(p.Repetitions) > 0 { // an index brings its own
			p.Data.Value = stats.Mean(p.Repetitions)
		}
		p.Data.Interval = stats.StudentLog(p.Data.Value, stats.Mapped(p.Repetitions, math.Log))
	}
	one, host := c.At(1), c.At(0)
	for i := range c.Points {
		c.Points[i].ToOne, c.Points[i].ToHost = c.Points[i].over(one), c.Points[i].over(host)
	}
}

func inOrder(blocks map[int]float64) []float64 {
	out := make([]float64, 0, len(blocks))
	for _, b := range slices.Sorted(maps.Keys(blocks)) {
		out = append(out, blocks[b])
	}
	return out
}

// over is the ratio to another point: the geometric mean of the ratios within
// the repetitions that both have.
func (p point) over(base *point) *stats.Estimate {
	if base == nil || base.N == p.N {
		return nil
	}
	var logs []float64
	for _, b := range slices.Sorted(maps.Keys(p.blocks)) {
		if y, ok := base.blocks[b]; ok {
			logs = append(logs, math.Log(p.blocks[b]/y))
		}
	}
	if len(logs) == 0 {
		return nil
	}
	v := math.Exp(stats.Mean(logs))
	return &stats.Estimate{Value: v, Interval: stats.StudentLog(v, logs)}
}

// commonTests are the published tests that were run, in published order.
func commonTests(curves []curve, d *source) []string {
	var tests []string
	for _, t := range d.Tests {
		if t != indexName && slices.ContainsFunc(curves, func(c curve) bool { return c.Test == t }) {
			tests = append(tests, t)
		}
	}
	return tests
}

// indexCurves are the indexes of each target and environment: by the clocks of
// the publication over the tests that it lists too (Clock "cpu", for
// Whetstone's), by wall time over all tests that were run, and, where all of
// UnixBench's were, the index that was published: by its clocks over all of them.
func indexCurves(curves []curve, common []string) []curve {
	type place struct{ target, environment string }
	var places []place
	for _, c := range curves {
		if p := (place{c.Target, c.Environment}); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	var out []curve
	for _, p := range places {
		var listed, byWall, all []curve
		for _, c := range curves {
			if c.Target != p.target || c.Environment != p.environment {
				continue
			}
			if c.Clock == wallClock {
				byWall = append(byWall, c)
			}
			hasCPU := find(curves, c.Target, c.Environment, c.Test, cpuClock) != nil
			if hasCPU != (c.Clock == cpuClock) {
				continue
			}
			if slices.Contains(common, c.Test) {
				listed = append(listed, c)
			}
			if slices.Contains(allTests(), c.Test) && (hasCPU || publishedClock(c.Test) == wallClock) {
				all = append(all, c)
			}
		}
		out = append(out, indexCurve(listed, cpuClock)...)
		out = append(out, indexCurve(byWall, wallClock)...)
		if len(all) == len(allTests()) {
			for _, c := range indexCurve(all, cpuClock) {
				c.Test = indexAsPublished
				out = append(out, c)
			}
		}
	}
	return out
}

// indexCurve is the geometric mean over tests at every n that all of them have.
func indexCurve(tests []curve, clock clockKind) []curve {
	if len(tests) == 0 {
		return nil
	}
	out := curve{Target: tests[0].Target, Environment: tests[0].Environment, MeasuredAs: tests[0].MeasuredAs, Test: indexName, Clock: clock}
	for _, t := range tests {
		out.Tests = append(out.Tests, t.Test)
	}
	for _, first := range tests[0].Points {
		if p, ok := indexPoint(tests, first.N); ok {
			out.Points = append(out.Points, p)
		}
	}
	if len(out.Points) == 0 {
		return nil
	}
	out.finish()
	return []curve{out}
}

func indexPoint(tests []curve, n int) (point, bool) {
	p := point{N: n, blocks: map[int]float64{}}
	logs := map[int]float64{} // sums by block
	count := map[int]int{}
	total := 0.
	for _, t := range tests {
		at := t.At(n)
		if at == nil || len(at.blocks) == 0 {
			return p, false
		}
		total += math.Log(at.Data.Value)
		for b, v := range at.blocks {
			logs[b] += math.Log(v)
			count[b]++
		}
	}
	for b, sum := range logs {
		if count[b] == len(tests) {
			p.blocks[b] = math.Exp(sum / float64(len(tests)))
		}
	}
	p.Data.Value = math.Exp(total / float64(len(tests)))
	return p, len(p.blocks) > 0
}
