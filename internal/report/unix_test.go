package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/stats"
)

// A refused test is marked in every table that shows its numbers, with the index
// that holds it, and no other; a refused run is marked throughout.
func TestUnixRefusedIsMarked(t *testing.T) {
	one := []analysis.UnixPoint{{N: 1, Data: stats.Estimate{Value: 100}, Repetitions: []float64{100}}}
	curve := func(test, refused string) analysis.UnixCurve {
		return analysis.UnixCurve{Target: "runc", Environment: analysis.UnixAllN, Test: test, Clock: analysis.WallClock, Points: one, Law: &analysis.UnixLaw{}, Refused: refused}
	}
	scores := map[string]stats.Estimate{"execl": {Value: 100}, "syscall": {Value: 100}, "index": {Value: 100}}
	u := &analysis.UnixClaims{
		Curves: []analysis.UnixCurve{curve("execl", "The hypervisor stole."), curve("syscall", ""), curve("index", "It holds execl.")},
		Platforms: []analysis.UnixPlatform{
			{Name: "ryzen5", Environment: analysis.UnixAllN, Scores: scores},
			{Name: "this machine", Environment: analysis.UnixAllN, Scores: scores, Here: true, Refused: map[string]string{"execl": "stole", "index": "holds"}},
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
		s := unixSection(u)
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
		if marked := strings.Contains(all, "syscall !"); marked != (test.run != "") || !strings.Contains(s.Note, RefusedLegend) {
			t.Errorf("refused %q: syscall marked: %v; %s", test.run, marked, s.Note)
		}
	}
	u.Refused, u.Curves, u.Platforms = "", u.Curves[1:2], nil
	if s := unixSection(u); strings.Contains(fmt.Sprint(s.Tables, s.Note), "!") {
		t.Errorf("nothing is refused: %v %s", s.Tables, s.Note)
	}
}
