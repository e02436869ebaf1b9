package kernelwaits

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// causeVerdict is what an intervention says of a cause.
type causeVerdict string

// The verdicts on causes.
const (
	causeShown     causeVerdict = "cause shown"  // the times and the wait changed as expected, beyond their intervals
	causeNotShown  causeVerdict = "not shown"    // the blocks leave it open, or the times changed and the wait did not, or nobody watched it
	causePredicted causeVerdict = "as predicted" // no effect was predicted, and none beyond the margin is there
	causeRefuted   causeVerdict = "refuted"      // no effect beyond the margin is shown, or one in the other direction
	causeNoVerdict causeVerdict = "no verdict"   // the machine was too noisy for a claim
	causeCannot    causeVerdict = "cannot here"  // this machine lacks what the arm takes
)

// cause is one intervention and what it did.
type cause struct {
	study.Intervention
	Verdict causeVerdict `json:"verdict"`
	Because string       `json:"because"`
	// Starts is the ratio of starts a second to the control's, P99 that of the
	// 99th percentile of a start's wall time, Watched that of the wait's time.
	// Nil where nothing could be compared. Starts and Watched are judged by the rules
	// of tables, with Holm over the interventions of the study; P99 is not.
	Starts  *analysis.Effect `json:"starts,omitempty"`
	P99     *analysis.Effect `json:"p99,omitempty"`
	Watched *analysis.Effect `json:"watched,omitempty"`
	// FewCopies: a trial's p99 is of fewer than 100 starts, and so left out.
	FewCopies bool `json:"fewCopies,omitempty"`
	// Noise is the noise floor of the starts, and WatchedNoise that of the wait, by
	// the A/A twins of both places, as a ratio-1; 0 where it is not known.
	Noise        float64 `json:"noise,omitempty"`
	WatchedNoise float64 `json:"watchedNoise,omitempty"`
	// Left is what the arm still waits for, the longest first: why it gains no more.
	// Nil where nobody watched it.
	Left []leftWait `json:"left,omitempty"`
}

// leftWait is a wait of an arm's own threads.
type leftWait struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // of all its waits
	Each  float64 `json:"each"`  // seconds, for each start
}

// leftWaits sums up what a watched cell waits for. The wait of a parent in vfork is
// none of its own: the child works or waits meanwhile, and has rows for that.
func leftWaits(w watchedCell, copies int) (left []leftWait) {
	largest, all := largestWaits(w.Rows, func(r profile.Row) bool { return r.Name != profile.VFork })
	for _, l := range largest {
		left = append(left, leftWait{l.Name, l.Share, l.Share * all / float64(max(1, copies*w.Trials))})
	}
	return left
}

// leftOf is what an intervention's watched arm waits for.
func leftOf(in analysis.Input, v study.Intervention, control string, waits []watchedCell) []leftWait {
	cell := arm(in, v, control, study.ProbeLocks)
	if v.Workload != "" {
		cell, _ = work(in, v, v.Workload, control, study.ProbeLocks)
	}
	at := slices.IndexFunc(waits, func(w watchedCell) bool { return cell.ID != "" && w.Cell == cell.ID })
	if at < 0 {
		return nil
	}
	return leftWaits(waits[at], cell.Copies)
}

