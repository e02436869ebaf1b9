package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Compare says what changed from run a (before) to run b (after) in the cells
// and metrics that both have. Blocks of two runs are not pairs, so each run
// first becomes its cells' ratios to its own control, block by block, and the
// effect is the ratio of these ratios: what the whole machine did between the
// runs is divided out. It assumes that the blocks of a run are independent,
// and that a target follows the machine as the control does; because that last
// assumption is only roughly true, the control's own change is part of the
// noise floor. Alpha, Margin, Primary and Seed are taken from a.
func Compare(a, b Input) Claims {
	a, b = a.WithDefaults(), b.WithDefaults()
	b.Alpha, b.Margin = a.Alpha, a.Margin
	before, after := run{a, a.groups()}, run{b, b.groups()}
	other := map[string]group{}
	for _, g := range after.groups {
		other[g.name] = g
	}
	var jobs []job
	for _, j := range a.jobs(before.groups) {
		if g, ok := other[j.group.name]; ok && b.measured(g, j.metric.Name) {
			jobs = append(jobs, j)
		}
	}
	results := make([]comparison, len(jobs))
	each(len(jobs), func(i int) {
		results[i] = comparison{a: a, b: b, job: jobs[i], other: other[jobs[i].group.name]}
		results[i].make()
	})
	claims := Claims{
		Alpha: a.Alpha, Margin: a.Margin,
		Failures: a.Data.failures + b.Data.failures,
		Trials:   a.Data.trials + b.Data.trials,
		Planned:  a.Planned + b.Planned,
		Failed:   slices.Concat(a.failed(), b.failed()),
	}
	var groups []groupVerdicts
	for _, r := range results {
		if len(r.out.Rows) > 0 {
			claims.Comparisons = append(claims.Comparisons, r.out)
		}
		if one := (groupVerdicts{group: r.out.Group}); r.out.Primary {
			for _, row := range r.out.Rows {
				one.add(row.Effect, row.AA)
			}
			groups = append(groups, one)
		}
	}
	claims.Warnings = append(refusals(groups, cmp.Or(a.Emulated, b.Emulated)), Warnings(General, append(before.surroundings("before"), after.surroundings("after")...)...)...)
	return claims
}

// Together are the claims of Compare on one run a and several others, each by
// itself, as one.
func Together(a Input, each []Claims) Claims {
	all := each[0]
	for _, c := range each[1:] {
		all.Comparisons = append(all.Comparisons, c.Comparisons...)
		all.Surroundings = append(all.Surroundings, c.Surroundings...)
		all.Failures += c.Failures - a.Data.failures
		all.Trials += c.Trials - a.Data.trials
		all.Planned += c.Planned - a.Planned
		for _, f := range c.Failed {
			if !slices.Contains(all.Failed, f) {
				all.Failed = append(all.Failed, f)
			}
		}
		for _, w := range c.Warnings {
			if !slices.Contains(all.Warnings, w) {
				all.Warnings = append(all.Warnings, w)
			}
		}
	}
	return all
}

// run is an input with its groups.
type run struct {
	Input
	groups []group
}

// surroundings is what must be known of one run of two. A disturbance that is too large for
// a comparison is told with its refusal.
func (r run) surroundings(name string) []string {
	var small []disturbance
	for _, g := range r.groups {
		for _, d := range g.disturbances {
			if d.refusal == "" {
				small = append(small, d)
			}
		}
	}
	texts := append(r.noteWarnings(), worst(small)...)
	for i := range texts {
		texts[i] = name + ": " + texts[i]
	}
	return texts
}

// comparison is one table of two runs in the making.
type comparison struct {
	a, b  Input
	job   job   // of a
	other group // the same of b
	out   Comparison
}

func (c *comparison) make() {
	c.out = Comparison{With: c.b.Run, Group: c.job.group.name, Workload: c.job.group.cells[0].Workload, Metric: c.job.metric, Primary: c.job.primary}
	var effects []*compared
	aa := -1
	for _, cell := range c.job.group.cells {
		if !slices.ContainsFunc(c.other.cells, func(o study.Cell) bool { return o.ID == cell.ID }) {
			continue
		}
		row, effect := c.change(cell)
		if row.Failed() && !c.lost(row) {
			continue // one of the runs never had the metric
		}
		if cell.AA {
			aa = len(effects)
		}
		c.out.Rows = append(c.out.Rows, row)
		effects = append(effects, effect)
	}
	c.verdicts(effects, aa)
}

// lost reports whether one of two runs has samples of a cell and the other has failed trials
// alone.
func (c *comparison) lost(row Change) bool {
	return row.A.N > 0 && c.b.Data.cells[row.Cell].lost() || row.B.N > 0 && c.a.Data.cells[row.Cell].lost()
}

// change is one row: the medians as they are, and the effect relative to the
// controls.
func (c *comparison) change(cell study.Cell) (Change, *compared) {
	name := c.job.metric.Name
	x, y := c.a.Data.cells[cell.ID], c.b.Data.cells[cell.ID]
	a, b := x.series(name), y.series(name)
	rng := stats.Source(c.a.Seed, "change", cell.ID, name)
	row := Change{
		Cell: cell.ID, Target: cell.Target, Label: label(cell), Control: cell.Control, AA: cell.AA,
		A: summarize(a.values, rng), B: summarize(b.values, rng),
	}
	row.A.Failed, row.B.Failed = x.failures(), y.failures()
	if row.Failed() {
		return row, nil
	}
	if row.A.Median > 0 && row.B.Median > 0 {
		row.Raw = stats.Ratio(math.Log(row.B.Median) - math.Log(row.A.Median))
	}
	if cell.Control || c.job.group.control < 0 || c.other.control < 0 {
		return row, nil
	}
	effect := c.relative(cell.ID)
	if effect != nil {
		row.Effect = effect.effect
	}
	return row, effect
}

