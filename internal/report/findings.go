package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// findings says in plain words what the claims show: one sentence or two for
// each primary table and ladder, then what limits them.
func findings(v view) []string {
	if s := v.alone(); s != nil {
		return append(slices.Clone(s.Findings), trialFinding(v)...) // instead of a sentence for each of many groups
	}
	var out []string
	for _, s := range v.in.Sections {
		out = append(out, s.Findings...)
	}
	for _, g := range v.groups {
		if v.hasLadder(g.name) || v.watched(g.name) {
			continue // the ladder says it shorter; what a probe watches has a section for what it saw
		}
		for _, t := range g.primary {
			out = append(out, tableFinding(t)...)
		}
	}
	for _, l := range v.ladders {
		out = append(out, ladderFinding(l)...)
	}
	out = append(out, noiseFinding(v)...)
	return append(out, trialFinding(v)...)
}

func (v view) hasLadder(group string) bool {
	return slices.ContainsFunc(v.ladders, func(l shownLadder) bool { return l.claim.Group == group })
}

func (v view) watched(group string) bool {
	return slices.ContainsFunc(v.in.Manifest.Cells, func(c study.Cell) bool { return c.Group == group && c.Probe != "" })
}

// tableFinding reads one price list: who costs, who gains, who is the same.
func tableFinding(t shownTable) []string {
	control := slices.IndexFunc(t.Rows, func(r shownRow) bool { return r.claim.Control })
	if control < 0 || t.Rows[control].claim.Summary.N == 0 {
		return []string{fmt.Sprintf("%s (%s): the control gave no sample, so nothing can be compared.", t.claim.Group, t.claim.Metric.Name)}
	}
	c := t.Rows[control]
	head := fmt.Sprintf("%s (%s): %s %s %s", t.claim.Group, t.claim.Metric.Name, c.claim.Label,
		verb(t.claim.Metric.Better), quantity.Of(t.claim.Metric.Unit, c.claim.Summary.Median, c.claim.Summary.Interval))
	parts := append([]string{head}, verdictParts(t, c.claim.Label)...)
	return []string{strings.Join(parts, "; ") + "."}
}

func verb(b sample.Better) string {
	if b == sample.Higher {
		return "reaches"
	}
	return "takes"
}

func verdictParts(t shownTable, control string) []string {
	rows := compared(t)
	pick := func(keep func(shownRow) bool, name func(shownRow) string) string {
		var names []string
		for _, r := range rows {
			if keep(r) {
				names = append(names, name(r))
			}
		}
		return enumerate(names)
	}
	plain := func(r shownRow) string { return r.claim.Label }
	times := func(r shownRow) string { return r.claim.Label + " " + r.times() }
	is := func(v analysis.Verdict, below bool) func(shownRow) bool {
		return func(r shownRow) bool { return r.verdict() == v && r.claim.Effect.BelowMargin == below }
	}
	bounded := func(r shownRow) string {
		if b := r.claim.Effect.Bound; b != "" {
			return r.claim.Label + " (" + b + ")"
		}
		return r.claim.Label
	}
	sized := func(r shownRow) string { return r.claim.Label + " " + r.claim.Effect.Size }
	below := func(r shownRow) bool { return r.claim.Effect != nil && r.claim.Effect.BelowMargin }
	var out []string
	for _, p := range []struct{ before, names, after string }{
		{"slower: ", pick(is(analysis.Slower, false), times), ""},
		{"faster: ", pick(is(analysis.Faster, false), times), ""},
		{"more: ", pick(is(analysis.More, false), times), ""},
		{"less: ", pick(is(analysis.Less, false), times), ""},
		{"certain, below the margin: ", pick(below, sized), ""},
		{"the same as " + control + " within the margin: ", pick(is(analysis.Same, false), plain), ""},
		{"open: ", pick(is(analysis.Open, false), bounded), ""},
		{"not comparable: ", pick(is(analysis.NotComparable, false), plain), ""},
		{"failed: ", pick(func(r shownRow) bool { return r.Verdict == "failed" }, plain), ""},
	} {
		if p.names != "" {
			out = append(out, p.before+p.names+p.after)
		}
	}
	return out
}

