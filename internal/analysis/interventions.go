package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// CauseVerdict is what an intervention says of a cause.
type CauseVerdict string

// The verdicts on causes.
const (
	CauseShown     CauseVerdict = "cause shown"  // the times and the wait changed as expected, beyond their intervals
	CauseNotShown  CauseVerdict = "not shown"    // the blocks leave it open, or the times changed and the wait did not, or nobody watched it
	CausePredicted CauseVerdict = "as predicted" // no effect was predicted, and none beyond the margin is there
	CauseRefuted   CauseVerdict = "refuted"      // no effect beyond the margin is shown, or one in the other direction
	CauseNoVerdict CauseVerdict = "no verdict"   // the machine was too noisy for a claim
	CauseCannot    CauseVerdict = "cannot here"  // this machine lacks what the arm takes
)

// Cause is one intervention and what it did.
type Cause struct {
	study.Intervention
	Verdict CauseVerdict `json:"verdict"`
	Because string       `json:"because"`
	// Starts is the ratio of starts a second to the control's, P99 that of the
	// 99th percentile of a start's wall time, Watched that of the wait's time.
	// Nil where nothing could be compared. Starts and Watched are judged by the rules
	// of tables, with Holm over the interventions of the study; P99 is not.
	Starts  *Effect `json:"starts,omitempty"`
	P99     *Effect `json:"p99,omitempty"`
	Watched *Effect `json:"watched,omitempty"`
	// FewCopies: a trial's p99 is of fewer than 100 starts, and so left out.
	FewCopies bool `json:"fewCopies,omitempty"`
	// Noise is the noise floor of the starts, and WatchedNoise that of the wait, by
	// the A/A twins of both places, as a ratio-1; 0 where it is not known.
	Noise        float64 `json:"noise,omitempty"`
	WatchedNoise float64 `json:"watchedNoise,omitempty"`
	// Left is what the arm still waits for, the longest first: why it gains no more.
	// Nil where nobody watched it.
	Left []LeftWait `json:"left,omitempty"`
}

// LeftWait is a wait of an arm's own threads.
type LeftWait struct {
	LockShare
	Each float64 `json:"each"` // seconds, for each start
}

// leftWaits sums up what a watched cell waits for. The wait of a parent in vfork is
// none of its own: the child works or waits meanwhile, and has rows for that.
func leftWaits(w Waits, copies int) (left []LeftWait) {
	largest, all := largestWaits(w.Rows, func(r profile.Row) bool { return r.Name != profile.VFork })
	for _, l := range largest {
		left = append(left, LeftWait{l, l.Share * all / float64(max(1, copies*w.Trials))})
	}
	return left
}

// left is what an intervention's watched arm waits for.
func (in Input) left(v study.Intervention, control string, waits []Waits) []LeftWait {
	cell := in.arm(v, control, study.ProbeLocks)
	if v.Workload != "" {
		cell = in.work(v, v.Workload, control, study.ProbeLocks).cell
	}
	at := slices.IndexFunc(waits, func(w Waits) bool { return cell.ID != "" && w.Cell == cell.ID })
	if at < 0 {
		return nil
	}
	return leftWaits(waits[at], cell.Copies)
}

// Causes are the interventions of a study, ranked by what their intervals show to
// be gained at least; those that cost most stand last. tables are the run's own
// (Analyze): their noise floors and refusals hold for causes, too. waits are what its
// watched cells waited for. lacks says why targets that this machine cannot have
// were left out, by name.
func Causes(in Input, tables []Table, waits []Waits, st study.Study, records []sample.Record, lacks map[string]string) []Cause {
	in = in.defaults()
	p99 := p99ByBlock(records)
	all := make([]Cause, len(st.Interventions))
	var starts, watched []*contrast
	for i, v := range st.Interventions {
		all[i].Intervention = v
		s, w := in.cause(&all[i], tables, st.Control, p99)
		starts, watched = append(starts, s), append(watched, w)
	}
	judgeTogether(starts)
	judgeTogether(watched)
	for i := range all {
		if why := cmp.Or(lacks[all[i].Target], lacks[all[i].Against]); why != "" {
			all[i].Verdict, all[i].Because = CauseCannot, why
			continue
		}
		all[i].Verdict, all[i].Because = all[i].judge(in.Alpha)
		all[i].Left = in.left(all[i].Intervention, st.Control, waits)
		all[i].Noise, all[i].WatchedNoise = starts[i].floor(), watched[i].floor()
	}
	slices.SortStableFunc(all, func(a, b Cause) int { return cmp.Compare(b.gain(), a.gain()) })
	return all
}