// relative compares the ratios to each run's own control, within rounds where there are
// rounds, as in one run alone; nil where a control has no such metric, as a host has no
// engine's marks.
func (c *comparison) relative(cell string) *compared {
	name := c.job.metric.Name
	x, okA := c.a.logRatios(cell, c.job.group.base().ID, name)
	y, okB := c.b.logRatios(cell, c.other.base().ID, name)
	n := min(len(x), len(y))
	out := &compared{effect: &Effect{P: 1, Blocks: n, Interval: stats.None(0)}, change: &[2][]float64{x, y}}
	switch {
	case n == 0:
		return nil
	case okA && okB:
	case allEqual(c.a.Series(cell, name).values, c.b.Series(cell, name).values):
		out.scale = asIdentical
	default:
		out.scale = asNothing
	}
	return out
}

// logRatios are those of a cell to its control by block; ok is false when a value has no
// logarithm.
func (in Input) logRatios(cell, control, metric string) (out []float64, ok bool) {
	ok = true
	pairs(in.Relative(cell, control, metric), in.Series(control, metric), func(_ int32, v, c float64) {
		if v > 0 && c > 0 {
			out = append(out, math.Log(v)-math.Log(c))
			return
		}
		out, ok = append(out, 0), false
	})
	return out, ok
}

// logs returns nil where a value has no logarithm.
func logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		if v <= 0 {
			return nil
		}
		out[i] = math.Log(v)
	}
	return out
}

func allEqual(a, b []float64) bool {
	return slices.Max(a) == slices.Min(a) && slices.Max(b) == slices.Min(b) && a[0] == b[0]
}

// verdicts judges a comparison's rows. Twins are one target, so in each run their
// true ratio is 1: how far each run's is off is an error known to happen, which no
// interval from inside a run covers. The others' intervals are wider by both.
func (c *comparison) verdicts(effects []*compared, aa int) {
	rule := rules{alpha: c.a.Alpha, margin: c.a.Margin, metric: c.job.metric, described: !c.job.primary, refused: c.refusal()}
	for i, e := range effects {
		if e != nil && i != aa {
			rule.cells++
		}
	}
	if aa >= 0 && effects[aa] != nil {
		rule.judge(effects[aa])
		if effects[aa].scale == asRatio {
			for _, ratios := range effects[aa].change {
				rule.widen += math.Abs(stats.Median(stats.Sorted(ratios)))
			}
		}
	}
	c.out.Noise = stats.FromLog(rule.widen)
	for i, e := range effects {
		if e != nil && i != aa {
			own := rule
			row := c.out.Rows[i]
			own.refused = cmp.Or(c.unproven(row), rule.refused,
				c.a.emulatedAgainst(row.Target, c.job.group.base().Target, c.job.metric), c.b.emulatedAgainst(row.Target, c.other.base().Target, c.job.metric))
			own.judge(e)
		}
	}
}

// unproven is why a cell's change is not judged: in one of the runs it did not do its
// control's work, or it did not do the same work in both.
func (c *comparison) unproven(row Change) string {
	for _, side := range []struct {
		when string
		in   Input
		base study.Cell
	}{{"before", c.a, c.job.group.base()}, {"after", c.b, c.other.base()}} {
		if why := side.in.unproven(side.in.Data.cells[row.Cell], side.in.Data.cells[side.base.ID], row.Target, side.base.Target, c.out.Workload); why != "" {
			return "In the run " + side.when + ": " + why
		}
	}
	return c.a.unproven(c.a.Data.cells[row.Cell], c.b.Data.cells[row.Cell], "the run before", "the run after", c.out.Workload)
}

// controlShift is the log of the control's change between the runs.
func (c *comparison) controlShift() float64 {
	for _, row := range c.out.Rows {
		if row.Control && row.Raw > 0 {
			return math.Log(row.Raw)
		}
	}
	return 0
}

// refusal says why nothing is claimed about the two runs.
func (c *comparison) refusal() string {
	name := c.job.metric.Name
	after := job{group: c.other, metric: c.job.metric}
	why := cmp.Or(c.job.group.refusal, c.other.refusal, c.job.group.disturbed(), c.other.disturbed(), c.a.drifted(c.job), c.b.drifted(after),
		c.a.twinsDiffer(c.job.group, name, c.job.twins), c.b.twinsDiffer(c.other, name, c.job.twins))
	if why != "" {
		return why
	}
	if moved := c.controlShift(); math.Expm1(math.Abs(moved)) >= driftRefused {
		return fmt.Sprintf("The control itself changed by %s between the runs, a factor of %.2f; from %.2f on the machine was not the same. Measure both in one interleaved run.",
			effectSize(math.Exp(moved)), math.Exp(math.Abs(moved)), 1+driftRefused)
	}
	return ""
}

// drifted says why the drift of a run's own control forbids any claim with it.
func (in Input) drifted(j job) string {
	if j.group.control < 0 {
		return ""
	}
	if why := in.drift(j, in.Series(j.group.base().ID, j.metric.Name)).refusal; why != "" {
		return "In one of the runs: " + why
	}
	return ""
}

// twinsDiffer says why a run's own A/A pair forbids any claim with it.
func (in Input) twinsDiffer(g group, metric string, twins int) string {
	if g.aa < 0 || g.control < 0 {
		return ""
	}
	control := g.base().ID
	pair := compare(in.Relative(g.cells[g.aa].ID, control, metric), in.Series(control, metric), Series{})
	rules{alpha: in.Alpha, margin: in.Margin, cells: twins}.judge(pair)
	if !pair.effect.Verdict.Shown() {
		return ""
	}
	return "In one of the runs " + twinsRefusal(pair.effect)
}
