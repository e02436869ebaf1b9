package report

import (
	_ "embed" // of the page
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
)

// built is the page that web/ builds.
//
//go:embed page/dist/report.html
var built string

// placeholder stands in the built page where the data belongs, once, as the
// content of a script element of type application/json.
const placeholder = "@@TARE_REPORT_DATA@@"

// page is what the built page reads: the document without samples, and beside
// each table how it is shown.
type page struct {
	document
	SummaryFigures []finding.Figure `json:"summaryFigures"`
	Facts          []fact           `json:"facts"`
	Shown          []shownTable     `json:"shown"`      // parallel to claims.tables
	Resolution     []string         `json:"resolution"` // parallel to claims.tables
	Shapes         [][]shape        `json:"shapes"`     // parallel to claims.tables and their rows
	Ladders        []shownLadder    `json:"ladders"`    // parallel to claims.ladders
	Compared       []finding.Table  `json:"compared"`   // parallel to claims.comparisons
	Failures       []failed         `json:"failures"`
	LeftOut        []fact           `json:"leftOut"`
	Sections       []shownSection   `json:"sections"`   // what experiments say beyond the price lists
	Points         int              `json:"points"`     // samples drawn as dots
	PointsMost     int              `json:"pointsMost"` // the limit of that
}

// shownSection is a section in the page: its claims are a table, and its data stays
// in the JSON format.
type shownSection struct {
	finding.Section
	Claims finding.Table `json:"claims"`
	Data   *struct{}     `json:"data,omitempty"`
}

func showSection(s finding.Section) shownSection {
	return shownSection{Section: s, Claims: claimsGrid(s.Claims)}
}

// HTML writes one self-contained page: no network access, light and dark, for
// screens from 360 px and for print. A run of any size gives a page of a few
// megabytes at most: above 20,000 samples, tables are shown as densities with
// outliers, and the page says so.
func HTML(w io.Writer, in Input) error { return writePage(w, newPage(in)) }

// pageOptions are those of the JSON format, but that a script reads it: a number of 64
// bits, such as a seed, is a string, since JavaScript's numbers hold 53.
func pageOptions() json.Options {
	own, _ := json.GetOption(jsonOptions(), json.WithMarshalers)
	seeds := json.MarshalToFunc(func(e *jsontext.Encoder, v uint64) error {
		return e.WriteToken(jsontext.String(strconv.FormatUint(v, 10)))
	})
	return json.JoinOptions(jsonOptions(), json.WithMarshalers(json.JoinMarshalers(seeds, own)), jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
}

// template is the built page, cut where the data belongs.
func template() (head, tail string, err error) {
	if n := strings.Count(built, placeholder); n != 1 {
		return "", "", fmt.Errorf("the embedded report page is broken: %d places for the data, want 1; make generated builds it again", n)
	}
	head, tail, _ = strings.Cut(built, placeholder)
	return head, tail, nil
}

func newPage(in Input) page {
	v := newView(in)
	p := page{
		document: newDocument(v), SummaryFigures: v.costFigures(), Facts: v.facts, Ladders: v.ladders, Failures: v.failures, LeftOut: v.leftOut,
		PointsMost: pointsMost,
	}
	for _, s := range v.in.Sections {
		p.Sections = append(p.Sections, showSection(s))
	}
	p.Shapes, p.Points = shapes(in.Claims.Tables)
	p.Claims.Tables = withoutSamples(in.Claims.Tables)
	for _, c := range in.Claims.Comparisons {
		title, head, rows := comparison(c)
		p.Compared = append(p.Compared, finding.Table{Title: title, Head: head, Rows: rows})
	}
	if s := v.alone(); s != nil {
		p.Findings = append(slices.Clone(s.Headline), trialFinding(v)...)
	}
	for i := range in.Claims.Tables {
		t := showTable(&in.Claims.Tables[i])
		p.Shown = append(p.Shown, t)
		p.Resolution = append(p.Resolution, resolution(t))
	}
	return p
}

// withoutSamples copies tables: the page holds samples in its shapes.
func withoutSamples(tables []analysis.Table) []analysis.Table {
	out := slices.Clone(tables)
	for i := range out {
		out[i].Rows = slices.Clone(out[i].Rows)
		for j := range out[i].Rows {
			out[i].Rows[j].Samples = nil
		}
	}
	return out
}
