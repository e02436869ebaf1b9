// Package gate judges limits: those of a study, of a gate on a run, and of tare's own
// bars. It takes the intervals that the analysis has computed, and is pure.
package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Verdict is the answer on one limit.
type Verdict string

// The verdicts.
const (
	Met                   = Verdict(analysis.LimitMet)      // the whole interval is within the limit
	Broken                = Verdict(analysis.LimitBroken)   // the whole interval is beyond it
	Open                  = Verdict(analysis.LimitOpen)     // neither, or there is no interval
	NotComparable         = Verdict(analysis.NotComparable) // the numbers cannot answer: noise, another unit, no such cell
	Failed        Verdict = "target failed"                 // trials of the cell failed, by the target's fault
)

// Verdicts are all answers, the best first.
func Verdicts() []Verdict { return []Verdict{Met, Open, NotComparable, Broken, Failed} }

// Worst is the verdict of a whole gate; Met for one without answers.
func Worst(answers []Answer) Verdict {
	for _, v := range slices.Backward(Verdicts()) {
		if slices.ContainsFunc(answers, func(a Answer) bool { return a.Verdict == v }) {
			return v
		}
	}
	return Met
}

// Answer is what one limit's judgement found in one cell.
type Answer struct {
	Verdict Verdict `json:"verdict"`
	Run     string  `json:"run,omitempty"`
	Limit   string  `json:"limit"`  // the bound: "at most 1.10"
	Cell    string  `json:"cell"`   // WORKLOAD/TARGET, with the group's name for the workload's
	Metric  string  `json:"metric"` // "" where no table was found
	// Value and Interval are a ratio to Against, or where Against is "" a value in
	// Unit. Without a number Value is NaN, null in JSON.
	Value    float64        `json:"value"`
	Interval stats.Interval `json:"interval"`
	Unit     sample.Unit    `json:"unit,omitempty"`
	Against  string         `json:"against,omitempty"` // "host", "run 20261123-..."
	Blocks   int            `json:"blocks"`
	Need     int            `json:"need,omitempty"` // about how many blocks would settle an open limit; 0 for not known
	Why      string         `json:"why"`            // one sentence, with the interval
}

// Run is what limits are judged on.
type Run struct {
	ID      string
	Tables  []analysis.Table
	Skipped map[string]string // targets that were not measured, with the reason
	// Baseline is an earlier run, nil for none. Comparisons are those of Compare, from
	// it to this one.
	Baseline    string
	Comparisons []analysis.Comparison
}

// Judge judges every limit in every cell that it names. A limit that names no cell of
// the run is not comparable. The error is that of a limit that cannot be read.
func Judge(limits []study.Limit, run Run) ([]Answer, error) {
	var answers []Answer
	for _, l := range limits {
		name, err := l.Name()
		if err != nil {
			return nil, err
		}
		bounds, err := l.Bounds()
		if err != nil {
			return nil, fmt.Errorf("limit of %s: %w", l.Cell, err)
		}
		j := judge{run: run, limit: l, name: name, bounds: bounds}
		if err := j.reference(); err != nil {
			return nil, err
		}
		answers = append(answers, j.answers()...)
	}
	return answers, nil
}

// judge is one limit in the making of its answers.
type judge struct {
	run      Run
	limit    study.Limit
	name     study.CellName
	bounds   study.Bounds
	baseline bool // the ratio is to the baseline's
}

// reference settles what a ratio is to.
func (j *judge) reference() error {
	if j.limit.Against == study.AgainstBaseline && j.run.Baseline == "" {
		return fmt.Errorf("limit of %s: it is against a baseline, and none is given: name a run with --baseline", j.limit.Cell)
	}
	j.baseline = j.bounds.Unit == "" && j.run.Baseline != "" && j.limit.Against != study.AgainstControl
	return nil
}

func (j judge) answers() []Answer {
	all := j.among(func(t analysis.Table, _ analysis.Row) bool {
		return j.name.Metric == "" && t.Primary || t.Metric.Name == j.name.Metric
	})
	if len(all) == 0 { // a group whose trials all failed has no table of the metric
		all = j.among(func(_ analysis.Table, r analysis.Row) bool { return r.Failure != nil })
	}
	if len(all) == 0 {
		a := j.blank(j.name.Workload, j.name.Target)
		a.Metric = j.name.Metric
		all = append(all, a.is(NotComparable, j.missing()))
	}
	return all
}

// among judges the rows of the limit's cells that wanted takes.
func (j judge) among(wanted func(analysis.Table, analysis.Row) bool) []Answer {
	var all []Answer
	for _, t := range j.run.Tables {
		if !j.inGroup(t) {
			continue
		}
		for _, r := range t.Rows {
			named := r.Target == j.name.Target || j.name.Target == study.EveryTarget && !r.Control
			if named && !r.AA && wanted(t, r) {
				all = append(all, j.row(t, r))
			}
		}
	}
	return all
}

