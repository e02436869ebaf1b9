package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
)

// What a figure and a table hold at most, so that a fleet of any size can be read.
const (
	mostForests = 24
	mostRows    = 60
	mostColumns = 12
)

// Sections are what the report shows, the same in each format.
func (r Report) Sections() []finding.Section {
	all := []finding.Section{r.costs(), r.forests(), r.unlike(), r.differing(), r.list()}
	return slices.DeleteFunc(all, func(s finding.Section) bool { return len(s.Tables)+len(s.Figures)+len(s.Findings) == 0 })
}

// costs is the price list over machines.
func (r Report) costs() finding.Section {
	t := finding.Table{Title: "Ratios to each machine's own control", Head: []string{"cell", "verdict", "machines", "mean [95 %]", "next machine", "between machines"}}
	list := finding.Forest{Band: r.Margin}
	var bars []finding.Bar
	s := finding.Section{ID: "over-machines", Title: "Over the machines"}
	for _, c := range r.Cells {
		t.Rows = append(t.Rows, append([]string{c.name(), c.word(), fmt.Sprintf("%d of %d", c.counted(), c.Of)}, overCells(c.All)...))
		if c.Without != nil {
			t.Rows = append(t.Rows, append([]string{"– without unlike machines", "", strconv.Itoa(c.Without.Machines)}, overCells(c.Without)...))
		}
		if c.Refused != nil && c.Refused.Machines > c.counted() {
			t.Rows = append(t.Rows, append([]string{"– with refused machines", "", strconv.Itoa(c.Refused.Machines)}, overCells(c.Refused)...))
		}
		for _, g := range c.Groups {
			if g.Over == nil {
				continue // of one or two machines: the table of groups lists them
			}
			t.Rows = append(t.Rows, append([]string{"– " + g.Group, "", strconv.Itoa(g.Machines)}, overCells(g.Over)...))
		}
		if c.All == nil {
			continue
		}
		list.Rows = append(list.Rows, forestRow(c.name(), finding.Diamond, c.All))

		between := c.All.Between
		bars = append(bars, finding.Bar{Name: c.name() + ": within", Look: finding.Measured, Parts: []finding.Part{{Name: "within a machine, between its blocks", Value: 100 * c.All.Within}}},
			finding.Bar{Name: c.name() + ": between", Look: finding.Measured, Parts: []finding.Part{{Name: "between machines", Value: 100 * between.Value}}, Low: 100 * between.Interval.Low, High: 100 * between.Interval.High})
	}
	targets, _ := r.axes()
	for _, target := range targets {
		s.Findings = append(s.Findings, r.says(target)...)
	}
	s.Headline = s.Findings
	if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.All != nil }) {
		s.Tables, s.TableFirst = []finding.Table{r.prices(), t}, true
	}
	if len(r.Groups) > 1 {
		s.Tables = append(s.Tables, r.groupTable())
	}
	if len(list.Rows) > 0 {
		s.Figures = []finding.Figure{
			{Title: "Mean over machines with its 95 % interval; the whisker is where the next machine lies", X: finding.Axis{Label: "ratio to the machine's own control", Log: true}, Forest: &list},
			{Title: "What scatters", Y: finding.Axis{Label: "standard deviation, %"}, Bars: bars},
		}
	}
	if len(s.Tables) == 0 {
		return s
	}
	s.Note = fmt.Sprintf("In the price list: %s The machine is the unit: machines are not weighted. Intervals are of 95 %%, one cell each, by Student's t over the machines' log ratios; \"next machine\" is where one more machine of this kind would lie. \"Between machines\" is the standard deviation beyond the machines' own noise. The margin is %s. %s", key(), quantity.Percent(r.Margin), r.groupNote())
	return s
}

func (r Report) groupTable() finding.Table {
	t := finding.Table{Title: "Groups", Words: true, Head: []string{"group", "facts", "machines"}}
	for i, g := range r.Groups {
		if i == mostRows {
			t.Rows = append(t.Rows, []string{fmt.Sprintf("and %d more", len(r.Groups)-mostRows), "", ""})
			break
		}
		t.Rows = append(t.Rows, []string{g.Name, g.Facts, fmt.Sprintf("%d: %s", len(g.Machines), listed(g.Machines))})
	}
	return t
}

