package analysis

import (
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/stats"
)

// Met says whether a bar is met.
type Met string

// The answers.
const (
	BarMet          Met = "met"
	BarNotMet       Met = "not met"
	BarInconclusive Met = "inconclusive"
)

const (
	barPairs = 20   // fewer pairs say nothing about a bar
	barWidth = 0.10 // a 95 % interval wider than this, as High/Low-1, says nothing either
)

// Bar is the answer on one bar.
type Bar struct {
	Met      Met            `json:"met"`
	Bar      float64        `json:"bar"`
	Ratio    float64        `json:"ratio"`    // median of the pairs' ratios
	Interval stats.Interval `json:"interval"` // 95 % of Ratio, over all looks
	Pairs    int            `json:"pairs"`
	Why      string         `json:"why"`
}

// AtLeast judges a bar that a ratio must reach, as 0.98 in "at least 98 % of
// the throughput" or 5 in "at least five times faster". Each ratio is of one
// interleaved pair and positive. The bar is met when the 95 % interval of their
// median reaches it, and not met when the interval ends below it. With fewer
// than 20 pairs it is inconclusive, and so it is when the interval is wider
// than 10 %, unless the interval lies on one side of the bar as a whole: width
// must not be what reaches a bar, but it does not undo what is beyond doubt.
//
// looks is how many times the ratios are judged at most while they grow, 1 for
// once: the interval holds at 95 % for all looks together (Bonferroni), so that to
// end at the first that answers makes no answer more likely.
func AtLeast(ratios []float64, bar float64, looks int) Bar {
	b := newBar(ratios, bar, looks)
	b.decide(b.Interval.High >= bar, b.Interval.Low >= bar, "at least")
	return b
}

// AtMost is AtLeast for a bar that a ratio must not exceed, as 1.3 in "at most
// 1.3 times the start time".
func AtMost(ratios []float64, bar float64, looks int) Bar {
	b := newBar(ratios, bar, looks)
	b.decide(b.Interval.Low <= bar, b.Interval.High <= bar, "at most")
	return b
}

func newBar(ratios []float64, bar float64, looks int) Bar {
	b := Bar{Bar: bar, Pairs: len(ratios), Interval: stats.None(0)}
	logs := make([]float64, 0, len(ratios))
	for _, r := range ratios {
		if r > 0 && !math.IsInf(r, 0) {
			logs = append(logs, math.Log(r))
		}
	}
	if len(logs) < len(ratios) {
		b.Why = fmt.Sprintf("%d of %d ratios are not positive numbers: something failed", len(ratios)-len(logs), len(ratios))
	}
	if len(logs) > 0 {
		x := stats.Sorted(logs)
		b.Ratio = math.Exp(stats.Median(x))
		b.Interval = stats.Exponential(stats.MedianIntervals(x, stats.Source(1, "bar"), 1-0.05/float64(looks))[0])
	}
	return b
}

// decide takes whether the interval reaches the bar, and whether all of it does.
func (b *Bar) decide(reaches, all bool, word string) {
	width := 0.0
	if b.Interval.Low > 0 {
		width = b.Interval.High/b.Interval.Low - 1
	}
	span := fmt.Sprintf("the 95 %% interval %.4g..%.4g", b.Interval.Low, b.Interval.High)
	switch {
	case b.Why != "":
		b.Met = BarInconclusive
	case b.Pairs < barPairs:
		b.Met, b.Why = BarInconclusive, fmt.Sprintf("%d pairs are too few for a bar: measure %d or more", b.Pairs, barPairs)
	case !reaches:
		b.Met, b.Why = BarNotMet, fmt.Sprintf("%s does not reach the bar of %s %.4g", span, word, b.Bar)
	case all:
		b.Met, b.Why = BarMet, fmt.Sprintf("%s lies at the bar of %s %.4g or beyond", span, word, b.Bar)
	case width > barWidth:
		b.Met, b.Why = BarInconclusive, fmt.Sprintf("%s reaches the bar of %s %.4g only by being %s wide: take more pairs", span, word, b.Bar, percent(width))
	default:
		b.Met, b.Why = BarMet, fmt.Sprintf("%s reaches the bar of %s %.4g", span, word, b.Bar)
	}
}
