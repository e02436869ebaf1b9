package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// The size of a summary in text.
const (
	summaryRows  = 40
	summaryWidth = 100
	itemLines    = 3 // of one sentence
	lackLines    = 2 // of one reason
	lackNames    = 30
)

// glyphs are the marks of verdicts, as in the page.
var glyphs = map[string]string{"cost": "◆", "gain": "▲", "differs": "■", "same": "●", "open": "○", "not comparable": "✕", "failed": "✕"}

// meanings of the marks, in the order of a legend.
var meanings = []struct{ mark, text string }{
	{"cost", "slower or more"}, {"gain", "faster or less"}, {"differs", "differs"}, {"same", "same"},
	{"open", "open"}, {"not comparable", "not comparable"},
}

// mark is what a cell's verdict looks like, "" for numbers that are not judged.
func (c SummaryCell) mark() string {
	switch {
	case c.Effect != "":
		return c.Effect
	case glyphs[c.Verdict] != "":
		return c.Verdict
	case c.Verdict != "" && c.Verdict != "control" && c.Verdict != "no verdict":
		return "differs"
	}
	return ""
}

// part is a piece of a summary that can be made shorter: its last items are left out.
type part struct {
	head  []string
	items [][]string // lines of each
	foot  []string
	least int  // items that stay
	floor int  // items that stay where all that is cut so far was not enough
	cut   int  // items that were left out
	table bool // the items are rows
}

func (b part) rows() int {
	n := len(b.head) + len(b.foot) + min(b.cut, 1)
	for _, i := range b.items {
		n += len(i)
	}
	return n
}

// summary prints the summary, at most summaryRows long and summaryWidth wide.
func (p *printer) summary(s Summary) {
	if p.Width <= 0 || p.Width > summaryWidth {
		p.Width = summaryWidth
	}
	var parts []part
	for _, blocks := range []int{2, 1} {
		if parts = shorten(p.parts(s, blocks), false); rowsOf(parts) <= summaryRows {
			break
		}
	}
	for i, b := range shorten(parts, true) {
		if i > 0 {
			p.w.line("")
		}
		p.print(b)
	}
}

// parts are the pieces of a summary, its tables in so many blocks of columns.
func (p *printer) parts(s Summary, blocks int) []part {
	parts := []part{p.summaryHead(s)}
	for _, t := range s.Tables {
		parts = append(parts, p.tableParts(t, blocks)...)
	}
	parts = append(parts, p.lackPart(s.NoVerdict), p.listPart("What it says", s.Says), p.listPart("How sure", s.Certainty), p.nextPart(s.Next))
	return slices.DeleteFunc(parts, func(b part) bool { return b.rows() == 0 })
}

// rowsOf is how many rows parts take, with a blank one between each two.
func rowsOf(parts []part) int {
	rows := len(parts) - 1
	for _, b := range parts {
		rows += b.rows()
	}
	return rows
}

func (p *printer) print(b part) {
	for _, l := range b.head {
		p.w.line(l)
	}
	for _, i := range b.items {
		for _, l := range i {
			p.w.line(l)
		}
	}
	if b.cut > 0 {
		p.w.line(fmt.Sprintf("  … %d more: --all", b.cut))
	}
	for _, l := range b.foot {
		p.w.line(l)
	}
}

// shorten leaves out the last items of the longest lists until all fit; hard, then also
// rows of tables but their least, then all of each list but its floor, then more rows.
func shorten(parts []part, hard bool) []part {
	cut := func(may func(part) bool) {
		for rowsOf(parts) > summaryRows {
			longest := -1
			for i, b := range parts {
				if may(b) && (longest < 0 || b.rows() > parts[longest].rows()) {
					longest = i
				}
			}
			if longest < 0 {
				return
			}
			b := &parts[longest]
			b.items, b.cut = b.items[:len(b.items)-1], b.cut+1
		}
	}
	cut(func(b part) bool { return !b.table && len(b.items) > b.least })
	if hard {
		cut(func(b part) bool { return b.table && len(b.items) > b.least })
		cut(func(b part) bool { return !b.table && len(b.items) > b.floor })
		cut(func(b part) bool { return b.table && len(b.items) > b.floor })
		cut(func(b part) bool { return len(b.items) > 1 })
	}
	return parts
}