func (r Report) groupNote() string {
	if len(r.Groups) < 2 {
		return ""
	}
	return "Groups are machines that share " + strings.Join(r.GroupBy, ", ") + "; a difference of two groups is an association, since their machines differ in other things, too."
}

func (c Cell) name() string {
	return c.Group + "/" + c.Target + " " + c.Metric.Name
}

func (c Cell) word() string {
	if c.Word != "" {
		return string(c.Verdict) + ": " + string(c.Word)
	}
	return string(c.Verdict)
}

func (c Cell) counted() (n int) {
	for _, v := range c.Values {
		if counts(v) {
			n++
		}
	}
	return n
}

// overCells are mean, interval, next machine and scatter; empty below three machines.
func overCells(o *Over) []string {
	if o == nil {
		return []string{"", "", ""}
	}
	b := o.Between
	return []string{quantity.Ratio(o.Mean.Value, o.Mean.Interval).String(), quantity.Ratio(o.Mean.Value, o.Next).Interval(),
		fmt.Sprintf("%s [%s, %s]", quantity.Percent(b.Value), quantity.Percent(b.Interval.Low), quantity.Percent(b.Interval.High))}
}

// oddities are machines and groups that make a cell's mean one of two kinds.
func (c Cell) oddities(groups []Group) []string {
	var out, unlike []string
	for _, v := range c.Values {
		if v.Unlike {
			unlike = append(unlike, fmt.Sprintf("%s (×%s)", v.Machine, quantity.Digits(v.Ratio)))
		}
	}
	if len(unlike) > 0 {
		out = append(out, fmt.Sprintf("%s: unlike the others: %s. It stays in the mean; a second line is without it.", c.name(), listed(unlike)))
	}
	for _, d := range c.Contrast {
		if d.Differs {
			out = append(out, fmt.Sprintf("%s: %s (%s) has %s × the mean of %s (%s): the mean over all machines is of two kinds.", c.name(), d.B, factsOf(groups, d.B), quantity.Ratio(d.Ratio, d.Bounds), d.A, factsOf(groups, d.A)))
		}
	}
	return out
}

func factsOf(groups []Group, name string) string {
	i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == name })
	return groups[i].Facts
}

func forestRow(name string, shape finding.Shape, o *Over) finding.ForestRow {
	return finding.ForestRow{Name: name, Shape: shape, Value: o.Mean.Value, Low: o.Mean.Interval.Low, High: o.Mean.Interval.High, NextLow: o.Next.Low, NextHigh: o.Next.High,
		Tip: fmt.Sprintf("%s: mean of %s %s, next machine %s", name, quantity.Count(o.Machines, "machine"), quantity.Ratio(o.Mean.Value, o.Mean.Interval), quantity.Ratio(o.Mean.Value, o.Next).Interval())}
}

// forests are one figure per cell: machines by group and value, groups, all.
func (r Report) forests() finding.Section {
	s := finding.Section{ID: "machines", Title: "Machine by machine"}
	for _, c := range r.Cells[:min(len(r.Cells), mostForests)] {
		f := finding.Forest{Band: r.Margin}
		shown := c.shown()
		for _, v := range shown {
			shape := finding.Measure
			note := string(v.Verdict)
			if !counts(v) {
				shape, note = finding.Hollow, "refused: "+v.Refused
			}
			if v.Unlike {
				note += ", unlike the others"
			}
			f.Rows = append(f.Rows, finding.ForestRow{Name: v.Machine, Shape: shape, Value: v.Ratio, Low: v.Low, High: v.High,
				Tip: fmt.Sprintf("%s, %s: ×%s [%s, %s], %s", v.Machine, v.Group, quantity.Digits(v.Ratio), quantity.Digits(v.Low), quantity.Digits(v.High), note)})
		}
		for _, g := range c.Groups {
			if g.Over != nil {
				f.Rows = append(f.Rows, forestRow(g.Group, finding.Diamond, g.Over))
			}
		}
		if c.All != nil {
			f.Rows = append(f.Rows, forestRow("all machines", finding.Diamond, c.All))
		}
		title := c.name()
		if len(shown) < len(c.Values) {
			title += fmt.Sprintf(" (%d of %d machines: evenly spaced, and those that are unlike or refused)", len(shown), len(c.Values))
		}
		s.Figures = append(s.Figures, finding.Figure{Title: title, X: finding.Axis{Label: "ratio to the machine's own control", Log: true}, Forest: &f})
	}
	s.Note = "A dot is a machine with the interval of its own run; a hollow one is refused and does not count. A diamond is a mean with its 95 % interval, and its whisker is where the next machine lies. The band is the margin."
	if len(r.Cells) > mostForests {
		s.Note += fmt.Sprintf(" The figures are of the first %d of %d cells.", mostForests, len(r.Cells))
	}
	if len(s.Figures) == 0 {
		s.Note = ""
	}
	return s
}

