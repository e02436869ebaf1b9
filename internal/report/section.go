package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
)

// section is what a study says beyond the price lists, in a form that every
// format can show. One file for each study makes it out of that study's claims.
type section struct {
	ID       string      `json:"id"`       // the study's, also the anchor in the page
	Title    string      `json:"title"`    // "Published beside this machine"
	Headline []string    `json:"headline"` // the findings in a few sentences; the page begins with them
	Findings []string    `json:"findings"` // all of them; other formats begin with them
	Figures  []figure    `json:"figures"`  // for the page
	Tables   []shownGrid `json:"tables"`
	Claims   shownGrid   `json:"claims"` // published claims, by claimsGrid; no rows where there are none
	Note     string      `json:"note"`   // what the numbers mean and where the published ones are from
	// Alone says that the section stands in place of the price lists in text and
	// Markdown, and of a sentence for each of them among the findings: for
	// studies with dozens of groups. The page folds them.
	Alone bool `json:"alone"`

	claims []analysis.CheckedClaim
}

// shownGrid is a table that is ready to be shown. A row whose first cell begins with
// "·" is a published one, shown paler.
type shownGrid struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
	Words bool       `json:"words,omitempty"` // the cells are words, not numbers: they stand left
}

// withoutEmpty is the table without the columns in which nothing stands.
func (g shownGrid) withoutEmpty() shownGrid {
	var kept []int
	for i := range g.Head {
		if i == 0 || slices.ContainsFunc(g.Rows, func(r []string) bool { return r[i] != "" && r[i] != missing }) {
			kept = append(kept, i)
		}
	}
	pick := func(cells []string) []string {
		out := make([]string, len(kept))
		for to, from := range kept {
			out[to] = cells[from]
		}
		return out
	}
	g.Head = pick(g.Head)
	rows := make([][]string, len(g.Rows))
	for i, r := range g.Rows {
		rows[i] = pick(r)
	}
	g.Rows = rows
	return g
}

// figure is a chart: lines over a number, or bars over names.
type figure struct {
	Title string `json:"title"`
	// Beside puts the figure to the right of the one before it, where there is
	// room; both then have one vertical scale.
	Beside bool   `json:"beside,omitempty"`
	X      axis   `json:"x"`
	Y      axis   `json:"y"`
	Lines  []line `json:"lines,omitempty"`
	Bars   []bar  `json:"bars,omitempty"` // instead of lines; Y is then their length, X is not used
}

// axis says what is drawn along it. Values are in the unit that Label names.
type axis struct {
	Label string `json:"label"`         // "containers", "elapsed, s"
	Log   bool   `json:"log,omitempty"` // logarithmic; all values are positive
	Zero  bool   `json:"zero,omitempty"`
}

// look is how a line is drawn: with its points and intervals, or pale or thin.
type look string

const (
	lookMeasured  look = "measured"  // solid, with points and intervals
	lookPublished look = "published" // dashed, hollow points
	lookFit       look = "fit"       // thin, without points: a law
	lookSeries    look = "series"    // solid, without points: readings over time
)

// line is one curve of a figure.
type line struct {
	Name   string  `json:"name"`
	Look   look    `json:"look"`
	Points []point `json:"points"` // by rising X
}

// point is one place on a line. Low and High bound its interval; both are equal
// to Y where there is none.
type point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Tip  string  `json:"tip,omitempty"` // more than the numbers, for a pointer
}

