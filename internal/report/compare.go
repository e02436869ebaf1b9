package report

import (
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// comparison lays out one group and metric of two runs as a table: both
// medians, what changed in all, and what is left of it once the machine's own
// change is divided out.
func comparison(c analysis.Comparison) (title string, head []string, rows [][]string) {
	t := comparisonScale(c)
	head = []string{"target", strings.TrimSuffix("A "+t.Unit, " "), strings.TrimSuffix("B "+t.Unit, " "), "B/A", "B/A over control", "interval", "verdict"}
	for _, r := range c.Rows {
		rows = append(rows, t.change(r))
	}
	title = c.Group + ": " + tableTitle(c.Metric, t.Unit) + ", A against B"
	if c.With != "" {
		title += " (" + c.With + ")"
	}
	return title, head, rows
}

// comparisonScale is a table without rows, in the unit that suits both runs' medians.
func comparisonScale(c analysis.Comparison) shownTable {
	var medians []float64
	for _, r := range c.Rows {
		medians = append(medians, r.A.Median, r.B.Median)
	}
	return shownTable{Scale: quantity.ScaleFor(c.Metric.Unit, medians)}
}

func (t shownTable) change(r analysis.Change) []string {
	median := func(s analysis.Summary) string {
		if s.N == 0 {
			return quantity.Missing
		}
		return t.Show(s.Median, s.Interval).Value
	}
	raw := quantity.Missing
	if r.Raw > 0 {
		raw = quantity.Ratio(r.Raw, stats.None(r.Raw)).Value
	}
	line := []string{r.Label, median(r.A), median(r.B), raw}
	switch {
	case r.Control:
		return append(line, "", "", "control")
	case r.Effect == nil:
		return append(line, quantity.Missing, "", "no verdict")
	}
	n := t.showEffect(r.Effect)
	return append(line, n.Value, n.Interval(), string(r.Effect.Verdict))
}

// comparisonGrid is the table of a comparison, its cells passed through cell.
func comparisonGrid(head []string, rows [][]string, cell func(string) string) *grid {
	g := newGrid()
	for i, h := range head {
		g.column(h, i > 0 && i < len(head)-1, lines(rows, func(r []string) string { return cell(r[i]) }))
	}
	return g
}
