package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// Verdict is what may be said of a cell over machines.
type Verdict string

// The verdicts.
const (
	Everywhere    Verdict = "differs everywhere"     // the next machine's interval lies beyond the margin
	OnAverage     Verdict = "differs on average"     // the mean's interval lies on one side of 1
	SameThere     Verdict = "same everywhere"        // the next machine's 90 % interval lies within the margin
	Depends       Verdict = "depends on the machine" // machines scatter, and disagree on the side
	Open          Verdict = "open"                   // nothing of this is shown
	NotComparable Verdict = "not comparable"         // fewer than three machines count
)

// Verdicts lists them in the order of display.
func Verdicts() []Verdict {
	return []Verdict{Everywhere, OnAverage, SameThere, Depends, Open, NotComparable}
}

// alpha is the error of what is corrected for its number: unlike machines and groups.
const alpha = 0.05

// Report is what a fleet says. Ratios are to each machine's own control.
type Report struct {
	Format   string       `json:"format"`  // always "tare-fleet"
	Version  int          `json:"version"` // of this format
	Study    string       `json:"study"`
	Title    string       `json:"title"`
	Question string       `json:"question"`
	Control  string       `json:"control"`
	Margin   float64      `json:"margin"` // as a ratio minus 1
	Machines []Machine    `json:"machines"`
	LeftOut  []LeftOut    `json:"leftOut,omitempty"`
	GroupBy  []string     `json:"groupBy"` // facts
	Groups   []Group      `json:"groups"`
	Cells    []Cell       `json:"cells"`
	Differ   []Difference `json:"differ,omitempty"` // facts that differ
	Warnings []string     `json:"warnings,omitempty"`
}

// Group is machines that share the facts of Report.GroupBy.
type Group struct {
	Name     string   `json:"name"`            // "group 1"; "all" where there is one
	Facts    string   `json:"facts,omitempty"` // in which groups differ
	Machines []string `json:"machines"`
}

// Difference is a fact that machines do not share.
type Difference struct {
	Fact   string       `json:"fact"`
	Values []FactValues `json:"values"` // the most frequent first
}

// FactValues is one value of a fact and who has it.
type FactValues struct {
	Value    string   `json:"value"`
	Machines []string `json:"machines"`
}

// Cell is one target in one group of a study, over machines.
type Cell struct {
	Group    string         `json:"group"`
	Target   string         `json:"target"`
	Metric   sample.Metric  `json:"metric"`
	Of       int            `json:"of"` // machines of the fleet; Values are of those that have the cell
	Values   []MachineValue `json:"values"`
	All      *Over          `json:"all,omitempty"`     // nil below three machines
	Refused  *Over          `json:"refused,omitempty"` // with the machines whose runs are refused; nil where none are
	Without  *Over          `json:"without,omitempty"` // without the machines that are unlike; nil where none are
	Groups   []GroupOver    `json:"groups,omitempty"`  // none where all machines are of one group
	Contrast []Contrast     `json:"contrasts,omitempty"`
	Verdict  Verdict        `json:"verdict"`
	// Word is the direction of a verdict that has one: slower, faster, more or less.
	Word analysis.Verdict `json:"word,omitempty"`
	Why  string           `json:"why"`
	// Wanted is how many machines would bring the mean's interval within the margin to
	// either side; 0 where it is already, or 1,000 would not do.
	Wanted int `json:"wanted,omitempty"`
}

// MachineValue is what one machine says of a cell.
type MachineValue struct {
	Machine string           `json:"machine"`
	Group   string           `json:"group"`
	Ratio   float64          `json:"ratio"`
	Low     float64          `json:"low"`
	High    float64          `json:"high"`
	Verdict analysis.Verdict `json:"verdict"`
	Refused string           `json:"refused,omitempty"` // why it does not count
	Score   float64          `json:"score"`             // distance from what the others foresee; 0 below four machines
	P       float64          `json:"p"`                 // of that distance, corrected for machines and cells; 1 below four machines
	Unlike  bool             `json:"unlike,omitempty"`  // P is at most 5 %
	log, se float64
}

// Over is stats.Machines as ratios.
type Over struct {
	Machines int             `json:"machines"`
	Mean     stats.Estimate  `json:"mean"`
	Next     stats.Interval  `json:"next"`
	Next90   stats.Interval  `json:"next90"`
	Median   *stats.Estimate `json:"median,omitempty"`
	Range    stats.Interval  `json:"range"`
	Between  stats.Estimate  `json:"between"` // a standard deviation, as a ratio minus 1
	Within   float64         `json:"within"`  // the same of one machine's value about its truth
	raw      stats.Machines
}

// GroupOver is one group's machines in a cell.
type GroupOver struct {
	Group    string `json:"group"`
	Machines int    `json:"machines"`
	Over     *Over  `json:"over,omitempty"` // nil below three machines
}

