package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/tarelab/tare/internal/analysis"
)

// Text writes the report for a terminal or a pipe: its summary, or with o.All every
// table. Where the terminal is narrow, the least needed columns are left out and named.
func Text(w io.Writer, in Input, o Options) error {
	p := printer{w: newSink(w, o.Color), Options: o}
	if v := newView(in); o.All {
		p.report(v)
	} else {
		p.summary(v.brief)
	}
	return p.w.flush("the report")
}

// printer lays a view out as text.
type printer struct {
	w sink
	Options
	dropped []string // columns that did not fit
}

func (p *printer) report(v view) {
	p.header(v)
	p.list("Warnings", "! ", analysis.Texts(v.in.Claims.Warnings))
	p.list("Findings", "", v.findings)
	for _, c := range v.in.Claims.Comparisons {
		title, head, rows := v.in.comparison(c)
		p.heading(title)
		p.w.line(comparisonGrid(head, rows).render())
	}
	for _, s := range v.in.Sections {
		p.section(s)
	}
	if v.alone() == nil {
		p.prices(v)
	}
	p.list("Failed trials", "", lines(v.failures, failureLine))
	p.list("Left out", "", lines(v.leftOut, func(f fact) string { return f.Name + ": " + f.Value }))
	p.footer(v)
}

// prices prints the price lists and ladders in the study's order.
func (p *printer) prices(v view) {
	if v.isLadder() {
		p.ladders(v)
	}
	for _, g := range v.groups {
		for _, t := range g.primary {
			p.price(g, t)
		}
		p.secondary(g)
	}
	if !v.isLadder() {
		p.ladders(v)
	}
}

func lines[T, L any](items []T, line func(T) L) []L {
	out := make([]L, 0, len(items))
	for _, i := range items {
		out = append(out, line(i))
	}
	return out
}

