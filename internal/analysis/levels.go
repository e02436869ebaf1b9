package analysis

import (
	"slices"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// Level is one cell against the cell of the same target and workload in another
// environment, by the metric that the workload is judged by.
type Level struct {
	Cell, Base study.Cell
	Metric     sample.Metric
	Contrast   *Contrast
}

// Levels compares cells with those of the environment that base names for each; ok is
// false for cells that are compared with none. The levels of one workload on one target
// are judged together.
// Twins, watched cells and cells without a block in common with their base are left out.
func (in Input) Levels(tables []Table, base func(study.Cell) (environment string, ok bool)) []Level {
	in = in.WithDefaults()
	var out []Level
	families := map[[2]string][]*Contrast{}
	for _, c := range in.Cells {
		environment, ok := base(c)
		if !ok || c.AA || c.Probe != "" || environment == c.Environment {
			continue
		}
		i := slices.IndexFunc(in.Cells, func(o study.Cell) bool {
			return o.Environment == environment && o.Target == c.Target && o.Workload == c.Workload &&
				o.Copies == c.Copies && o.Concurrency == c.Concurrency && !o.AA && o.Probe == ""
		})
		metric, judged := primaryOf(tables, c.Group)
		if i < 0 || !judged {
			continue
		}
		to := in.Cells[i]
		contrast := in.Contrast(tables, Place{c.ID, c.Group, metric.Name}, Place{to.ID, to.Group, metric.Name})
		if contrast == nil {
			continue
		}
		of := [2]string{c.Target, c.Workload}
		out, families[of] = append(out, Level{c, to, metric, contrast}), append(families[of], contrast)
	}
	for _, family := range families {
		JudgeTogether(family)
	}
	return out
}

// Refused is why nothing is claimed of a place against its control, by its own table or the
// one that its group is judged by; "" where something may be. Of the control itself it is why
// nothing is claimed of its values.
func Refused(tables []Table, p Place) string {
	for _, t := range tables {
		if t.Group != p.Group || !t.Primary && t.Metric.Name != p.Metric {
			continue
		}
		i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Cell == p.Cell })
		switch {
		case i >= 0 && t.Rows[i].Effect != nil:
			if e := t.Rows[i].Effect; e.Verdict == NotComparable {
				return e.Why
			}
		case t.Refused != "":
			return t.Refused
		case i >= 0 && !t.Rows[i].Control:
			return "It is not compared with its control."
		}
	}
	return ""
}

// primaryOf is the metric that a group's price list shows.
func primaryOf(tables []Table, group string) (sample.Metric, bool) {
	i := slices.IndexFunc(tables, func(t Table) bool { return t.Group == group && t.Primary })
	if i < 0 {
		return sample.Metric{}, false
	}
	return tables[i].Metric, true
}
