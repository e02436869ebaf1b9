package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/tarelab/tare/internal/finding"
)

// alone is the section that stands in place of the price lists, nil for none.
func (v view) alone() *finding.Section {
	for i := range v.in.Sections {
		if v.in.Sections[i].Alone {
			return &v.in.Sections[i]
		}
	}
	return nil
}

// claimsGrid is published claims as a table, a row for each answer.
func claimsGrid(claims []finding.Claim) finding.Table {
	g := finding.Table{Title: "The published claims", Words: true, Head: []string{"claim", "by its own cells", "verdict", "on this machine", "verdict"}}
	for _, c := range claims {
		if len(c.Here) == 0 {
			g.Rows = append(g.Rows, []string{sentence(c), c.Computed, string(c.Verdict), "", "not asked"})
		}
		for i, here := range c.Here {
			row := []string{sentence(c), c.Computed, string(c.Verdict), here.Target + ": " + here.Computed, string(here.Verdict)}
			if i > 0 {
				row[0], row[1], row[2] = "", "", ""
			}
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

// sentence is a claim with where the source has it.
func sentence(c finding.Claim) string {
	where := c.Where
	if c.Own {
		where = "tare's own sentence"
	}
	if where == "" {
		return c.Text
	}
	return strings.TrimSuffix(c.Text, ".") + " (" + where + ")"
}

// claimLines are published claims as paragraphs, for terminals.
func claimLines(claims []finding.Claim) []string {
	var out []string
	for _, c := range claims {
		text := fmt.Sprintf("[%s] %s: %s.", c.Verdict, strings.TrimSuffix(sentence(c), "."), strings.TrimSuffix(c.Computed, "."))
		for _, here := range c.Here {
			text += fmt.Sprintf(" Here, in %s [%s]: %s.", here.Target, here.Verdict, here.Computed)
		}
		out = append(out, text)
	}
	return out
}

// WriteSections writes sections of something that is no run, for a terminal.
func WriteSections(w io.Writer, all []finding.Section, o Options) error {
	p := printer{w: newSink(w, o.Color), Options: o}
	for _, s := range all {
		p.list("Findings", "", s.Findings)
		p.section(s)
	}
	return p.w.flush("the sections")
}

// section prints one for a terminal.
func (p *printer) section(s finding.Section) {
	for _, g := range s.Tables {
		p.heading(g.Title)
		p.w.line(p.grid(g))
	}
	if s.Note != "" {
		p.w.line("")
		p.wrapped("", "", s.Note)
	}
	p.list("The published claims, by their own cells and on this machine", "", claimLines(s.Claims))
	if s.Alone {
		p.w.line("")
		p.wrapped("", "", "Every cell and metric: tare report RUN --format csv, json or html.")
	}
}

// grid renders a table, without its last columns where they do not fit.
func (p *printer) grid(g finding.Table) string {
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
func (p *printer) columns(g finding.Table, from, to int) string {
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

func markdownSection(w sink, s finding.Section) {
	tables := s.Tables
	if len(s.Claims) > 0 {
		tables = append(tables[:len(tables):len(tables)], claimsGrid(s.Claims))
	}
	for _, g := range tables {
		markdownTable(w, g)
	}
	if s.Note != "" {
		w.printf("%s\n\n", escapeMarkdown(s.Note))
	}
}

func markdownTable(w sink, g finding.Table) {
	out := newGrid()
	for i, head := range g.Head {
		out.column(head, i > 0 && !g.Words, lines(g.Rows, func(r []string) string { return r[i] }))
	}
	w.printf("## %s\n\n%s\n\n", escapeMarkdown(g.Title), out.markdown())
}