// causes are the interventions of a study, ranked by what their intervals show to
// be gained at least; those that cost most stand last. tables are the run's own
// (analysis.Analyze): their noise floors and refusals hold for causes, too. waits are
// what its watched cells waited for, p99 those of starts by cell. lacks says why targets
// that this machine cannot have were left out, by name.
func causes(in analysis.Input, tables []analysis.Table, waits []watchedCell, st study.Study, p99 map[string]analysis.Series, lacks map[string]string) []cause {
	in = in.WithDefaults()
	all := make([]cause, len(st.Interventions))
	var starts, watched []*analysis.Contrast
	for i, v := range st.Interventions {
		all[i].Intervention = v
		s, w := all[i].compare(in, tables, st.Control, p99)
		starts, watched = append(starts, s), append(watched, w)
	}
	analysis.JudgeTogether(starts)
	analysis.JudgeTogether(watched)
	for i := range all {
		if why := cmp.Or(lacks[all[i].Target], lacks[all[i].Against]); why != "" {
			all[i].Verdict, all[i].Because = causeCannot, why
			continue
		}
		all[i].Verdict, all[i].Because = all[i].judge()
		all[i].Left = leftOf(in, all[i].Intervention, st.Control, waits)
		all[i].Noise, all[i].WatchedNoise = starts[i].Noise(), watched[i].Noise()
	}
	slices.SortStableFunc(all, func(a, b cause) int { return cmp.Compare(b.gain(), a.gain()) })
	return all
}

