package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
)

// logSpan is the ratio of the largest to the smallest level from which on a
// linear axis would hide the small steps.
const logSpan = 20

func showLadder(l *analysis.Ladder) shownLadder {
	levels := []float64{l.BaseMedian}
	var deltas []float64
	for _, s := range l.Steps {
		levels, deltas = append(levels, s.Median), append(deltas, s.Delta)
	}
	out := shownLadder{claim: l, Delta: deltaScale(l.Metric.Unit, deltas), Total: quantity.ScaleFor(l.Metric.Unit, levels)}
	out.Base = out.Total.Show(l.BaseMedian, l.BaseInterval)
	for _, s := range l.Steps {
		out.Steps = append(out.Steps, shownStep{
			Delta: quantity.Signed(out.Delta.Show(s.Delta, s.Interval)),
			Level: out.Total.Show(s.Median, s.Interval).Value,
		})
	}
	sizes := quantity.Sizes(levels)
	out.Sum = out.sum()
	out.Log = len(sizes) == len(levels) && sizes[len(sizes)-1] > logSpan*sizes[0]
	return out
}

// stepName is a step in words: one beside the chain is an alternative to the next.
func stepName(s analysis.Step) string {
	if s.Beside {
		return "  or " + s.To
	}
	return "+ " + s.To
}

// chain are the steps that sum to the ladder's total.
func chain(l *analysis.Ladder) []analysis.Step {
	return slices.DeleteFunc(slices.Clone(l.Steps), func(s analysis.Step) bool { return s.Beside })
}

// deltaScale is microseconds for times, whatever their size: steps of one
// ladder are compared with those of another.
func deltaScale(unit sample.Unit, deltas []float64) quantity.Scale {
	if unit == sample.Seconds {
		return quantity.Scale{Factor: 1e-6, Unit: "µs"}
	}
	return quantity.ScaleFor(unit, deltas)
}

// bar draws the stretch between two levels as text of the given width, on the
// ladder's axis; a step down is drawn lighter.
func (l shownLadder) bar(from, to float64, width int) string {
	low, high := l.extent()
	at := func(v float64) int {
		return int(math.Round(l.position(v, low, high) * float64(width)))
	}
	a, b, ink := at(from), at(to), "█"
	if b < a {
		a, b, ink = b, a, "░"
	}
	if b == a {
		b, ink = a+1, "▏"
	}
	return strings.Repeat(" ", a) + strings.Repeat(ink, b-a)
}

// extent is the range of the ladder's axis: from 0, or on a log axis from
// below the smallest level.
func (l shownLadder) extent() (low, high float64) {
	low, high = l.claim.BaseMedian, l.claim.BaseMedian
	for _, s := range l.claim.Steps {
		low, high = min(low, s.Median), max(high, s.Median)
	}
	if l.Log {
		return low * 0.8, high
	}
	return min(low, 0), high
}

// position is where a value lies in [low, high], as 0 to 1.
func (l shownLadder) position(v, low, high float64) float64 {
	if l.Log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	if high <= low {
		return 0
	}
	return (v - low) / (high - low)
}

// sum says that the steps of the chain make the whole, in numbers that can be added.
func (l shownLadder) sum() string {
	var steps float64
	for _, s := range chain(l.claim) {
		steps += s.Delta
	}
	in := func(v float64) string { return strings.ReplaceAll(quantity.Number(v/l.Delta.Factor, 1), "-", "−") }
	text := fmt.Sprintf("The steps sum to the whole: %s + %s = %s", in(l.claim.BaseMedian), in(steps), quantity.WithUnit(in(l.claim.Total), l.Delta.Unit))
	if rise := l.Delta.Show(l.claim.Rise.Value, l.claim.Rise.Interval); rise.Interval() != "" {
		text += "; all steps together: " + quantity.WithUnit(quantity.Signed(rise).Value, l.Delta.Unit) + " " + rise.Interval()
	}
	if l.claim.Refused != "" {
		return text + ". No verdict: " + l.claim.Refused
	}
	return text + "."
}