func (p *printer) summaryHead(s Summary) part {
	head := p.title(s.Title)
	head = append(head, p.paragraph("", strings.Join(s.About, " · "), itemLines)...)
	for _, a := range s.Alerts {
		head = append(head, p.paragraph("! ", a, itemLines)...)
	}
	return part{head: head}
}

// title is a heading in bold, of two lines at most.
func (p *printer) title(s string) []string { return lines(p.paragraph("", s, 2), p.bold) }

// together are numbers and their units, between which no line breaks.
var together = regexp.MustCompile(`([0-9]) (%|[nµm]?s|[KMG]iB)\b?`)

// joint stands for such a blank while lines are broken: a letter of private use.
const joint = "\ue000"

// paragraph wraps a text behind a mark; what is beyond most lines is cut.
func (p *printer) paragraph(mark, s string, most int) []string {
	indent := strings.Repeat(" ", text.StringWidth(mark))
	room := max(p.Width-len(indent), 20)
	all := strings.Split(text.WrapSoft(together.ReplaceAllString(clean(s), "$1"+joint+"$2"), room), "\n")
	if len(all) > most {
		all = all[:most]
		all[most-1] = cutWords(strings.TrimRight(all[most-1], " "), room)
	}
	for i, l := range all {
		l = strings.TrimRight(strings.ReplaceAll(l, joint, " "), " ")
		if i == 0 {
			all[i] = mark + l
			continue
		}
		all[i] = indent + l
	}
	return all
}

// cutWords ends a line with an ellipsis, behind a whole word.
func cutWords(s string, width int) string {
	if text.StringWidth(s)+2 > width {
		s = s[:max(strings.LastIndexByte(s, ' '), 0)]
	}
	return s + " …"
}

func (p *printer) listPart(head string, items []string) part {
	b := part{least: 2, floor: 1}
	for _, i := range items {
		b.items = append(b.items, p.paragraph("  · ", i, itemLines))
	}
	if len(b.items) > 0 {
		b.head = []string{p.bold(head)}
	}
	return b
}

func (p *printer) lackPart(all []Lack) part {
	b := part{least: 2, floor: 1}
	wide := 0
	for _, l := range all {
		wide = max(wide, text.StringWidth(clean(l.What)))
	}
	wide = min(wide, lackNames)
	for _, l := range all {
		b.items = append(b.items, p.paragraph("  "+text.Pad(text.Snip(clean(l.What), wide, "…"), wide, ' ')+"  ", l.Why, lackLines))
	}
	if len(b.items) > 0 {
		b.head = []string{p.bold("No verdict")}
	}
	return b
}

func (p *printer) nextPart(all []Action) part {
	b := part{head: []string{p.bold("Next")}, least: len(all), floor: leastActions}
	wide := 0
	for _, a := range all {
		wide = max(wide, text.StringWidth(a.Label))
	}
	for _, a := range all {
		label := "  " + text.Pad(a.Label, wide, ' ') + "  "
		var item []string
		for i, l := range wrapCommand(clean(a.Command), p.Width-len(label)) {
			if i > 0 {
				l, label = "  "+l, strings.Repeat(" ", len(label))
			}
			item = append(item, label+l)
		}
		b.items = append(b.items, item)
	}
	return b
}

// wrapCommand breaks a command between its words, as a shell reads it.
func wrapCommand(s string, width int) []string {
	var out []string
	line, quoted := "", false
	for i, word := range strings.Split(s, " ") {
		if i > 0 && !quoted && text.StringWidth(line)+1+text.StringWidth(word) > width-4 {
			out, line = append(out, line+" \\"), word
		} else if i > 0 {
			line += " " + word
		} else {
			line = word
		}
		quoted = quoted != (strings.Count(word, "'")%2 == 1)
	}
	return append(out, line)
}

// How many rows of a table and how many commands stay at least. Rows of a run's costs, which
// it was made for, stay before the sentences below them do.
const (
	wholeRows    = 12
	leastRows    = 6
	leastActions = 3
)

