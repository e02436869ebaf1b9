package analysis

import (
	"math"
	"slices"

	"github.com/tarelab/tare/internal/stats"
)

// compared is a cell beside its control, block by block, on the way to an effect.
type compared struct {
	effect *Effect
	scale  scale
	blocks stats.Contrast
	// change is there for two runs in place of blocks: the log ratios of each.
	change *[2][]float64
	// typical is the control's median, for differences that become ratios.
	typical float64
}

// scale is how a pair's numbers become an effect.
type scale int

const (
	asRatio      scale = iota // logarithms: the effect is their ratio
	asShare                   // differences over the control's median: a value is zero or negative
	asDifference              // differences in the metric's unit: the control's median is zero, too
	asIdentical               // every pair is the same
	asNothing                 // two runs without ratios
)

// noted says how an effect was computed where it is no plain ratio.
var noted = map[scale]string{
	asShare:      "Some values are zero or negative, so the ratio is the difference over the control's median. ",
	asDifference: "Some values are zero or negative, so there is a difference but no ratio, and no margin applies. ",
}

// compare pairs a cell with its control by block. The control's twin is a second
// control in the blocks that have one; an empty series is no twin.
func compare(cell, control, twin Series) *compared {
	c := &compared{effect: &Effect{Interval: stats.None(0), P: 1}}
	second := map[int32]float64{}
	for i, block := range twin.blocks {
		second[block] = twin.values[i]
	}
	positive, same := true, true
	pairs(cell, control, func(block int32, v, w float64) {
		u, ok := second[block]
		if !ok {
			u = math.NaN()
		}
		c.blocks.Target, c.blocks.Control, c.blocks.Twin = append(c.blocks.Target, v), append(c.blocks.Control, w), append(c.blocks.Twin, u)
		positive = positive && v > 0 && w > 0 && !(u <= 0)
		same = same && v == w
	})
	c.effect.Blocks = len(c.blocks.Target)
	switch {
	case c.effect.Blocks == 0:
	case same:
		c.scale = asIdentical
	case positive:
		for _, x := range [][]float64{c.blocks.Target, c.blocks.Control, c.blocks.Twin} {
			for i := range x {
				x[i] = math.Log(x[i])
			}
		}
	default:
		c.typical = stats.Median(stats.Sorted(c.blocks.Control))
		c.scale = asShare
	}
	return c
}

// at computes the effect with its interval at a level.
func (c *compared) at(level float64) *compared {
	e := c.effect
	if e.Blocks == 0 || c.scale == asNothing {
		return c
	}
	if c.scale == asIdentical {
		e.Ratio, e.P, e.Interval = 1, 1, stats.None(1)
		if reached := 1 - c.smallest(); reached >= level {
			e.Interval = stats.Interval{Low: 1, High: 1, Level: level, Method: stats.MethodRank}
		}
		return c
	}
	s := c.shift(level)
	e.P, e.Reached = s.P, s.Reached
	switch c.scale {
	case asRatio:
		e.Ratio, e.Interval = stats.Ratio(s.Value), stats.Exponential(s.Interval)
	default:
		c.byDifference(s)
	}
	return c
}

// smallest is the smallest p-value that the blocks allow.
func (c *compared) smallest() float64 {
	if c.change != nil {
		return stats.SmallestBetween(len(c.change[0]), len(c.change[1]))
	}
	return stats.SmallestP(c.effect.Blocks, c.hasTwin())
}

// hasTwin reports whether every block has a second control.
func (c *compared) hasTwin() bool { return !slices.ContainsFunc(c.blocks.Twin, math.IsNaN) }

func (c *compared) shift(level float64) stats.Shift {
	if c.change != nil {
		return stats.Between(c.change[0], c.change[1], level)
	}
	return c.blocks.Estimate(level)
}

// byDifference is for values that have no logarithm. With a positive typical
// control the differences are put over it: that is a ratio again, though not of
// the same block. With a control of zero, or an interval that reaches to nothing,
// the effect is the difference in the metric's own unit.
func (c *compared) byDifference(s stats.Shift) {
	e := c.effect
	if c.typical > 1/largest && s.Value > -c.typical && s.Interval.Low > -c.typical && s.Interval.High < largest*c.typical {
		c.scale = asShare
		e.Ratio, e.Interval, e.Difference = 1+s.Value/c.typical, s.Interval, nil
		e.Interval.Low, e.Interval.High = 1+s.Interval.Low/c.typical, 1+s.Interval.High/c.typical
		return
	}
	c.scale = asDifference
	e.Ratio, e.Interval = 0, stats.None(0)
	e.Difference = &Difference{Median: s.Value, Interval: s.Interval}
}
