package kernelwaits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// causesSection is the ranked advice.
func causesSection(all []cause) finding.Section {
	rate := "starts a second"
	if all[0].Workload != "" {
		rate = "cycles a second"
	}
	s := finding.Section{ID: "advice", Title: "Advice for this machine", Alone: true, Note: causesNote, TableFirst: true, Data: all}
	effects := finding.Table{Title: "What each intervention did", Head: []string{"intervention", rate, "noise", "verdict", "p99 of a start", "its wait", "noise of waits"}}
	advice := finding.Table{Title: "What to change, the most that is surely gained first", Words: true, Head: []string{"change", "effect", "how"}}
	why := finding.Table{Title: "Predicted, and seen", Words: true, Head: []string{"intervention", "predicted", "verdict", "because", "the cause", "what it still waits for"}}
	for _, c := range all {
		starts, p99, wait := causeRatio(c.Starts), causeRatio(c.P99), causeRatio(c.Watched)
		effects.Rows = append(effects.Rows, []string{c.Name, starts.String(), floor(c.Noise), string(c.Verdict), p99.String(), wait.String(), floor(c.WatchedNoise)})
		why.Rows = append(why.Rows, []string{c.Name, string(c.Expect), string(c.Verdict), c.Because, c.Why, cmp.Or(stillWaits(c), quantity.Missing)})
		if helps(c) {
			advice.Rows = append(advice.Rows, []string{c.Name, starts.String(), c.Advice})
			s.Findings = append(s.Findings, helpFinding(c, rate))
		}
	}
	for _, c := range slices.Backward(all) { // the ranking ends with what costs most
		if avoid(c) {
			starts := causeRatio(c.Starts)
			advice.Rows = append(advice.Rows, []string{"avoid: " + c.Name, starts.String(), instead(c)})
		}
	}
	if !slices.ContainsFunc(all, helps) {
		s.Findings = append(s.Findings, "No intervention is shown to make "+rate+" more on this machine"+noVerdicts(all)+".")
	}
	s.Headline = s.Findings
	if len(advice.Rows) > 0 { // it is what the section is for
		s.Tables = append(s.Tables, advice)
	}
	s.Tables = append(s.Tables, effects.WithoutEmpty(quantity.Missing), why.WithoutEmpty(quantity.Missing))
	s.Figures = causeFigures(all, rate)
	return s
}

// helpFinding says what a change gains, whether its cause is shown, and why it gains
// no more.
func helpFinding(c cause, rate string) string {
	starts := causeRatio(c.Starts)
	text := fmt.Sprintf("%s: %s %s %s; %s (%s).", c.Name, rate, starts.Value, starts.Interval(), c.Verdict, c.Because)
	if left := stillWaits(c); left != "" {
		text += " Why not more: each start still waits " + left + "."
	}
	return text
}

// stillWaits says what an arm still waits for; "" where nobody watched it.
func stillWaits(c cause) string {
	var parts []string
	for _, w := range c.Left {
		if w.Share >= 0.01 {
			parts = append(parts, fmt.Sprintf("%s for %s (%.0f\u00a0%%)", quantity.Of(sample.Seconds, w.Each, stats.Interval{}), w.Name, 100*w.Share))
		}
	}
	return strings.Join(parts, ", ")
}

// noVerdicts says of how many interventions nothing is claimed, and why.
func noVerdicts(all []cause) string {
	silent := slices.DeleteFunc(slices.Clone(all), func(c cause) bool { return c.Verdict != causeNoVerdict })
	if len(silent) == 0 {
		return ""
	}
	return fmt.Sprintf("; there is no verdict on %d of %d: %s", len(silent), len(all), silent[0].Because)
}

const causesNote = `Ratios to the control, within each block: ×1.8 starts a second is 1.8 times as many. A cause is shown when the starts differ as predicted, by the rules of every table (an interval that holds for all interventions together), and so does the time that its own threads waited for its lock, watched in both arms; where no wait is watched the starts may be faster or slower, and the cause is not shown; refuted when the starts are the same, or differ in the other direction; else not shown, and without a verdict where the machine was too noisy. A p99 is claimed of trials of 100 starts or more. Noise is how much the control differs from its own twin. Advice is what is shown to change the starts, whatever its cause, ranked by the end of the interval that is nearer to no change. Effects are those of the targets measured here: what does more besides in a start gains a smaller share.`

// helps reports whether a change is to be advised: starts are shown to be faster.
func helps(c cause) bool { return differs(c) && c.Starts.Ratio > 1 }

// avoid reports whether a change is to be warned of.
func avoid(c cause) bool { return differs(c) && c.Starts.Ratio < 1 }

// instead is what to do where a change is warned of: what puts a cause in has
// advice against it, what was meant to take one away has not.
func instead(c cause) string {
	if c.Expect == study.ExpectSlower {
		return c.Advice
	}
	return "what is there already is faster"
}

// floor shows a noise floor.
func floor(noise float64) string {
	if noise == 0 {
		return quantity.Missing
	}
	return quantity.Percent(noise)
}

func differs(c cause) bool { return c.Starts != nil && c.Starts.Verdict.Shown() }

// causeRatio shows a ratio with its sign, or a difference in seconds.
func causeRatio(e *analysis.Effect) quantity.Shown {
	switch {
	case e == nil:
		return quantity.Shown{Value: quantity.Missing}
	case e.Difference != nil:
		n := quantity.Signed(quantity.Scale{Factor: 1, Unit: "s"}.Show(e.Difference.Median, e.Difference.Interval))
		n.Value = "Δ" + n.Value + " s"
		return n
	}
	n := quantity.Ratio(e.Ratio, e.Interval)
	n.Value = "×" + n.Value
	return n
}

func causeFigures(all []cause, rate string) []finding.Figure {
	f := finding.Figure{Title: strings.ToUpper(rate[:1]) + rate[1:] + ", by that of the control", Y: finding.Axis{Label: "ratio to the control"}}
	for _, c := range all {
		if c.Starts == nil || c.Starts.Difference != nil {
			continue
		}
		b := finding.Bar{Name: c.Name, Look: finding.Measured, Parts: []finding.Part{{Value: c.Starts.Ratio}}}
		if c.Starts.Interval.Method != stats.MethodNone {
			b.Low, b.High = c.Starts.Interval.Low, c.Starts.Interval.High
		}
		f.Bars = append(f.Bars, b)
	}
	if len(f.Bars) == 0 {
		return nil
	}
	return []finding.Figure{f}
}
