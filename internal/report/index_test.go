package report

import (
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/stats"
)

// The legend says which Whetstone is in the index, and how to run the other.
func TestIndexNamesTheWhetstone(t *testing.T) {
	for variant, want := range map[string]string{
		analysis.WhetstoneKept: "where the compiler may remove part of the work. To run as-compiled, copy a study",
		"as-compiled":          "Whetstone is of the variant as-compiled: as in UnixBench, the compiler may remove part of the work",
	} {
		if s := indexSection(&analysis.UnixIndexClaims{Whetstone: variant}); !strings.Contains(s.Note, want) {
			t.Errorf("%s: %s", variant, s.Note)
		}
	}
	if s := indexSection(&analysis.UnixIndexClaims{}); strings.Contains(s.Note, "variant") || s.Note != indexLegend {
		t.Errorf("without whetstone: %q", s.Note)
	}
}

// A refused row, and the index that holds it, are marked and explained.
func TestIndexMarksRefusedRows(t *testing.T) {
	row := func(test, refused string) analysis.UnixIndexRow {
		return analysis.UnixIndexRow{Test: test, Refused: refused, UnixPasses: analysis.UnixPasses{UnixBench: 2, All: 2, Passes: 1}}
	}
	table := analysis.UnixIndexTable{Target: "host", Copies: 1, Rows: []analysis.UnixIndexRow{row("execl", "noise."), row("syscall", "")}}
	if err := table.Total(); err != nil {
		t.Fatal(err)
	}
	s := indexSection(&analysis.UnixIndexClaims{Tables: []analysis.UnixIndexTable{table}})
	var names []string
	for _, r := range s.Tables[0].Rows {
		names = append(names, r[0])
	}
	if got := strings.Join(names, ", "); got != "execl !, syscall, Index Score !" || !strings.Contains(s.Note, RefusedLegend) {
		t.Errorf("rows %s; note %s", got, s.Note)
	}
	if !strings.HasPrefix(s.Headline[0], "1 copy on host: refused, index 2.0") || table.Refused != "It holds execl: noise." {
		t.Errorf("%s; %s", s.Headline[0], table.Refused)
	}
}

func TestMachinesMarkRefusedRows(t *testing.T) {
	m := analysis.MachineComparison{Tables: []analysis.MachineTable{{Rows: []analysis.MachineRow{
		{MachineRatio: analysis.MachineRatio{Test: "execl", Ratio: 2}, Refused: "noise"},
		{MachineRatio: analysis.MachineRatio{Test: "syscall", Ratio: 2}},
	}}}}
	for _, format := range MachineFormats() {
		var out strings.Builder
		if err := Machines(&out, format, m, Options{}); err != nil {
			t.Fatal(err)
		}
		marks := []string{"execl !", "! refused: these numbers"}
		if format == FormatJSON {
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
	m := analysis.MachineComparison{Tables: []analysis.MachineTable{{Rows: []analysis.MachineRow{{
		MachineRatio: analysis.MachineRatio{Test: "execl", Ratio: 1, PerCore: 1, PerThread: 1, PerGHz: 1},
		Interval:     span, PerCoreInterval: span, PerThreadInterval: span, PerGHzInterval: span,
	}}}}}
	for _, test := range []struct {
		format Format
		width  int
		spans  int
	}{{FormatText, 80, 1}, {FormatText, 160, 4}, {FormatText, 0, 4}, {FormatMarkdown, 0, 4}} {
		var out strings.Builder
		if err := Machines(&out, test.format, m, Options{Width: test.width}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "90.0, 110.0"); got != test.spans {
			t.Errorf("%s, %d wide: %d intervals, want %d:\n%s", test.format, test.width, got, test.spans, out.String())
		}
	}
}
