package interference

import (
	"reflect"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// description is what neighbours take, and what knobs give back.
type description struct {
	Alone     string `json:"alone"`               // the level without neighbours
	Losses    []loss `json:"losses"`              // next to neighbours that no knob holds
	Relief    []loss `json:"relief"`              // the same with a knob
	Scheduler string `json:"scheduler,omitempty"` // a BPF scheduler that ran
}

// loss is one workload on one target at a level with neighbours, against the level
// without.
type loss struct {
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Level    string `json:"level"`
	Noise    string `json:"noise"` // the level with the same neighbours and no knob
	Kind     string `json:"kind"`  // what they run
	// Kept is the part of its speed alone that the workload has.
	Kept     float64          `json:"kept"`
	Interval stats.Interval   `json:"interval"`
	Verdict  analysis.Verdict `json:"verdict"`
	// Given is its speed against that at Noise, and Neighbours what the neighbours then
	// do against that at Noise; 0 without a knob.
	Given           float64          `json:"given,omitempty"`
	GivenInterval   stats.Interval   `json:"givenInterval,omitzero"`
	GivenVerdict    analysis.Verdict `json:"givenVerdict,omitempty"`
	Neighbours      float64          `json:"neighbours,omitempty"`
	NeighboursRange stats.Interval   `json:"neighboursInterval,omitzero"`
}

// refused reports whether nothing is claimed of a loss.
func (l loss) refused() bool { return l.Verdict == analysis.NotComparable }

// knobless is a level without anything but its neighbours; those may be any number.
func knobless(l study.Environment) bool {
	load := study.Load{}
	if l.Load != nil {
		load = study.Load{Kind: l.Load.Kind, Params: l.Load.Params, Instances: l.Load.Instances, Target: l.Load.Target}
	}
	bare := study.Environment{Name: l.Name, Same: l.Same}
	if l.Load != nil {
		bare.Load = &load
	}
	return reflect.DeepEqual(l, bare)
}

// noiseOf is the first level with the same kind of neighbours and no knob; "" for none.
func noiseOf(l study.Environment, levels []study.Environment) string {
	i := slices.IndexFunc(levels, func(o study.Environment) bool {
		return l.Load != nil && o.Load != nil && o.Load.Kind == l.Load.Kind && knobless(o)
	})
	if i < 0 {
		return ""
	}
	return levels[i].Name
}

// describe compares the levels with neighbours with the first one that has none, and
// those with a knob with those without.
func describe(in analysis.Input, tables []analysis.Table, levels []study.Environment) description {
	var d description
	noise, kind := map[string]string{}, map[string]string{}
	alone := slices.IndexFunc(levels, func(l study.Environment) bool { return l.Load == nil && knobless(l) })
	if alone < 0 {
		return d
	}
	d.Alone = levels[alone].Name
	for _, l := range levels {
		if l.Load != nil {
			noise[l.Name], kind[l.Name] = noiseOf(l, levels), l.Load.Kind
		}
	}
	relief := in.Levels(tables, func(c study.Cell) (string, bool) {
		from := noise[c.Environment]
		return from, from != "" && from != c.Environment
	})
	for _, level := range in.Levels(tables, func(c study.Cell) (string, bool) { return d.Alone, kind[c.Environment] != "" }) {
		c, e := level.Cell, level.Contrast.Effect()
		one := loss{Target: c.Target, Workload: c.Workload, Level: c.Environment, Noise: noise[c.Environment], Kind: kind[c.Environment],
			Kept: speed(e.Ratio, level.Metric), Interval: speeds(e.Interval, level.Metric), Verdict: e.Verdict}
		i := slices.IndexFunc(relief, func(r analysis.Level) bool { return r.Cell.ID == c.ID })
		if i < 0 {
			d.Losses = append(d.Losses, one)
			continue
		}
		r := relief[i].Contrast.Effect()
		one.Given, one.GivenInterval, one.GivenVerdict = speed(r.Ratio, level.Metric), speeds(r.Interval, level.Metric), r.Verdict
		to := relief[i].Base
		n := in.Contrast(tables, analysis.Place{Cell: c.ID, Group: c.Group, Metric: sample.BesideRate}, analysis.Place{Cell: to.ID, Group: to.Group, Metric: sample.BesideRate}).Described()
		if n != nil && n.Verdict != analysis.NotComparable && r.Verdict != analysis.NotComparable {
			one.Neighbours, one.NeighboursRange = n.Ratio, n.Interval
		}
		d.Relief = append(d.Relief, one)
	}
	return d
}

// speed is a ratio as a ratio of speeds: of a time it is the inverse.
func speed(ratio float64, m sample.Metric) float64 {
	if m.Better == sample.Lower && ratio > 0 {
		return 1 / ratio
	}
	return ratio
}

func speeds(i stats.Interval, m sample.Metric) stats.Interval {
	if m.Better == sample.Lower && i.Low > 0 {
		i.Low, i.High = 1/i.High, 1/i.Low
	}
	return i
}

// worst is the largest certain loss next to each kind of neighbours, and best the knob that
// certainly gives most back to that workload on that target; ok is false for none.
func (d description) best(of loss) (best loss, ok bool) {
	for _, r := range d.Relief {
		if r.Target == of.Target && r.Workload == of.Workload && r.Noise == of.Level && r.GivenVerdict == analysis.Faster && !r.refused() && (!ok || r.Kept > best.Kept) {
			best, ok = r, true
		}
	}
	return best, ok
}

// undecided are how many comparisons at a level there are, and how many of them are open
// and refused.
func (d description) undecided(level string) (all, open, refused int) {
	for _, l := range d.Losses {
		switch {
		case l.Level != level:
			continue
		case l.refused():
			refused++
		case l.Verdict == analysis.Open || l.Verdict == "": // with too few blocks there is none
			open++
		}
		all++
	}
	return all, open, refused
}

func (d description) worst(level string) (worst loss, ok bool) {
	for _, l := range d.Losses {
		if l.Level == level && l.Verdict == analysis.Slower && (!ok || l.Kept < worst.Kept) {
			worst, ok = l, true
		}
	}
	return worst, ok
}

// noises are the levels without a knob, in order.
func (d description) noises() []string {
	var names []string
	for _, l := range d.Losses {
		if !slices.Contains(names, l.Level) {
			names = append(names, l.Level)
		}
	}
	return names
}
