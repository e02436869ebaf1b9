package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// table makes one table: the rows, then the effects with their verdicts, because the
// level of an interval depends on how many cells the table compares.
func (in Input) table(j job) result {
	t := Table{Group: j.group.name, Workload: j.group.cells[0].Workload, Metric: j.metric, Primary: j.primary}
	var control Series
	var base *column
	if j.group.control >= 0 {
		base = in.Data.cells[j.group.base().ID]
		control = base.series(j.metric.Name)
	}
	unproven := map[int]string{} // by row
	var effects []*compared      // of the rows, nil where there is none
	aa := -1                     // the A/A pair's row
	for _, cell := range j.group.cells {
		column := in.Data.cells[cell.ID]
		if column == nil || !in.Data.has(cell.ID, j.metric.Name) && len(column.blocks) > 0 {
			continue // not run, or run without this metric
		}
		series := column.series(j.metric.Name)
		var effect *compared
		if !cell.Control && len(series.values) > 0 && j.group.control >= 0 && !in.unlike(cell.Target, j.group.base().Target) {
			twin := in.twin(j.group)
			if cell.AA {
				twin = nil
			}
			left, second := column.beside(base, twin, j.metric.Name)
			effect = compare(left, control, second)
		}
		if cell.AA {
			aa = len(t.Rows)
		}
		if why := in.unproven(column, base, cell.Target, j.group.cells[max(j.group.control, 0)].Target, t.Workload); why != "" {
			unproven[len(t.Rows)] = why
		}
		t.Rows = append(t.Rows, in.row(cell, column, series, j.metric.Name, effect))
		effects = append(effects, effect)
	}
	r := result{table: t}
	in.verdicts(&r, j, control, effects, aa, unproven)
	if j.primary {
		in.stalls(&r)
		if base.inRounds(j.metric.Name) && in.Evidence[t.Workload] == sample.EvidenceNone {
			r.warnings = append(r.warnings, t.Group+": nothing proves that the targets did the same work (evidence: none): what is compared is what the program counts")
		}
	}
	if in.View == study.ViewLadder && j.primary && j.group.cells[0].Probe == "" { // what a probe watches is slower for it
		var warnings []string
		if r.ladder, warnings = in.ladder(j); r.ladder != nil {
			r.ladder.Refused = r.table.Refused // its levels are medians by themselves
		}
		r.warnings = append(r.warnings, warnings...)
	}
	return r
}

func (in Input) row(cell study.Cell, c *column, s Series, metric string, effect *compared) Row {
	row := Row{
		Cell: cell.ID, Target: cell.Target, Label: label(cell), Control: cell.Control, AA: cell.AA, Accel: in.Accels[cell.Target],
		Summary: summarize(s.values, stats.Source(in.Seed, "summary", cell.ID, metric)),
		Samples: s.values,
		Failure: c.failure,
	}
	row.Summary.Failed = c.failed
	if m := c.metrics[metric]; m != nil {
		row.Summary.Copies = summarizeCopies(m.copies)
	}
	if row.Samples == nil {
		row.Samples = []float64{}
	}
	if cold, ok := c.cold[metric]; ok {
		row.Cold = &cold
	}
	if effect != nil {
		row.Effect = effect.effect
	}
	return row
}

// twin is the column of a group's twin, nil where there is none.
func (in Input) twin(g group) *column {
	if g.aa < 0 {
		return nil
	}
	return in.Data.cells[g.cells[g.aa].ID]
}

func label(cell study.Cell) string {
	if cell.AA {
		return study.AATarget(cell.Target)
	}
	return cell.Target
}

