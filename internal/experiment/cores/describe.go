package cores

import (
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// The arms of the system calls (study.yaml).
const (
	onlyOne = "syscalls-one"
	ownFile = "syscalls-own"
	oneFile = "syscalls-shared"
)

// The levels that differ in their memory alone.
const (
	near = "node-near"
	far  = "node-far"
)

// description is how work grows with the CPUs.
type description struct {
	Most   int     `json:"most"`  // CPUs of the largest level
	Least  int     `json:"least"` // of the smallest
	Curves []curve `json:"curves"`
	Causes []cause `json:"causes,omitempty"` // of what system calls lose at the largest level
	Nodes  []step  `json:"nodes,omitempty"`  // memory of another NUMA node against that of the own
	// Refused are the comparisons of which nothing is claimed, with the reason.
	Refused []refusal `json:"refused,omitempty"`
}

// refusal is why nothing is claimed of something.
type refusal struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// refuses reports whether nothing may be claimed of an effect, and notes why.
func (d *description) refuses(what string, e *analysis.Effect) bool {
	if e.Verdict != analysis.NotComparable {
		return false
	}
	if r := (refusal{what, e.Why}); !slices.Contains(d.Refused, r) {
		d.Refused = append(d.Refused, r)
	}
	return true
}

// curve is one workload on one target over the CPUs.
type curve struct {
	Target   string        `json:"target"`
	Workload string        `json:"workload"`
	Metric   sample.Metric `json:"metric"`
	Points   []point       `json:"points"`
	// USL is the law of scalability by the speeds against the smallest level, nil below
	// three numbers of CPUs.
	USL *stats.USL `json:"usl,omitempty"`
}

// point is one number of CPUs. Speed is against the smallest level.
type point struct {
	CPUs     int              `json:"cpus"`            // hardware threads
	Cores    int              `json:"cores,omitempty"` // that these belong to; 0 where that is not known
	Level    string           `json:"level"`
	Rate     float64          `json:"rate"` // median over blocks, in the metric's unit
	Speed    float64          `json:"speed"`
	Interval stats.Interval   `json:"interval"`
	Verdict  analysis.Verdict `json:"verdict,omitempty"`
}

// refused reports whether nothing is claimed of a point against the smallest level.
func (p point) refused() bool { return p.Verdict == analysis.NotComparable }

// step is one workload on one target, one way against another.
type step struct {
	Target   string         `json:"target"`
	Workload string         `json:"workload"`
	Ratio    float64        `json:"ratio,omitempty"` // of speeds
	Interval stats.Interval `json:"interval"`
}

// cause is what the arms of the system calls show at the largest level: Alone is one
// process there against the smallest level, Each is the speed of each of many processes,
// each on its own file, against one process there, and File is all of them on one open
// file against that.
type cause struct {
	Target string `json:"target"`
	Alone  step   `json:"alone"`
	Each   step   `json:"each"`
	File   step   `json:"file"`
}

// sized are the levels that take the first CPUs, by their number.
func sized(levels []study.Environment, cpus map[string]hostinfo.CPUs) []study.Environment {
	out := slices.DeleteFunc(slices.Clone(levels), func(l study.Environment) bool {
		return l.Mems != "" || l.Load != nil || l.CPUs > 0 || cpus[l.Name].Threads == 0
	})
	slices.SortStableFunc(out, func(a, b study.Environment) int { return cpus[a.Name].Threads - cpus[b.Name].Threads })
	return out
}

// describe is a run's curves and what its arms show.
func describe(in analysis.Input, tables []analysis.Table, environments []study.Environment, cpus map[string]hostinfo.CPUs) description {
	var d description
	levels := sized(environments, cpus)
	if len(levels) < 2 {
		return d
	}
	first, last := levels[0], levels[len(levels)-1]
	d.Least, d.Most = cpus[first.Name].Threads, cpus[last.Name].Threads
	grown := in.Levels(tables, func(c study.Cell) (string, bool) {
		return first.Name, slices.ContainsFunc(levels, func(l study.Environment) bool { return l.Name == c.Environment })
	})
	for _, level := range grown {
		c := level.Cell
		i := slices.IndexFunc(d.Curves, func(o curve) bool { return o.Target == c.Target && o.Workload == c.Workload })
		if i < 0 {
			i = len(d.Curves)
			one := point{CPUs: d.Least, Cores: cpus[first.Name].Cores, Level: first.Name, Rate: in.Summary(level.Base.ID, level.Metric.Name).Median, Speed: 1, Interval: stats.None(1)}
			d.Curves = append(d.Curves, curve{Target: c.Target, Workload: c.Workload, Metric: level.Metric, Points: []point{one}})
		}
		e := level.Contrast.Effect()
		d.refuses(c.Workload+" in "+c.Target, e)
		d.Curves[i].Points = append(d.Curves[i].Points, point{CPUs: cpus[c.Environment].Threads, Cores: cpus[c.Environment].Cores, Level: c.Environment,
			Rate: in.Summary(c.ID, level.Metric.Name).Median, Speed: e.Ratio, Interval: e.Interval, Verdict: e.Verdict})
	}
	for i := range d.Curves {
		d.Curves[i].USL = fit(in, d.Curves[i], first.Name)
	}
	d.causes(in, tables, first.Name, last.Name)
	for _, level := range in.Levels(tables, func(c study.Cell) (string, bool) { return near, c.Environment == far }) {
		if e := level.Contrast.Effect(); !d.refuses(level.Cell.Workload+" in "+level.Cell.Target+" on another NUMA node", e) {
			d.Nodes = append(d.Nodes, step{level.Cell.Target, level.Cell.Workload, e.Ratio, e.Interval})
		}
	}
	return d
}

// cellOf is the cell of a workload on a target at a level; an empty one for none.
func cellOf(in analysis.Input, target, workload, level string) study.Cell {
	i := slices.IndexFunc(in.Cells, func(c study.Cell) bool {
		return c.Target == target && c.Workload == workload && c.Environment == level && !c.AA && c.Probe == ""
	})
	if i < 0 {
		return study.Cell{}
	}
	return in.Cells[i]
}

// fit is the law over a curve's levels; nil where they are too few, or one is refused.
func fit(in analysis.Input, c curve, first string) *stats.USL {
	base := cellOf(in, c.Target, c.Workload, first).ID
	var levels []stats.Level
	for _, p := range c.Points {
		if p.refused() {
			return nil
		}
		s := in.Relative(cellOf(in, c.Target, c.Workload, p.Level).ID, base, c.Metric.Name)
		levels = append(levels, stats.Level{N: float64(p.CPUs), Values: s.Values(), Blocks: s.Blocks()})
	}
	law, err := stats.FitUSL(levels, in.Seed)
	if err != nil {
		return nil // fewer than three numbers of CPUs
	}
	return &law
}

// causes adds those that the arms of the system calls show on each target, where no table
// refuses one of the arms.
func (d *description) causes(in analysis.Input, tables []analysis.Table, first, last string) {
	for _, c := range d.Curves {
		if c.Workload != oneFile {
			continue
		}
		place := func(workload, level string) analysis.Place {
			cell := cellOf(in, c.Target, workload, level)
			return analysis.Place{Cell: cell.ID, Group: cell.Group, Metric: c.Metric.Name}
		}
		against := func(workload, level, to, at string, factor float64) step {
			e := in.Contrast(tables, place(workload, level), place(to, at)).Described()
			if e == nil || d.refuses("the causes in "+c.Target, e) {
				return step{}
			}
			return step{c.Target, workload, e.Ratio * factor, stats.Scaled(e.Interval, factor)}
		}
		one := cause{Target: c.Target, Alone: against(onlyOne, last, onlyOne, first, 1),
			Each: against(ownFile, last, onlyOne, last, 1/float64(d.Most)), File: against(oneFile, last, ownFile, last, 1)}
		if one.Alone.Ratio > 0 && one.Each.Ratio > 0 && one.File.Ratio > 0 {
			d.Causes = append(d.Causes, one)
		}
	}
}
