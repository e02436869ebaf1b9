package unixbench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// document is comparisons with one machine B, to be shown.
func document(all []comparison) finding.Document {
	first := all[0]
	d := finding.Document{Title: "A by B: " + first.A.Name + " by " + first.B.Name, Facts: machineFacts(first), Warnings: first.Warnings, Note: first.Note, Data: first}
	if len(all) > 1 {
		d.Title, d.Facts, d.Warnings, d.Data = fmt.Sprintf("%d machines by %s", len(all), first.B.Name), nil, nil, all
		d.Facts = append(d.Facts, finding.Fact{Name: "B", Value: machineFacts(first)[1].Value})
		d.Warnings = severalTargets(all)
	}
	for i, m := range all {
		if len(all) > 1 {
			name := fmt.Sprintf("A%d", i+1)
			d.Facts = append(d.Facts, finding.Fact{Name: name, Value: machineFacts(m)[0].Value})
			for _, w := range m.Warnings {
				d.Warnings = append(d.Warnings, name+": "+w)
			}
		}
		for _, t := range m.Tables {
			table := documentTable(t)
			if len(all) > 1 {
				table.Title = fmt.Sprintf("A%d: %s, %s", i+1, m.A.Name, table.Title)
			}
			if i == 0 || !inOne(all[:i], t.Environment) { // the figures of an environment show all machines
				table.Figures = comparisonFigures(all, t.Environment)
			}
			d.Tables = append(d.Tables, table)
		}
	}
	return d
}

// severalTargets warns where one figure has bars of several targets.
func severalTargets(all []comparison) []string {
	var said, targets []string
	for i, m := range all {
		if m.A.Published {
			continue
		}
		said = append(said, fmt.Sprintf("A%d ran in %s", i+1, m.A.Target))
		if !slices.Contains(targets, m.A.Target) {
			targets = append(targets, m.A.Target)
		}
	}
	if len(targets) < 2 {
		return nil
	}
	return []string{"the runs have no target in common: " + strings.Join(said, ", ") + "; measure one target on all of them"}
}

// inOne reports whether one of the comparisons has the environment.
func inOne(all []comparison, environment string) bool {
	return slices.ContainsFunc(all, func(m comparison) bool {
		return slices.ContainsFunc(m.Tables, func(t machineTable) bool { return t.Environment == environment })
	})
}

// sameIndex reports whether the index is over the same tests on all machines that have the
// environment: else its bars are of different things.
func sameIndex(all []comparison, environment string) bool {
	var tests [][]string
	for _, m := range all {
		for _, t := range m.Tables {
			if t.Environment == environment {
				tests = append(tests, t.Tests)
			}
		}
	}
	return !slices.ContainsFunc(tests, func(other []string) bool { return !slices.Equal(other, tests[0]) })
}

// comparisonFigures are bars by test of one environment: as measured, per core and per GHz.
func comparisonFigures(all []comparison, environment string) []finding.Figure {
	var out []finding.Figure
	alike := sameIndex(all, environment)
	for _, of := range []struct {
		title string
		value func(machineRow) (float64, stats.Interval)
	}{
		{"A by B", func(r machineRow) (float64, stats.Interval) { return r.Ratio, r.Interval }},
		{"A by B, per core", func(r machineRow) (float64, stats.Interval) { return r.PerCore, r.PerCoreInterval }},
		{"A by B, per GHz", func(r machineRow) (float64, stats.Interval) { return r.PerGHz, r.PerGHzInterval }},
	} {
		f := finding.Figure{Title: capital(placeName(environment)) + ": " + of.title, Y: finding.Axis{Label: "% of B", Zero: true}}
		for i, m := range all {
			for _, t := range m.Tables {
				if t.Environment != environment {
					continue
				}
				for _, r := range t.Rows {
					value, interval := of.value(r)
					if value > 0 && r.Refused == "" && (alike || r.Test != indexName) {
						f.Bars = append(f.Bars, machineBar(r.Test, len(all), i, value, interval, m.A.Published))
					}
				}
			}
		}
		if len(f.Bars) > 0 {
			f.Bars = byTest(f.Bars)
			out = append(out, f)
		}
	}
	return out
}

// barSign stands between a bar's test and its machine.
const barSign = " · "

// byTest are the bars test by test, in the order in which tests first stand.
func byTest(bars []finding.Bar) []finding.Bar {
	var tests []string
	of := map[string][]finding.Bar{}
	for _, b := range bars {
		test, _, _ := strings.Cut(b.Name, barSign)
		if of[test] == nil {
			tests = append(tests, test)
		}
		of[test] = append(of[test], b)
	}
	var out []finding.Bar
	for _, test := range tests {
		out = append(out, of[test]...)
	}
	return out
}

// machineBar is one test of the i-th of several machines.
func machineBar(test string, machines, i int, value float64, interval stats.Interval, published bool) finding.Bar {
	b := finding.Bar{Name: test, Look: finding.Measured, Parts: []finding.Part{{Value: 100 * value}}}
	if machines > 1 {
		b.Name = fmt.Sprintf("%s%sA%d", test, barSign, i+1)
	}
	if published {
		b.Look = finding.Published
	}
	if quantity.Known(interval) {
		b.Low, b.High = 100*interval.Low, 100*interval.High
	}
	return b
}