// shown are a cell's machines by group and value: of many, evenly spaced ones besides
// those that are unlike or refused.
func (c Cell) shown() []MachineValue {
	sorted := slices.Clone(c.Values)
	slices.SortStableFunc(sorted, func(a, b MachineValue) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Ratio, b.Ratio))
	})
	if len(sorted) <= mostRows {
		return sorted
	}
	var out []MachineValue
	named := 0
	for i, v := range sorted {
		odd := (v.Unlike || !counts(v)) && named < mostRows/2
		if odd {
			named++
		}
		if odd || i*(mostRows/2)/len(sorted) != (i-1)*(mostRows/2)/len(sorted) || i == len(sorted)-1 {
			out = append(out, v)
		}
	}
	return out
}

// unlike is the matrix of machines and cells: how far each is from what the others
// foresee.
func (r Report) unlike() finding.Section {
	cells := r.Cells[:min(len(r.Cells), mostColumns)]
	t := finding.Table{Title: "How far each machine is from what the others foresee", Head: []string{"machine"}}
	scores := map[string][]string{}
	farthest := map[string]float64{}
	any := false
	for i, c := range cells {
		t.Head = append(t.Head, c.Group+"/"+c.Target)
		for _, v := range c.Values {
			if scores[v.Machine] == nil {
				scores[v.Machine] = make([]string, len(cells))
			}
			switch {
			case !counts(v):
				scores[v.Machine][i] = "refused"
			case c.counted() > stats.MinimumMachines:
				any = true
				text := fmt.Sprintf("%+.1f", v.Score)
				if v.Unlike {
					text += " !"
				}
				scores[v.Machine][i] = text
				farthest[v.Machine] = max(farthest[v.Machine], math.Abs(v.Score))
			}
		}
	}
	if !any {
		return finding.Section{}
	}
	var names []string
	for _, m := range r.Machines {
		if scores[m.Name] != nil {
			names = append(names, m.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(farthest[b], farthest[a]) })
	if len(names) > mostRows {
		t.Title += fmt.Sprintf(" (the farthest %d of %d)", mostRows, len(names))
		names = names[:mostRows]
	}
	for _, n := range names {
		t.Rows = append(t.Rows, append([]string{n}, scores[n]...))
	}
	return finding.Section{ID: "unlike", Title: "Unlike machines", Tables: []finding.Table{t},
		Note: "In standard deviations of a prediction by all other machines. \"!\" marks a machine that is unlike the others: p at most 5 % after Holm over machines, times the number of cells."}
}

// differing is the table of facts that machines do not share.
func (r Report) differing() finding.Section {
	t := finding.Table{Title: "Facts that differ", Words: true, Head: []string{"fact", "value", "machines"}}
	for _, d := range r.Differ {
		if len(d.Values) == len(r.Machines) && len(d.Values) > mostNames {
			t.Rows = append(t.Rows, []string{d.Fact, "another one on each machine", listed(d.Values[0].Machines) + ", ..."})
			continue
		}
		for i, v := range d.Values {
			if i == mostNames {
				t.Rows = append(t.Rows, []string{"", fmt.Sprintf("and %d more values", len(d.Values)-mostNames), ""})
				break
			}
			name := d.Fact
			if i > 0 {
				name = ""
			}
			t.Rows = append(t.Rows, []string{name, cmp.Or(v.Value, "not known"), fmt.Sprintf("%d: %s", len(v.Machines), listed(v.Machines))})
		}
	}
	if len(t.Rows) == 0 {
		return finding.Section{}
	}
	return finding.Section{ID: "facts", Title: "Facts that differ", Tables: []finding.Table{t}}
}

// list is the machines and runs.
func (r Report) list() finding.Section {
	t := finding.Table{Title: "Machines", Words: true, Head: []string{"machine", "run", "trials", "group", "skipped"}}
	group := map[string]string{}
	for _, g := range r.Groups {
		for _, m := range g.Machines {
			group[m] = g.Name
		}
	}
	for _, m := range r.Machines {
		if len(t.Rows) == mostRows {
			t.Rows = append(t.Rows, []string{fmt.Sprintf("and %d more", len(r.Machines)-mostRows), "", "", "", ""})
			break
		}
		var skipped []string
		for target := range m.Skipped {
			skipped = append(skipped, short(target))
		}
		slices.Sort(skipped)
		t.Rows = append(t.Rows, []string{m.Name, m.Run, fmt.Sprintf("%d of %d", m.Trials, m.Planned), group[m.Name], listed(skipped)})
	}
	s := finding.Section{ID: "list", Title: "Machines", Tables: []finding.Table{t.WithoutEmpty()}}
	left := finding.Table{Title: "Runs that are not used", Words: true, Head: []string{"run", "machine", "why"}}
	for i, l := range r.LeftOut {
		if i == mostRows {
			left.Rows = append(left.Rows, []string{fmt.Sprintf("and %d more", len(r.LeftOut)-mostRows), "", ""})
			break
		}
		left.Rows = append(left.Rows, []string{l.Run, l.Machine, l.Why})
	}
	if len(left.Rows) > 0 {
		s.Tables = append(s.Tables, left)
	}
	return s
}

// About is what the report is of, in a few words.
func (r Report) About() []string {
	about := []string{"study " + r.Study, quantity.Count(len(r.Machines), "machine"), "control " + r.Control}
	if len(r.Groups) > 1 {
		about = append(about, quantity.Count(len(r.Groups), "group"))
	}
	if len(r.LeftOut) > 0 {
		about = append(about, quantity.Count(len(r.LeftOut), "run")+" not used")
	}
	for _, v := range Verdicts() {
		n := 0
		for _, c := range r.Cells {
			if c.Verdict == v {
				n++
			}
		}
		if n > 0 {
			about = append(about, fmt.Sprintf("%s: %s", v, quantity.Count(n, "cell")))
		}
	}
	return about
}

// Rows are the numbers as a table, one line per cell of the fleet, of a group and of a
// machine.
func (r Report) Rows() [][]string {
	rows := [][]string{{"kind", "group", "machine", "run", "cell_group", "target", "metric", "better", "machines", "of", "ratio", "low", "high", "next_low", "next_high", "between", "between_low", "between_high", "within", "verdict", "score", "p_unlike", "refused"}}
	runs := map[string]string{}
	for _, m := range r.Machines {
		runs[m.Name] = m.Run
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, c := range r.Cells {
		line := func(kind, group string, n int, o *Over, verdict string) []string {
			row := []string{kind, group, "", "", c.Group, c.Target, c.Metric.Name, string(c.Metric.Better), strconv.Itoa(n), strconv.Itoa(c.Of)}
			if o == nil {
				row = append(row, make([]string, 9)...)
			} else {
				for _, v := range []float64{o.Mean.Value, o.Mean.Interval.Low, o.Mean.Interval.High, o.Next.Low, o.Next.High, o.Between.Value, o.Between.Interval.Low, o.Between.Interval.High, o.Within} {
					row = append(row, number(v))
				}
			}
			return append(row, verdict, "", "", "")
		}
		rows = append(rows, line("fleet", "", c.counted(), c.All, string(c.Verdict)))
		for _, g := range c.Groups {
			rows = append(rows, line("group", g.Group, g.Machines, g.Over, ""))
		}
		for _, v := range c.Values {
			rows = append(rows, []string{"machine", v.Group, v.Machine, runs[v.Machine], c.Group, c.Target, c.Metric.Name, string(c.Metric.Better), "1", strconv.Itoa(c.Of),
				number(v.Ratio), number(v.Low), number(v.High), "", "", "", "", "", "", string(verdictOf(v)), number(v.Score), number(v.P), v.Refused})
		}
	}
	return rows
}

func verdictOf(v MachineValue) analysis.Verdict {
	if !counts(v) {
		return analysis.NotComparable
	}
	return v.Verdict
}
