package unixbench

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/stats"
)

func TestMachinesMarkRefusedRows(t *testing.T) {
	m := comparison{Tables: []machineTable{{Rows: []machineRow{
		{machineRatio: machineRatio{Test: "execl", Ratio: 2}, Refused: "noise"},
		{machineRatio: machineRatio{Test: "syscall", Ratio: 2}},
	}}}}
	for _, format := range report.DocumentFormats() {
		var out strings.Builder
		if err := report.WriteDocument(&out, format, document([]comparison{m}), report.Options{}); err != nil {
			t.Fatal(err)
		}
		marks := []string{"execl !", "! refused: these numbers"}
		if format == report.FormatJSON {
			marks = []string{`"refused": "noise"`}
		}
		for _, mark := range marks {
			if strings.Count(out.String(), mark) != 1 {
				t.Errorf("%s lacks %q:\n%s", format, mark, out.String())
			}
		}
	}
}

// Intervals per core, thread and GHz stand where there is room for them, and in
// Markdown always.
func TestMachinesScaledIntervals(t *testing.T) {
	span := stats.Interval{Low: 0.9, High: 1.1, Level: 0.95, Method: stats.MethodWelch}
	m := comparison{Tables: []machineTable{{Rows: []machineRow{{
		machineRatio: machineRatio{Test: "execl", Ratio: 1, PerCore: 1, PerThread: 1, PerGHz: 1},
		Interval:     span, PerCoreInterval: span, PerThreadInterval: span, PerGHzInterval: span,
	}}}}}
	for _, test := range []struct {
		format report.Format
		width  int
		spans  int
	}{{report.FormatText, 80, 1}, {report.FormatText, 160, 4}, {report.FormatText, 0, 4}, {report.FormatMarkdown, 0, 4}} {
		var out strings.Builder
		if err := report.WriteDocument(&out, test.format, document([]comparison{m}), report.Options{Width: test.width}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "90.0, 110.0"); got != test.spans {
			t.Errorf("%s, %d wide: %d intervals, want %d:\n%s", test.format, test.width, got, test.spans, out.String())
		}
	}
}

// An index is a bar only where it holds the same tests on all machines.
func TestIndexBarsAreAlike(t *testing.T) {
	over := func(tests ...string) comparison {
		return comparison{Tables: []machineTable{{Environment: envAllN, Tests: tests, Rows: []machineRow{
			{machineRatio: machineRatio{Test: "execl", Ratio: 1}}, {machineRatio: machineRatio{Test: indexName, Ratio: 1}},
		}}}}
	}
	for _, c := range []struct {
		all  []comparison
		bars int
	}{
		{[]comparison{over("execl")}, 2},
		{[]comparison{over("execl"), over("execl")}, 4},
		{[]comparison{over("execl"), over("execl", "syscall")}, 2},
		{[]comparison{over("execl"), {}}, 2},
	} {
		figures := comparisonFigures(c.all, envAllN)
		if len(figures) != 1 || len(figures[0].Bars) != c.bars {
			t.Errorf("%d machines: %+v, want %d bars", len(c.all), figures, c.bars)
		}
	}
}