// gain is what an intervention makes of the starts by that end of its interval
// which is nearer to no change; 1 where none is shown.
func (c Cause) gain() float64 {
	switch e := c.Starts; {
	case e == nil || !e.Verdict.Shown():
		return 1
	case e.Ratio > 1:
		return e.Interval.Low
	default:
		return e.Interval.High
	}
}

// base is the control's cell at the largest concurrency of its workloads.
func (in Input) base(probe string) (base study.Cell) {
	for _, c := range in.Cells {
		if c.Control && c.Probe == probe && (base.ID == "" || c.Concurrency > base.Concurrency) {
			base = c
		}
	}
	return base
}

// counterpart is the cell that an intervention's is compared with.
func (in Input) counterpart(v study.Intervention, control, probe string) study.Cell {
	if v.Against == "" {
		return in.base(probe)
	}
	return in.arm(study.Intervention{Target: v.Against, Concurrency: v.Concurrency}, control, probe)
}

// arm is an intervention's cell.
func (in Input) arm(v study.Intervention, control, probe string) study.Cell {
	target, concurrency := cmp.Or(v.Target, control), cmp.Or(v.Concurrency, in.base(probe).Concurrency)
	for _, c := range in.Cells {
		if c.Target == target && !c.AA && c.Probe == probe && c.Concurrency == concurrency {
			return c
		}
	}
	return study.Cell{}
}

// place is a cell's column.
type place struct {
	cell   study.Cell
	metric string
}

// contrast is one place against another, and the rules to judge it by.
type contrast struct {
	*compared
	rule  rules
	noise float64 // of the tables of both, as a ratio-1
}

// faster gives the words for the ratio of the starts per second.
var faster = sample.Metric{Unit: sample.PerSecond, Better: sample.Higher}

// contrast is nil where the two have no block in common.
func (in Input) contrast(tables []Table, of, to place) *contrast {
	c := compare(in.Data.cells[of.cell.ID].series(of.metric), in.Data.cells[to.cell.ID].series(to.metric), Series{})
	if c.effect.Blocks == 0 {
		return nil
	}
	rule, noise := rules{alpha: in.Alpha, margin: in.Margin, metric: faster}, 0.0
	for _, p := range []place{of, to} {
		for _, t := range tables {
			if t.Group == p.cell.Group && t.Metric.Name == p.metric {
				noise = max(noise, t.Noise)
				rule.refused = firstOf(rule.refused, t.Refused)
			}
		}
	}
	return &contrast{c, rule, noise}
}

// judgeTogether judges a family of contrasts; nil ones are left out.
func judgeTogether(all []*contrast) {
	all = slices.DeleteFunc(slices.Clone(all), func(c *contrast) bool { return c == nil })
	for _, c := range all {
		c.rule.cells = len(all)
		c.rule.judge(c.compared)
	}
}

// cause compares an intervention with its control, and gives what is to be judged.
func (in Input) cause(c *Cause, tables []Table, control string, p99 map[string]Series) (starts, watched *contrast) {
	v := c.Intervention
	if v.Workload != "" {
		starts = in.contrast(tables, in.work(v, v.Workload, control, ""), in.work(v, v.Against, control, ""))
		if v.Wait != "" {
			watched = in.contrast(tables, in.work(v, v.Workload, control, study.ProbeLocks), in.work(v, v.Against, control, study.ProbeLocks))
		}
		c.Starts, c.Watched = starts.of(), watched.of()
		return starts, watched
	}
	arm, base := in.arm(v, control, ""), in.counterpart(v, control, "")
	// The same number of starts: their rates are as the inverse of the times.
	starts = in.contrast(tables, place{base, sample.Elapsed}, place{arm, sample.Elapsed})
	if e := compare(p99[arm.ID], p99[base.ID], Series{}).at(describedLevel).effect; e.Blocks > 0 {
		c.P99 = e
	} else {
		c.FewCopies = true
	}
	if v.Wait != "" {
		watched = in.contrast(tables, place{in.arm(v, control, study.ProbeLocks), v.Wait}, place{in.counterpart(v, control, study.ProbeLocks), v.Wait})
	}
	c.Starts, c.Watched = starts.of(), watched.of()
	return starts, watched
}

