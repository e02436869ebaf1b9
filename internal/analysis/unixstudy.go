package analysis

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// The environments of docker-on-loongson, as a study names its levels.
const (
	UnixOneCPU = "1cpu-1copy"     // one CPU, one copy in each container
	UnixAllN   = "allcpu-ncopies" // all CPUs, a copy for each of them in each container
	UnixAllOne = "allcpu-1copy"   // all CPUs, one copy in each container
	unixIndex  = "index"
)

// UnixClock is the clock that a score was taken by.
type UnixClock string

// The clocks. UnixBench 5.1.3 takes Whetstone by CPU time, all else by wall time.
const (
	WallClock UnixClock = "wall"
	CPUClock  UnixClock = "cpu"
)

// UnixInput is a run of the Unix tests in 0..n containers.
type UnixInput struct {
	Cells     []study.Cell    // Workload is the test's published name, Copies the number of containers at once
	Records   []sample.Record // finished trials in any order; failed ones are counted
	Tables    []Table         // of the same run, by Analyze: a test whose tables are refused is refused here too
	Published *published.DockerOnLoongson
	Whetstone string // the variant, see MachineSide
	// Emulated says why the CPU is an emulated one; its scores never stand
	// beside real machines', and nothing is claimed of them. "" for a real one.
	Emulated string
	Accels   map[string]string // as Input has them: of guests under TCG nothing is claimed either
}

// UnixPoint is one test in n containers at once.
type UnixPoint struct {
	N int `json:"n"` // 0: on the host, without a container
	// Data is the published study's Data_N: the mean over the containers of a
	// repetition, then over repetitions.
	Data stats.Estimate `json:"data"`
	// Repetitions are the means over containers, in the order of blocks. Beside
	// an interval of few repetitions they are what there is to see.
	Repetitions []float64       `json:"repetitions"`
	Failed      int             `json:"failed,omitempty"`
	Spread      *UnixSpread     `json:"spread,omitempty"`  // between containers; nil below two
	Overlap     float64         `json:"overlap,omitempty"` // least share of the timed window that all containers worked in; 0 = not known
	ToOne       *stats.Estimate `json:"toOne,omitempty"`   // by the score in one container of the same repetition
	ToHost      *stats.Estimate `json:"toHost,omitempty"`  // by the score on the host of the same repetition

	blocks map[int]float64 // of Repetitions
}

// UnixSpread says how evenly n containers were served.
type UnixSpread struct {
	Fairness stats.Estimate `json:"fairness"` // Jain's index, mean over repetitions: 1 is even, 1/n is all to one
	Slowest  float64        `json:"slowest"`  // slowest by fastest container, of the worst repetition

	each []float64 // Jain's index of each repetition
}

// UnixCurve is one test over the number of containers.
type UnixCurve struct {
	Target      string      `json:"target"`
	Environment string      `json:"environment"`
	MeasuredAs  string      `json:"measuredAs,omitempty"` // the environment that was measured, where this one comes to the same on this machine; "" where it was itself
	Test        string      `json:"test"`                 // as published; "index"
	Clock       UnixClock   `json:"clock"`                // that the score was taken by
	Tests       []string    `json:"tests,omitempty"`      // of an index: the tests it holds
	Points      []UnixPoint `json:"points"`               // by rising N
	Law         *UnixLaw    `json:"law,omitempty"`        // of the fall; nil with fewer than two numbers of containers
	Refused     string      `json:"refused,omitempty"`    // why nothing is claimed of it; "" where something may be
}

// At is the point of n containers, nil where there is none.
func (c UnixCurve) At(n int) *UnixPoint {
	for i := range c.Points {
		if c.Points[i].N == n {
			return &c.Points[i]
		}
	}
	return nil
}

// UnixPlatform is one machine's scores in one container.
type UnixPlatform struct {
	Name        string                    `json:"name"`
	Environment string                    `json:"environment"`
	Scores      map[string]stats.Estimate `json:"scores"` // by test, "index" over Tests included
	Tests       []string                  `json:"tests"`
	Here        bool                      `json:"here"` // this machine
	// Refused says of this machine's tests why nothing is claimed of them.
	Refused map[string]string `json:"refused,omitempty"`
}

// UnixClaims is what a run of the Unix tests says, beside what was published.
type UnixClaims struct {
	Citation string      `json:"citation"`
	Curves   []UnixCurve `json:"curves"`
	// Published are the publication's own rows. Its index holds file-copy scores
	// that its tables do not list, so a second index is recomputed over the
	// listed tests that were run here too: that is the one to compare.
	Published []UnixCurve     `json:"published"`
	Platforms []UnixPlatform  `json:"platforms"`
	Claims    []finding.Claim `json:"claims"`
	Findings  []string        `json:"findings"`
	Headline  []string        `json:"headline"` // the findings in a few sentences
	// Tests are the tests that both indexes hold, in published order; Listed is how
	// many the publication lists. Over fewer no claim is made of an index.
	Tests  []string `json:"tests"`
	Listed int      `json:"listed"`
	// Refused says why the run carries no claim: the machine was disturbed. The
	// numbers are there all the same, to be looked at. "" for a quiet run, of
	// which single curves may be refused.
	Refused     string `json:"refused,omitempty"`
	Whetstone   string `json:"whetstone,omitempty"` // the variant that ran here, see MachineSide
	Repetitions int    `json:"repetitions"`         // most of any point
	Note        string `json:"note"`                // how the intervals were made
}

