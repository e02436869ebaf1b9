package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
)

// column names what a cell measures among those of its target.
func (r Report) column(c Cell) string {
	if slices.ContainsFunc(r.Cells, func(o Cell) bool { return o.Group == c.Group && o.Metric.Name != c.Metric.Name }) {
		return c.Group + " " + c.Metric.Name
	}
	return c.Group
}

// marks of verdicts, as in the report of a run where that has them, too.
var marks = map[Verdict]string{Everywhere: "◆", OnAverage: "◇", SameThere: "●", Depends: "◐", Open: "○", NotComparable: "✕"}

// mark is a cell in the price list: its mean, or where nothing is shown its bounds.
func (c Cell) mark() string {
	switch {
	case c.All == nil:
		return marks[c.Verdict]
	case c.Verdict == Open || c.Verdict == Depends:
		return quantity.Ratio(c.All.Mean.Value, c.All.Mean.Interval).Interval() + " " + marks[c.Verdict]
	}
	return quantity.Ratio(c.All.Mean.Value, c.All.Mean.Interval).Value + " " + marks[c.Verdict]
}

// targets and columns are those of the cells, in their order.
func (r Report) axes() (targets, columns []string) {
	for _, c := range r.Cells {
		if !slices.Contains(targets, c.Target) {
			targets = append(targets, c.Target)
		}
		if name := r.column(c); !slices.Contains(columns, name) {
			columns = append(columns, name)
		}
	}
	return targets, columns
}

// prices are all cells in one table, a row a target.
func (r Report) prices() finding.Table {
	targets, columns := r.axes()
	t := finding.Table{Title: "Price list: mean over the machines of the ratio to each machine's control", Head: append([]string{"target"}, columns...)}
	for _, target := range targets {
		row := make([]string, 1+len(columns))
		row[0] = target
		for _, c := range r.Cells {
			if c.Target == target {
				row[1+slices.Index(columns, r.column(c))] = c.mark()
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// key explains the marks of the price list.
func key() string {
	var all []string
	for _, v := range Verdicts() {
		all = append(all, marks[v]+" "+string(v))
	}
	return strings.Join(all, "; ") + ". What is open, or depends on the machine, stands as its 95 % interval."
}

// says is what a target's cells say, one sentence: by verdict, then what stands out.
func (r Report) says(target string) []string {
	type kind struct{ word, why string } // why, of what has no mean
	var order []kind
	var odd []string
	by := map[kind][]string{}
	for _, c := range r.Cells {
		if c.Target != target {
			continue
		}
		k := kind{word: c.word()}
		if c.All == nil {
			k.why = c.Why
		}
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], c.said(r.column(c)))
		odd = append(odd, c.oddities(r.Groups)...)
	}
	slices.SortStableFunc(order, func(a, b kind) int { return cmp.Compare(rank(a.word), rank(b.word)) })
	var parts []string
	for _, k := range order {
		part := k.word + " in " + strings.Join(by[k], ", ")
		if k.why != "" {
			part += " (" + k.why + ")"
		}
		parts = append(parts, part)
	}
	return append([]string{target + ": " + strings.Join(parts, "; ") + "."}, odd...)
}

// rank is the place of a verdict, with or without its direction, in the order of display.
func rank(word string) int {
	return slices.IndexFunc(Verdicts(), func(v Verdict) bool { return strings.HasPrefix(word, string(v)) })
}

// said is a cell in a sentence.
func (c Cell) said(column string) string {
	switch {
	case c.All == nil:
		return column
	case c.Verdict == Open && c.Wanted > 0:
		return fmt.Sprintf("%s (×%s; about %d machines would settle it)", column, quantity.Ratio(c.All.Mean.Value, c.All.Mean.Interval).Interval(), c.Wanted)
	case c.Verdict == Open:
		return fmt.Sprintf("%s (×%s)", column, quantity.Ratio(c.All.Mean.Value, c.All.Mean.Interval).Interval())
	}
	return fmt.Sprintf("%s (×%s)", column, quantity.Ratio(c.All.Mean.Value, c.All.Mean.Interval).Value)
}