// inGroup reports whether a table is of the limit's workload or group. A workload's
// name stands for all of its groups but those that a probe watches.
func (j judge) inGroup(t analysis.Table) bool {
	return t.Group == j.name.Workload || t.Workload == j.name.Workload && !strings.Contains(t.Group, "~")
}

// missing says why no cell of the run is the limit's.
func (j judge) missing() string {
	if why := j.run.Skipped[j.name.Target]; why != "" {
		return fmt.Sprintf("%s was skipped: %s.", j.name.Target, strings.TrimSuffix(why, "."))
	}
	var cells, metrics []string
	for _, t := range j.run.Tables {
		for _, r := range t.Rows {
			cell := t.Group + "/" + r.Target
			if cell == j.limit.Cell || t.Workload == j.name.Workload && r.Target == j.name.Target {
				metrics = append(metrics, t.Metric.Name)
			}
			if !slices.Contains(cells, cell) {
				cells = append(cells, cell)
			}
		}
	}
	if len(metrics) > 0 {
		return fmt.Sprintf("The cell has no metric %s; %sit has %s.", j.name.Metric, meant(j.name.Metric, metrics), strings.Join(metrics, ", "))
	}
	return fmt.Sprintf("The run has no such cell; %sit has %s.", meant(j.limit.Cell, cells), listed(cells))
}

// listMost is the number of names that a sentence lists.
const listMost = 12

func listed(names []string) string {
	if more := len(names) - listMost; more > 0 {
		names = append(names[:listMost:listMost], fmt.Sprintf("and %d more (group and target of tare report RUN --format csv)", more))
	}
	return strings.Join(names, ", ")
}

// meant asks for the nearest name, where one is near.
func meant(name string, known []string) string {
	if near := study.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q? ", near)
	}
	return ""
}

func (j judge) blank(group, target string) Answer {
	return Answer{Run: j.run.ID, Cell: group + "/" + target, Limit: j.words(), Value: math.NaN(), Interval: stats.None(0)}
}

// is gives an answer its verdict and its sentence.
func (a Answer) is(v Verdict, why string) Answer {
	a.Verdict, a.Why = v, why
	return a
}

// row judges one row of a table.
func (j judge) row(t analysis.Table, r analysis.Row) Answer {
	a := j.blank(t.Group, r.Target)
	a.Metric = t.Metric.Name
	if f := r.Failure; f != nil {
		why := fmt.Sprintf("%d trials failed, the first one: %s", r.Summary.Failed, strings.TrimSpace(f.Message))
		if f.Fault != sample.FaultTarget {
			return a.is(NotComparable, "The laboratory is at fault: "+why)
		}
		return a.is(Failed, why)
	}
	switch {
	case j.bounds.Unit != "":
		return j.value(a, t, r)
	case j.baseline:
		return j.change(a, t, r)
	}
	a.Against = controlOf(t)
	return j.ratio(a, r.Effect)
}

// controlOf is the name of a table's control.
func controlOf(t analysis.Table) string {
	for _, r := range t.Rows {
		if r.Control {
			return r.Target
		}
	}
	return "the control"
}

// change judges the change from the baseline.
func (j judge) change(a Answer, t analysis.Table, r analysis.Row) Answer {
	a.Against = "run " + j.run.Baseline
	for _, c := range j.run.Comparisons {
		if c.Group != t.Group || c.Metric.Name != t.Metric.Name {
			continue
		}
		for _, row := range c.Rows {
			switch {
			case row.Cell != r.Cell:
				continue
			case row.Control:
				return a.is(NotComparable, "It is the control, by which the change of the machine between the two runs is divided out.")
			case row.Failed():
				return a.is(NotComparable, "All its trials failed in the baseline.")
			}
			return j.ratio(a, row.Effect)
		}
	}
	return a.is(NotComparable, "The baseline has no such cell with this metric.")
}

// ratio judges an effect.
func (j judge) ratio(a Answer, e *analysis.Effect) Answer {
	switch {
	case e == nil:
		return a.is(NotComparable, "It has no ratio: it is the control itself, or has nothing to be compared with.")
	case e.Verdict == analysis.NotComparable:
		a.Blocks = e.Blocks
		return a.is(NotComparable, e.Why)
	case e.Difference != nil || e.Ratio <= 0 && e.Blocks > 0:
		a.Blocks = e.Blocks
		return a.is(NotComparable, "Some values are zero or negative, so there is no ratio: give an absolute limit.")
	}
	a.Value, a.Interval, a.Blocks = e.Ratio, e.Interval, e.Blocks
	if e.Reached > 0 || !e.Interval.Decides() {
		a.Need = cmp.Or(e.Need, stats.MinimumBlocks)
		return a.is(Open, a.tooFew(e.Reached))
	}
	return j.decide(a, math.Log)
}

