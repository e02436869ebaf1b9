package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/tarelab/tare/internal/finding"
)

// Paper is a report of something that is not one run: sections under a title.
type Paper struct {
	Title    string
	Question string   // one or two sentences
	About    []string // what it is of, in a few words each
	Warnings []string
	Sections []finding.Section
	Rows     [][]string // the CSV format: a line of names, then numbers in base units
	Data     any        // the JSON format
	Tool     string     // tare's version
}

// PaperFormats are the formats that WritePaper writes.
func PaperFormats() []Format {
	return []Format{FormatText, FormatMarkdown, FormatCSV, FormatJSON, FormatHTML}
}

// WritePaper writes a paper in one of its formats.
func WritePaper(w io.Writer, format Format, in Paper, o Options) error {
	switch format {
	case FormatText:
		return in.text(w, o)
	case FormatMarkdown:
		return in.markdown(w)
	case FormatCSV:
		rows := make([][]string, len(in.Rows))
		for i, r := range in.Rows {
			rows[i] = csvCells(slices.Clone(r))
		}
		if err := csv.NewWriter(w).WriteAll(rows); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
		return nil
	case FormatJSON:
		return writeJSON(w, in.Data)
	case FormatHTML:
		return in.html(w)
	}
	return fmt.Errorf("report: no format %q: take one of %s", format, formatList(string(format), PaperFormats()))
}

func (in Paper) text(w io.Writer, o Options) error {
	p := printer{w: newSink(w, o.Color), Options: o}
	p.w.line(p.bold(clean(in.Title)))
	if in.Question != "" {
		p.wrapped("", "", in.Question)
	}
	for _, a := range in.About {
		p.wrapped("· ", "  ", a)
	}
	p.list("Warnings", "! ", in.Warnings)
	for _, s := range in.Sections {
		p.list("Findings", "- ", s.Findings)
		p.section(s)
	}
	return p.w.flush("the report")
}

func (in Paper) markdown(w io.Writer) error {
	s := newSink(w, false)
	s.printf("# %s\n\n", escapeMarkdown(in.Title))
	if in.Question != "" {
		s.printf("%s\n\n", escapeMarkdown(in.Question))
	}
	for _, a := range in.About {
		s.printf("- %s\n", escapeMarkdown(a))
	}
	s.line("")
	markdownList(s, "Warnings", in.Warnings)
	for _, part := range in.Sections {
		markdownList(s, "Findings", part.Findings)
		markdownSection(s, part)
	}
	return s.flush("Markdown")
}

// shownPaper is what the page reads in place of a run.
type shownPaper struct {
	Title    string         `json:"title"`
	Question string         `json:"question"`
	About    []string       `json:"about"`
	Warnings []string       `json:"warnings"`
	Findings []string       `json:"findings"`
	Sections []shownSection `json:"sections"`
	Tool     string         `json:"tool"`
}

func (in Paper) html(w io.Writer) error {
	shown := shownPaper{Title: in.Title, Question: in.Question, About: in.About, Warnings: in.Warnings, Tool: in.Tool}
	for _, s := range in.Sections {
		shown.Sections = append(shown.Sections, showSection(s))
		shown.Findings = append(shown.Findings, s.Findings...)
	}
	return writePage(w, struct {
		Paper shownPaper `json:"paper"`
	}{shown})
}

// writePage writes the built page with its data.
func writePage(w io.Writer, data any) error {
	head, tail, err := template()
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, head); err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	// Escaping <, >, &, U+2028 and U+2029 keeps data from ending its script element.
	if err := json.MarshalWrite(w, data, pageOptions()); err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	if _, err := io.WriteString(w, tail); err != nil {
		return fmt.Errorf("write HTML: %w", err)
	}
	return nil
}