// bar is one name with a length, or with several parts one after another.
type bar struct {
	Name  string `json:"name"`
	Look  look   `json:"look"` // measured or published
	Parts []part `json:"parts"`
	// Low and High bound the interval of the whole; both 0 where there is none.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// part is a piece of a bar; pieces of one name have one colour.
type part struct {
	Name  string  `json:"name,omitempty"`
	Value float64 `json:"value"`
}

// sections are those of the run's study: one line for each study that has one.
func sections(c analysis.Claims) []section {
	var out []section
	if c.Unix != nil {
		out = append(out, unixSection(c.Unix))
	}
	if c.Index != nil {
		out = append(out, indexSection(c.Index))
	}
	if c.Starts != nil {
		out = append(out, startsSection(c.Starts))
	}
	if c.VMM != nil {
		out = append(out, vmmSection(c.VMM))
	}
	if c.Trim != nil {
		out = append(out, trimSection(c.Trim))
	}
	if c.Series != nil {
		out = append(out, seriesSection(c.Series))
	}
	if len(c.Causes) > 0 {
		out = append(out, causesSection(c.Causes))
	}
	if c.Churn != nil {
		out = append(out, churnSection(c.Churn))
	}
	if c.Network != nil {
		out = append(out, networkSection(c.Network, c.Tables))
	}
	return append(out, waitsSections(c.Waits)...)
}

// alone is the section that stands in place of the price lists, nil for none.
func (v view) alone() *section {
	for i := range v.sections {
		if v.sections[i].Alone {
			return &v.sections[i]
		}
	}
	return nil
}

// claimsGrid is published claims as a table, a row for each answer.
func claimsGrid(claims []analysis.CheckedClaim) shownGrid {
	g := shownGrid{Title: "The published claims", Words: true, Head: []string{"claim", "by its own cells", "verdict", "on this machine", "verdict"}}
	for _, c := range claims {
		if len(c.Here) == 0 {
			g.Rows = append(g.Rows, []string{c.Text, c.Computed, string(c.Verdict), "", "not asked"})
		}
		for i, here := range c.Here {
			row := []string{c.Text, c.Computed, string(c.Verdict), here.Target + ": " + here.Computed, string(here.Verdict)}
			if i > 0 {
				row[0], row[1], row[2] = "", "", ""
			}
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

// claimLines are published claims as paragraphs, for terminals.
func claimLines(claims []analysis.CheckedClaim) []string {
	var out []string
	for _, c := range claims {
		text := fmt.Sprintf("[%s] %s %s.", c.Verdict, c.Text, strings.TrimSuffix(c.Computed, "."))
		for _, here := range c.Here {
			text += fmt.Sprintf(" Here, in %s [%s]: %s.", here.Target, here.Verdict, here.Computed)
		}
		out = append(out, text)
	}
	return out
}

// section prints one for a terminal.
func (p *printer) section(s section) {
	for _, g := range s.Tables {
		p.heading(g.Title)
		p.w.line(p.grid(g))
	}
	if s.Note != "" {
		p.w.line("")
		p.wrapped("", "", s.Note)
	}
	p.list("The published claims, by their own cells and on this machine", "", claimLines(s.claims))
	if s.Alone {
		p.w.line("")
		p.wrapped("", "", "Every cell and metric: tare report RUN --format csv, json or html.")
	}
}

// grid renders a table, without its last columns where they do not fit.
func (p *printer) grid(g shownGrid) string {
	var blocks []string
	for from := 1; from < len(g.Head); {
		to := len(g.Head)
		for to > from+1 && p.tooWide(p.columns(g, from, to)) {
			to--
		}
		blocks = append(blocks, p.columns(g, from, to))
		from = to
	}
	return strings.Join(blocks, "\n")
}

// columns renders the first column of a grid, and those from from on below to.
func (p *printer) columns(g shownGrid, from, to int) string {
	out := newGrid()
	fit := p.fit
	if g.Words {
		fit = p.wrapCells
	}
	for i, h := range g.Head {
		if i == 0 || from <= i && i < to {
			out.column(h, i > 0 && !g.Words, fit(lines(g.Rows, func(r []string) string { return r[i] })))
		}
	}
	return out.render()
}

func markdownSection(w sink, s section) {
	tables := s.Tables
	if len(s.Claims.Rows) > 0 {
		tables = append(tables[:len(tables):len(tables)], s.Claims)
	}
	for _, g := range tables {
		out := newGrid()
		for i, head := range g.Head {
			out.column(escapeMarkdown(head), i > 0 && !g.Words, lines(g.Rows, func(r []string) string { return escapeMarkdown(r[i]) }))
		}
		w.printf("## %s\n\n%s\n\n", escapeMarkdown(g.Title), out.writer().RenderMarkdown())
	}
	if s.Note != "" {
		w.printf("%s\n\n", escapeMarkdown(s.Note))
	}
}
