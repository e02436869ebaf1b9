package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tarelab/tare/internal/finding"
)

// DocumentFormats are the formats that WriteDocument writes.
func DocumentFormats() []Format { return []Format{FormatText, FormatMarkdown, FormatJSON, FormatHTML} }

// WriteDocument writes a document as text, Markdown, JSON or a page.
func WriteDocument(w io.Writer, format Format, d finding.Document, o Options) error {
	switch format {
	case FormatText:
		p := printer{w: newSink(w, o.Color), Options: o}
		p.document(d)
		return p.w.flush("the document")
	case FormatMarkdown:
		s := newSink(w, false)
		markdownDocument(s, d)
		return s.flush("the document")
	case FormatJSON:
		return writeJSON(w, d.Data)
	case FormatHTML:
		return documentPaper(d).html(w)
	}
	return noDocumentFormat(string(format))
}

// ParseDocumentFormat reads the name of one of DocumentFormats as ParseFormat does.
func ParseDocumentFormat(name string) (Format, error) {
	if f, err := ParseFormat(name); err == nil && slices.Contains(DocumentFormats(), f) {
		return f, nil
	}
	return "", noDocumentFormat(name)
}

func noDocumentFormat(name string) error {
	return fmt.Errorf("no format %q here: take one of %s", name, formatList(name, DocumentFormats()))
}

// documentPaper is a document as a page: a section for each table.
func documentPaper(d finding.Document) Paper {
	p := Paper{Title: d.Title, Warnings: d.Warnings, Tool: d.Tool}
	for _, f := range d.Facts {
		p.About = append(p.About, f.Name+": "+f.Value)
	}
	for i, t := range d.Tables {
		p.Sections = append(p.Sections, finding.Section{ID: fmt.Sprintf("table-%d", i+1), Title: t.Title, Tables: []finding.Table{t.Table}, Figures: t.Figures, Note: t.Note})
	}
	if n := len(p.Sections); n > 0 && d.Note != "" {
		p.Sections[n-1].Note = strings.TrimSpace(p.Sections[n-1].Note + " " + d.Note)
	}
	return p
}

func (p *printer) document(d finding.Document) {
	p.w.line(p.bold(clean(d.Title)))
	for _, f := range d.Facts {
		p.wrapped(fmt.Sprintf("%-3s", f.Name), strings.Repeat(" ", 3), f.Value)
	}
	p.list("Warnings", "! ", d.Warnings)
	for _, t := range d.Tables {
		p.heading(t.Title)
		block := p.documentTable(t, nil)
		if p.tooWide(block) {
			block = p.documentTable(t, t.Spare)
		}
		p.w.line(block)
		p.wrapped("", "", t.Note)
	}
	p.w.line("")
	p.wrapped("", "", d.Note)
}

// documentTable renders a table without some of its columns.
func (p *printer) documentTable(t finding.DocumentTable, without []int) string {
	grid := newGrid()
	for i, head := range t.Head {
		if slices.Contains(without, i) {
			continue
		}
		cells := lines(t.Rows, func(r []string) string { return r[i] })
		if i > 0 {
			alignPoints(cells)
		}
		grid.column(head, i > 0, p.fit(cells))
	}
	return grid.render()
}

func markdownDocument(w sink, d finding.Document) {
	w.printf("# %s\n\n", escapeMarkdown(d.Title))
	for _, f := range d.Facts {
		w.printf("- %s: %s\n", f.Name, escapeMarkdown(f.Value))
	}
	w.line("")
	markdownList(w, "Warnings", d.Warnings)
	for _, t := range d.Tables {
		markdownTable(w, t.Table)
		w.printf("%s\n\n", escapeMarkdown(t.Note))
	}
	w.printf("%s\n", escapeMarkdown(d.Note))
}

// writeJSON writes a value as the JSON format writes all: in base units, indented.
// A terminal may be where it is read.
func writeJSON(w io.Writer, v any) error {
	if err := json.MarshalWrite(cleaner{w}, v, jsonOptions(), jsontext.WithIndent(" ")); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
