package unixbench

import (
	"strings"
	"testing"
)

// The legend says which Whetstone is in the index, and how to run the other.
func TestIndexNamesTheWhetstone(t *testing.T) {
	for variant, want := range map[string]string{
		variantKept:   "where the compiler may remove part of the work. tare index without --static runs as-compiled",
		"as-compiled": "Whetstone is of the variant as-compiled: as in UnixBench, the compiler may remove part of the work",
	} {
		if s := indexSection(&indexClaims{Whetstone: variant}); !strings.Contains(s.Note, want) {
			t.Errorf("%s: %s", variant, s.Note)
		}
	}
	if s := indexSection(&indexClaims{}); strings.Contains(s.Note, "variant") || s.Note != indexLegend {
		t.Errorf("without whetstone: %q", s.Note)
	}
}

// A refused row, and the index that holds it, are marked and explained.
func TestIndexMarksRefusedRows(t *testing.T) {
	row := func(test, refused string) indexRow {
		return indexRow{Test: test, Refused: refused, passes: passes{UnixBench: 2, All: 2, Passes: 1}}
	}
	table := indexTable{Target: "host", Copies: 1, Rows: []indexRow{row("execl", "noise."), row("syscall", "")}}
	if err := table.Total(); err != nil {
		t.Fatal(err)
	}
	s := indexSection(&indexClaims{Tables: []indexTable{table}})
	var names []string
	for _, r := range s.Tables[0].Rows {
		names = append(names, r[0])
	}
	if got := strings.Join(names, ", "); got != "execl !, syscall, Index Score !" || !strings.Contains(s.Note, refusedLegend) {
		t.Errorf("rows %s; note %s", got, s.Note)
	}
	if !strings.HasPrefix(s.Headline[0], "1 copy on host: refused, index 2.0") || table.Refused != "It holds execl: noise." {
		t.Errorf("%s; %s", s.Headline[0], table.Refused)
	}
}
