package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/gate"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/stats"
)

// hostileText is what a run of somebody else may hold: it closes, comments and
// commands in every format, and in a terminal.
const hostileText = "a|b`<script>\"]]>&'\n::error::owned\r%0A\x1b[31m *_[x](y)\u202e\x00"

// gateFound is one answer of each verdict; every text of the run's is hostile.
func gateFound() report.GateInput {
	in := report.GateInput{Baseline: "before"}
	for _, v := range []gate.Verdict{gate.Met, gate.Broken, gate.Open, gate.NotComparable, gate.Failed} {
		in.Answers = append(in.Answers, gate.Answer{
			Verdict: v, Run: "now" + hostileText, Limit: "at most 1.05", Cell: "start/" + hostileText, Metric: "ready",
			Value: 1.1, Against: "host", Interval: stats.Interval{Low: 1.09, High: 1.11, Level: 0.95, Method: stats.MethodRank}, Blocks: 12, Why: "Because [1.09, 1.11] " + hostileText,
		})
	}
	return in
}

func written(t *testing.T, format report.Format, in report.GateInput) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteGate(&b, format, in); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.String()
}

// Nothing that comes from a run commands a terminal, in any format.
func TestGateShowsControlCharacters(t *testing.T) {
	for _, format := range report.GateFormats() {
		signs := "\x00\x1b\r\u202e"
		if format == report.FormatJSON { // data, which a terminal is not shown
			signs = "\x00\x1b\r"
		}
		if text := written(t, format, gateFound()); strings.ContainsAny(text, signs) {
			t.Errorf("%s: %q", format, text)
		}
	}
}

func TestGateText(t *testing.T) {
	text := written(t, report.FormatText, gateFound())
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[1], "broken         start/a|b") || !strings.Contains(lines[1], "Because [1.09, 1.11]") || !strings.Contains(lines[5], "the weaker way") {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
}

func TestGateJSON(t *testing.T) {
	var d struct {
		Verdict gate.Verdict
		Note    string
		Answers []gate.Answer
	}
	if err := json.Unmarshal([]byte(written(t, report.FormatJSON, gateFound())), &d); err != nil {
		t.Fatal(err)
	}
	none := report.GateInput{Answers: []gate.Answer{{Verdict: gate.NotComparable, Value: math.NaN(), Interval: stats.None(0)}}}
	if text := written(t, report.FormatJSON, none); !strings.Contains(text, `"value": null`) {
		t.Errorf("an answer without a number:\n%s", text)
	}
	if d.Verdict != gate.Failed || len(d.Answers) != 5 || d.Answers[1].Interval.High != 1.11 || !strings.HasPrefix(d.Answers[1].Cell, "start/a|b") || d.Note == "" {
		t.Errorf("%+v", d)
	}
}

func TestGateJUnit(t *testing.T) {
	type cause struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *cause `xml:"failure"`
			Error   *cause `xml:"error"`
			Skipped *cause `xml:"skipped"`
			Other   []struct {
				XMLName xml.Name
			} `xml:",any"`
		} `xml:"testcase"`
	}
	read := func(in report.GateInput) (s suite) {
		if err := xml.Unmarshal([]byte(written(t, report.FormatJUnit, in)), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := read(gateFound())
	if s.Tests != 5 || s.Failures != 2 || s.Errors != 2 || s.Skipped != 0 || len(s.Cases) != 5 {
		t.Errorf("%+v", s)
	}
	if f := s.Cases[1].Failure; f == nil || !strings.HasPrefix(f.Message, "broken: Because [1.09, 1.11] a|b`<script>\"]]>&'") || !strings.Contains(f.Text, "start/a|b") {
		t.Errorf("broken: %+v", f)
	}
	for i, c := range s.Cases {
		if want := []bool{false, true, true, false, false}[i]; (c.Failure != nil) != want || (c.Error != nil) != (i > 2) {
			t.Errorf("case %d: %+v", i, c)
		}
	}
	passes := gateFound()
	passes.OpenPass = true
	if s := read(passes); s.Failures != 1 || s.Skipped != 1 || s.Cases[2].Skipped == nil {
		t.Errorf("open passes: %+v", s)
	}
}

// workflowCommand is what the runner of GitHub's workflows reads of a line
// (actions/runner, src/Runner.Common/ActionCommand.cs).
var workflowCommand = regexp.MustCompile(`^::([a-z]+) ([^:]*)::(.*)$`)

func TestGateGitHub(t *testing.T) {
	unescape := strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%")
	levels := ""
	for line := range strings.Lines(written(t, report.FormatGitHub, gateFound())) {
		m := workflowCommand.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("no command: %q", line)
		}
		levels += m[1] + " "
		if title := unescape.Replace(m[2]); strings.Contains(m[2], ",") || m[2] != "title=baseline" && !strings.HasPrefix(title, "title=") {
			t.Errorf("properties %q", m[2])
		}
		if text := unescape.Replace(m[3]); levels == "notice error " && !strings.Contains(text, "Because [1.09, 1.11] a|b`<script>") {
			t.Errorf("message %q", text)
		}
	}
	if want := "notice error error error error notice "; levels != want {
		t.Errorf("levels %q, want %q", levels, want)
	}
	passes := gateFound()
	passes.OpenPass = true
	if !strings.Contains(written(t, report.FormatGitHub, passes), "\n::warning title=open") {
		t.Error("an open limit that passes is no warning")
	}
}

var cell = regexp.MustCompile(`(?:[^|\\]|\\.)+`)

// cells are a Markdown table's, row by row, as GitHub reads them (GFM, tables): a pipe
// after a backslash is text.
func cells(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			rows = append(rows, cell.FindAllString(strings.Trim(line, "|"), -1))
		}
	}
	return rows
}

func TestGateMarkdown(t *testing.T) {
	text := written(t, report.FormatMarkdown, gateFound())
	rows := cells(text)
	if len(rows) != 7 {
		t.Fatalf("%d rows:\n%s", len(rows), text)
	}
	for _, r := range rows {
		if len(r) != 5 {
			t.Errorf("%d cells: %q", len(r), r)
		}
	}
	for _, sign := range []string{"<script", "[x](y", "\n::"} {
		if strings.Contains(text, sign) {
			t.Errorf("%q is not escaped in\n%s", sign, text)
		}
	}
	for _, want := range []string{fmt.Sprintf("### Limits: %s\n", gate.Failed), "1.100 \\[1.090, 1.110\\] × host", "broken"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
