package analysis

import (
	"math"
	"math/rand/v2"

	"github.com/tarelab/tare/internal/stats"
)

// compared is one row's effect on the way to its verdict.
type compared struct {
	effect  *Effect
	logs    bool    // the effect is a ratio, its interval lies around log-ratios
	same    bool    // every pair is identical
	note    string  // what the reader must know about how the effect was had
	width   float64 // half-width of the 95 % interval on the log scale, 0 = unknown
	scatter float64 // of the log-ratios
	size    float64 // of a difference, log scale: of what it leaves of the control's median; +Inf where that, or what is left, is nothing
	reach   float64 // between runs: how far the two runs' ratios are from 1 together, log scale
}

// compare pairs a cell with its control by block.
func compare(cell, control Series, rng *rand.Rand) *compared {
	var x, y []float64
	x, y = make([]float64, 0, len(cell.values)), make([]float64, 0, len(cell.values))
	positive, same := true, true
	pairs(cell, control, func(_ int32, v, c float64) {
		x, y = append(x, v), append(y, c)
		positive = positive && v > 0 && c > 0
		same = same && v == c
	})
	switch {
	case len(x) == 0:
		return &compared{effect: &Effect{Interval: stats.None(0), Interval90: stats.None(0), P: 1}}
	case same:
		return identical(len(x))
	case positive:
		for i := range x {
			x[i] = math.Log(x[i]) - math.Log(y[i]) // the quotient may overflow
		}
		return byRatio(stats.Sorted(x), rng)
	}
	return byDifference(x, y, rng)
}

// identical is the effect of arms that agree in every pair, zeros included.
func identical(n int) *compared {
	e := &Effect{Ratio: 1, P: 1, Blocks: n, Interval: stats.None(1), Interval90: stats.None(1)}
	if n >= stats.MinimumBlocks {
		e.Interval = stats.Interval{Low: 1, High: 1, Level: 0.95, Method: stats.MethodOrder}
		e.Interval90 = stats.Interval{Low: 1, High: 1, Level: 0.90, Method: stats.MethodOrder}
	}
	return &compared{effect: e, logs: true, same: true}
}

// byRatio takes ascending log-ratios.
func byRatio(logs []float64, rng *rand.Rand) *compared {
	c := &compared{logs: true, scatter: stats.Scatter(logs)}
	spans := stats.MedianIntervals(logs, rng, 0.95, 0.90)
	if spans[0].Method != stats.MethodNone {
		c.width = (spans[0].High - spans[0].Low) / 2
	}
	c.effect = &Effect{
		Ratio:      stats.Ratio(stats.Median(logs)),
		Interval:   stats.Exponential(spans[0]),
		Interval90: stats.Exponential(spans[1]),
		P:          stats.SignFlipSorted(logs),
		Blocks:     len(logs),
	}
	return c
}

// byDifference is for values that have no logarithm. With a positive typical
// control the differences are put over it: that is a ratio again, though not of
// the same block. With a control of zero, or an interval that reaches to nothing,
// there is none, and the effect is the difference in the metric's own unit.
func byDifference(x, y []float64, rng *rand.Rand) *compared {
	for i := range x {
		x[i] -= y[i]
	}
	scale := stats.Median(stats.Sorted(y))
	differences := stats.Sorted(x)
	spans := stats.MedianIntervals(differences, rng, 0.95, 0.90)
	e := &Effect{P: stats.SignFlipSorted(differences), Blocks: len(x)}
	at := stats.Median(differences)
	if scale > 1/largest && at > -scale && spans[0].Low > -scale && spans[1].Low > -scale {
		e.Ratio, e.Interval, e.Interval90 = 1+at/scale, overControl(spans[0], scale), overControl(spans[1], scale)
		c := &compared{effect: e, logs: true, note: "Some values are zero or negative, so the ratio is the difference over the control's median. "}
		if e.Interval.Method != stats.MethodNone {
			c.width = math.Log(e.Interval.High/e.Interval.Low) / 2
		}
		return c
	}
	e.Interval, e.Interval90 = stats.None(0), stats.None(0)
	e.Difference = &Difference{Median: at, Interval: spans[0]}
	size := math.Inf(1)
	if scale > 0 && at > -scale {
		size = math.Abs(math.Log1p(at / scale))
	}
	return &compared{effect: e, size: size, note: "Some values are zero or negative, so there is a difference but no ratio, and no margin applies. "}
}

func overControl(i stats.Interval, scale float64) stats.Interval {
	i.Low, i.High = 1+i.Low/scale, 1+i.High/scale
	return i
}
