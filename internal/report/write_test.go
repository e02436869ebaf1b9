package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/report/reporttest"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

func TestJSONHoldsEveryClaim(t *testing.T) {
	in := reporttest.Survey()
	in.Claims.Tables[0].Metric.Help = "a terminal obeys \x1b \x7f \u009b \u202e \u2028, a program reads them"
	var out bytes.Buffer
	if err := report.JSON(&out, in); err != nil {
		t.Fatal(err)
	}
	var got struct{ Claims analysis.Claims }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := in.Claims
	if d := cmp.Diff(want, got.Claims, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("claims change on their way through JSON (-want +got):\n%s", d)
	}
}

func TestJSONOfNumbersThatAreNotFinite(t *testing.T) {
	in := reporttest.Survey()
	in.Claims.Tables[0].Rows[2].Effect.P = math.Inf(1)
	in.Claims.Tables[0].Noise = math.NaN()
	for _, f := range report.Formats() {
		var out bytes.Buffer
		if err := report.Write(&out, f, in, report.Options{}); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if f == report.FormatJSON && !json.Valid(out.Bytes()) {
			t.Error("not JSON")
		}
		if s := out.String(); f != report.FormatHTML && (strings.Contains(s, "NaN") || strings.Contains(s, "Inf")) {
			t.Errorf("%s shows a number that is none", f)
		}
	}
}

func TestCSVHasOneLinePerCellAndMetric(t *testing.T) {
	in := reporttest.Hostile()
	var out bytes.Buffer
	if err := report.CSV(&out, in); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + len(in.Claims.Tables[0].Rows); len(lines) != want {
		t.Fatalf("%d lines, want %d", len(lines), want)
	}
	if got := lines[3][8]; got != report.Clean(in.Claims.Tables[0].Rows[2].Target) {
		t.Errorf("the target reads back as %q", got)
	}
}

// Both texts keep to the terminal's width, and the summary to its 40 rows and 100
// columns.
func TestTextKeepsItsSize(t *testing.T) {
	for _, in := range []report.Input{reporttest.Survey(), reporttest.Ladder(), reporttest.Compared()} {
		for _, width := range []int{60, 80, 100, 120, 200} {
			for _, all := range []bool{false, true} {
				most := width
				if !all {
					most = min(width, 100)
				}
				var out bytes.Buffer
				if err := report.Text(&out, in, report.Options{Width: width, All: all}); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(out.String()) {
					if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most && len(in.Others) == 0 {
						t.Errorf("%s at %d columns: a line of %d: %s", in.Manifest.Study.ID, width, n, line)
					}
				}
				if rows := strings.Count(out.String(), "\n"); !all && width >= 80 && rows > 40 {
					t.Errorf("%s at %d columns: a summary of %d rows", in.Manifest.Study.ID, width, rows)
				}
			}
		}
	}
}

// TestNoEscapes: on a2ee321 units and names of metrics passed as they were, on 36291883 what
// JSON need not escape.
func TestNoEscapes(t *testing.T) {
	for _, in := range []report.Input{reporttest.Survey(), reporttest.Hostile(), hostileMetric()} {
		for _, f := range report.Formats() {
			var out bytes.Buffer
			if err := report.Write(&out, f, in, report.Options{}); err != nil {
				t.Fatal(err)
			}
			bad := "\x1b\x00"
			if f != report.FormatHTML { // which no terminal shows
				bad += "\x7f\u009b\u202e\u2028\u2029"
			}
			if i := strings.IndexAny(out.String(), bad); i >= 0 {
				t.Errorf("%s: a control character passes: %.60q", f, out.String()[max(0, i-20):])
			}
		}
	}
}

// hostileMetric is a run whose metric and unit command terminals and spreadsheets.
func hostileMetric() report.Input {
	in := reporttest.Hostile()
	m := &in.Claims.Tables[0].Metric
	m.Name, m.Unit = "=cmd|' /C calc'!A1\x1b[31m\x00", "@SUM(1)\x1b]0;title\a\u009b31m\x7f\u202e\u2028"
	return in
}

