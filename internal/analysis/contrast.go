package analysis

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tarelab/tare/internal/stats"
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

// Series is a metric of a cell: one value for each block, the mean where a trial ran
// several instances. A cell or metric that gave nothing has none.
func (in Input) Series(cell, metric string) Series { return in.Data.cells[cell].series(metric) }

// Measured reports whether a cell gave a sample of any metric.
func (in Input) Measured(cell string) bool {
	c := in.Data.cells[cell]
	return c != nil && len(c.blocks) > 0
}

// Summary describes one metric of one cell; N is 0 where there is nothing.
func (in Input) Summary(cell, metric string) Summary {
	return summarize(in.Series(cell, metric).values, rand.New(rand.NewPCG(in.Seed, 1)))
}

// WithDefaults is the input with what a caller may leave out.
func (in Input) WithDefaults() Input { return in.defaults() }

// Against is the effect of one series against another by block, without a verdict.
// Its Blocks are 0 where they have none in common.
func Against(of, to Series, rng *rand.Rand) *Effect { return compare(of, to, rng).effect }

// Place is one metric of one cell.
type Place struct{ Cell, Group, Metric string }

// Contrast is one place against another, and the rules to judge it by. A nil one
// has no effect and no noise.
type Contrast struct {
	compared *compared
	rule     rules
}

// Contrast compares two places by block, and where both were measured in rounds, by
// round. The noise floors and refusals of their
// tables apply to it. It is nil where the two have no block in common.
func (in Input) Contrast(tables []Table, of, to Place, rng *rand.Rand) *Contrast {
	x, y := in.Data.cells[of.Cell], in.Data.cells[to.Cell]
	left := x.series(of.Metric)
	if of.Metric == to.Metric {
		left = x.against(y, of.Metric)
	}
	c := compare(left, y.series(to.Metric), rng)
	if c.effect.Blocks == 0 {
		return nil
	}
	rule := rules{alpha: in.Alpha, margin: in.Margin}
	for _, p := range []Place{of, to} {
		for _, t := range tables {
			if t.Group == p.Group && t.Metric.Name == p.Metric {
				rule.noise, rule.step = max(rule.noise, math.Log1p(t.Noise)), max(rule.step, t.NoiseStep)
				rule.refused = firstOf(rule.refused, t.Refused)
			}
		}
	}
	return &Contrast{c, rule}
}

// JudgeTogether gives a family of contrasts their verdicts, with Holm's correction
// over all of them; nil ones do not count.
func JudgeTogether(all []*Contrast) {
	all = slices.DeleteFunc(slices.Clone(all), func(c *Contrast) bool { return c == nil })
	p := make([]float64, len(all))
	for i, c := range all {
		p[i] = c.compared.effect.P
	}
	for i, adjusted := range stats.Holm(p) {
		all[i].compared.effect.PAdjusted, all[i].rule.cells = adjusted, len(all)
		all[i].rule.judge(all[i].compared)
	}
}

// Effect is what the contrast shows, nil for none.
func (c *Contrast) Effect() *Effect {
	if c == nil {
		return nil
	}
	return c.compared.effect
}

// Noise is the noise floor that the contrast is judged by, as a ratio-1; 0 where it
// is not known.
func (c *Contrast) Noise() float64 {
	if c == nil {
		return 0
	}
	return stats.FromLog(c.rule.noise)
}
