package analysis

import (
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/stats"
)

// rules are what one table's verdicts follow.
type rules struct {
	alpha   float64
	margin  float64
	cells   int     // compared in the table
	noise   float64 // floor, log scale; 0 = unknown
	step    float64 // floor of differences that have no ratio, in the metric's unit; 0 = unknown
	refused string  // why the table's claims are refused; "" = they are not
	runs    bool    // the effects are changes between two runs
}

// need is the number of blocks that suffices for a verdict.
func (r rules) need() int {
	if r.runs {
		return planRuns(r.alpha, r.cells)
	}
	return PlanBlocks(r.alpha, r.cells)
}

// smallest is the smallest adjusted p-value that n blocks allow.
func (r rules) smallest(n int) float64 {
	p := math.Pow(2, float64(1-n))
	if r.runs {
		p = 2 / math.Exp(stats.LogChoose(2*n, n))
	}
	return min(1, p*float64(r.cells))
}

func (r rules) detectable(c *compared) float64 {
	f := stats.MinimumDetectable
	if r.runs {
		f = stats.DetectableShift
	}
	return f(c.scatter, c.effect.Blocks, r.alpha/float64(max(1, r.cells)), r.margin)
}

// judge gives the effect its verdict and the sentence that says by which rule.
// The order matters: a refusal beats all; a verdict is never had from the noise
// floor alone, it can only be lost to it.
func (r rules) judge(c *compared) {
	e := c.effect
	e.Minimum = r.detectable(c)
	var why string
	switch {
	case r.refused != "":
		e.Verdict, why = Refused, r.refused
	case !c.has95():
		e.Verdict = Inconclusive
		why = fmt.Sprintf("%s no 95 %% interval; %d suffice for %s of this table.", blocksGive(e.Blocks), r.need(), comparedCells(r.cells))
	case c.same:
		e.Verdict, why = Equivalent, fmt.Sprintf("Both arms are identical in all %d blocks.", e.Blocks)
	case !c.logs && e.Difference == nil:
		e.Verdict, why = Inconclusive, "Some values are zero or negative, so the runs have no ratio: compare their medians."
	case !c.logs:
		e.Verdict, why = r.judgeDifference(c)
	default:
		e.Verdict, why = r.judgeRatio(e)
	}
	e.Why = c.note + why
}

// judgeAlone judges an effect that is in no table.
func (r rules) judgeAlone(c *compared) {
	c.effect.PAdjusted = c.effect.P
	r.judge(c)
}

// twinsRefusal is what an A/A pair that differs means for all other claims.
func twinsRefusal(e *Effect) string {
	size := "by " + effectSize(e.Ratio)
	if e.Difference != nil {
		size = fmt.Sprintf("by %.3g", e.Difference.Median)
	}
	return "the control differs from its own twin " + size + ": the machine, not the target, made the difference. Measure again when it is quiet."
}

func blocksGive(n int) string {
	if n == 1 {
		return "1 complete block gives"
	}
	return fmt.Sprintf("%d complete blocks give", n)
}

// has95 says whether there were blocks enough for an interval. A change between
// runs that has no ratio has none either, and is no matter of blocks.
func (c *compared) has95() bool {
	switch e := c.effect; {
	case e.Difference != nil:
		return e.Difference.Interval.Method != stats.MethodNone
	case c.logs:
		return e.Interval.Method != stats.MethodNone
	default:
		return e.Blocks >= stats.MinimumBlocks
	}
}