// verdicts judges every effect of a table: first the twin, which may refuse the others.
// The twins of a report are judged together, so that chance alone rarely refuses one.
// The order within a block is random, so what disturbs the control disturbs its twin as
// well. A twin that has an interval is therefore all that tells of a disturbed machine;
// without one, the disturbance itself refuses the effects.
func (in Input) verdicts(r *result, j job, control Series, effects []*compared, aa int, unproven map[int]string) {
	rule := rules{alpha: in.Alpha, margin: in.Margin, metric: j.metric, described: !j.primary, refused: j.group.refusal}
	drift := in.drift(j, control)
	disturbed := cmp.Or(j.group.disturbed(), drift.refusal)
	steady := false
	if aa >= 0 && effects[aa] != nil {
		r.table.Noise = noiseOf(effects[aa])
		own := rule
		own.cells = j.twins
		own.judge(effects[aa])
		e := effects[aa].effect
		if rule.refused == "" && e.Verdict.Shown() {
			rule.refused = capital(twinsRefusal(e))
		}
		steady = e.Reached == 0 && (e.Interval.Decides() || e.Difference != nil)
	}
	r.table.Refused = cmp.Or(rule.refused, disturbed)
	if !steady {
		rule.refused = r.table.Refused
	}
	for i, c := range effects {
		if c != nil && i != aa {
			rule.cells++
		}
	}
	told := drift.refusal != "" && rule.refused == drift.refusal && rule.cells > 0 // by what it refuses
	if !told && !slices.Contains(noiseMetrics, j.metric.Name) {
		r.warnings = append(r.warnings, drift.text)
	}
	for i, c := range effects {
		if c != nil && i != aa {
			own := rule
			own.refused = cmp.Or(unproven[i], rule.refused, in.emulatedAgainst(r.table.Rows[i].Target, j.group.base().Target, j.metric))
			own.judge(c)
		}
	}
	r.warnings = slices.DeleteFunc(r.warnings, func(s string) bool { return s == "" })
}

// noiseOf is how far a twin may be from its control, by its 95 % interval, as a
// ratio-1; 0 where it has none.
func noiseOf(twin *compared) float64 {
	i := twin.at(describedLevel).effect.Interval
	if !i.Decides() || i.Low <= 0 {
		return 0
	}
	return stats.FromLog(max(math.Log(i.High), -math.Log(i.Low)))
}

// stallFactor and stallScore say when a trial is far from its own cell: both its
// ratio to the cell's median and its distance in scaled MADs.
const (
	stallFactor = 5
	stallScore  = 10
)

const (
	manySlices = 0.1 // share of a cell's slices that stalled from which the cell is reported
	mostStalls = 5   // cells that are reported one by one
)

// stall reports that slices or trials of a cell took far longer than the others.
type stall struct {
	text string
	size float64 // what the worst cells are chosen by
}

// worstStalls are the worst of a kind, and in how many more cells what happened: a noisy
// machine has them in every cell.
func worstStalls(all []stall, what string) []string {
	slices.SortStableFunc(all, func(a, b stall) int { return cmp.Compare(b.size, a.size) })
	var out []string
	for i, s := range all {
		if i == mostStalls {
			return append(out, fmt.Sprintf("in %s, %s", quantity.Count(len(all)-i, "more cell"), what))
		}
		out = append(out, s.text)
	}
	return out
}

// stalls names the trials that are far from their own cell, and the cells of which many
// slices stalled. They stay in the statistics; a stall is a finding of its own.
func (in Input) stalls(r *result) {
	t := r.table
	for _, row := range t.Rows {
		c := in.Data.cells[row.Cell]
		if w := c.work; c.inRounds(t.Metric.Name) && float64(w.stalled) > manySlices*float64(w.slices) {
			r.stalled = append(r.stalled, stall{
				text: fmt.Sprintf("%s: %s: %d of %d slices took more than three times as long as they were to take", t.Group, row.Label, w.stalled, w.slices),
				size: float64(w.stalled) / float64(w.slices),
			})
		}
		trials := c.each(t.Metric.Name) // a block may hold several, whose median hides one
		logs := logs(trials)
		if len(logs) < stats.MinimumBlocks {
			continue
		}
		ascending := stats.Sorted(logs)
		centre, reach := stats.Median(ascending), max(math.Log(stallFactor), stallScore*stats.Scatter(ascending))
		far, worst := 0, 0
		for i, v := range logs {
			if d := math.Abs(v - centre); d > reach {
				far++
				if far == 1 || d > math.Abs(logs[worst]-centre) {
					worst = i
				}
			}
		}
		if far > 0 {
			r.far = append(r.far, stall{
				text: fmt.Sprintf("%s: %s: %d of %d trials %s far from the cell's own median (%.3g %s where the median is %.3g)",
					t.Group, row.Label, far, len(logs), map[bool]string{true: "lies", false: "lie"}[far == 1], trials[worst], t.Metric.Unit, math.Exp(centre)),
				size: math.Abs(logs[worst] - centre),
			})
		}
	}
}