// Curve finds a curve of the run, nil where it was not measured.
func (u *UnixClaims) Curve(target, environment, test string, clock UnixClock) *UnixCurve {
	return find(u.Curves, target, environment, test, clock)
}

// WhyRefused says why nothing is claimed of one of the run's curves, "" where
// something may be.
func (u *UnixClaims) WhyRefused(c UnixCurve) string { return firstOf(u.Refused, c.Refused) }

// PublishedCurve finds a row of the publication, nil where there is none.
func (u *UnixClaims) PublishedCurve(environment, test string) *UnixCurve {
	i := slices.IndexFunc(u.Published, func(c UnixCurve) bool { return c.Environment == environment && c.Test == test })
	if i < 0 {
		return nil
	}
	return &u.Published[i]
}

func find(curves []UnixCurve, target, environment, test string, clock UnixClock) *UnixCurve {
	i := slices.IndexFunc(curves, func(c UnixCurve) bool {
		return c.Target == target && c.Environment == environment && c.Test == test && c.Clock == clock
	})
	if i < 0 {
		return nil
	}
	return &curves[i]
}

// UnixStudy puts a run of the Unix tests beside the published one. It fails
// where no cell of the run gave a score, and where the publication lacks a table.
func UnixStudy(in UnixInput) (*UnixClaims, error) {
	refused := UnixRefusals(in)
	u := &UnixClaims{Citation: in.Published.Citation, Refused: refused.Run, Whetstone: in.Whetstone}
	u.Curves = unixCurves(in)
	if len(u.Curves) == 0 {
		return nil, errors.New("no trial of this run gave a Unix score: see its failures")
	}
	u.Tests = commonTests(u.Curves, in.Published)
	u.Listed = len(in.Published.Tests) - 1 // without the index
	u.Curves = append(u.Curves, indexCurves(u.Curves, u.Tests)...)
	for i := range u.Curves {
		u.Curves[i].Law = unixLaw(u.Curves[i])
		u.Curves[i].Law.leaveOpen()
		u.Curves[i].refuse(refused.Tests)
		if in.Accels[u.Curves[i].Target] == emulatedGuest {
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
	if in.Whetstone == WhetstoneKept && slices.Contains(u.Tests, "whetstone") {
		u.Note += " Whetstone here " + whetstoneKept + "."
	}
	u.Findings, u.Headline = unixFindings(u), unixHeadline(u)
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
	clock                     UnixClock
}

// unixCurves gathers the records by curve. Every container target's curve
// begins with the host's cell of one instance as n = 0.
func unixCurves(in UnixInput) []UnixCurve {
	cells := map[string]study.Cell{}
	for _, c := range in.Cells {
		if !c.AA {
			cells[c.ID] = c
		}
	}
	points := map[curveKey]map[int]*UnixPoint{}
	for _, r := range in.Records {
		c, ok := cells[r.Cell]
		if !ok || r.Block < 0 {
			continue
		}
		for _, m := range []struct {
			metric string
			clock  UnixClock
		}{{sample.UnixScore, WallClock}, {sample.UnixCPUScore, CPUClock}} {
			key := curveKey{c.Target, c.Environment, c.Workload, m.clock}
			if points[key] == nil {
				points[key] = map[int]*UnixPoint{}
			}
			points[key][c.Copies] = points[key][c.Copies].add(c.Copies, r, m.metric)
		}
	}
	return withSame(in.Cells, arrange(in.Cells, points))
}

// withSame adds the curves of the environments that were not measured because
// they come to the same as one that was. They stand after those that were.
func withSame(cells []study.Cell, curves []UnixCurve) []UnixCurve {
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
func (p *UnixPoint) add(n int, r sample.Record, metric string) *UnixPoint {
	if p == nil {
		p = &UnixPoint{N: n, blocks: map[int]float64{}}
	}
	if r.Failure != nil {
		p.Failed++
		return p
	}
	scores := r.Values[metric]
	if len(scores) == 0 || slices.ContainsFunc(scores, func(v float64) bool { return !(v > 0 && finite(v)) }) {
		return p
	}
	p.blocks[r.Block], _ = finiteMean(scores)
	if overlap := r.Values[sample.UnixContainersOverlap]; len(overlap) == 1 && (p.Overlap == 0 || overlap[0] < p.Overlap) {
		p.Overlap = overlap[0]
	}
	if len(scores) > 1 {
		p.spread(scores)
	}
	return p
}

// spread takes one repetition's containers.
func (p *UnixPoint) spread(scores []float64) {
	fairness, err := Fairness(scores)
	if err != nil {
		return // not reached: the scores are above 0
	}
	if p.Spread == nil {
		p.Spread = &UnixSpread{Slowest: 1}
	}
	s := p.Spread
	s.each = append(s.each, fairness)
	s.Fairness.Value = stats.Mean(s.each)
	s.Fairness.Interval = stats.Student(s.Fairness.Value, s.each)
	s.Slowest = min(s.Slowest, slices.Min(scores)/slices.Max(scores))
}

// arrange makes curves of the points, in the order of the cells.
func arrange(cells []study.Cell, points map[curveKey]map[int]*UnixPoint) []UnixCurve {
	var curves []UnixCurve
	hosts := map[string]bool{} // targets that are the control
	for _, c := range cells {
		hosts[c.Target] = hosts[c.Target] || c.Control
	}
	seen := map[curveKey]bool{}
	for _, c := range cells {
		for _, clock := range []UnixClock{WallClock, CPUClock} {
			key := curveKey{c.Target, c.Environment, c.Workload, clock}
			if seen[key] || !scored(points[key]) {
				continue
			}
			seen[key] = true
			curve := UnixCurve{Target: c.Target, Environment: c.Environment, Test: c.Workload, Clock: clock}
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

func scored(points map[int]*UnixPoint) bool {
	for _, p := range points {
		if len(p.blocks) > 0 {
			return true
		}
	}
	return false
}

// hostPoint is n = 0 of a container target's curve: one instance on the host.
func hostPoint(hosts map[string]bool, key curveKey, points map[curveKey]map[int]*UnixPoint) []UnixPoint {
	for name, isHost := range hosts {
		key.target = name
		if p := points[key][1]; isHost && p != nil {
			zero := *p
			zero.N = 0
			return []UnixPoint{zero}
		}
	}
	return nil
}

// finish computes what follows from the blocks of each point, and drops points
// without any score that did not fail either.
func (c *UnixCurve) finish() {
	c.Points = slices.DeleteFunc(c.Points, func(p UnixPoint) bool { return len(p.blocks) == 0 && p.Failed == 0 })
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
func (p UnixPoint) over(base *UnixPoint) *stats.Estimate {
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
func commonTests(curves []UnixCurve, d *published.DockerOnLoongson) []string {
	var tests []string
	for _, t := range d.Tests {
		if t != unixIndex && slices.ContainsFunc(curves, func(c UnixCurve) bool { return c.Test == t }) {
			tests = append(tests, t)
		}
	}
	return tests
}

// indexCurves are the indexes of each target and environment: by the clocks of
// the publication over the tests that it lists too (Clock "cpu", for
// Whetstone's), by wall time over all tests that were run, and, where all of
// UnixBench's were, the index that was published: by its clocks over all of them.
func indexCurves(curves []UnixCurve, common []string) []UnixCurve {
	type place struct{ target, environment string }
	var places []place
	for _, c := range curves {
		if p := (place{c.Target, c.Environment}); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	var out []UnixCurve
	for _, p := range places {
		var listed, byWall, all []UnixCurve
		for _, c := range curves {
			if c.Target != p.target || c.Environment != p.environment {
				continue
			}
			if c.Clock == WallClock {
				byWall = append(byWall, c)
			}
			hasCPU := find(curves, c.Target, c.Environment, c.Test, CPUClock) != nil
			if hasCPU != (c.Clock == CPUClock) {
				continue
			}
			if slices.Contains(common, c.Test) {
				listed = append(listed, c)
			}
			if slices.Contains(unixBenchTests(), c.Test) && (hasCPU || publishedClock(c.Test) == WallClock) {
				all = append(all, c)
			}
		}
		out = append(out, indexCurve(listed, CPUClock)...)
		out = append(out, indexCurve(byWall, WallClock)...)
		if len(all) == len(unixBenchTests()) {
			for _, c := range indexCurve(all, CPUClock) {
				c.Test = IndexAsPublished
				out = append(out, c)
			}
		}
	}
	return out
}

// indexCurve is the geometric mean over tests at every n that all of them have.
func indexCurve(tests []UnixCurve, clock UnixClock) []UnixCurve {
	if len(tests) == 0 {
		return nil
	}
	out := UnixCurve{Target: tests[0].Target, Environment: tests[0].Environment, MeasuredAs: tests[0].MeasuredAs, Test: unixIndex, Clock: clock}
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
	return []UnixCurve{out}
}

func indexPoint(tests []UnixCurve, n int) (UnixPoint, bool) {
	p := UnixPoint{N: n, blocks: map[int]float64{}}
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
