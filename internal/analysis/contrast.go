package analysis

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// This file is what experiments use of the analysis beyond a run's tables: the
// values of a cell by block, one place against another, and the rules that judge
// such a contrast as a table's effects are judged.

// NewSeries is a series of one value for each block, in any order; several values
// of one block become their mean, NaN stands for none.
func NewSeries(blocks []int32, values []float64) Series {
	s := Series{blocks, values}
	if !s.regular() {
		s = s.tidy()
	}
	return s
}

// Len is the number of blocks that have a value.
func (b Series) Len() int { return len(b.values) }

// Values are one for each block, by rising block. They must not be changed.
func (b Series) Values() []float64 { return b.values }

// Blocks are those that have a value, rising. They must not be changed.
func (b Series) Blocks() []int32 { return b.blocks }

// Pairs calls f for each block that both series have, by rising block.
func (b Series) Pairs(other Series, f func(block int, x, y float64)) {
	pairs(b, other, func(block int32, x, y float64) { f(int(block), x, y) })
}

// Complete keeps the blocks that every series has: one row of values for each series.
func Complete(levels []Series) [][]float64 {
	if len(levels) == 0 {
		return nil
	}
	common := levels[0]
	for _, l := range levels[1:] {
		var both Series
		pairs(common, l, func(block int32, x, _ float64) {
			both.blocks, both.values = append(both.blocks, block), append(both.values, x)
		})
		common = both
	}
	out := make([][]float64, len(levels))
	for i, l := range levels {
		out[i] = make([]float64, 0, len(common.blocks))
		pairs(l, common, func(_ int32, x, _ float64) { out[i] = append(out[i], x) })
	}
	return out
}

// Series is a metric of a cell: one value for each block, the mean where a trial ran
// several instances. A cell or metric that gave nothing has none.
func (in Input) Series(cell, metric string) Series { return in.Data.cells[cell].series(metric) }

// Relative is a metric of a cell as it stands to another cell's: where both were measured in
// rounds each block's value is the other's times the median ratio within its rounds, in
// which what slows both cancels. Else it is Series.
func (in Input) Relative(cell, other, metric string) Series {
	return in.Data.cells[cell].against(in.Data.cells[other], metric)
}

// Measured reports whether a cell gave a sample of any metric.
func (in Input) Measured(cell string) bool {
	c := in.Data.cells[cell]
	return c != nil && len(c.blocks) > 0
}

// Summary describes one metric of one cell; N is 0 where there is nothing.
func (in Input) Summary(cell, metric string) Summary {
	return summarize(in.Series(cell, metric).values, rand.New(rand.NewPCG(in.Seed, 1)))
}

// Against is the effect of one series against another by block, with its 95 %
// interval and without a verdict. Its Blocks are 0 where they have none in common.
func Against(of, to Series) *Effect { return compare(of, to, Series{}).at(describedLevel).effect }

// Place is one metric of one cell.
type Place struct{ Cell, Group, Metric string }

// Contrast is one place against another, and the rules to judge it by. A nil one
// has no effect and no noise.
type Contrast struct {
	compared *compared
	rule     rules
	noise    float64 // of the tables of both, as a ratio-1
}

// Contrast compares two places by block, and where both were measured in rounds, by
// round. The refusals of their
// tables apply to it. It is nil where the two have no block in common.
func (in Input) Contrast(tables []Table, of, to Place) *Contrast {
	x, y := in.Data.cells[of.Cell], in.Data.cells[to.Cell]
	left := x.series(of.Metric)
	if of.Metric == to.Metric {
		left = x.against(y, of.Metric)
	}
	c := compare(left, y.series(to.Metric), Series{})
	if c.effect.Blocks == 0 {
		return nil
	}
	return in.contrast(c, tables, of, to)
}

// Nearer compares a place with the middle of two others: by block, and where all were
// measured in rounds by round, its value against the geometric mean of theirs. Above 1 it
// is nearer to the larger one, below 1 to the smaller one. It is nil where the three have
// no block in common, and where values without a logarithm have no such mean.
func (in Input) Nearer(tables []Table, of, a, b Place) *Contrast {
	x, y, z := in.Data.cells[of.Cell], in.Data.cells[a.Cell], in.Data.cells[b.Cell]
	rows := Complete([]Series{x.against(y, of.Metric), y.series(of.Metric), x.against(z, of.Metric), z.series(of.Metric)})
	var middle, one Series
	for i := range rows[0] {
		mean := math.Sqrt(rows[0][i] / rows[1][i] * rows[2][i] / rows[3][i])
		if !(mean > 0) || math.IsInf(mean, 0) {
			return nil
		}
		middle.blocks, middle.values = append(middle.blocks, int32(i)), append(middle.values, mean)
		one.blocks, one.values = append(one.blocks, int32(i)), append(one.values, 1)
	}
	if middle.Len() == 0 {
		return nil
	}
	return in.contrast(compare(middle, one, Series{}), tables, of, a, b)
}