// tableParts lays a table out in blocks of columns; what fits nowhere is named.
func (p *printer) tableParts(t SummaryTable, blocks int) []part {
	if len(t.Rows) == 0 {
		return []part{{head: append(p.title(t.Title), p.paragraph("  ", t.Note, itemLines)...)}}
	}
	rest := t.Columns
	var out []part
	for range blocks {
		if len(rest) == 0 || len(out) > 0 && (!t.judged() || len(unique(t.Rows)) < len(t.Rows)) { // rows with one name need the first block's columns
			break
		}
		var taken []SummaryColumn
		taken, rest = p.fitColumns(t, rest)
		out = append(out, p.block(t, taken))
	}
	title := p.title(t.Title)
	if l := p.legend(t); l != "" {
		title = append(title, lines(strings.Split(text.WrapSoft(l, p.Width-2), "\n"), func(l string) string { return "  " + strings.TrimSpace(l) })...)
	}
	out[0].head = append(title, out[0].head...)
	last := &out[len(out)-1]
	if len(rest) > 0 {
		names := lines(rest, func(c SummaryColumn) string { return clean(c.Head) })
		last.foot = p.paragraph("  ", "More columns (--all): "+strings.Join(names, "; "), lackLines)
	}
	return out
}

// judged reports whether a table has marks: one of a run's costs, not an experiment's own.
func (t SummaryTable) judged() bool {
	return slices.ContainsFunc(t.Columns, func(c SummaryColumn) bool { return c.markRoom() > 0 })
}

// legend explains the marks that a table has.
func (p *printer) legend(t SummaryTable) string {
	seen := map[string]bool{}
	for _, c := range t.Columns {
		for _, cell := range c.Cells {
			if m := cell.mark(); m != "" && cell.Text != m && cell.Text != "failed" && !c.Words {
				seen[m] = true
			}
		}
	}
	var out []string
	for _, m := range meanings {
		if seen[m.mark] {
			out = append(out, p.glyph(m.mark)+" "+m.text)
		}
	}
	if t.Note != "" {
		out = append(out, clean(t.Note))
	}
	return strings.Join(out, "   ")
}

func (p *printer) glyph(mark string) string {
	color := map[string]string{"cost": sgrRed, "gain": sgrBlue, "same": sgrGreen, "open": sgrYellow, "not comparable": sgrYellow, "failed": sgrRed}[mark]
	if !p.Color || color == "" {
		return glyphs[mark]
	}
	return color + glyphs[mark] + sgrReset
}

// fitColumns takes the weightiest columns that fit next to the rows' names, in their
// order; at least one.
func (p *printer) fitColumns(t SummaryTable, columns []SummaryColumn) (taken, rest []SummaryColumn) {
	order := make([]int, len(columns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch d := columns[b].weight - columns[a].weight; {
		case d > 0:
			return 1
		case d < 0:
			return -1
		}
		return 0
	})
	keep := make([]bool, len(columns))
	room := p.Width - 2 - p.labelWidth(t)
	for n, i := range order {
		if w := columnGap + p.columnWidth(columns[i]); w <= room || n == 0 {
			keep[i], room = true, room-w
		}
	}
	for i, c := range columns {
		if keep[i] {
			taken = append(taken, c)
		} else {
			rest = append(rest, c)
		}
	}
	return taken, rest
}

const columnGap = 2

func (p *printer) labelWidth(t SummaryTable) int {
	w := text.StringWidth(clean(t.First))
	for _, r := range t.Rows {
		w = max(w, text.StringWidth(clean(r)))
	}
	return min(w, max(p.Width/3, 16))
}

// columnWidth is that of the cells with their marks, or of the head.
func (p *printer) columnWidth(c SummaryColumn) int {
	w := min(text.StringWidth(clean(c.Head)), headMost)
	for _, cell := range c.Cells {
		w = max(w, min(text.StringWidth(clean(cell.Text)), p.Width/2)+c.markRoom())
	}
	return w
}

// headMost is how wide a column may get by its head.
const headMost = 22

// markRoom is the room of a column's marks, 0 where it has none.
func (c SummaryColumn) markRoom() int {
	if slices.ContainsFunc(c.Cells, func(cell SummaryCell) bool { return cell.mark() != "" }) {
		return 2
	}
	return 0
}