// gain is what an intervention makes of the starts by that end of its interval
// which is nearer to no change; 1 where none is shown.
func (c cause) gain() float64 {
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
func base(in analysis.Input, probe string) (found study.Cell) {
	for _, c := range in.Cells {
		if c.Control && c.Probe == probe && (found.ID == "" || c.Concurrency > found.Concurrency) {
			found = c
		}
	}
	return found
}

// counterpart is the cell that an intervention's is compared with.
func counterpart(in analysis.Input, v study.Intervention, control, probe string) study.Cell {
	if v.Against == "" {
		return base(in, probe)
	}
	return arm(in, study.Intervention{Target: v.Against, Concurrency: v.Concurrency}, control, probe)
}

// arm is an intervention's cell.
func arm(in analysis.Input, v study.Intervention, control, probe string) study.Cell {
	target, concurrency := cmp.Or(v.Target, control), cmp.Or(v.Concurrency, base(in, probe).Concurrency)
	for _, c := range in.Cells {
		if c.Target == target && !c.AA && c.Probe == probe && c.Concurrency == concurrency {
			return c
		}
	}
	return study.Cell{}
}

// placeOf is a metric of a cell.
func placeOf(c study.Cell, metric string) analysis.Place {
	return analysis.Place{Cell: c.ID, Group: c.Group, Metric: metric}
}

// faster gives the words for the ratio of the starts per second.
var faster = sample.Metric{Unit: sample.PerSecond, Better: sample.Higher}

// compare compares an intervention with its control, and gives what is to be judged.
func (c *cause) compare(in analysis.Input, tables []analysis.Table, control string, p99 map[string]analysis.Series) (starts, watched *analysis.Contrast) {
	v := c.Intervention
	contrast := func(of, to analysis.Place) *analysis.Contrast { return in.Contrast(tables, of, to).Worded(faster) }
	if v.Workload != "" {
		starts = contrast(placeOf(work(in, v, v.Workload, control, "")), placeOf(work(in, v, v.Against, control, "")))
		if v.Wait != "" {
			watched = contrast(placeOf(work(in, v, v.Workload, control, study.ProbeLocks)), placeOf(work(in, v, v.Against, control, study.ProbeLocks)))
		}
		c.Starts, c.Watched = starts.Effect(), watched.Effect()
		return starts, watched
	}
	own, other := arm(in, v, control, ""), counterpart(in, v, control, "")
	// The same number of starts: their rates are as the inverse of the times.
	starts = contrast(placeOf(other, sample.Elapsed), placeOf(own, sample.Elapsed))
	if e := analysis.Against(p99[own.ID], p99[other.ID]); e.Blocks > 0 {
		c.P99 = e
	} else {
		c.FewCopies = true
	}
	if v.Wait != "" {
		watched = contrast(placeOf(arm(in, v, control, study.ProbeLocks), v.Wait), placeOf(counterpart(in, v, control, study.ProbeLocks), v.Wait))
	}
	c.Starts, c.Watched = starts.Effect(), watched.Effect()
	return starts, watched
}

// work is a workload in an intervention's target: by the rate that is its primary
// metric, or watched, by the wait.
func work(in analysis.Input, v study.Intervention, workload, control, probe string) (cell study.Cell, metric string) {
	metric = v.Wait
	if probe == "" && len(in.Metrics[workload]) > 0 {
		metric = in.Metrics[workload][0].Name
	}
	for _, c := range in.Cells {
		if c.Workload == workload && c.Target == cmp.Or(v.Target, control) && !c.AA && c.Probe == probe {
			return c, metric
		}
	}
	return study.Cell{}, metric
}

// judge applies the rule that stands in docs/interventions.md.
func (c cause) judge() (causeVerdict, string) {
	e := c.Starts
	if e == nil || e.Verdict != analysis.NotComparable && e.Difference == nil && !e.Interval.Decides() {
		return causeNotShown, "too few blocks for an interval"
	}
	differs, equal := e.Verdict.Shown(), e.Verdict == analysis.Same
	faster := e.Ratio > 1
	switch {
	case e.Verdict == analysis.NotComparable:
		return causeNoVerdict, strings.TrimSuffix(e.Why, ".")
	case c.Expect == study.ExpectNone && equal:
		return causePredicted, "no effect beyond the margin"
	case c.Expect == study.ExpectNone && differs:
		return causeRefuted, "none was predicted, and there is an effect"
	case c.Expect == study.ExpectFaster && (equal || differs && !faster):
		return causeRefuted, "the starts are not faster"
	case c.Expect == study.ExpectSlower && (equal || differs && faster):
		return causeRefuted, "the starts are not slower"
	case !differs && c.Expect == study.ExpectNone:
		return causeNotShown, "neither an effect nor its absence is shown"
	case !differs:
		return causeNotShown, undecided(e)
	}
	return c.judgeWait("the starts are " + string(c.Expect) + " as predicted")
}

// judgeWait judges the cause of starts that changed as predicted: it is shown only
// where the wait for its lock was watched, in both arms, and changed with them.
func (c cause) judgeWait(starts string) (causeVerdict, string) {
	switch {
	case c.Wait == "":
		return causeNotShown, starts + "; no wait is watched here that would show why"
	case c.Watched == nil:
		return causeNotShown, starts + "; the wait for the lock was not watched in both arms"
	case c.Watched.Verdict == analysis.NotComparable:
		return causeNoVerdict, starts + "; of the wait for the lock nothing is claimed: " + strings.TrimSuffix(c.Watched.Why, ".")
	case !c.waitChanged():
		return causeNotShown, starts + ", and the wait for the lock is not shown to change with them"
	}
	return causeShown, starts + ", and the wait for the lock changes with them"
}

// undecided says in a few words what an effect's own sentence says at length.
func undecided(e *analysis.Effect) string {
	switch {
	case e.Interval.Low <= 1 && e.Interval.High >= 1:
		return "the interval includes no change"
	case e.Reached > 0:
		return fmt.Sprintf("%d blocks are too few to judge all interventions: %d are needed", e.Blocks, e.Need)
	}
	return "the interval reaches out of the margin"
}

// waitChanged reports whether the wait changed in the direction expected.
func (c cause) waitChanged() bool {
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

// p99From is the number of starts from which a trial has a 99th percentile.
const p99From = 100

// p99ByBlock are the 99th percentiles of single starts, by cell and block, of
// trials of at least 100.
func p99ByBlock(records iter.Seq2[sample.Record, error]) (map[string]analysis.Series, error) {
	blocks, values := map[string][]int32{}, map[string][]float64{}
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		walls := r.Values[sample.Wall]
		if r.Failure != nil || r.Block < 0 || len(walls) < p99From {
			continue
		}
		blocks[r.Cell] = append(blocks[r.Cell], int32(r.Block))
		values[r.Cell] = append(values[r.Cell], stats.Quantile(stats.Sorted(walls), 0.99))
	}
	all := map[string]analysis.Series{}
	for cell := range blocks {
		all[cell] = analysis.NewSeries(blocks[cell], values[cell])
	}
	return all, nil
}
