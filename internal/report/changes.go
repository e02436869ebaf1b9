package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
)

// change is one cell of two runs in a primary metric.
type change struct {
	comparison *analysis.Comparison
	row        *analysis.Change
	shown      shownTable
}

// summarizeChanges fills the summary of runs compared: one verdict a row, the biggest
// certain slowdown first.
func (v view) summarizeChanges(s *Summary) {
	changes := v.changes()
	s.Tables = append(s.Tables, v.changeTable(changes))
	if t := v.surroundings(); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	s.Says = changeSentences(changes)
	s.NoVerdict = slices.Concat(v.lost(), unjudged(changes), v.in.unshared())
	s.Certainty = v.someFailed()
	noise := 0.0
	for _, c := range changes {
		noise = max(noise, c.comparison.Noise)
	}
	if noise > 0 {
		s.Certainty = append(s.Certainty, fmt.Sprintf("The runs' controls and their twins differ together by up to %s; every interval is wider by its share of that.", quantity.Percent(noise)))
	}
	s.Certainty = append(s.Certainty, v.warnings()...)
}

// changes are the judged cells, sorted: certain costs, the biggest first, gains, then what
// is open, the same, and not comparable.
func (v view) changes() []change {
	var out []change
	for i := range v.in.Claims.Comparisons {
		c := &v.in.Claims.Comparisons[i]
		if !c.Primary {
			continue
		}
		shown := comparisonScale(*c)
		for j := range c.Rows {
			if r := &c.Rows[j]; !r.Control && !r.AA && r.Effect != nil {
				out = append(out, change{c, r, shown})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(b.size(), a.size()))
	})
	return out
}

func (c change) order() int {
	switch d := direction(c.comparison.Metric.Better, c.row.Effect); {
	case d == "cost" && !c.row.Effect.BelowMargin:
		return 0
	case d == "gain" && !c.row.Effect.BelowMargin:
		return 1
	case c.row.Effect.Verdict.Shown():
		return 2
	case c.row.Effect.Verdict == analysis.Open:
		return 3
	case c.row.Effect.Verdict == analysis.Same:
		return 4
	}
	return 5
}

// size is how far a change is from none, on the log scale.
func (c change) size() float64 {
	if c.row.Effect.Ratio <= 0 {
		return 0
	}
	return math.Abs(math.Log(c.row.Effect.Ratio))
}

// changeTable has a row for each cell.
func (v view) changeTable(all []change) SummaryTable {
	t := SummaryTable{Title: "What changed, A to B, each run scaled to its own control", First: "target"}
	words := func(head string, weight float64, text func(change) string) {
		t.Columns = append(t.Columns, SummaryColumn{Head: head, Words: true, weight: weight, Cells: lines(all, func(c change) SummaryCell { return SummaryCell{Text: text(c)} })})
	}
	t.Rows = lines(all, func(c change) string { return c.row.Label })
	words("in", 10, func(c change) string { return c.comparison.Group + ": " + c.comparison.Metric.Name })
	if len(v.in.Others) > 1 {
		words("run", 9, func(c change) string { return v.in.label(c.comparison.With) })
	}
	t.Columns = append(t.Columns, SummaryColumn{Head: "verdict", Words: true, weight: 20, Cells: lines(all, func(c change) SummaryCell {
		return SummaryCell{Text: changeVerdict(c.row.Effect), Verdict: string(c.row.Effect.Verdict), Effect: direction(c.comparison.Metric.Better, c.row.Effect)}
	})})
	number := func(head string, weight float64, text func(change) string) {
		words(head, weight, text)
		t.Columns[len(t.Columns)-1].Words = false
	}
	number("A", 3, func(c change) string { return c.median(c.row.A) })
	number("B", 3, func(c change) string { return c.median(c.row.B) })
	number("B/A over control", 8, func(c change) string { return c.ratio().Value })
	number("interval", 5, func(c change) string { return c.ratio().Interval() })
	if len(all) == 0 {
		return SummaryTable{Title: t.Title, First: t.First, Note: "No cell has samples in each run and a control to be scaled to; medians, where there are some, stand in the tables."}
	}
	return t
}

// changeVerdict is the verdict with its size.
func changeVerdict(e *analysis.Effect) string {
	switch {
	case e.Size != "" && e.BelowMargin:
		return e.Size + ", below the margin"
	case e.Size != "":
		return e.Size
	}
	return string(e.Verdict)
}

func (c change) median(s analysis.Summary) string {
	if s.N == 0 {
		return quantity.Missing
	}
	return quantity.WithUnit(c.shown.Show(s.Median, s.Interval).Value, c.shown.Unit)
}

func (c change) ratio() quantity.Shown {
	if c.row.Effect.Verdict == analysis.NotComparable {
		return quantity.Shown{Value: quantity.Missing}
	}
	return c.shown.showEffect(c.row.Effect)
}

// changeSentences count the verdicts and name the biggest changes.
func changeSentences(all []change) []string {
	count := map[int]int{}
	for _, c := range all {
		count[c.order()]++
	}
	var parts []string
	for i, word := range []string{"for the worse", "for the better", "certain, but below the margin", "open", "the same", "not comparable"} {
		if count[i] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[i], word))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	out := []string{fmt.Sprintf("Of %s: %s.", quantity.Count(len(all), "cell"), enumerate(parts))}
	for i, word := range []string{"worst", "best"} {
		if at := slices.IndexFunc(all, func(c change) bool { return c.order() == i }); at >= 0 {
			c := all[at]
			out = append(out, fmt.Sprintf("The %s: %s in %s: %s (%s %s).", word, c.row.Label, c.comparison.Group,
				cmp.Or(c.row.Effect.Size, string(c.row.Effect.Verdict)), "×"+c.ratio().Value, c.ratio().Interval()))
		}
	}
	return out
}

// unjudged are the reasons of what is not comparable, each once.
func unjudged(all []change) []Lack {
	var out lackList
	for _, c := range all {
		if c.row.Effect.Verdict != analysis.NotComparable {
			continue
		}
		why := c.row.Effect.Why
		what := c.row.Label + " in " + c.comparison.Group
		if !slices.ContainsFunc(all, func(d change) bool { return d.comparison == c.comparison && d.row.Effect.Why != why }) {
			what = c.comparison.Group // all of it
		}
		out.add(what, why, why)
	}
	return out.named()
}

var digests = regexp.MustCompile(`(sha256:[0-9a-f]{12})[0-9a-f]{52}`)

// shortDigests leaves twelve digits of each digest, as container engines show them; the
// whole ones are in JSON.
func shortDigests(s string) string { return digests.ReplaceAllString(s, "$1…") }

// surroundings are the facts in which the runs differ.
func (v view) surroundings() SummaryTable {
	all := v.in.Claims.Surroundings
	t := SummaryTable{Title: "What else differs, and may be the cause", First: "fact", Rows: lines(all, func(s analysis.Surrounding) string {
		if len(v.in.Others) > 1 {
			return v.in.label(s.RunB) + ": " + s.What
		}
		return s.What
	})}
	for _, column := range []struct {
		head string
		text func(analysis.Surrounding) string
	}{{"in A", func(s analysis.Surrounding) string { return s.A }}, {"in B", func(s analysis.Surrounding) string { return s.B }}} {
		t.Columns = append(t.Columns, SummaryColumn{Head: column.head, Words: true, Cells: lines(all, func(s analysis.Surrounding) SummaryCell { return SummaryCell{Text: shortDigests(column.text(s))} })})
	}
	return t
}