func (r rules) judgeRatio(e *Effect) (Verdict, string) {
	size := math.Abs(math.Log(e.Ratio))
	margin := math.Log1p(r.margin)
	excludes := e.Interval.Low > 1 || e.Interval.High < 1
	inside := math.Log(e.Interval90.Low) >= -margin && math.Log(e.Interval90.High) <= margin
	switch {
	case excludes && e.PAdjusted <= r.alpha && size > margin && size > r.noise:
		return Differs, fmt.Sprintf("The 95 %% interval excludes 1, the adjusted p is %s, and the effect of %s exceeds the margin of %s%s.",
			pValue(e.PAdjusted), effectSize(e.Ratio), percent(r.margin), and(r.floor()))
	case excludes && e.PAdjusted <= r.alpha && size > margin:
		return Inconclusive, fmt.Sprintf("The 95 %% interval excludes 1, but the effect of %s %s", effectSize(e.Ratio), r.belowFloor())
	case inside && r.noise <= margin:
		return Equivalent, fmt.Sprintf("The 90 %% interval lies inside the margin of ±%s.", percent(r.margin))
	case inside:
		return Inconclusive, fmt.Sprintf("The 90 %% interval lies inside the margin of ±%s, but %s does not: the control and its own twin are not shown to be equal. Take more blocks.",
			percent(r.margin), r.floor())
	case excludes && size > margin:
		return Inconclusive, "The 95 % interval excludes 1, but " + r.highP(e)
	case excludes:
		return Inconclusive, fmt.Sprintf("The effect of %s is within the margin of ±%s, but its 90 %% interval reaches out of it. Take more blocks.",
			effectSize(e.Ratio), percent(r.margin))
	}
	return Inconclusive, fmt.Sprintf("The 95 %% interval contains 1 and the 90 %% interval reaches out of the margin of ±%s: these blocks show neither a difference nor its absence%s.",
		percent(r.margin), detectable(e.Minimum))
}

// floor names the noise floor, "" where none is known.
func (r rules) floor() string {
	if r.noise <= 0 {
		return ""
	}
	return "the noise floor of " + percent(math.Expm1(r.noise))
}

// belowFloor ends the sentence of an effect that the noise floor hides.
func (r rules) belowFloor() string {
	return "does not exceed " + r.floor() + ": the control differs as much from its own twin. Measure on a quieter machine or take more blocks."
}

// highP ends the sentence of an effect whose p-value is too high among so many.
func (r rules) highP(e *Effect) string {
	return fmt.Sprintf("the p-value, adjusted for %s of this table, is %s, above %g; %s.",
		comparedCells(r.cells), pValue(e.PAdjusted), r.alpha, r.enough(e.Blocks))
}

// judgeDifference has no margin to hold an effect against: it may say that
// there is a difference, never that there is none. The noise floor is a factor:
// what falls to nothing, or rises from it, exceeds every such floor. Where the
// control and its twin have no ratio either, it is the difference of theirs.
func (r rules) judgeDifference(c *compared) (Verdict, string) {
	e := c.effect
	span := e.Difference.Interval
	excludes := span.Low > 0 || span.High < 0
	switch {
	case !excludes:
		return Inconclusive, "The 95 % interval of the difference contains 0."
	case e.PAdjusted > r.alpha:
		return Inconclusive, "The 95 % interval of the difference excludes 0, but " + r.highP(e)
	case c.size <= r.noise:
		return Inconclusive, "The 95 % interval of the difference excludes 0, but the difference " + r.belowFloor()
	case math.Abs(e.Difference.Median) <= r.step:
		return Inconclusive, fmt.Sprintf("The 95 %% interval of the difference excludes 0, but that of the control from its own twin reaches as far, to %.3g. Measure on a quieter machine or take more blocks.", r.step)
	}
	return Differs, fmt.Sprintf("The 95 %% interval of the difference excludes 0 and the adjusted p is %s.", pValue(e.PAdjusted))
}

func comparedCells(n int) string {
	if n == 1 {
		return "the one compared cell"
	}
	return fmt.Sprintf("the %d compared cells", n)
}

// enough says what number of blocks would do.
func (r rules) enough(blocks int) string {
	if need := r.need(); blocks < need {
		return fmt.Sprintf("%d blocks cannot do better than %s, %d suffice", blocks, pValue(r.smallest(blocks)), need)
	}
	return "take more blocks"
}

func and(text string) string {
	if text == "" {
		return ""
	}
	return " and " + text
}

func detectable(minimum float64) string {
	if minimum <= 0 {
		return ""
	}
	return fmt.Sprintf(" (an effect of %s or more would probably have shown)", percent(minimum))
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

func pValue(p float64) string {
	if p < 0.0001 {
		return "below 0.0001"
	}
	return fmt.Sprintf("%.2g", p)
}
