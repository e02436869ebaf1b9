package unixbench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/finding"
)

// The published figures stand next to those of each target, in a row for each
// environment with one scale, and draw what the published cells say.
func TestFigures(t *testing.T) {
	all := figures(madeUp(t))
	if len(all) != 3*3+2 {
		t.Fatalf("%d figures, want three in each of three environments, and two of machines", len(all))
	}
	for i, f := range all[:9] {
		first := all[i-i%3]
		if f.Beside != (i%3 > 0) || f.X.To != first.X.To || f.Y.To != first.Y.To {
			t.Errorf("%s: beside %v, axes to %g and %g, of the row to %g and %g", f.Title, f.Beside, f.X.To, f.Y.To, first.X.To, first.Y.To)
		}
		looks := map[finding.Look]int{}
		for _, l := range f.Lines {
			looks[l.Look]++
		}
		if looks[finding.Measured] != 2 || looks[finding.Fit] != 1 || looks[finding.Pale] < 8 {
			t.Errorf("%s: %v", f.Title, looks)
		}
	}
	if f := all[0]; f.Title != "One CPU: published, loongson-1way" || line(f, "index") != "0: 1.00, 1: 1.00, 2: 0.55, 3: 0.42, 4: 0.32" {
		t.Errorf("%s: %s", f.Title, line(f, "index")) // geometric means of the nine rows of table 2, part 2
	}
	for i, f := range all[9:] {
		if len(f.Dots) != 5 || len(f.Dots[0].At) != 10 || f.Dots[4].Look != finding.Measured || f.Beside != (i > 0) {
			t.Errorf("%s: %+v", f.Title, f.Dots)
		}
	}
}

// line writes the points of a line.
func line(f finding.Figure, name string) string {
	var out []string
	for _, l := range f.Lines {
		for _, p := range l.Points {
			if l.Name == name {
				out = append(out, fmt.Sprintf("%g: %.2f", p.X, p.Y))
			}
		}
	}
	return strings.Join(out, ", ")
}