// contrast adds the rules of the tables of its places.
func (in Input) contrast(c *compared, tables []Table, of ...Place) *Contrast {
	rule, noise := rules{alpha: in.Alpha, margin: in.Margin}, 0.0
	for _, p := range of {
		rule.refused = cmp.Or(rule.refused, in.mismatch(of[0], p))
		for _, t := range tables {
			if t.Group == p.Group && t.Metric.Name == p.Metric {
				noise, rule.metric = max(noise, t.Noise), t.Metric
				rule.refused = cmp.Or(rule.refused, refusedIn(t, of))
			}
		}
	}
	return &Contrast{c, rule, noise}
}

// refusedIn is why a table refuses a contrast of places: what it refuses of one of its cells
// against its own control, or of the values by themselves.
func refusedIn(t Table, of []Place) string {
	against := false
	var cell *Row
	for _, p := range of {
		i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Cell == p.Cell && p.Metric == t.Metric.Name })
		switch {
		case i >= 0 && t.Rows[i].Control:
			against = true
		case i >= 0 && cell == nil && t.Rows[i].Effect != nil:
			cell = &t.Rows[i]
		}
	}
	switch {
	case len(of) != 2 || !against || cell == nil:
		return t.Refused
	case cell.Effect.Verdict == NotComparable:
		return cell.Effect.Why
	}
	return ""
}

// mismatch is why two places cannot be compared: they were measured in different ways, one of
// them did not do its control's work, or one workload was not the same work on both.
func (in Input) mismatch(a, b Place) string {
	x, y := in.Data.cells[a.Cell], in.Data.cells[b.Cell]
	of, to := in.cell(a.Cell), in.cell(b.Cell)
	why := cmp.Or(otherWays(x, y, a.Cell, b.Cell), in.otherWorkThanControl(of), in.otherWorkThanControl(to))
	if why == "" && of.Workload == to.Workload {
		why = in.otherWork(x, y, a.Cell, b.Cell, of.Workload)
	}
	return why
}

// otherWorkThanControl is why a cell's work is not proven to be its control's, or without a
// control why it is not proven at all.
func (in Input) otherWorkThanControl(c study.Cell) string {
	base := c
	if i := slices.IndexFunc(in.Cells, func(o study.Cell) bool { return o.Control && !o.AA && o.Group == c.Group }); i >= 0 {
		base = in.Cells[i]
	}
	return in.otherWork(in.Data.cells[c.ID], in.Data.cells[base.ID], c.ID, base.ID, c.Workload)
}

// cell is the cell of that name; an empty one for none.
func (in Input) cell(id string) study.Cell {
	i := slices.IndexFunc(in.Cells, func(c study.Cell) bool { return c.ID == id })
	if i < 0 {
		return study.Cell{}
	}
	return in.Cells[i]
}

// Worded gives the verdict the words of another metric: of the rate, where what was
// measured is a time.
func (c *Contrast) Worded(m sample.Metric) *Contrast {
	if c != nil {
		c.rule.metric = m
	}
	return c
}

// JudgeTogether gives a family of contrasts their verdicts; the intervals of all hold
// together. nil ones do not count.
func JudgeTogether(all []*Contrast) {
	all = slices.DeleteFunc(slices.Clone(all), func(c *Contrast) bool { return c == nil })
	for _, c := range all {
		c.rule.cells = len(all)
		c.rule.judge(c.compared)
	}
}

// Described gives a contrast a 95 % interval and no verdict, but NotComparable where nothing
// may be claimed. It is nil for a nil one.
func (c *Contrast) Described() *Effect {
	if c == nil {
		return nil
	}
	c.rule.described = true
	c.rule.judge(c.compared)
	return c.Effect()
}

// Effect is what the contrast shows, nil for none.
func (c *Contrast) Effect() *Effect {
	if c == nil {
		return nil
	}
	return c.compared.effect
}

// Noise is how far the controls of the two places may differ from themselves, as a
// ratio-1; 0 where it is not known.
func (c *Contrast) Noise() float64 {
	if c == nil {
		return 0
	}
	return c.noise
}
