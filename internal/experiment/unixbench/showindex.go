package unixbench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
)

// indexSection is the Unix index of one target, in UnixBench's columns with our
// own score beside.
func indexSection(c *indexClaims) finding.Section {
	s := finding.Section{ID: "index", Title: "The Unix index", Alone: true, Data: c, Note: strings.TrimSpace(indexLegend + " " + capital(c.WhetstoneNote()))}
	if slices.ContainsFunc(c.Tables, func(t indexTable) bool { return t.Refused != "" }) {
		s.Note += " " + refusedLegend
	}
	if c.Refused != "" {
		s.Findings = append(s.Findings, c.Refused)
	}
	for _, t := range c.Tables {
		s.Findings = append(s.Findings, indexFinding(t))
		if len(t.Rows) > 0 {
			s.Tables = append(s.Tables, indexGrid(t))
		}
		if g, ran := indexNextTo(t); ran {
			s.Tables, s.Findings = append(s.Tables, g), append(s.Findings, nextToFinding(t))
		}
	}
	if slices.ContainsFunc(c.Tables, func(t indexTable) bool { return nextToFinding(t) != "" }) {
		s.Note += " " + nextToLegend
	}
	s.Note = strings.TrimSpace(s.Note + " " + c.Programs.Note())
	s.Headline = s.Findings
	return s
}

const indexLegend = `INDEX is as UnixBench 5.1.3 has it, to be compared with published scores: the worst third of the passes left out, whetstone by CPU time (*). All passes are by wall time, with the 95 % interval of Student's t on the logarithms. docs/unix-index.md defines both.`

func indexPlace(t indexTable) string {
	copies := "1 copy"
	if t.Copies != 1 {
		copies = fmt.Sprintf("%d copies", t.Copies)
	}
	return copies + " on " + t.Target
}

// refusedBefore stands before a finding that is refused.
func refusedBefore(t indexTable) string {
	if t.Refused == "" {
		return ""
	}
	return "refused, "
}

func indexFinding(t indexTable) string {
	if t.UnixBench == nil {
		return indexPlace(t) + ": no test gave a score."
	}
	return fmt.Sprintf("%s: %sindex %s as UnixBench 5.1.3 has it (%s), %s over all passes by wall time; over %s: %s.",
		indexPlace(t), refusedBefore(t), quantity.Number(t.UnixBench.Value, 1), t.LeftOut(), quantity.Number(t.All.Value, 1),
		quantity.Count(len(t.UnixBench.Tests), "test"), strings.Join(t.UnixBench.Tests, ", "))
}

// label is a test, with the marks that the legend explains.
func (r indexRow) label() string {
	text := r.Test
	if r.CPUTime {
		text += " (*)"
	}
	return text + refusedMark(r.Refused)
}

func indexGrid(t indexTable) finding.Table {
	g := finding.Table{Title: indexPlace(t), Head: []string{"test", "unit", "BASELINE", "RESULT", "INDEX", "all passes", "95 % interval"}}
	for _, r := range t.Rows {
		span := ""
		if r.Passes > 1 {
			span = quantity.Number(r.Interval.Low, 1) + " to " + quantity.Number(r.Interval.High, 1)
		}
		g.Rows = append(g.Rows, []string{r.label(), r.Unit, quantity.Number(r.Baseline, 1), quantity.Number(r.Result, 1), quantity.Number(r.UnixBench, 1), quantity.Number(r.All, 1), span})
	}
	g.Rows = append(g.Rows, []string{"Index Score" + refusedMark(t.Refused), "", "", "", quantity.Number(t.UnixBench.Value, 1), quantity.Number(t.All.Value, 1), ""})
	return g
}
