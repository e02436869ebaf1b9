package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
)

// runs are the manifests of all runs of a report, the first one first.
func (in Input) runs() []store.Manifest { return append([]store.Manifest{in.Manifest}, in.Others...) }

// labels name the runs of a comparison: A and B, or A, B1 and B2.
func (in Input) labels() []string {
	all := []string{"A"}
	for i := range in.Others {
		label := "B"
		if len(in.Others) > 1 {
			label += strconv.Itoa(i + 1)
		}
		all = append(all, label)
	}
	return all
}

// label names a later run of a comparison by its id.
func (in Input) label(id string) string {
	return in.labels()[1+slices.IndexFunc(in.Others, func(m store.Manifest) bool { return m.ID == id })]
}

// ofRuns are facts of all runs. Those in which runs differ come first, each with the name
// of its run; those that all share have none.
func (in Input) ofRuns(of func(store.Manifest) []fact) []fact {
	if len(in.Others) == 0 {
		return of(in.Manifest)
	}
	runs, labels := in.runs(), in.labels()
	var names []string
	values := map[string][]string{} // by name, a value for each run, "" for none
	for i, m := range runs {
		for _, f := range of(m) {
			if values[f.Name] == nil {
				names, values[f.Name] = append(names, f.Name), make([]string, len(runs))
			}
			values[f.Name][i] = f.Value
		}
	}
	var differ, shared []fact
	for _, name := range names {
		if len(slices.Compact(slices.Clone(values[name]))) == 1 {
			shared = append(shared, fact{name, values[name][0]})
			continue
		}
		for i, value := range values[name] {
			if value != "" {
				differ = append(differ, fact{labels[i] + ": " + name, value})
			}
		}
	}
	return append(differ, shared...)
}

// unshared are targets and groups that one of two runs alone measured: nothing of them
// is compared.
func (in Input) unshared() []Lack {
	var out lackList
	runs, labels := in.runs(), in.labels()
	for i := range in.Others {
		for _, pair := range [][2]int{{0, i + 1}, {i + 1, 0}} {
			has, lacks := runs[pair[0]], runs[pair[1]]
			for _, of := range []func(study.Cell) string{func(c study.Cell) string { return c.Target }, func(c study.Cell) string { return c.Group }} {
				other := unique(lines(lacks.Cells, of))
				for _, name := range unique(lines(has.Cells, of)) {
					if slices.Contains(other, name) {
						continue
					}
					why := fmt.Sprintf("%s measured it, %s did not", labels[pair[0]], labels[pair[1]])
					if reason := lacks.LeftOut[name]; reason != "" {
						why += ": " + reason
					}
					out.add(name, why, why)
				}
			}
		}
	}
	return out.named()
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// comparison lays out one group and metric of two runs as a table: both
// medians, what changed in all, and what is left of it once the machine's own
// change is divided out.
func (in Input) comparison(c analysis.Comparison) (title string, head []string, rows [][]string) {
	t := comparisonScale(c)
	head = []string{"target", strings.TrimSuffix("A "+t.Unit, " "), strings.TrimSuffix("B "+t.Unit, " "), "B/A", "B/A over control", "interval", "verdict"}
	for _, r := range c.Rows {
		rows = append(rows, t.change(r))
	}
	title = c.Group + ": " + tableTitle(c.Metric, t.Unit)
	if len(in.Others) > 1 {
		title += ", A to " + in.label(c.With)
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
	case r.Failed():
		return append(line, quantity.Missing, "", "failed")
	case r.Effect == nil:
		return append(line, quantity.Missing, "", "no verdict")
	}
	n := t.showEffect(r.Effect)
	return append(line, n.Value, n.Interval(), string(r.Effect.Verdict))
}

// comparisonGrid is the table of a comparison.
func comparisonGrid(head []string, rows [][]string) *grid {
	g := newGrid()
	for i, h := range head {
		g.column(h, i > 0 && i < len(head)-1, lines(rows, func(r []string) string { return clean(r[i]) }))
	}
	return g
}
