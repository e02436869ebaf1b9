package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
)

// failing is a row of which so many of 22 trials failed with that message.
func failing(cell string, failed int, message string) analysis.FailedCell {
	return analysis.FailedCell{Cell: cell, Label: cell, Failed: failed, Of: 22, Failure: &sample.Failure{Message: message}}
}

func briefOf(tables ...analysis.Table) Summary {
	return newView(Input{Claims: analysis.Claims{Tables: tables}}).brief
}

// A cell that has samples has a verdict: its failures are told under how sure. Cells share a
// reason where as many trials failed; ids in the messages may differ.
func TestFailuresOfCellsWithSamples(t *testing.T) {
	s := newView(Input{Claims: analysis.Claims{Failed: []analysis.FailedCell{
		failing("runc", 1, "container 17 died"), failing("crun", 1, "container 4 died"), failing("runsc", 3, "container 5 died"),
		failing("youki", 22, "container 9 died"), failing("kata", 22, "container 8 died"),
	}}}).brief
	want := []Lack{{"youki and kata", "22 of 22 trials failed: container 9 died"}}
	if !slices.Equal(s.NoVerdict, want) {
		t.Errorf("no verdict: %+v, want %+v", s.NoVerdict, want)
	}
	for _, text := range []string{"runc and crun: 1 of 22 trials failed: container 17 died.", "runsc: 3 of 22 trials failed: container 5 died."} {
		if !slices.Contains(s.Certainty, text) {
			t.Errorf("how sure: %q lacks %q", s.Certainty, text)
		}
	}
}

// What a payload said last is why it ended with an exit code, and not why it was killed at
// its timeout.
func TestFailuresKeepTheirReason(t *testing.T) {
	late, code := failing("runc", 22, "it had not ended after 30 s"), failing("crun", 22, "the payload ended with exit code 127")
	late.Failure.Stderr, code.Failure.Stderr, code.Failure.ExitCode = "warning: no locale\n", "sh: sysbnch: not found\n", new(127)
	s := newView(Input{Claims: analysis.Claims{Failed: []analysis.FailedCell{late, code}}}).brief
	want := []Lack{
		{"runc", "22 of 22 trials failed: it had not ended after 30 s; its last words: warning: no locale"},
		{"crun", "22 of 22 trials failed: sh: sysbnch: not found"},
	}
	if !slices.Equal(s.NoVerdict, want) {
		t.Errorf("%+v, want %+v", s.NoVerdict, want)
	}
}

// Reasons with other numbers are other reasons: one group's are not told of another.
func TestReasonsKeepTheirNumbers(t *testing.T) {
	refused := func(group, why string) analysis.Table {
		return analysis.Table{Group: group, Primary: true, Refused: why}
	}
	s := briefOf(refused("cpu", "The control differs by +10 %."), refused("disk", "The control differs by +45 %."), refused("memory", "The control differs by +10 %."))
	want := []Lack{{"cpu and memory", "The control differs by +10 %."}, {"disk", "The control differs by +45 %."}}
	if !slices.Equal(s.NoVerdict, want) {
		t.Errorf("%+v, want %+v", s.NoVerdict, want)
	}
}

// An effect without a ratio and without a difference, as where the control lacks the metric,
// has no number in any format.
func TestNoRatioIsNotZero(t *testing.T) {
	row := analysis.Row{Cell: "runc", Label: "runc", Summary: analysis.Summary{N: 22, Median: 2}, Effect: &analysis.Effect{P: 1, Verdict: analysis.Open}}
	control := analysis.Row{Cell: "host", Label: "host", Control: true, Summary: analysis.Summary{N: 22, Median: 1}}
	speed := sample.Metric{Name: "rate", Unit: sample.PerSecond, Better: sample.Higher}
	for _, m := range []sample.Metric{speed, {Name: "time", Unit: sample.Seconds, Better: sample.Lower}} {
		in := Input{Claims: analysis.Claims{Tables: []analysis.Table{{Group: "x", Metric: m, Primary: true, Rows: []analysis.Row{control, row}}}}}
		var out strings.Builder
		if err := OpenMetrics(&out, in); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "tare_ratio") || !strings.Contains(out.String(), "tare_median") {
			t.Errorf("OpenMetrics:\n%s", out.String())
		}
		out.Reset()
		if err := JSON(&out, in); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), `"ratio"`) {
			t.Errorf("JSON:\n%s", out.String())
		}
		v := newView(in)
		if got := v.groups[0].primary[0].Rows[1].Ratio.Value; got != "–" {
			t.Errorf("%s: the ratio is %q", m.Name, got)
		}
		if cells := v.brief.Tables[0].Columns[0].Cells; cells[1].Text != "–" {
			t.Errorf("%s: the summary has %q", m.Name, cells[1].Text)
		}
	}
	if got := csvEffect(row.Effect); !slices.Equal(got, []string{"", "", "", "", "", "0", "false", ""}) {
		t.Errorf("CSV: %q", got)
	}
	different := &analysis.Effect{P: 0.5, Blocks: 9, Difference: &analysis.Difference{Median: 3}}
	if got := csvEffect(different); got[0] != "" || got[4] != "0.5" {
		t.Errorf("a difference in CSV: %q", got)
	}
}

// Speeds of one environment share a heading that names it, and stand side by side; where a
// workload was measured in two, each column names its own.
func TestEnvironmentsOfSpeeds(t *testing.T) {
	heads := func(columns ...string) (out []string) {
		table := SummaryTable{Columns: []SummaryColumn{{Over: "start", Head: "time, ms"}}}
		for _, head := range columns {
			table.Columns = append(table.Columns, SummaryColumn{Over: "speed, % of host", Head: head})
		}
		for _, c := range ownHeads(environmentsOver(table)).Columns[1:] {
			out = append(out, c.Over+": "+c.Head)
		}
		return out
	}
	for _, c := range []struct{ columns, want []string }{
		{[]string{"cpu+1cpu", "forks", "files+1cpu"}, []string{"1cpu speed, % of host: cpu", "1cpu speed, % of host: files", ": forks, % of host"}},
		{[]string{"cpu+1cpu", "cpu+2cpu"}, []string{"speed, % of host: cpu+1cpu", "speed, % of host: cpu+2cpu"}},
		{[]string{"cpu+1cpu", "files"}, []string{": cpu, % of host, 1cpu", ": files, % of host"}},
		{[]string{"cpu", "files"}, []string{"speed, % of host: cpu", "speed, % of host: files"}},
	} {
		if got := heads(c.columns...); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.columns, got, c.want)
		}
	}
}