// block lays out some columns of a table, with the headings that they share above.
func (p *printer) block(t SummaryTable, columns []SummaryColumn) part {
	label := p.labelWidth(t)
	over, head := "  "+strings.Repeat(" ", label), "  "+text.Pad(clean(t.First), label, ' ')
	rows := lines(t.Rows, func(r string) string { return "  " + text.Pad(text.Snip(clean(r), label, "…"), label, ' ') })
	shared := false
	for i := 0; i < len(columns); {
		n, width := 0, 0 // of neighbours with one heading above
		for ; i+n < len(columns) && (n == 0 || columns[i+n].Over != "" && columns[i+n].Over == columns[i].Over); n++ {
			width += columnGap + p.columnWidth(columns[i+n])
		}
		over += "  " + overline(clean(columns[i].Over), width-columnGap)
		shared = shared || columns[i].Over != ""
		i += n
	}
	for _, c := range columns {
		w := p.columnWidth(c)
		head += "  " + columnHead(c, w)
		for i := range rows {
			rows[i] += "  " + p.cell(c, c.Cells[i], w)
		}
	}
	b := part{least: leastRows, floor: leastRows, table: true}
	if t.judged() {
		b.least = wholeRows
	}
	if shared {
		b.head = append(b.head, strings.TrimRight(over, " "))
	}
	b.head = append(b.head, strings.TrimRight(head, " "))
	for _, r := range rows {
		b.items = append(b.items, []string{strings.TrimRight(r, " ")})
	}
	return b
}

// columnHead is a column's head, above its numbers and not their marks where it is short.
func columnHead(c SummaryColumn, width int) string {
	s := text.Snip(clean(c.Head), width, "…")
	room := width - text.StringWidth(s)
	if c.Words {
		return s + strings.Repeat(" ", room)
	}
	after := min(room, c.markRoom())
	return strings.Repeat(" ", room-after) + s + strings.Repeat(" ", after)
}

// overline is a heading above several columns: its text, then a rule.
func overline(s string, width int) string {
	if s == "" {
		return strings.Repeat(" ", width)
	}
	s = text.Snip(s, width, "…")
	if rule := width - text.StringWidth(s) - 1; rule > 0 {
		return s + " " + strings.Repeat("─", rule)
	}
	return text.Pad(s, width, ' ')
}

// cell is a cell with its mark, padded to the column's width.
func (p *printer) cell(c SummaryColumn, cell SummaryCell, width int) string {
	room := c.markRoom()
	s := text.Snip(clean(cell.Text), width-room, "…")
	pad := strings.Repeat(" ", max(width-room-text.StringWidth(s), 0))
	mark := cell.mark()
	switch {
	case c.Words && mark != "":
		return p.glyph(mark) + " " + s + pad
	case c.Words:
		return s + pad + strings.Repeat(" ", room)
	case mark == "" || cell.Text == "failed":
		return pad + s + strings.Repeat(" ", room)
	}
	return pad + s + " " + p.glyph(mark)
}

// markdownSummary writes the summary at the top of Markdown.
func markdownSummary(w sink, s Summary) {
	w.printf("%s\n\n", escapeMarkdown(strings.Join(s.About, " · ")))
	for _, a := range s.Alerts {
		w.printf("**%s**\n\n", escapeMarkdown(a))
	}
	for _, t := range s.Tables {
		markdownSummaryTable(w, t)
	}
	markdownList(w, "No verdict", lines(s.NoVerdict, func(l Lack) string { return l.What + ": " + l.Why }))
	markdownList(w, "What it says", s.Says)
	markdownList(w, "How sure", s.Certainty)
}

func markdownSummaryTable(w sink, t SummaryTable) {
	w.printf("## %s\n\n", escapeMarkdown(t.Title))
	if len(t.Rows) == 0 {
		w.printf("%s\n\n", escapeMarkdown(t.Note))
		return
	}
	g := newGrid()
	g.column(t.First, false, t.Rows)
	for _, c := range t.Columns {
		head := c.Head
		if c.Over != "" {
			head = c.Over + ": " + c.Head
		}
		g.column(head, !c.Words, lines(c.Cells, func(cell SummaryCell) string {
			return strings.TrimSpace(cell.Text + " " + glyphs[cell.mark()])
		}))
	}
	w.printf("%s\n\n", g.markdown())
	if l := (&printer{}).legend(t); l != "" {
		w.printf("%s\n\n", l)
	}
}
