package report

import (
	_ "embed" // of the page
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
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
	SummaryFigures []finding.Figure  `json:"summaryFigures"`
	Facts          []fact            `json:"facts"`
	Shown          []shownTable      `json:"shown"`      // parallel to claims.tables
	Resolution     []string          `json:"resolution"` // parallel to claims.tables
	Shapes         [][]shape         `json:"shapes"`     // parallel to claims.tables and their rows
	Ladders        []shownLadder     `json:"ladders"`    // parallel to claims.ladders
	Compared       []shownComparison `json:"compared"`   // parallel to claims.comparisons
	Failures       []failed          `json:"failures"`
	LeftOut        []fact            `json:"leftOut"`
	Targets        []shownTarget     `json:"targets"`
	Mitigations    []fact            `json:"mitigations"`
	Sections       []shownSection    `json:"sections"`   // what experiments say beyond the price lists
	Points         int               `json:"points"`     // samples drawn as dots
	PointsMost     int               `json:"pointsMost"` // the limit of that
}

// shownComparison is a comparison as a table.
type shownComparison struct {
	finding.Table
	Primary bool `json:"primary"`
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
		Targets: in.targets(), Mitigations: in.ofRuns(mitigations), PointsMost: pointsMost,
	}
	for _, s := range v.in.Sections {
		p.Sections = append(p.Sections, showSection(s))
	}
	p.Shapes, p.Points = shapes(in.Claims.Tables)
	p.Claims.Tables, p.Claims.Failed = withoutSamples(in.Claims.Tables), nil // Failures tells more of those
	for _, c := range in.Claims.Comparisons {
		title, head, rows := in.comparison(c)
		p.Compared = append(p.Compared, shownComparison{finding.Table{Title: title, Head: head, Rows: rows}, c.Primary})
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

// shownTarget is what a target was, in one run or, without Run, in all.
type shownTarget struct {
	Run  string `json:"run,omitempty"`
	Name string `json:"name"`
	driver.Facts
}

// targets are those of all runs, in the order of the cells, then those that were only
// checked. Targets in which runs that are compared differ come first.
func (in Input) targets() []shownTarget {
	runs, labels := in.runs(), in.labels()
	var names []string
	for _, m := range runs {
		cells := lines(m.Cells, func(c study.Cell) string { return c.Target })
		for _, name := range slices.Concat(cells, slices.Sorted(maps.Keys(m.Targets))) {
			if _, has := m.Targets[name]; has && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	var differ, shared []shownTarget
	for _, name := range names {
		var each []shownTarget
		same := true
		for i, m := range runs {
			facts, has := m.Targets[name]
			if has {
				each = append(each, shownTarget{labels[i], name, facts})
			}
			same = same && has && reflect.DeepEqual(facts, runs[0].Targets[name])
		}
		if same {
			shared = append(shared, shownTarget{"", name, each[0].Facts})
		} else {
			differ = append(differ, each...)
		}
	}
	return append(differ, shared...)
}

func mitigations(m store.Manifest) []fact {
	return lines(slices.Sorted(maps.Keys(m.Host.Mitigations)), func(name string) fact { return fact{name, m.Host.Mitigations[name]} })
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
