package analysis

import (
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/stats"
)

// Met says whether a limit is met.
type Met string

// The answers.
const (
	LimitMet    Met = "met"    // the whole interval lies within the limit
	LimitBroken Met = "broken" // the whole interval lies beyond it
	LimitOpen   Met = "open"   // neither, or no verdict may rest on the interval
)

// Limit is what a number must keep: tare's own bars, limits of studies and gates.
// math.Inf stands for a side without a limit.
type Limit struct{ Least, Most float64 }

// Judge is the one rule for limits.
func (l Limit) Judge(i stats.Interval) Met {
	switch {
	case !i.Decides():
		return LimitOpen
	case i.Low >= l.Least && i.High <= l.Most:
		return LimitMet
	case i.High < l.Least || i.Low > l.Most:
		return LimitBroken
	}
	return LimitOpen
}

func (l Limit) String() string {
	switch {
	case math.IsInf(l.Most, 1):
		return fmt.Sprintf("at least %.4g", l.Least)
	case math.IsInf(l.Least, -1):
		return fmt.Sprintf("at most %.4g", l.Most)
	}
	return fmt.Sprintf("%.4g to %.4g", l.Least, l.Most)
}

// Bar is the answer on one bar: a limit on the ratio of interleaved pairs.
type Bar struct {
	Met      Met            `json:"met"`
	Bar      float64        `json:"bar"`
	Ratio    float64        `json:"ratio,omitempty"` // median of the pairs' ratios
	Interval stats.Interval `json:"interval"`        // of Ratio; 95 % over all looks together
	Pairs    int            `json:"pairs"`
	Why      string         `json:"why"`
}

// AtLeast judges a bar that a ratio must reach, as 0.98 in "at least 98 % of
// the throughput" or 5 in "at least five times faster". Each ratio is of one
// interleaved pair and positive.
//
// looks is how many times the ratios are judged at most while they grow, 1 for
// once: the interval holds at 95 % for all looks together (Bonferroni), so that
// ending at the first answer makes no answer more likely.
func AtLeast(ratios []float64, bar float64, looks int) Bar {
	return judgeBar(ratios, bar, Limit{bar, math.Inf(1)}, looks)
}

// AtMost is AtLeast for a bar that a ratio must not exceed, as 1.3 in "at most
// 1.3 times the start time".
func AtMost(ratios []float64, bar float64, looks int) Bar {
	return judgeBar(ratios, bar, Limit{math.Inf(-1), bar}, looks)
}

func judgeBar(ratios []float64, bar float64, limit Limit, looks int) Bar {
	b := Bar{Bar: bar, Pairs: len(ratios), Met: LimitOpen, Interval: stats.None(0)}
	logs := make([]float64, 0, len(ratios))
	for _, r := range ratios {
		if r > 0 && !math.IsInf(r, 0) {
			logs = append(logs, math.Log(r))
		}
	}
	if len(logs) == 0 {
		b.Why = "no pair gave a ratio"
		return b
	}
	x := stats.Sorted(logs)
	b.Ratio = math.Exp(stats.Median(x))
	b.Interval = stats.Exponential(stats.MedianInterval(x, stats.Source(1, "bar"), 1-0.05/float64(looks)))
	if failed := len(ratios) - len(logs); failed > 0 {
		b.Why = fmt.Sprintf("%d of %d ratios are not positive numbers: something failed", failed, len(ratios))
		return b
	}
	b.Met = limit.Judge(b.Interval)
	span := fmt.Sprintf("the interval %.4g to %.4g", b.Interval.Low, b.Interval.High)
	switch {
	case b.Interval.Method == stats.MethodNone:
		b.Why = fmt.Sprintf("%d pairs are too few for an interval", b.Pairs)
	case b.Met == LimitMet:
		b.Why = fmt.Sprintf("%s lies within the limit of %s", span, limit)
	case b.Met == LimitBroken:
		b.Why = fmt.Sprintf("%s lies beyond the limit of %s", span, limit)
	default:
		b.Why = fmt.Sprintf("%s contains the limit of %s: take more pairs", span, limit)
	}
	return b
}
