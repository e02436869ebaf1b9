package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// MachineFormats are the formats that Machines writes.
func MachineFormats() []Format { return []Format{FormatText, FormatMarkdown, FormatJSON} }

// Machines writes a comparison of two machines as text, Markdown or JSON.
func Machines(w io.Writer, format Format, m analysis.MachineComparison, o Options) error {
	switch format {
	case FormatText:
		p := printer{w: newSink(w, o.Color), Options: o}
		p.machines(m)
		return p.w.flush("the comparison")
	case FormatMarkdown:
		s := newSink(w, false)
		markdownMachines(s, m)
		return s.flush("the comparison")
	case FormatJSON:
		if err := json.MarshalWrite(w, m, jsonOptions(), jsontext.WithIndent(" ")); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return nil
	}
	return fmt.Errorf("two machines compared have no format %q: take text, md or json", format)
}

func (p *printer) machines(m analysis.MachineComparison) {
	p.w.line(p.bold(machinesTitle(m)))
	for _, f := range machineFacts(m) {
		p.wrapped(fmt.Sprintf("%-3s", f.Name), strings.Repeat(" ", 3), f.Value)
	}
	p.list("Warnings", "! ", m.Warnings)
	for _, t := range m.Tables {
		p.heading(machineHeading(t))
		columns := machineColumns(t)
		block := p.machineGrid(t, columns)
		if p.tooWide(block) {
			block = p.machineGrid(t, slices.DeleteFunc(columns, func(c machineColumn) bool { return c.scaled }))
		}
		p.w.line(block)
		p.wrapped("", "", indexNote(t))
	}
	p.w.line("")
	p.wrapped("", "", m.Note)
}

func (p *printer) machineGrid(t analysis.MachineTable, columns []machineColumn) string {
	grid := newGrid()
	for _, c := range columns {
		cells := c.cells(t)
		if c.right {
			alignPoints(cells)
		}
		grid.column(c.head, c.right, p.fit(cells))
	}
	return grid.render()
}

func markdownMachines(w sink, m analysis.MachineComparison) {
	w.printf("# %s\n\n", escapeMarkdown(machinesTitle(m)))
	for _, f := range machineFacts(m) {
		w.printf("- %s: %s\n", f.Name, escapeMarkdown(f.Value))
	}
	w.line("")
	markdownList(w, "Warnings", m.Warnings)
	for _, t := range m.Tables {
		w.printf("## %s\n\n", escapeMarkdown(machineHeading(t)))
		grid := newGrid()
		for _, c := range machineColumns(t) {
			grid.column(c.head, c.right, lines(c.cells(t), escapeMarkdown))
		}
		w.printf("%s\n\n%s\n\n", grid.writer().RenderMarkdown(), escapeMarkdown(indexNote(t)))
	}
	w.printf("%s\n", escapeMarkdown(m.Note))
}

func machinesTitle(m analysis.MachineComparison) string {
	return "A by B: " + m.A.Name + " by " + m.B.Name
}

// machineFacts describe both sides.
func machineFacts(m analysis.MachineComparison) []fact {
	describe := func(s analysis.MachineSide) string {
		parts := []string{s.Name, "in " + s.Target}
		if s.Machine.Cores > 0 {
			parts = append(parts, quantity.Count(s.Machine.Cores, "core"))
		}
		if s.Machine.Threads > 0 {
			parts = append(parts, quantity.Count(s.Machine.Threads, "hardware thread"))
		}
		return join(append(parts, sideClock(s)))
	}
	return []fact{{"A", describe(m.A)}, {"B", describe(m.B)}}
}

// sideClock is the clock of a side: where it was measured and differs, from the
// slowest environment to the fastest.
func sideClock(s analysis.MachineSide) string {
	clocks := slices.Sorted(maps.Values(s.Clocks))
	if len(clocks) == 0 || quantity.Number(clocks[0], 2) == quantity.Number(clocks[len(clocks)-1], 2) {
		return clockFact(s.Machine.GHz, s.ClockSource)
	}
	return quantity.Number(clocks[0], 2) + " to " + clockFact(clocks[len(clocks)-1], s.ClockSource)
}

