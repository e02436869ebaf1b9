package unixbench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/stats"
)

// A refused test is marked in every table that shows its numbers, with the index
// that holds it, and no other; a refused run is marked throughout.
func TestRefusedIsMarked(t *testing.T) {
	one := []point{{N: 1, Data: stats.Estimate{Value: 100}, Repetitions: []float64{100}}}
	of := func(test, refused string) curve {
		return curve{Target: "runc", Environment: envAllN, Test: test, Clock: wallClock, Points: one, Law: &fallLaw{}, Refused: refused}
	}
	scores := map[string]stats.Estimate{"execl": {Value: 100}, "syscall": {Value: 100}, "index": {Value: 100}}
	u := &description{
		Curves: []curve{of("execl", "The hypervisor stole."), of("syscall", ""), of("index", "It holds execl.")},
		Platforms: []platform{
			{Name: "ryzen5", Environment: envAllN, Scores: scores},
			{Name: "this machine", Environment: envAllN, Scores: scores, Here: true, Refused: map[string]string{"execl": "stole", "index": "holds"}},
		},
		Tests: []string{"execl", "syscall"},
	}
	for _, test := range []struct {
		run  string
		want []string
	}{
		{"", []string{"execl !|100.0|", "execl !|", "execl|100.0|100.0 !", "index|100.0|100.0 !"}},
		{"half of the trials", []string{"execl !|100.0|", "syscall !|100.0|", "syscall !|"}},
	} {
		u.Refused = test.run
		s := section(u)
		all := ""
		for _, g := range s.Tables {
			for _, row := range g.Rows {
				all += strings.Join(row, "|") + "\n"
			}
		}
		for _, want := range test.want {
			if !strings.Contains(all, want) {
				t.Errorf("refused %q: no row %q in\n%s", test.run, want, all)
			}
		}
		if marked := strings.Contains(all, "syscall !"); marked != (test.run != "") || !strings.Contains(s.Note, refusedLegend) {
			t.Errorf("refused %q: syscall marked: %v; %s", test.run, marked, s.Note)
		}
	}
	u.Refused, u.Curves, u.Platforms = "", u.Curves[1:2], nil
	if s := section(u); strings.Contains(fmt.Sprint(s.Tables, s.Note), "!") {
		t.Errorf("nothing is refused: %v %s", s.Tables, s.Note)
	}
}
