package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
)

// says are the summary's sentences: those of experiments first, then what the tables
// show.
func (v view) says() []string {
	var out []string
	for _, s := range v.in.Sections {
		out = append(out, s.Headline...)
		out = append(out, claimSentence(s.Claims)...)
	}
	switch {
	case v.alone() != nil:
		return out
	case v.isLadder() && len(v.ladders) > 0:
		for _, l := range v.ladders {
			out = append(out, ladderFinding(l)...)
		}
		return out
	}
	tables := v.priced()
	for _, t := range tables {
		if t.control() == nil && slices.ContainsFunc(t.Rows, func(r shownRow) bool { return r.claim.Control }) {
			out = append(out, tableFinding(t)...)
		} else if isTime(t) || !isSpeed(t) {
			out = append(out, costSentence(t)...)
		}
	}
	return append(out, speedSentences(tables)...)
}

// claimSentence counts what this machine answers to published claims.
func claimSentence(claims []finding.Claim) []string {
	count, asked := map[finding.Verdict]int{}, 0
	for _, c := range claims {
		for _, here := range c.Here {
			count[here.Verdict]++
			asked++
		}
	}
	var parts []string
	for _, v := range []finding.Verdict{finding.BorneOut, finding.NotBorne, finding.Open, finding.Refused} {
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], cmp.Or(map[finding.Verdict]string{finding.NotBorne: "not borne out"}[v], string(v))))
		}
	}
	if asked == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The published claims on this machine: %s.", enumerate(parts))}
}

// costSentence names what each target costs more, the cheapest first.
func costSentence(t shownTable) []string {
	c := t.control()
	if c == nil {
		return nil
	}
	scale := t.costScale()
	var parts []string
	for _, r := range compared(t) {
		if !r.verdict().Shown() {
			continue
		}
		_, at, _ := t.cost(&r)
		part := quantity.WithUnit(plus(at/scale.Factor), scale.Unit) + " in " + r.claim.Label
		if e := r.claim.Effect; !isStart(t) && e.Difference == nil {
			part += fmt.Sprintf(" (×%s)", twoDigits(e.Ratio))
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil
	}
	head := fmt.Sprintf("%s (%s)", t.claim.Group, t.claim.Metric.Name)
	if isStart(t) {
		head = t.claim.Group + ", until the payload acts"
	}
	return []string{fmt.Sprintf("%s: %s takes %s; %s.", head, c.claim.Label,
		quantity.WithUnit(twoDigits(c.claim.Summary.Median/scale.Factor), scale.Unit), enumerate(parts))}
}

// speeds is what one target's speeds say.
type speeds struct {
	target string
	slower []speed // certain, the slowest first
	faster []speed
	open   int
	same   int
	hidden float64 // the largest slowdown that an open cell leaves possible, as a fraction
	where  string  // that is
}

type speed struct {
	group string
	ratio float64
}

// speedSentences say which targets are slower once they run, and what could be hidden in
// the others.
func speedSentences(tables []shownTable) []string {
	var out []string
	control := ""
	var quiet []speeds
	for _, s := range speedsOf(tables, &control) {
		if len(s.slower)+len(s.faster) == 0 {
			quiet = append(quiet, s)
			continue
		}
		if len(s.slower) > 0 {
			out = append(out, fmt.Sprintf("%s is slower, in %% of %s's speed: %s.", s.target, control, shares(s.slower)))
		}
		if len(s.faster) > 0 {
			out = append(out, fmt.Sprintf("%s is faster, in %% of %s's speed: %s.", s.target, control, shares(s.faster)))
		}
	}
	return append(out, unslowed(quiet)...)
}

func speedsOf(tables []shownTable, control *string) []speeds {
	var all []speeds
	for _, t := range tables {
		c := t.control()
		if c == nil || !isSpeed(t) {
			continue
		}
		*control = c.claim.Label
		for _, r := range t.Rows {
			if r.claim.AA || r.verdict() == "" || r.verdict() == analysis.NotComparable {
				continue
			}
			at := slices.IndexFunc(all, func(s speeds) bool { return s.target == r.claim.Label })
			if at < 0 {
				at, all = len(all), append(all, speeds{target: r.claim.Label})
			}
			all[at].add(t.claim.Group, r)
		}
	}
	for _, s := range all {
		slices.SortFunc(s.slower, func(a, b speed) int { return cmp.Compare(a.ratio, b.ratio) })
	}
	slices.SortStableFunc(all, func(a, b speeds) int { return cmp.Compare(a.slowest(), b.slowest()) })
	return all
}

func (s speeds) slowest() float64 {
	if len(s.slower) == 0 {
		return math.Inf(1)
	}
	return s.slower[0].ratio
}

func (s *speeds) add(group string, r shownRow) {
	e := r.claim.Effect
	switch {
	case r.Effect == "cost" && e.Difference == nil:
		s.slower = append(s.slower, speed{group, e.Ratio})
	case r.Effect == "gain" && e.Difference == nil:
		s.faster = append(s.faster, speed{group, e.Ratio})
	case e.Verdict == analysis.Same:
		s.same++
	default:
		s.open++
		hidden := 1.0
		if e.Interval.Decides() && e.Reached == 0 && e.Difference == nil {
			hidden = max(0, 1-e.Interval.Low)
		}
		if hidden > s.hidden {
			s.hidden, s.where = hidden, group
		}
	}
}

// shares lists speeds in percent: "syscalls 4.9, disk 41 and memory 91".
func shares(all []speed) string {
	const most = 5
	var parts []string
	for _, s := range all[:min(most, len(all))] {
		parts = append(parts, s.group+" "+speedText(&analysis.Effect{Ratio: s.ratio, Verdict: analysis.Slower}))
	}
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(parts, ", "), len(all)-most)
	}
	return enumerate(parts)
}

// unslowed is the sentence about targets that showed no difference.
func unslowed(all []speeds) []string {
	var same, open []string
	worst := speeds{}
	for _, s := range all {
		if s.open == 0 {
			same = append(same, s.target)
			continue
		}
		open = append(open, s.target)
		if s.hidden > worst.hidden {
			worst = s
		}
	}
	var out []string
	if len(same) > 0 {
		out = append(out, fmt.Sprintf("Once running, %s: the same within the margin.", enumerate(same)))
	}
	if len(open) > 0 {
		text := "Once running, no slowdown is shown of " + enumerate(open)
		switch {
		case worst.hidden >= 1:
			text += ", with too few blocks to bound it"
		case worst.hidden > 0:
			text += fmt.Sprintf("; up to %s could be hidden (%s in %s)", quantity.Percent(worst.hidden), worst.target, worst.where)
		}
		out = append(out, text+".")
	}
	return out
}