// clockFact is a clock rate and how it is known; "" where it is not.
func clockFact(ghz float64, source string) string {
	if ghz <= 0 {
		return ""
	}
	return strconv.FormatFloat(ghz, 'f', 2, 64) + " GHz (" + source + ")"
}

func machineHeading(t analysis.MachineTable) string {
	return capital(analysis.UnixPlace(t.Environment))
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// RefusedLegend explains RefusedMark.
const RefusedLegend = "! refused: these numbers describe the run and claim nothing."

// RefusedMark stands behind the name of a row, or a number, that is refused.
func RefusedMark(why string) string {
	if why == "" {
		return ""
	}
	return " !"
}

// indexNote says what the indexes of a table hold.
func indexNote(t analysis.MachineTable) string {
	over := func(name string, tests []string) string {
		return fmt.Sprintf("%s: geometric mean over %s: %s.", name, quantity.Count(len(tests), "test"), strings.Join(tests, ", "))
	}
	text := over("index", t.Tests)
	if len(t.AsPublished) > 0 {
		text += " " + over(analysis.IndexAsPublished, t.AsPublished) + " Its file copies are in no published table."
	}
	if slices.ContainsFunc(t.Rows, func(r analysis.MachineRow) bool { return r.Refused != "" }) {
		text += " " + RefusedLegend
	}
	return text
}

// machineColumn is one column of a comparison.
type machineColumn struct {
	head   string
	right  bool
	cell   func(analysis.MachineRow) string
	scaled bool // an interval that is another column's, scaled: left out where it does not fit
}

func (c machineColumn) cells(t analysis.MachineTable) []string { return lines(t.Rows, c.cell) }

// machineColumns leaves out the columns that say nothing.
func machineColumns(t analysis.MachineTable) []machineColumn {
	ratio := func(pick func(analysis.MachineRow) float64) func(analysis.MachineRow) string {
		return func(r analysis.MachineRow) string {
			if v := pick(r); v > 0 {
				return percentOf(v)
			}
			return ""
		}
	}
	per := func(name string, value func(analysis.MachineRow) float64, interval func(analysis.MachineRow) stats.Interval) []machineColumn {
		return []machineColumn{
			{head: name, right: true, cell: ratio(value)},
			{head: "95 %, " + name, right: true, cell: func(r analysis.MachineRow) string { return percentSpan(interval(r)) }, scaled: true},
		}
	}
	all := slices.Concat(
		[]machineColumn{
			{head: "test", cell: func(r analysis.MachineRow) string { return r.Test + RefusedMark(r.Refused) }},
			{head: "A", right: true, cell: func(r analysis.MachineRow) string { return quantity.Number(r.A, 1) }},
			{head: "B", right: true, cell: func(r analysis.MachineRow) string { return quantity.Number(r.B, 1) }},
			{head: "A by B", right: true, cell: ratio(func(r analysis.MachineRow) float64 { return r.Ratio })},
			{head: "95 % interval", right: true, cell: func(r analysis.MachineRow) string { return percentSpan(r.Interval) }},
		},
		per("per core", func(r analysis.MachineRow) float64 { return r.PerCore }, func(r analysis.MachineRow) stats.Interval { return r.PerCoreInterval }),
		per("per thread", func(r analysis.MachineRow) float64 { return r.PerThread }, func(r analysis.MachineRow) stats.Interval { return r.PerThreadInterval }),
		per("per GHz", func(r analysis.MachineRow) float64 { return r.PerGHz }, func(r analysis.MachineRow) stats.Interval { return r.PerGHzInterval }),
	)
	var kept []machineColumn
	for _, c := range all {
		if strings.Join(c.cells(t), "") != "" {
			kept = append(kept, c)
		}
	}
	return kept
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
