package lab

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/study"
)

// Factor is what a plan's parts differ in.
type Factor string

// The factors whose parts can be left out of a run.
const (
	ByWorkload  Factor = "workload"
	ByTarget    Factor = "target"
	ByInstances Factor = "instances"
	ByProbe     Factor = "probe"
)

// Part is how long all trials take that have one value of a factor; of a run with a
// budget, those that this has room for.
type Part struct {
	Factor Factor
	Name   string // of the workload, target, probe, or the number of instances
	Time   time.Duration
}

// Parts are those of all factors that have more than one value, and the probes: in the
// order of the factors above, the longest first in each. Controls and their twins are in
// no part of ByTarget, because they are measured with every choice of targets.
func (p *Plan) Parts() []Part {
	var all []Part
	for _, factor := range []Factor{ByWorkload, ByTarget, ByInstances, ByProbe} {
		parts := p.partsBy(factor)
		if len(parts) < 2 && factor != ByProbe {
			continue
		}
		slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Time, a.Time) })
		all = append(all, parts...)
	}
	return all
}

// valueOf is a cell's value of a factor, as the factor's flag takes it; "" for none.
func valueOf(c study.Cell, factor Factor) string {
	switch factor {
	case ByWorkload:
		return c.Workload
	case ByTarget:
		return c.Target
	case ByInstances:
		if c.Limits.Network != nil {
			return strconv.Itoa(max(2, c.Limits.Network.Containers))
		}
		return strconv.Itoa(c.Copies)
	}
	return c.Probe
}

// ownInstances reports whether a workload has numbers of instances of its own, which are
// not those that the factor's flag chooses among.
func (p *Plan) ownInstances(workload string) bool {
	return slices.ContainsFunc(p.Manifest.Study.Workloads, func(w study.Workload) bool { return w.Name == workload && len(w.Copies) > 0 })
}

func (p *Plan) partsBy(factor Factor) []Part {
	var parts []Part
	done, spent := p.Run.Done(), time.Duration(0)
	expected := make([]time.Duration, len(p.Manifest.Cells))
	for i, c := range p.Manifest.Cells {
		expected[i] = p.expected(c)
	}
	for _, t := range p.trials {
		if done[t.Seq] {
			continue
		}
		if spent += expected[t.Cell]; p.Manifest.Study.Budget > 0 && spent > p.Estimate {
			break // the budget ends the run
		}
		cell := p.Manifest.Cells[t.Cell]
		name := valueOf(cell, factor)
		if name == "" || factor == ByTarget && (cell.Control || cell.AA) || factor == ByInstances && p.ownInstances(cell.Workload) {
			continue
		}
		at := slices.IndexFunc(parts, func(part Part) bool { return part.Name == name })
		if at < 0 {
			at, parts = len(parts), append(parts, Part{Factor: factor, Name: name})
		}
		parts[at].Time += expected[t.Cell]
	}
	return parts
}