// Contrast is the difference of two groups in a cell. It is an association: machines of
// two groups differ in more than the group's facts.
type Contrast struct {
	A       string         `json:"a"`
	B       string         `json:"b"`
	Ratio   float64        `json:"ratio"` // of B's mean to A's
	Bounds  stats.Interval `json:"interval"`
	P       float64        `json:"p"` // corrected for all contrasts of the report (Holm)
	Differs bool           `json:"differs"`
}

// GroupFacts is what machines are grouped by unless the user says.
func GroupFacts() []string { return []string{"arch", "cpu", "kernel", "virtualization", "cgroup"} }

// factNames are those that machines may be grouped by.
func factNames(runs []Machine) []string {
	seen := map[string]bool{}
	var names []string
	for _, m := range runs {
		for _, f := range m.Facts {
			if !seen[f.Name] {
				seen[f.Name] = true
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// Analyze says what runs of one study say together; by are the facts to group by.
func Analyze(runs []Machine, margin float64, by []string) Report {
	c := choose(runs)
	r := Report{Format: "tare-fleet", Version: 1, Margin: margin, Machines: c.machines, LeftOut: c.left, GroupBy: by, Differ: differ(c.machines), Warnings: c.warnings}
	group := r.group()
	order, cells := []cellName{}, map[cellName]*Cell{}
	for _, m := range c.machines {
		for _, v := range m.values {
			cell := cells[v.cell]
			if cell == nil {
				cell = &Cell{Group: v.cell.group, Target: v.cell.target, Metric: v.metric, Of: len(c.machines)}
				cells[v.cell] = cell
				order = append(order, v.cell)
			}
			cell.Values = append(cell.Values, MachineValue{Machine: m.Name, Group: group[m.Name], Ratio: stats.Ratio(v.log), Low: stats.Ratio(v.low), High: stats.Ratio(v.high),
				Verdict: v.verdict, Refused: v.refused, P: 1, log: v.log, se: v.se})
		}
	}
	for _, name := range order {
		cell := cells[name]
		cell.analyze(r, len(order))
		r.Cells = append(r.Cells, *cell)
	}
	r.contrasts()
	if n := len(c.machines); n < stats.MinimumMachines {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: a mean over machines needs %d", quantity.Count(n, "machine"), stats.MinimumMachines))
	}
	return r
}

// group sorts the machines into groups, and gives the name of each machine's group.
func (r *Report) group() map[string]string {
	var vary []string
	for _, name := range r.GroupBy {
		values := map[string]bool{}
		for _, m := range r.Machines {
			values[m.fact(name)] = true
		}
		if len(values) > 1 {
			vary = append(vary, name)
		}
	}
	members := map[string][]string{} // by their facts
	for _, m := range r.Machines {
		var parts []string
		for _, name := range vary {
			parts = append(parts, name+" "+cmp.Or(m.fact(name), "not known"))
		}
		facts := strings.Join(parts, ", ")
		members[facts] = append(members[facts], m.Name)
	}
	of := map[string]string{}
	for i, facts := range slices.Sorted(maps.Keys(members)) {
		name := "all"
		if len(members) > 1 {
			name = fmt.Sprintf("group %d", i+1)
		}
		r.Groups = append(r.Groups, Group{name, facts, members[facts]})
		for _, m := range members[facts] {
			of[m] = name
		}
	}
	return of
}

// differ lists the facts that machines do not share.
func differ(machines []Machine) []Difference {
	var out []Difference
	facts := make([]map[string]string, len(machines)) // a foreign machine may have thousands
	for i, m := range machines {
		facts[i] = make(map[string]string, len(m.Facts))
		for _, f := range slices.Backward(m.Facts) { // the first of a name counts, as for fact
			facts[i][f.Name] = f.Value
		}
	}
	for _, name := range factNames(machines) {
		who := map[string][]string{}
		for i, m := range machines {
			v := facts[i][name]
			who[v] = append(who[v], m.Name)
		}
		if len(who) < 2 {
			continue
		}
		d := Difference{Fact: name}
		for _, v := range slices.Sorted(maps.Keys(who)) {
			d.Values = append(d.Values, FactValues{v, who[v]})
		}
		slices.SortStableFunc(d.Values, func(a, b FactValues) int { return len(b.Machines) - len(a.Machines) })
		out = append(out, d)
	}
	return out
}

// over analyses the values that take picks; nil below three.
func over(values []MachineValue, take func(MachineValue) bool) *Over {
	var logs, errors []float64
	for _, v := range values {
		if take(v) {
			logs, errors = append(logs, v.log), append(errors, v.se)
		}
	}
	m, ok := stats.OverMachines(logs, errors)
	if !ok {
		return nil
	}
	ratio := func(e stats.Estimate) stats.Estimate {
		return stats.Estimate{Value: stats.Ratio(e.Value), Interval: stats.Exponential(e.Interval)}
	}
	o := &Over{Machines: m.K, Mean: ratio(m.Mean), Next: stats.Exponential(m.Next), Next90: stats.Exponential(m.Next90), Range: stats.Exponential(m.Range), Within: stats.FromLog(m.Within), raw: m}
	o.Between = ratio(m.Between)
	o.Between.Value--
	o.Between.Interval.Low--
	o.Between.Interval.High--
	if m.Median != nil {
		median := ratio(*m.Median)
		o.Median = &median
	}
	return o
}

func counts(v MachineValue) bool { return v.Refused == "" }

// analyze fills a cell; all is how many cells the report has.
func (c *Cell) analyze(r Report, all int) {
	c.All = over(c.Values, counts)
	c.unlike(all)
	if slices.ContainsFunc(c.Values, func(v MachineValue) bool { return v.Unlike }) {
		c.Without = over(c.Values, func(v MachineValue) bool { return counts(v) && !v.Unlike })
	}
	if slices.ContainsFunc(c.Values, func(v MachineValue) bool { return !counts(v) }) {
		c.Refused = over(c.Values, func(MachineValue) bool { return true })
	}
	if len(r.Groups) > 1 {
		for _, g := range r.Groups {
			c.Groups = append(c.Groups, GroupOver{Group: g.Name, Machines: len(c.logsOf(g.Name)),
				Over: over(c.Values, func(v MachineValue) bool { return counts(v) && v.Group == g.Name })})
		}
	}
	c.judge(math.Log1p(r.Margin))
}

// unlike names the machines that the others do not foresee, at an error of 5 % over all
// machines and cells.
func (c *Cell) unlike(cells int) {
	var at []int
	var logs []float64
	for i, v := range c.Values {
		if counts(v) {
			at, logs = append(at, i), append(logs, v.log)
		}
	}
	for _, u := range stats.LeaveOneOut(logs) {
		v := &c.Values[at[u.Machine]]
		v.Score, v.P = u.Score, min(1, u.P*float64(cells))
		v.Unlike = v.P <= alpha
	}
}

// judge gives the verdict, with a margin as a log ratio.
func (c *Cell) judge(margin float64) {
	if c.All == nil {
		c.Verdict, c.Why = NotComparable, fmt.Sprintf("%s of %d count, and a mean needs %d", quantity.Count(c.counted(), "machine"), c.Of, stats.MinimumMachines)
		return
	}
	m := c.All.raw
	word := analysis.Directed(c.Metric, m.Mean.Value > 0)
	up, down := c.sides()
	mean := m.Mean.Interval
	switch {
	case m.Next.Low > margin || m.Next.High < -margin:
		c.Verdict, c.Word, c.Why = Everywhere, word, "the interval of the next machine lies beyond the margin"
	case m.Next90.Low > -margin && m.Next90.High < margin:
		c.Verdict, c.Why = SameThere, "the 90 % interval of the next machine lies within the margin"
	case m.Between.Interval.Low > 0 && up > 0 && down > 0:
		c.Verdict, c.Why = Depends, fmt.Sprintf("machines scatter more than their own noise explains: %d show a higher value than their control, %d a lower one", up, down)
	case mean.Low > 0 || mean.High < 0:
		c.Verdict, c.Word, c.Why = OnAverage, word, "the interval of the mean lies on one side of 1, and that of the next machine does not"
		if math.Abs(m.Mean.Value) < margin {
			c.Why = "the mean differs, by less than the margin"
		}
	default:
		c.Verdict, c.Why = Open, "the interval of the mean holds 1, and that of the next machine leaves the margin"
	}
	if (mean.High-mean.Low)/2 > margin {
		c.Wanted = stats.MachinesFor(m.Scatter, margin)
	}
}

// sides counts the machines whose own runs show a difference, by its side.
func (c *Cell) sides() (up, down int) {
	for _, v := range c.Values {
		switch {
		case !counts(v) || !v.Verdict.Shown():
		case v.log > 0:
			up++
		default:
			down++
		}
	}
	return up, down
}

// contrasts compares the groups that have three machines or more, cell by cell.
func (r *Report) contrasts() {
	var p []float64
	var to []*Contrast
	for i := range r.Cells {
		c := &r.Cells[i]
		var full []string
		for _, g := range c.Groups {
			if g.Over != nil {
				full = append(full, g.Group)
			}
		}
		for a := range full {
			for b := a + 1; b < len(full); b++ {
				d, one := stats.Groups(c.logsOf(full[a]), c.logsOf(full[b]))
				c.Contrast = append(c.Contrast, Contrast{A: full[a], B: full[b], Ratio: stats.Ratio(d.Value), Bounds: stats.Exponential(d.Interval)})
				p = append(p, one)
			}
		}
	}
	for i := range r.Cells {
		for j := range r.Cells[i].Contrast {
			to = append(to, &r.Cells[i].Contrast[j])
		}
	}
	for i, adjusted := range stats.Holm(p) {
		to[i].P, to[i].Differs = adjusted, adjusted <= alpha
	}
}

func (c *Cell) logsOf(group string) (logs []float64) {
	for _, v := range c.Values {
		if counts(v) && v.Group == group {
			logs = append(logs, v.log)
		}
	}
	return logs
}
