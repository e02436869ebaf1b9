package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/gate"
)

// The formats of a gate besides text, md and json.
const (
	FormatJUnit  Format = "junit"  // a test case for each limit, as CI systems read them
	FormatGitHub Format = "github" // annotations of a GitHub workflow, a line for each limit
)

// GateFormats lists the formats of a gate in the order of display.
func GateFormats() []Format {
	return []Format{FormatText, FormatMarkdown, FormatJUnit, FormatGitHub, FormatJSON, FormatBenchstat, FormatOpenMetrics}
}

// GateInput is what a gate found.
type GateInput struct {
	Answers []gate.Answer
	// Baseline is the run that ratios are to, "" for the control of the same run.
	Baseline string
	OpenPass bool    // an open limit is no reason to fail
	Runs     []Input // that were judged; their samples are the benchstat format
}

// weaker is what a gate against a stored run must be read with.
const weaker = "Measured in two runs, not in interleaved blocks: this is the weaker way, because the machine may differ between them. Stronger: both versions as targets of one run (docs/gates.md)."

// WriteGate writes what a gate found. It fails on an unknown format and on an error
// of w.
func WriteGate(w io.Writer, format Format, in GateInput) error {
	switch format {
	case FormatText:
		return gateText(w, in)
	case FormatMarkdown:
		return gateMarkdown(w, in)
	case FormatJUnit:
		return gateJUnit(w, in)
	case FormatGitHub:
		return gateGitHub(w, in)
	case FormatJSON:
		return gateJSON(w, in)
	case FormatBenchstat:
		return Benchstat(w, in.Runs...)
	case FormatOpenMetrics:
		return gateOpenMetrics(w, in)
	}
	return noGateFormat(string(format))
}

// ParseGateFormat reads a format's name.
func ParseGateFormat(name string) (Format, error) {
	if f := Format(name); slices.Contains(GateFormats(), f) {
		return f, nil
	}
	return "", noGateFormat(name)
}

func noGateFormat(name string) error {
	return fmt.Errorf("no gate format %q: take one of %s", name, formatList(name, GateFormats()))
}

// subject names what a limit is on: "start/runc ready".
func subject(a gate.Answer) string { return strings.TrimSpace(a.Cell + " " + a.Metric) }

// answered is an answer without its verdict.
func answered(a gate.Answer) string { return fmt.Sprintf("%s: %s", subject(a), a.Why) }

func gateText(w io.Writer, in GateInput) error {
	s := newSink(w, false)
	for _, a := range in.Answers {
		s.line(fmt.Sprintf("%-14s %s", a.Verdict, clean(answered(a))))
	}
	if in.Baseline != "" {
		s.line(weaker)
	}
	return s.flush("the gate")
}

func gateMarkdown(w io.Writer, in GateInput) error {
	s := newSink(w, false)
	s.printf("### Limits: %s\n\n", gate.Worst(in.Answers))
	grid := newGrid()
	column := func(head string, cell func(gate.Answer) string) {
		grid.column(head, false, lines(in.Answers, cell))
	}
	column("limit", subject)
	column("bound", func(a gate.Answer) string { return a.Limit })
	column("measured", gate.Answer.Measured)
	column("answer", func(a gate.Answer) string { return string(a.Verdict) })
	column("why", func(a gate.Answer) string { return a.Why })
	s.printf("%s\n", grid.markdown())
	if in.Baseline != "" {
		s.printf("\n%s\n", weaker)
	}
	return s.flush("the gate as Markdown")
}

// gateDocument is the gate's JSON.
type gateDocument struct {
	Verdict  gate.Verdict  `json:"verdict"` // of all limits together
	Baseline string        `json:"baseline,omitempty"`
	Note     string        `json:"note,omitempty"`
	Answers  []gate.Answer `json:"answers"`
}

func gateJSON(w io.Writer, in GateInput) error {
	d := gateDocument{Verdict: gate.Worst(in.Answers), Baseline: in.Baseline, Answers: in.Answers}
	if in.Baseline != "" {
		d.Note = weaker
	}
	return writeJSON(w, d)
}

// The elements of JUnit's XML that CI systems read.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
		Out      string      `xml:"system-out,omitempty"`
	}
	junitCase struct {
		Class   string      `xml:"classname,attr"`
		Name    string      `xml:"name,attr"`
		Failure *junitCause `xml:"failure"`
		Error   *junitCause `xml:"error"`
		Skipped *junitCause `xml:"skipped"`
		Out     string      `xml:"system-out,omitempty"`
	}
	junitCause struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// gateJUnit writes a test case for each limit: broken is a failure, a failed target
// and what cannot be compared are errors, open is a failure unless it passes.
func gateJUnit(w io.Writer, in GateInput) error {
	suite := junitSuite{Name: "tare gate", Tests: len(in.Answers)}
	if in.Baseline != "" {
		suite.Out = weaker
	}
	for _, a := range in.Answers {
		c := junitCase{Class: "tare." + clean(a.Run), Name: clean(subject(a) + ", " + a.Limit)}
		cause := &junitCause{clean(string(a.Verdict) + ": " + a.Why), string(a.Verdict), clean(answered(a))}
		switch {
		case a.Verdict == gate.Met:
			c.Out = clean(a.Why)
		case a.Verdict == gate.Open && in.OpenPass:
			c.Skipped, suite.Skipped = cause, suite.Skipped+1
			cause.Type = "" // a skipped case has none
		case a.Verdict == gate.Broken, a.Verdict == gate.Open:
			c.Failure, suite.Failures = cause, suite.Failures+1
		default:
			c.Error, suite.Errors = cause, suite.Errors+1
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// What ends a workflow command's property or message stands in percent signs:
// https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts.
var (
	githubMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	githubProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// gateGitHub writes an annotation for each limit: a notice where it is met, a warning
// where it is open and may be, else an error.
func gateGitHub(w io.Writer, in GateInput) error {
	s := newSink(w, false)
	for _, a := range in.Answers {
		level := "error"
		switch {
		case a.Verdict == gate.Met:
			level = "notice"
		case a.Verdict == gate.Open && in.OpenPass:
			level = "warning"
		}
		s.line(fmt.Sprintf("::%s title=%s::%s", level, githubProperty.Replace(clean(fmt.Sprintf("%s: %s", a.Verdict, subject(a)))),
			githubMessage.Replace(clean(answered(a)))))
	}
	if in.Baseline != "" {
		s.line("::notice title=baseline::" + githubMessage.Replace(weaker))
	}
	return s.flush("the gate's annotations")
}
