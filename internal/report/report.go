// Package report turns claims into something to read: a price list on a
// terminal, Markdown, tidy CSV, complete JSON, and one self-contained HTML
// page. It is pure: it reads no file and no clock, so the same claims give the
// same bytes. The page's source is in web/ and is embedded after it was built.
package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// Input is what a report is made of: the run's manifest, what the analysis claims
// about its records, and what experiments say beyond that.
type Input struct {
	Manifest store.Manifest
	End      *store.End // why the run ended before its last block; nil where it did not
	Claims   analysis.Claims
	Sections []finding.Section
	Others   []store.Manifest // of the runs that are compared with the first
	Names    []string         // how commands name the runs, as an id or a directory; "" or none: by their ids
	Page     string           // file of the run's HTML page; "" for none
	Live     bool             // another process is measuring one of the runs
}

// unfinished reports whether trials of the plan have no record.
func (in Input) unfinished() bool { return in.Claims.Trials < in.Claims.Planned }

// Format names a way to write a report.
type Format string

// The formats.
const (
	FormatText     Format = "text" // for a terminal or a pipe
	FormatMarkdown Format = "md"   // for an issue or a wiki
	FormatCSV      Format = "csv"  // one line per cell and metric, base units
	FormatJSON     Format = "json" // everything, every sample included
	FormatHTML     Format = "html" // one self-contained page
	// FormatBenchstat is the Go benchmark format, FormatOpenMetrics that of Prometheus
	// and its kin.
	FormatBenchstat   Format = "benchstat"
	FormatOpenMetrics Format = "openmetrics"
)

// Formats lists the formats in the order of display.
func Formats() []Format {
	return []Format{FormatText, FormatMarkdown, FormatCSV, FormatJSON, FormatHTML, FormatBenchstat, FormatOpenMetrics}
}

// Options say how the text format looks; the other formats ignore them.
type Options struct {
	Width int  // columns of the terminal; 0 = as wide as it needs
	Color bool // colour the verdicts with ANSI escapes
	All   bool // every table, not the summary alone
}

// Write writes the report in the given format. It fails on an unknown format
// and on an error of w.
func Write(w io.Writer, format Format, in Input, o Options) error {
	switch format {
	case FormatText:
		return Text(w, in, o)
	case FormatMarkdown:
		return Markdown(w, in)
	case FormatCSV:
		return CSV(w, in)
	case FormatJSON:
		return JSON(w, in)
	case FormatHTML:
		return HTML(w, in)
	case FormatBenchstat:
		return Benchstat(w, in)
	case FormatOpenMetrics:
		return OpenMetrics(w, in)
	}
	return noFormat(string(format))
}

func noFormat(name string) error {
	return fmt.Errorf("no report format %q: take one of %s", name, formatList(name, Formats()))
}

// formatList lists the formats to choose from, and asks for the one nearest to name.
func formatList(name string, all []Format) string {
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ") + study.Meant(name, names)
}

// ParseFormat reads a format's name; "markdown" and "txt" are understood too.
func ParseFormat(name string) (Format, error) {
	aliases := map[string]Format{"markdown": FormatMarkdown, "txt": FormatText}
	if f, ok := aliases[name]; ok {
		return f, nil
	}
	if f := Format(name); slices.Contains(Formats(), f) {
		return f, nil
	}
	return "", noFormat(name)
}