// compared lists a table's rows that findings speak of, the nearest to the
// control first.
func compared(t shownTable) []shownRow {
	rows := slices.DeleteFunc(slices.Clone(t.Rows), func(r shownRow) bool { return r.claim.Control || r.claim.AA })
	slices.SortStableFunc(rows, func(a, b shownRow) int { return cmp.Compare(distance(a), distance(b)) })
	return rows
}

// distance is how far a row lies from the control, on the log scale.
func distance(r shownRow) float64 {
	if r.claim.Effect == nil || r.claim.Effect.Ratio <= 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(r.claim.Effect.Ratio))
}

func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// ladderFinding names the whole and the dearest step.
func ladderFinding(l shownLadder) []string {
	steps := chain(l.claim)
	if len(steps) == 0 {
		return nil
	}
	price := func(s analysis.Step) float64 { // of a rate, what is lost
		if l.claim.Metric.Better == sample.Higher {
			return -s.Delta
		}
		return s.Delta
	}
	dearest := 0
	for i, s := range steps {
		if price(s) > price(steps[dearest]) {
			dearest = i
		}
	}
	last := len(steps) - 1
	text := fmt.Sprintf("Ladder %s (%s): from %s (%s) to %s (%s) in %s",
		l.claim.Group, l.claim.Metric.Name, l.claim.Base, quantity.Of(l.claim.Metric.Unit, l.claim.BaseMedian, l.claim.BaseInterval),
		steps[last].To, quantity.Of(l.claim.Metric.Unit, steps[last].Median, steps[last].Interval), quantity.Count(len(steps), "step"))
	if l.claim.Refused != "" {
		return []string{text + "; no claim, the machine was too noisy."}
	}
	d := steps[dearest]
	span := ""
	if quantity.Known(d.Interval) {
		span = fmt.Sprintf(" (%s to %s)", quantity.Of(l.claim.Metric.Unit, d.Interval.Low, d.Interval), quantity.Of(l.claim.Metric.Unit, d.Interval.High, d.Interval))
	}
	return []string{fmt.Sprintf("%s; the dearest is %s with %s%s.", text, d.To, quantity.Of(l.claim.Metric.Unit, d.Delta, d.Interval), span)}
}

// noiseFinding says how well identical targets agreed, or why it is not known.
func noiseFinding(v view) []string {
	worst, where := 0.0, ""
	tables, twins, exact := 0, 0, 0
	for _, g := range v.groups {
		tables += len(g.primary)
		for _, t := range g.primary {
			if t.claim.Noise > worst {
				worst, where = t.claim.Noise, t.claim.Group
			}
			if twin := twinOf(t); twin != nil {
				twins++
				if twin.Effect != nil && twin.Effect.Interval.Decides() && twin.Effect.Reached == 0 {
					exact++ // where no noise was seen
				}
			}
		}
	}
	switch {
	case where != "":
		return []string{fmt.Sprintf("Noise: the control differs from itself by up to %s (%s).", quantity.Percent(worst), where)}
	case tables == 0:
		return nil // runs compared: each has told of its own
	case twins == 0:
		return []string{"The control was not run twice, so the noise is unknown."}
	case exact == 0:
		return []string{"The control was run twice, but in too few blocks to know the noise."}
	}
	return []string{"The control measured against itself agrees exactly."}
}

// twinOf is the row of the control's A/A twin, nil where there is none.
func twinOf(t shownTable) *analysis.Row {
	at := slices.IndexFunc(t.Rows, func(r shownRow) bool { return r.claim.AA })
	if at < 0 {
		return nil
	}
	return t.Rows[at].claim
}

// trialFinding says what is missing from the plan.
func trialFinding(v view) []string {
	out := incomplete(v.in)
	if n := v.in.Claims.Failures; n > 0 {
		out = append(out, fmt.Sprintf("%s failed; failures are listed and never counted as samples.", quantity.Count(n, "trial")))
	}
	return out
}

// incomplete says how far a run is whose plan has more trials.
func incomplete(in Input) []string {
	c := in.Claims
	switch {
	case !in.unfinished():
		return nil
	case in.Live:
		return []string{fmt.Sprintf("Being measured: %d of %d trials so far.", c.Trials, c.Planned)}
	}
	return []string{fmt.Sprintf("The run is incomplete: %d of %d trials.", c.Trials, c.Planned)}
}
