package containerload

import (
	"strings"
	"testing"
)

// Each number has a row of figures, one a target, without what nobody accounts.
func TestSeriesFigures(t *testing.T) {
	points := []usage{{At: 1, CPU: 0.25, Memory: 1e6, Load: 1, Read: -1, Written: -1, Received: 2e3, Sent: 3e3}, {At: 2, CPU: -1, Read: -1, Written: -1, Received: 0, Sent: 0}}
	c := &description{}
	for _, target := range []string{"host", "vm/stock"} {
		for _, name := range []string{"package", "agent"} {
			c.Curves = append(c.Curves, curve{Target: target, ID: name, Container: name, Points: points})
		}
	}
	c.Peaks = []peaks{{Target: "host", ID: "package", Container: "package", Trials: 3, Mean: points[0], Peak: points[0]}}
	s := section(c)
	var titles []string
	for _, f := range s.Figures {
		titles = append(titles, f.Title)
		if f.Beside != strings.HasSuffix(f.Title, "vm/stock") || len(f.Lines) != 2 {
			t.Errorf("%s: beside %v, %d lines", f.Title, f.Beside, len(f.Lines))
		}
	}
	if want := "CPU: host, CPU: vm/stock, Load: host, Load: vm/stock, Memory: host, Memory: vm/stock, Received: host, Received: vm/stock, Sent: host, Sent: vm/stock"; strings.Join(titles, ", ") != want {
		t.Errorf("figures %q", titles)
	}
	if cpu := s.Figures[0].Lines[0].Points; len(cpu) != 1 || cpu[0].X != 1 || cpu[0].Y != 25 {
		t.Errorf("CPU %+v", cpu)
	}
	if row := s.Tables[0].Rows[0]; row[0] != "host: package" || row[1] != "3 trials" {
		t.Errorf("the row of the container: %q", row)
	}
}

func TestSeriesOfNothing(t *testing.T) {
	if s := section(&description{}); len(s.Figures)+len(s.Tables) != 0 || s.Note != "No container was running." {
		t.Errorf("%+v", s)
	}
}
