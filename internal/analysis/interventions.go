package analysis

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// CauseVerdict is what an intervention says of a cause.
type CauseVerdict string

// The verdicts on causes.
const (
	CauseShown    CauseVerdict = "cause shown" // the times and the wait changed as expected, beyond their intervals
	CauseNotShown CauseVerdict = "not shown"   // the intervals leave it open, or the times changed and the wait did not
	CauseRefuted  CauseVerdict = "refuted"     // the interval leaves no room for an effect beyond the margin
)

// Cause is one intervention and what it did.
type Cause struct {
	study.Intervention
	Verdict CauseVerdict `json:"verdict"`
	Because string       `json:"because"`
	// Starts is the ratio of starts a second to the control's, P99 that of the
	// 99th percentile of a start's wall time, Watched that of the wait's time.
	// Nil where nothing could be compared.
	Starts  *Effect `json:"starts,omitempty"`
	P99     *Effect `json:"p99,omitempty"`
	Watched *Effect `json:"watched,omitempty"`
	// FewCopies: a trial's p99 is of fewer than 100 starts, and so left out.
	FewCopies bool `json:"fewCopies,omitempty"`
}

// Causes are the interventions of a study, those that help most first.
func Causes(in Input, st study.Study, records []sample.Record) []Cause {
	in = in.defaults()
	p99 := p99ByBlock(records)
	var all []Cause
	for _, v := range st.Interventions {
		all = append(all, in.cause(v, st, p99))
	}
	slices.SortStableFunc(all, func(a, b Cause) int { return cmp.Compare(b.gain(), a.gain()) })
	return all
}

func (c Cause) gain() float64 {
	if c.Starts == nil {
		return 0
	}
	return c.Starts.Ratio
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

func (in Input) cause(v study.Intervention, st study.Study, p99 map[string]blockSeries) Cause {
	c := Cause{Intervention: v}
	rng := rand.New(rand.NewPCG(in.Seed, 2))
	if v.Workload != "" {
		return in.causeOfWork(c, st.Control, rng)
	}
	arm, base := in.arm(v, st.Control, ""), in.base("")
	if e := compare(in.Data.cells[base.ID].series(elapsed), in.Data.cells[arm.ID].series(elapsed), rng).effect; e.Blocks > 0 {
		c.Starts = e // the same number of starts: their rates are as the inverse of the times
	}
	if e := compare(p99[arm.ID], p99[base.ID], rng).effect; e.Blocks > 0 {
		c.P99 = e
	} else {
		c.FewCopies = true
	}
	if v.Wait != "" {
		watched, plain := in.arm(v, st.Control, study.ProbeLocks), in.base(study.ProbeLocks)
		if e := compare(in.Data.cells[watched.ID].series(v.Wait), in.Data.cells[plain.ID].series(v.Wait), rng).effect; e.Blocks > 0 {
			c.Watched = e
		}
	}
	c.Verdict, c.Because = c.judge(in.Margin)
	return c
}

// causeOfWork compares two workloads in one target, by the rate that is the
// primary metric of both.
func (in Input) causeOfWork(c Cause, control string, rng *rand.Rand) Cause {
	find := func(workload, probe string) blockSeries {
		for _, cell := range in.Cells {
			if cell.Workload == workload && cell.Target == cmp.Or(c.Target, control) && !cell.AA && cell.Probe == probe {
				metric := c.Wait
				if probe == "" && len(in.Metrics[workload]) > 0 {
					metric = in.Metrics[workload][0].Name
				}
				return in.Data.cells[cell.ID].series(metric)
			}
		}
		return blockSeries{}
	}
	if e := compare(find(c.Workload, ""), find(c.Against, ""), rng).effect; e.Blocks > 0 {
		c.Starts = e
	}
	if c.Wait != "" {
		if e := compare(find(c.Workload, study.ProbeLocks), find(c.Against, study.ProbeLocks), rng).effect; e.Blocks > 0 {
			c.Watched = e
		}
	}
	c.Verdict, c.Because = c.judge(in.Margin)
	return c
}

// elapsed is the metric of trials of many copies: from the first request to the
// last exit.
const elapsed = "elapsed"

// judge applies the rule that stands in docs/interventions.md.
func (c Cause) judge(margin float64) (CauseVerdict, string) {
	e := c.Starts
	if e == nil || e.Interval.Method == MethodNone {
		return CauseNotShown, "too few blocks for an interval"
	}
	faster, slower := e.Interval.Low > 1, e.Interval.High < 1
	inside := e.Interval.Low > 1-margin && e.Interval.High < 1+margin
	switch {
	case c.Expect == study.ExpectNone && inside:
		return CauseShown, "no effect beyond the margin, as predicted"
	case c.Expect == study.ExpectNone && (faster || slower):
		return CauseRefuted, "none was predicted, and there is an effect"
	case c.Expect == study.ExpectNone:
		return CauseNotShown, "the interval is wider than the margin"
	case c.Expect == study.ExpectFaster && e.Interval.High < 1+margin:
		return CauseRefuted, "starts are not faster without it"
	case c.Expect == study.ExpectSlower && e.Interval.Low > 1-margin:
		return CauseRefuted, "starts are not slower with it"
	case c.Expect == study.ExpectFaster && !faster, c.Expect == study.ExpectSlower && !slower:
		return CauseNotShown, "the interval includes no change"
	case c.Wait != "" && !c.waitChanged():
		return CauseNotShown, "the starts changed, and the wait for the lock is not shown to"
	}
	return CauseShown, "the starts and the wait changed as predicted"
}

// waitChanged reports whether the wait changed in the direction expected.
func (c Cause) waitChanged() bool {
	e := c.Watched
	if e == nil {
		return false
	}
	span, same := e.Interval, 1.0
	if e.Difference != nil {
		span, same = e.Difference.Interval, 0
	}
	if span.Method == MethodNone {
		return false
	}
	if c.Expect == study.ExpectFaster {
		return span.High < same
	}
	return span.Low > same
}

// p99ByBlock are the 99th percentiles of single starts, by cell and block, of
// trials of at least 100.
func p99ByBlock(records []sample.Record) map[string]blockSeries {
	all := map[string]blockSeries{}
	for _, r := range records {
		walls := r.Values[wallTime]
		if r.Failure != nil || r.Block < 0 || len(walls) < fromP99 {
			continue
		}
		b := all[r.Cell]
		b.blocks = append(b.blocks, int32(r.Block))
		b.values = append(b.values, quantile(sorted(walls), 0.99))
		all[r.Cell] = b
	}
	for cell, b := range all {
		if !b.regular() {
			all[cell] = b.tidy()
		}
	}
	return all
}