// machineFacts describe both sides.
func machineFacts(m comparison) []finding.Fact {
	describe := func(s side) string {
		parts := []string{s.Name, "in " + s.Target}
		if s.Machine.Cores > 0 {
			parts = append(parts, quantity.Count(s.Machine.Cores, "core"))
		}
		if s.Machine.Threads > 0 {
			parts = append(parts, quantity.Count(s.Machine.Threads, "hardware thread"))
		}
		return strings.Join(slices.DeleteFunc(append(parts, sideClock(s)), func(p string) bool { return p == "" }), ", ")
	}
	return []finding.Fact{{Name: "A", Value: describe(m.A)}, {Name: "B", Value: describe(m.B)}}
}

// sideClock is the clock of a side: where it was measured and differs, from the
// slowest environment to the fastest.
func sideClock(s side) string {
	clocks := slices.Sorted(maps.Values(s.Clocks))
	if len(clocks) == 0 || quantity.Number(clocks[0], 2) == quantity.Number(clocks[len(clocks)-1], 2) {
		return quantity.Clock(s.Machine.GHz, s.ClockSource)
	}
	return quantity.Number(clocks[0], 2) + " to " + quantity.Clock(clocks[len(clocks)-1], s.ClockSource)
}

// indexNote says what the indexes of a table hold.
func indexNote(t machineTable) string {
	over := func(name string, tests []string) string {
		return fmt.Sprintf("%s: geometric mean over %s: %s.", name, quantity.Count(len(tests), "test"), strings.Join(tests, ", "))
	}
	text := over("index", t.Tests)
	if len(t.AsPublished) > 0 {
		text += " " + over(indexAsPublished, t.AsPublished) + " Its file copies are in no published table."
	}
	if slices.ContainsFunc(t.Rows, func(r machineRow) bool { return r.Refused != "" }) {
		text += " " + refusedLegend
	}
	return text
}

// machineColumn is one column of a comparison.
type machineColumn struct {
	head   string
	cell   func(machineRow) string
	scaled bool // an interval that is another column's, scaled: left out where it does not fit
}

// documentTable is a table without the columns that say nothing.
func documentTable(t machineTable) finding.DocumentTable {
	out := finding.DocumentTable{Table: finding.Table{Title: capital(placeName(t.Environment)), Rows: make([][]string, len(t.Rows))}, Note: indexNote(t)}
	for _, c := range machineColumns() {
		cells := make([]string, len(t.Rows))
		for i, r := range t.Rows {
			cells[i] = c.cell(r)
		}
		if strings.Join(cells, "") == "" {
			continue
		}
		if c.scaled {
			out.Spare = append(out.Spare, len(out.Head))
		}
		out.Head = append(out.Head, c.head)
		for i := range cells {
			out.Rows[i] = append(out.Rows[i], cells[i])
		}
	}
	return out
}

func machineColumns() []machineColumn {
	ratio := func(pick func(machineRow) float64) func(machineRow) string {
		return func(r machineRow) string {
			if v := pick(r); v > 0 {
				return percentOf(v)
			}
			return ""
		}
	}
	per := func(name string, value func(machineRow) float64, interval func(machineRow) stats.Interval) []machineColumn {
		return []machineColumn{
			{head: name, cell: ratio(value)},
			{head: "95 %, " + name, cell: func(r machineRow) string { return percentSpan(interval(r)) }, scaled: true},
		}
	}
	return slices.Concat(
		[]machineColumn{
			{head: "test", cell: func(r machineRow) string { return r.Test + refusedMark(r.Refused) }},
			{head: "A", cell: func(r machineRow) string { return quantity.Number(r.A, 1) }},
			{head: "B", cell: func(r machineRow) string { return quantity.Number(r.B, 1) }},
			{head: "A by B", cell: ratio(func(r machineRow) float64 { return r.Ratio })},
			{head: "95 % interval", cell: func(r machineRow) string { return percentSpan(r.Interval) }},
		},
		per("per core", func(r machineRow) float64 { return r.PerCore }, func(r machineRow) stats.Interval { return r.PerCoreInterval }),
		per("per thread", func(r machineRow) float64 { return r.PerThread }, func(r machineRow) stats.Interval { return r.PerThreadInterval }),
		per("per GHz", func(r machineRow) float64 { return r.PerGHz }, func(r machineRow) stats.Interval { return r.PerGHzInterval }),
	)
}

// percentOf is a ratio in percent with one decimal, as published claims are.
func percentOf(ratio float64) string { return quantity.Number(100*ratio, 1) + " %" }

// percentSpan is an interval of a ratio in percent, "" where there is none.
func percentSpan(i stats.Interval) string {
	if !quantity.Known(i) {
		return ""
	}
	return "[" + quantity.Number(100*i.Low, 1) + ", " + quantity.Number(100*i.High, 1) + "]"
}