// of is the effect, nil for none.
func (c *contrast) of() *Effect {
	if c == nil {
		return nil
	}
	return c.effect
}

// floor is the noise of both tables, as a ratio-1.
func (c *contrast) floor() float64 {
	if c == nil {
		return 0
	}
	return c.noise
}

// work is a workload in an intervention's target: by the rate that is its primary
// metric, or watched, by the wait.
func (in Input) work(v study.Intervention, workload, control, probe string) place {
	p := place{metric: v.Wait}
	if probe == "" && len(in.Metrics[workload]) > 0 {
		p.metric = in.Metrics[workload][0].Name
	}
	for _, cell := range in.Cells {
		if cell.Workload == workload && cell.Target == cmp.Or(v.Target, control) && !cell.AA && cell.Probe == probe {
			p.cell = cell
			break
		}
	}
	return p
}

// judge applies the rule that stands in docs/interventions.md.
func (c Cause) judge(alpha float64) (CauseVerdict, string) {
	e := c.Starts
	if e == nil || e.Verdict != NotComparable && e.Difference == nil && !e.Interval.Decides() {
		return CauseNotShown, "too few blocks for an interval"
	}
	differs, equal := e.Verdict.Shown(), e.Verdict == Same
	faster := e.Ratio > 1
	switch {
	case e.Verdict == NotComparable:
		return CauseNoVerdict, strings.TrimSuffix(e.Why, ".")
	case c.Expect == study.ExpectNone && equal:
		return CausePredicted, "no effect beyond the margin"
	case c.Expect == study.ExpectNone && differs:
		return CauseRefuted, "none was predicted, and there is an effect"
	case c.Expect == study.ExpectFaster && (equal || differs && !faster):
		return CauseRefuted, "the starts are not faster"
	case c.Expect == study.ExpectSlower && (equal || differs && faster):
		return CauseRefuted, "the starts are not slower"
	case !differs && c.Expect == study.ExpectNone:
		return CauseNotShown, "neither an effect nor its absence is shown"
	case !differs:
		return CauseNotShown, undecided(e)
	}
	return c.judgeWait("the starts are " + string(c.Expect) + " as predicted")
}

// judgeWait judges the cause of starts that changed as predicted: it is shown only
// where the wait for its lock was watched, in both arms, and changed with them.
func (c Cause) judgeWait(starts string) (CauseVerdict, string) {
	switch {
	case c.Wait == "":
		return CauseNotShown, starts + "; no wait is watched here that would show why"
	case c.Watched == nil:
		return CauseNotShown, starts + "; the wait for the lock was not watched in both arms"
	case c.Watched.Verdict == NotComparable:
		return CauseNoVerdict, starts + "; of the wait for the lock nothing is claimed: " + strings.TrimSuffix(c.Watched.Why, ".")
	case !c.waitChanged():
		return CauseNotShown, starts + ", and the wait for the lock is not shown to change with them"
	}
	return CauseShown, starts + ", and the wait for the lock changes with them"
}

// undecided says in a few words what an effect's own sentence says at length.
func undecided(e *Effect) string {
	switch {
	case e.Interval.Low <= 1 && e.Interval.High >= 1:
		return "the interval includes no change"
	case e.Reached > 0:
		return fmt.Sprintf("%d blocks are too few to judge all interventions: %d are needed", e.Blocks, e.Need)
	}
	return "the interval reaches out of the margin"
}

// waitChanged reports whether the wait changed in the direction expected.
func (c Cause) waitChanged() bool {
	e := c.Watched
	if e == nil || !e.Verdict.Shown() {
		return false
	}
	less := e.Ratio < 1
	if e.Difference != nil {
		less = e.Difference.Median < 0
	}
	return less == (c.Expect == study.ExpectFaster)
}

// p99ByBlock are the 99th percentiles of single starts, by cell and block, of
// trials of at least 100.
func p99ByBlock(records []sample.Record) map[string]Series {
	all := map[string]Series{}
	for _, r := range records {
		walls := r.Values[sample.Wall]
		if r.Failure != nil || r.Block < 0 || len(walls) < fromP99 {
			continue
		}
		b := all[r.Cell]
		b.blocks = append(b.blocks, int32(r.Block))
		b.values = append(b.values, stats.Quantile(stats.Sorted(walls), 0.99))
		all[r.Cell] = b
	}
	for cell, b := range all {
		if !b.regular() {
			all[cell] = b.tidy()
		}
	}
	return all
}
