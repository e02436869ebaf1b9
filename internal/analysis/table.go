package analysis

import (
	"slices"

	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// table makes one table: the rows, then the effects, and last the verdicts,
// because these depend on the whole table (Holm, noise floor, refusal).
func (in Input) table(j job) result {
	t := Table{Group: j.group.name, Workload: j.group.cells[0].Workload, Metric: j.metric, Primary: j.primary}
	var control Series
	var base *column
	if j.group.control >= 0 {
		base = in.Data.cells[j.group.cells[j.group.control].ID]
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
		if !cell.Control && len(series.values) > 0 && j.group.control >= 0 && !in.unlike(cell.Target, j.group.cells[j.group.control].Target) {
			effect = compare(column.against(base, j.metric.Name), control, stats.Source(in.Seed, "effect", cell.ID, j.metric.Name))
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
	if in.View == study.ViewLadder && j.primary && j.group.cells[0].Probe == "" { // what a probe watches is slower for it
		var warnings []string
		if r.ladder, warnings = in.ladder(j); r.ladder != nil {
			r.ladder.Refused = r.table.Refused
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

func label(cell study.Cell) string {
	if cell.AA {
		return study.AATarget(cell.Target)
	}
	return cell.Target
}

// verdicts judges every effect of a table.
func (in Input) verdicts(r *result, j job, control Series, effects []*compared, aa int, unproven map[int]string) {
	present := slices.DeleteFunc(slices.Clone(effects), func(c *compared) bool { return c == nil })
	p := make([]float64, len(present))
	for i, c := range present {
		p[i] = c.effect.P
	}
	for i, adjusted := range stats.Holm(p) {
		present[i].effect.PAdjusted = adjusted
	}
	rule := rules{alpha: in.Alpha, margin: in.Margin, cells: len(present)}
	drift := in.drift(j, control)
	rule.refused = firstOf(j.group.refusal, drift.refusal)
	if !isNoiseMetric(j.metric.Name) {
		r.warnings = append(r.warnings, drift.warning)
	}
	if aa >= 0 && effects[aa] != nil {
		rule.judge(effects[aa])
		rule.noise = effects[aa].width
		r.table.Noise = stats.FromLog(rule.noise)
		if d := effects[aa].effect.Difference; d != nil {
			rule.step = (d.Interval.High - d.Interval.Low) / 2
			r.table.NoiseStep = rule.step
		}
		if rule.refused == "" && effects[aa].effect.Verdict == Differs {
			rule.refused = capital(twinsRefusal(effects[aa].effect))
		}
	}
	r.table.Refused = rule.refused
	for i, c := range effects {
		if c != nil && i != aa {
			own := rule
			own.refused = firstOf(unproven[i], rule.refused, in.emulatedAgainst(r.table.Rows[i].Target, j.group.cells[j.group.control].Target, j.metric))
			own.judge(c)
		}
	}
	r.warnings = slices.DeleteFunc(r.warnings, func(s string) bool { return s == "" })
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