// value judges a median in the metric's own unit.
func (j judge) value(a Answer, t analysis.Table, r analysis.Row) Answer {
	a.Unit, a.Blocks = t.Metric.Unit, r.Summary.N
	switch {
	case t.Metric.Unit != j.bounds.Unit:
		return a.is(NotComparable, fmt.Sprintf("%s is in %s, and the limit is in %s.", t.Metric.Name, t.Metric.Unit, j.bounds.Unit))
	case t.Refused != "":
		return a.is(NotComparable, t.Refused)
	case r.Summary.N == 0:
		return a.is(NotComparable, "No trial gave this number.")
	}
	a.Value, a.Interval = r.Summary.Median, r.Summary.Interval
	if !a.Interval.Decides() {
		a.Need = stats.MinimumBlocks
		return a.is(Open, a.tooFew(0))
	}
	return j.decide(a, func(v float64) float64 { return v })
}

// tooFew says that blocks are too few for the interval that a verdict needs.
func (a Answer) tooFew(reached float64) string {
	return fmt.Sprintf("%s, from %s: %d are needed for an interval that decides.", a.shown(reached > 0), quantity.Count(a.Blocks, "block"), a.Need)
}

// decide gives the verdict of an interval; scale is where distances are measured.
func (j judge) decide(a Answer, scale func(float64) float64) Answer {
	limit := analysis.Limit{Least: j.bounds.Least, Most: j.bounds.Most}
	from := fmt.Sprintf("%s, from %s", a.shown(true), quantity.Count(a.Blocks, "block"))
	switch v := Verdict(limit.Judge(a.Interval)); v {
	case Met:
		return a.is(v, fmt.Sprintf("%s: the whole interval is within the limit of %s.", from, a.Limit))
	case Broken:
		return a.is(v, fmt.Sprintf("%s: the whole interval is beyond the limit of %s.", from, a.Limit))
	}
	a.Need = settles(a, limit, scale)
	if a.Need == 0 {
		return a.is(Open, fmt.Sprintf("%s: the interval contains the limit of %s, and the value is too near to it for a number of blocks that would settle it.", from, a.Limit))
	}
	return a.is(Open, fmt.Sprintf("%s: the interval contains the limit of %s; about %d blocks would settle it.", from, a.Limit, a.Need))
}

// mostBlocks is the largest number of blocks that is worth naming.
const mostBlocks = 10_000

// settles is about how many blocks bring an interval to one side of a limit: its
// half-width shrinks with the root of the blocks. 0 where they would be too many.
func settles(a Answer, limit analysis.Limit, scale func(float64) float64) int {
	need := 0
	for _, bound := range []float64{limit.Least, limit.Most} {
		if bound < a.Interval.Low || bound > a.Interval.High {
			continue
		}
		end := a.Interval.High
		if bound < a.Value {
			end = a.Interval.Low
		}
		at := scale(a.Value)
		times := math.Pow((scale(end)-at)/(scale(bound)-at), 2)
		if n := float64(a.Blocks) * times; n < mostBlocks {
			need = max(need, a.Blocks+1, int(math.Ceil(n)))
		} else {
			return 0
		}
	}
	return need
}

// words writes the limit: "at most 1.10", "at least 3 MiB".
func (j judge) words() string {
	side := func(text string, bound float64) string {
		if strings.HasSuffix(text, "%") && strings.ContainsAny(text[:1], "+-") {
			return fmt.Sprintf("%s (%.4g)", text, bound)
		}
		return text
	}
	var sides []string
	if j.limit.AtLeast != "" {
		sides = append(sides, "at least "+side(strings.TrimSpace(j.limit.AtLeast), j.bounds.Least))
	}
	if j.limit.AtMost != "" {
		sides = append(sides, "at most "+side(strings.TrimSpace(j.limit.AtMost), j.bounds.Most))
	}
	return strings.Join(sides, " and ")
}

// Measured writes the answer's number with its interval; "" where there is none.
func (a Answer) Measured() string {
	if math.IsNaN(a.Value) {
		return ""
	}
	return a.shown(a.Interval.Decides())
}

// shown writes the number, with its interval where it has one.
func (a Answer) shown(interval bool) string {
	i := a.Interval
	if !interval {
		i = stats.None(0)
	}
	if a.Against == "" {
		scale := quantity.ScaleFor(a.Unit, []float64{a.Value})
		return strings.TrimSpace(scale.Show(a.Value, i).String() + " " + scale.Unit)
	}
	return quantity.Ratio(a.Value, i).String() + " × " + a.Against
}