// Clean makes control characters visible, so that what programs and files put into
// a text cannot command the terminal. Ends of lines and tabs stay.
func Clean(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, commands) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if commands(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// commands reports whether a character commands the terminal in place of being shown.
func commands(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' && r != '\n' && r != '\t' || r == 0x7f
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// cleaner passes JSON on as Clean writes text: there \u009b is the same character, so that
// the values stay. An encoder writes whole characters.
type cleaner struct{ io.Writer }

func (c cleaner) Write(p []byte) (int, error) {
	_, err := io.WriteString(c.Writer, Clean(string(p)))
	return len(p), err
}

// oneLine joins the lines of a text.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// clean is Clean of a text that stands on one line.
func clean(s string) string { return oneLine.Replace(Clean(s)) }

func (p *printer) header(v view) {
	s := v.in.Manifest.Study
	p.w.line(p.bold(clean(s.Title)))
	p.wrapped("", "", s.Question)
	p.w.line("")
	width := 9
	for _, f := range v.facts {
		width = max(width, len(f.Name)+2)
	}
	for _, f := range v.facts {
		p.wrapped(fmt.Sprintf("%-*s", width, f.Name), strings.Repeat(" ", width), f.Value)
	}
}

// list prints paragraphs below a heading; nothing when there is none.
func (p *printer) list(heading, mark string, items []string) {
	if len(items) == 0 {
		return
	}
	p.heading(heading)
	for _, i := range items {
		p.wrapped(mark, strings.Repeat(" ", len(mark)), i)
	}
}

func (p *printer) heading(s string) {
	p.w.printf("\n%s\n", p.bold(clean(s)))
}

// wrapped prints a paragraph with a hanging indent, wrapped at the width.
func (p *printer) wrapped(first, rest, s string) {
	s = clean(s)
	if p.Width > 0 {
		s = text.WrapSoft(s, max(p.Width-len(rest), 20))
	}
	for i, l := range strings.Split(s, "\n") {
		indent := rest
		if i == 0 {
			indent = first
		}
		p.w.line(strings.TrimRight(indent+l, " "))
	}
}

// price prints one primary table.
func (p *printer) price(g group, t shownTable) {
	p.heading(g.name + ": " + t.Title)
	if t.claim.Metric.Help != "" {
		p.wrapped("", "", t.claim.Metric.Help)
	}
	columns := priceColumns(t)
	out := p.renderPrice(columns, t)
	for p.tooWide(out) {
		at := expendable(columns)
		if at < 0 {
			break
		}
		p.drop(strings.TrimSuffix(columns[at].head, " "+t.Unit))
		columns = slices.Delete(columns, at, at+1)
		out = p.renderPrice(columns, t)
	}
	p.w.line(out)
	if s := resolution(t); s != "" {
		p.wrapped("", "", s)
	}
	for _, r := range refusedRows(t) {
		p.wrapped("", "", "Not comparable: "+r.what+": "+r.why)
	}
}

// expendable finds the column that is missed least; -1 when all must stay.
func expendable(columns []column) int {
	at := -1
	for i, c := range columns {
		if c.expendable > 0 && (at < 0 || c.expendable > columns[at].expendable) {
			at = i
		}
	}
	return at
}

func (p *printer) drop(head string) {
	if !slices.Contains(p.dropped, head) {
		p.dropped = append(p.dropped, head)
	}
}

func (p *printer) renderPrice(columns []column, t shownTable) string {
	grid := newGrid()
	for _, c := range columns {
		cells := p.fit(lines(t.Rows, c.cell))
		if c.point {
			alignPoints(cells)
		}
		if c.head == "verdict" {
			p.paint(cells, t.Rows)
		}
		grid.column(c.head, c.right, cells)
	}
	return grid.render()
}

// fit cleans the cells of a column and cuts names that would take more than a
// third of the terminal.
func (p *printer) fit(cells []string) []string {
	return p.within(cells, func(cell string, width int) string { return text.Snip(cell, width, "…") })
}

// wrapCells is fit for sentences: nothing of them is cut.
func (p *printer) wrapCells(cells []string) []string { return p.within(cells, text.WrapSoft) }

func (p *printer) within(cells []string, narrow func(cell string, width int) string) []string {
	for i, c := range cells {
		cells[i] = clean(c)
		if p.Width > 0 {
			cells[i] = narrow(cells[i], max(p.Width/3, 16))
		}
	}
	return cells
}

// secondary prints a group's other metrics, as many beside each other as fit.
func (p *printer) secondary(g group) {
	if len(g.secondary) == 0 {
		return
	}
	head, rows := brief(g)
	p.w.line("")
	for at := 1; at < len(head); {
		n := p.fitting(head, rows, at)
		p.w.line(p.renderBrief(head, rows, at, at+n))
		at += n
	}
}

// fitting is how many metrics from at on fit beside each other; at least one.
func (p *printer) fitting(head []string, rows [][]string, at int) int {
	n := len(head) - at
	for n > 1 && p.tooWide(p.renderBrief(head, rows, at, at+n)) {
		n--
	}
	return n
}

func (p *printer) renderBrief(head []string, rows [][]string, from, to int) string {
	grid := newGrid()
	pick := func(i int) []string {
		return p.fit(lines(rows, func(r []string) string { return r[i] }))
	}
	grid.column(head[0], false, pick(0))
	for i := from; i < to; i++ {
		grid.column(head[i], true, pick(i))
	}
	return grid.render()
}

// The bar of a ladder's text is as wide as the terminal allows, within these.
const (
	barLeast = 3
	barMost  = 40
)

func (p *printer) ladders(v view) {
	for _, l := range v.ladders {
		axis := "linear axis"
		if l.Log {
			axis = "log axis"
		}
		p.heading("Ladder " + l.claim.Group + ": " + l.claim.Metric.Name + ", each step on its own (bars: " + axis + ")")
		width := barMost
		out := p.renderLadder(l, width)
		for width > barLeast && p.tooWide(out) {
			width--
			out = p.renderLadder(l, width)
		}
		p.w.line(out)
		p.wrapped("", "", l.Sum)
	}
}

func (p *printer) renderLadder(l shownLadder, width int) string {
	steps, deltas, intervals := []string{l.claim.Base}, []string{""}, []string{""}
	levels, bars := []string{l.Base.Value}, []string{l.bar(first(l), l.claim.BaseMedian, width)}
	before := l.claim.BaseMedian
	for i, s := range l.claim.Steps {
		steps = append(steps, stepName(s))
		deltas = append(deltas, l.Steps[i].Delta.Value)
		intervals = append(intervals, l.Steps[i].Delta.Interval())
		levels = append(levels, l.Steps[i].Level)
		bars = append(bars, l.bar(before, s.Median, width))
		if !s.Beside {
			before = s.Median
		}
	}
	alignPoints(deltas)
	alignPoints(levels)
	grid := newGrid()
	grid.column("step", false, p.fit(steps))
	grid.column("delta "+l.Delta.Unit, true, deltas)
	grid.column("95 % interval", true, intervals)
	grid.column("total "+l.Total.Unit, true, levels)
	grid.column("", false, bars)
	return grid.render()
}

// first is where the base's own bar begins: the axis' low end.
func first(l shownLadder) float64 {
	low, _ := l.extent()
	return low
}

func (p *printer) footer(v view) {
	p.w.line("")
	if len(p.dropped) > 0 {
		p.wrapped("", "", fmt.Sprintf("Left out at %d columns: %s.", p.Width, strings.Join(p.dropped, ", ")))
	}
	if v.alone() == nil && slices.ContainsFunc(v.groups, func(g group) bool { return len(g.secondary) > 0 }) {
		p.wrapped("", "", legend+".")
	}
}

// tooWide reports whether any line exceeds the terminal.
func (p *printer) tooWide(block string) bool {
	return p.Width > 0 && text.LongestLineLen(block) > p.Width
}

// ANSI escapes (ECMA-48): bold, and colours that terminals' themes adapt.
const (
	sgrBold   = "\x1b[1m"
	sgrRed    = "\x1b[31m"
	sgrGreen  = "\x1b[32m"
	sgrYellow = "\x1b[33m"
	sgrBlue   = "\x1b[34m"
	sgrReset  = "\x1b[0m"
)

func (p *printer) bold(s string) string {
	if !p.Color {
		return s
	}
	return sgrBold + s + sgrReset
}

// paint colours a column of verdicts.
func (p *printer) paint(cells []string, rows []shownRow) {
	if !p.Color {
		return
	}
	for i, r := range rows {
		if c := verdictColor(r); c != "" {
			cells[i] = c + cells[i] + sgrReset
		}
	}
}

func verdictColor(r shownRow) string {
	switch {
	case r.Effect == "gain":
		return sgrBlue
	case r.Effect == "cost", r.Verdict == "failed":
		return sgrRed
	case r.verdict() == analysis.Same:
		return sgrGreen
	case r.verdict() == analysis.Open, r.verdict() == analysis.NotComparable:
		return sgrYellow
	}
	return ""
}

// grid is a plain table: two blanks between columns, one rule below the head.
type grid struct {
	head    []string
	rows    [][]string
	configs []table.ColumnConfig
}

func newGrid() *grid { return &grid{} }

// column adds a column with its cells.
func (g *grid) column(head string, right bool, cells []string) {
	g.head = append(g.head, head)
	c := table.ColumnConfig{Number: len(g.head), AlignHeader: text.AlignLeft}
	if right {
		c.Align, c.AlignHeader = text.AlignRight, text.AlignRight
	}
	g.configs = append(g.configs, c)
	if g.rows == nil {
		g.rows = make([][]string, len(cells))
	}
	for i := range cells {
		g.rows[i] = append(g.rows[i], cells[i])
	}
}

// writer is the table in go-pretty's form, its texts passed through escape.
func (g *grid) writer(escape func(string) string) table.Writer {
	row := func(texts []string) table.Row {
		return lines(texts, func(s string) any { return escape(s) })
	}
	t := table.NewWriter()
	t.AppendHeader(row(g.head))
	for _, r := range g.rows {
		t.AppendRow(row(r))
	}
	t.SetColumnConfigs(g.configs)
	return t
}

// markdown is the table as Markdown.
func (g *grid) markdown() string { return g.writer(escapeMarkdown).RenderMarkdown() }

func (g *grid) render() string {
	t := g.writer(func(s string) string { return s }) // cells are clean, but for tare's own colours
	s := table.StyleLight
	s.Options = table.Options{SeparateHeader: true, SeparateColumns: true}
	s.Format.Header = text.FormatDefault
	s.Box.MiddleVertical, s.Box.MiddleSeparator = " ", "─"
	s.Box.PaddingLeft, s.Box.PaddingRight = "", " "
	t.SetStyle(s)
	out := strings.Split(t.Render(), "\n")
	for i, l := range out {
		out[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(out, "\n")
}
