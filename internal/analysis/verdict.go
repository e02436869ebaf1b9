package analysis

import (
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// rules are what one family of verdicts follows: those of one table, which is one
// workload.
type rules struct {
	alpha   float64
	margin  float64
	cells   int           // judged together; the level is corrected for them
	metric  sample.Metric // gives the verdict's word
	refused string        // why nothing is claimed; "" = something may be
	// widen is between two runs: how far the runs' twins are from their controls
	// together, on the log scale. No interval from inside a run covers that error.
	widen float64
	// described effects have a 95 % interval and no verdict.
	described bool
}

// level is that of each interval, so that all of the family hold together with 1 -
// alpha (Bonferroni).
func (r rules) level() float64 {
	if r.described {
		return describedLevel
	}
	return 1 - r.alpha/float64(max(1, r.cells))
}

// describedLevel is that of intervals that no verdict rests on.
const describedLevel = 0.95

// judge computes the effect at the family's level, and gives it its verdict and the
// sentence that says by which rule. There is one rule: where the whole interval lies
// above or below 1, the target is slower or faster; where it lies within the margin,
// it is the same; else the question is open.
func (r rules) judge(c *compared) {
	e := c.at(r.level()).effect
	if r.widen > 0 && e.Interval.Method != stats.MethodNone {
		e.Interval.Low, e.Interval.High = stats.Ratio(math.Log(e.Interval.Low)-r.widen), stats.Ratio(math.Log(e.Interval.High)+r.widen)
	}
	switch {
	case r.refused != "":
		e.Verdict, e.Why = NotComparable, r.refused
		return
	case r.described:
		e.Verdict, e.Why = "", noted[c.scale]
		return
	}
	e.Verdict, e.Why = r.verdict(c)
	e.Why = noted[c.scale] + e.Why
	switch {
	case e.Difference != nil || e.Interval.Method == stats.MethodNone:
	case e.Verdict == Open:
		e.Bound = "between " + r.bounds(e.Interval)
	case e.Verdict.Shown() || e.BelowMargin:
		e.Size = r.size(e.Ratio)
	}
}

func (r rules) verdict(c *compared) (Verdict, string) {
	e := c.effect
	span, at := e.Interval, 1.0
	if e.Difference != nil {
		span, at = e.Difference.Interval, 0
	}
	switch {
	case c.scale == asNothing:
		return Open, "Some values are zero or negative, so the runs have no ratio: compare their medians."
	case e.Blocks == 0 || span.Method == stats.MethodNone || e.Reached > 0:
		e.Need = r.need(c)
		return Open, r.tooFew(c)
	case c.scale == asIdentical:
		return Same, fmt.Sprintf("Both are identical in all %d blocks.", e.Blocks)
	case e.Difference == nil && span.Low >= 1/(1+r.margin) && span.High <= 1+r.margin:
		if span.Low > at || span.High < at {
			e.BelowMargin = true
			return Same, fmt.Sprintf("%s, below the margin of %s.", capital(r.size(e.Ratio)), percent(r.margin))
		}
		return Same, fmt.Sprintf("The interval lies within the margin of ±%s.", percent(r.margin))
	case span.Low > at || span.High < at:
		if e.Difference == nil && e.Ratio >= 1/(1+r.margin) && e.Ratio <= 1+r.margin {
			e.BelowMargin = true
			return r.word(e), fmt.Sprintf("%s, below the margin of %s: the interval excludes 1.", capital(r.size(e.Ratio)), percent(r.margin))
		}
		return r.word(e), fmt.Sprintf("The whole interval lies %s %g.", map[bool]string{true: "above", false: "below"}[span.Low > at], at)
	case e.Difference != nil:
		return Open, "The interval of the difference contains 0."
	}
	e.Need = r.settles(e)
	return Open, fmt.Sprintf("Between %s: the interval contains 1 and reaches out of the margin of ±%s; about %d blocks would settle it.%s",
		r.bounds(span), percent(r.margin), e.Need, r.detectable(c))
}

// detectable says how large an effect runs like this one show, where both sides are of
// one run.
func (r rules) detectable(c *compared) string {
	if c.change != nil || c.scale != asRatio {
		return ""
	}
	least := c.blocks.Detectable(math.Log(c.effect.Ratio), r.level())
	if !finite(least) || least <= 0 {
		return ""
	}
	c.effect.Detectable = stats.FromLog(least)
	return fmt.Sprintf(" Of runs with as many blocks as this one 80 %% show an effect of %s.", changed(1+c.effect.Detectable))
}

// word is the verdict of an effect whose interval does not contain 1.
func (r rules) word(e *Effect) Verdict {
	rises := e.Ratio > 1
	if e.Difference != nil {
		rises = e.Difference.Median > 0
	}
	return Directed(r.metric, rises)
}

// Directed is the word for a metric that rises or falls. Times and rates are slower
// or faster; everything else is more or less.
func Directed(m sample.Metric, rises bool) Verdict {
	switch {
	case m.Better == sample.Lower && m.Unit == sample.Seconds:
		if rises {
			return Slower
		}
		return Faster
	case m.Better == sample.Higher && rate(m.Unit):
		if rises {
			return Faster
		}
		return Slower
	case rises:
		return More
	}
	return Less
}

func rate(u sample.Unit) bool {
	return u == sample.PerSecond || u == sample.BytesPerSecond || u == sample.BitsPerSecond
}

// size writes a ratio's change with its word: "1.8 % slower".
func (r rules) size(ratio float64) string {
	return fmt.Sprintf("%s %s", changed(ratio), Directed(r.metric, ratio > 1))
}

// bounds writes what an interval leaves possible: "2 % faster and 3 % slower".
func (r rules) bounds(i stats.Interval) string { return r.size(i.Low) + " and " + r.size(i.High) }

// changed writes the size of a ratio's change without its direction: "12 %", or
// "×3.4" from a doubling on.
func changed(ratio float64) string {
	if ratio >= 2 || ratio <= 0.5 && ratio > 0 {
		return fmt.Sprintf("×%.3g", max(ratio, 1/ratio))
	}
	return percent(ratio - 1)
}

// need is the number of blocks that have an interval at the family's level.
func (r rules) need(c *compared) int {
	if c.change != nil {
		return stats.BlocksBetween(r.level())
	}
	return stats.BlocksFor(r.level(), c.hasTwin() && c.effect.Blocks > 0)
}

// tooFew says what blocks that are too few for the level do show.
func (r rules) tooFew(c *compared) string {
	e := c.effect
	text := fmt.Sprintf("%d complete %s: %d are needed for %s", e.Blocks, quantity.Plural(e.Blocks, "block"), e.Need, judgedCells(r.cells))
	if e.Reached > 0 && e.Difference == nil && e.Interval.Method != stats.MethodNone {
		return fmt.Sprintf("%s. An interval of %s lies between %s.", text, percent(e.Reached), r.bounds(e.Interval))
	}
	return text + "."
}

// settles is about how many blocks settle an open cell: an interval shrinks with the
// root of the blocks, until it excludes 1 or lies within the margin.
func (r rules) settles(e *Effect) int {
	if e.Ratio <= 0 || e.Interval.Low <= 0 {
		return 0
	}
	at, margin := math.Abs(math.Log(e.Ratio)), math.Log1p(r.margin)
	half := (math.Log(e.Interval.High) - math.Log(e.Interval.Low)) / 2
	want := max(at, margin-at)
	return e.Blocks + 1 + int(max(0, min(1e6, float64(e.Blocks)*(half*half/(want*want)-1)+0.5)))
}

// twinsRefusal is what an A/A pair that differs means for all other claims.
func twinsRefusal(e *Effect) string {
	size := "by " + effectSize(e.Ratio)
	if e.Difference != nil {
		size = fmt.Sprintf("by %.3g", e.Difference.Median)
	}
	return "the control differs from its own twin " + size + ": the machine, not the target, made the difference. Measure again when it is quiet."
}

func judgedCells(n int) string {
	if n == 1 {
		return "one compared cell"
	}
	return fmt.Sprintf("%d compared cells", n)
}

// percent writes a fraction with two significant digits: 0.0213 as "2.1 %".
func percent(f float64) string {
	switch f = math.Abs(f) * 100; {
	case f >= 9.95:
		return fmt.Sprintf("%.0f %%", f)
	case f >= 0.995:
		return fmt.Sprintf("%.2g %%", f)
	}
	return fmt.Sprintf("%.1g %%", f)
}

// effectSize writes a ratio as a change: "+12 %" up to a doubling, "×3.4" beyond.
func effectSize(ratio float64) string {
	switch {
	case ratio >= 2 || ratio <= 0.5:
		return fmt.Sprintf("×%.3g", ratio)
	case ratio >= 1:
		return "+" + percent(ratio-1)
	}
	return "−" + percent(1-ratio)
}