// TestNoFormulas: a cell of text that a spreadsheet would compute is quoted.
func TestNoFormulas(t *testing.T) {
	var out bytes.Buffer
	if err := report.CSV(&out, hostileMetric()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, row := range rows[1:] {
		for i, cell := range row {
			if strings.HasPrefix(cell, "'=") || strings.HasPrefix(cell, "'@") {
				seen++
			}
			if _, err := strconv.ParseFloat(cell, 64); err != nil && strings.IndexAny(cell, "=+-@") == 0 {
				t.Errorf("column %s: %.40q", rows[0][i], cell)
			}
		}
	}
	if seen == 0 {
		t.Error("no text was quoted: the hostile run holds a metric and a unit that begin as formulas do")
	}
}

func TestEmptyClaims(t *testing.T) {
	for _, f := range report.Formats() {
		if err := report.Write(io.Discard, f, report.Input{}, report.Options{Width: 80}); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestControlWithoutSamples(t *testing.T) {
	in := report.Input{Claims: analysis.Claims{Tables: []analysis.Table{{Group: "g", Metric: sample.Metric{Name: "wall", Unit: sample.Seconds}, Primary: true,
		Rows: []analysis.Row{{Cell: "host/g", Label: "host", Control: true, Summary: analysis.Summary{Failed: 3}}}}},
		Failed: []analysis.FailedCell{{Cell: "host/g", Label: "host", Group: "g", Failed: 3, Of: 3}}}}
	var out bytes.Buffer
	if err := report.Text(&out, in, report.Options{All: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"the control gave no sample", "3 of 3 trials failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, out.String())
		}
	}
}

func TestFormats(t *testing.T) {
	for _, f := range report.Formats() {
		if got, err := report.ParseFormat(string(f)); err != nil || got != f {
			t.Errorf("ParseFormat(%q) = %q, %v", f, got, err)
		}
	}
	if _, err := report.ParseFormat("pdf"); err == nil || !strings.Contains(err.Error(), "text, md, csv, json, html") {
		t.Errorf("an unknown format gives %v", err)
	}
	if err := report.Write(io.Discard, "pdf", report.Input{}, report.Options{}); err == nil {
		t.Error("an unknown format is written")
	}
}

// compared is two runs of one cell, and a cell whose control is zero.
func compared() report.Input {
	in := reporttest.Survey()
	in.Claims.Tables[0].Rows[2].Effect = &analysis.Effect{Verdict: analysis.Slower, Blocks: 20, Interval: stats.Interval{Method: "none"},
		Difference: &analysis.Difference{Median: 0.0112, Interval: stats.Interval{Low: 0.0109, High: 0.0116, Level: 0.95, Method: "BCa"}}}
	summary := in.Claims.Tables[0].Rows[2].Summary
	in.Claims.Comparisons = []analysis.Comparison{{With: "20261121-0815-survey", Group: "start", Metric: in.Claims.Tables[0].Metric, Rows: []analysis.Change{{Label: "native", A: summary, B: summary, Raw: 1.0731,
		Effect: &analysis.Effect{Ratio: 1.052, Verdict: analysis.Slower, Interval: stats.Interval{Low: 1.041, High: 1.062, Method: "bootstrap"}}}}}}
	return in
}

func TestComparisonsAndDifferences(t *testing.T) {
	for f, want := range map[report.Format][]string{
		report.FormatText:     {"start: ready, ms, lower is better", "1.07", "[1.041, 1.062]", "Δ+11.2", "native Δ+11.2"},
		report.FormatMarkdown: {"B/A over control", "1.07", "Δ+11.2"},
		report.FormatCSV:      {",start,,ready,s,lower,", ",1.0731,1.052,1.041,1.062,", ",slower,"},
		report.FormatHTML:     {"B/A over control", "Δ+11.2"},
	} {
		var out bytes.Buffer
		if err := report.Write(&out, f, compared(), report.Options{All: true}); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s does not say %q", f, w)
			}
		}
		if strings.Contains(out.String(), "×0 ") || strings.Contains(out.String(), "×0*") {
			t.Errorf("%s shows a ratio that is none", f)
		}
	}
}

type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorsAreReported(t *testing.T) {
	for _, f := range report.Formats() {
		if err := report.Write(full{}, f, reporttest.Survey(), report.Options{}); !errors.Is(err, errFull) {
			t.Errorf("%s on a full disk: %v", f, err)
		}
	}
}

// counter counts bytes and keeps the largest heap it saw.
type counter struct{ bytes, heap uint64 }

func (c *counter) Write(b []byte) (int, error) {
	var m runtime.MemStats
	if c.bytes == 0 || len(b) > 1<<12 {
		runtime.ReadMemStats(&m)
		c.heap = max(c.heap, m.HeapAlloc)
	}
	c.bytes += uint64(len(b))
	return len(b), nil
}

func TestLargeRunStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a run of a million records")
	}
	in := reporttest.Large(1_000_000)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var c counter
	if err := report.HTML(&c, in); err != nil {
		t.Fatal(err)
	}
	if c.bytes > 10<<20 {
		t.Errorf("the page has %d bytes, want less than 10 MiB", c.bytes)
	}
	// The heap before includes the claims themselves, which are the caller's.
	if c.heap > before.HeapAlloc+100<<20 {
		t.Errorf("the heap grew by %d MiB, want less than 100", (c.heap-before.HeapAlloc)>>20)
	}
	t.Logf("%d bytes, heap grew by %d MiB", c.bytes, (int64(c.heap)-int64(before.HeapAlloc))>>20)
	runtime.KeepAlive(in)
}

// Each run of a comparison has its own facts: two machines' are not taken for one's. What
// runs share is there once.
func TestFactsOfComparedRuns(t *testing.T) {
	in := reporttest.Compared()
	in.Others[0].Host.CPU = "Another CPU"
	for _, c := range []struct {
		in         report.Input
		have, lack []string
	}{
		{reporttest.Survey(), []string{"machine: AMD EPYC"}, []string{"A: machine", "B: machine"}},
		{in, []string{
			"A: machine: AMD EPYC", "A: system: Debian", "B: machine: Another CPU", "B: run: " + in.Others[0].ID, "\n- command: tare run survey",
			"- B: sysbox: sysbox-runc is not installed\n- kata/firecracker: ", "- sysbox: A measured it, B did not: sysbox-runc is not installed\n",
		}, []string{"\n- machine", "B1: ", "A: command", "A: kata", "A: sysbox"}},
		{report.Input{Manifest: in.Manifest, Others: append(in.Others, in.Manifest)}, []string{"A: machine: AMD EPYC", "B1: machine: Another CPU", "B2: machine: AMD EPYC"}, []string{"- B: "}},
	} {
		var out bytes.Buffer
		if err := report.Markdown(&out, c.in); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.have {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in:\n%s", want, out.String())
			}
		}
		for _, other := range c.lack {
			if strings.Contains(out.String(), other) {
				t.Errorf("%q in:\n%s", other, out.String())
			}
		}
	}
}
