package vmmcompare

import (
	"maps"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/claim"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/stats"
)

// claims judges what the publication concludes, and asks of this machine what it can
// answer: the quotients of StratoVirt and QEMU with one machine type.
func (c *comparison) claims(d *source) ([]finding.Claim, error) {
	all, err := claim.Read(claimsFile, publishedCells(d))
	if err != nil {
		return nil, err
	}
	var targets []claim.Target
	for _, p := range c.Pairs {
		targets = append(targets, claim.Target{Name: p.StratoVirt, Cells: c.cells(p)})
	}
	for _, target := range c.Targets { // what it says of itself needs no other
		monitor, machine, _ := strings.Cut(target, "/")
		paired := slices.ContainsFunc(c.Pairs, func(p pair) bool { return p.Machine == machine })
		if cells := c.own(target, monitor); len(cells) > 0 && !paired {
			targets = append(targets, claim.Target{Name: target, Cells: claim.Of(cells)})
		}
	}
	return all.Judge(nil, targets...), nil
}

// own are the quotients of two workloads on one target, as a monitor's.
func (c *comparison) own(target, monitor string) map[string]claim.Value {
	values := map[string]claim.Value{}
	for _, w := range within {
		e, ok := c.withins[withinOf{target, w}]
		if !ok {
			continue
		}
		v := claim.Value{Estimate: stats.Estimate{Value: e.Ratio, Interval: e.Interval}, Refused: e.Verdict == analysis.NotComparable}
		if c.Accels[target] == emulatedCPU {
			v.Doubtful, v.Notes = true, []string{target + " was emulated"}
		}
		values[cellOf(monitor, w.workload, w.metric)+" / "+cellOf(monitor, w.by, w.metric)] = v
	}
	return values
}

// cellOf names a monitor's metric of a workload.
func cellOf(monitor, workload, metric string) string { return monitor + "." + workload + "." + metric }

// publishedCells are the published means. What the source cut to 0 is none.
func publishedCells(d *source) map[string]float64 {
	cells := map[string]float64{}
	for _, r := range publishedRows(d) {
		for monitor, v := range map[string]float64{"stratovirt": r.stratovirt, "qemu": r.qemu} {
			if v > 0 {
				cells[cellOf(monitor, r.workload, r.metric.Name)] = v
			}
		}
	}
	for i, b := range publishedBoots(d) {
		monitor := []string{"stratovirt", "qemu"}[i]
		for _, p := range b.Phases {
			cells[cellOf(monitor, bootWorkload, p.Name)] = p.Seconds
		}
		cells[cellOf(monitor, bootWorkload, "total")] = b.Total.Value
	}
	return cells
}

// cells are a pair's quotients, StratoVirt by QEMU and the other way round. Those of a
// pair that is not compared are refused.
func (c *comparison) cells(p pair) claim.Cells {
	values := c.own(p.StratoVirt, "stratovirt")
	maps.Copy(values, c.own(p.QEMU, "qemu"))
	add := func(workload, metric string, ratios map[string]analysis.Effect) {
		e, ok := ratios[p.Machine]
		if !ok && p.Refused == "" {
			return
		}
		s, q := cellOf("stratovirt", workload, metric), cellOf("qemu", workload, metric)
		v := claim.Value{Estimate: stats.Estimate{Value: e.Ratio, Interval: e.Interval}, Refused: !ok || e.Verdict == analysis.NotComparable}
		if !ok {
			v = claim.Value{Refused: true, Notes: []string{p.Refused}}
		}
		values[s+" / "+q], values[q+" / "+s] = v, inverse(v)
	}
	for _, r := range c.Rows {
		add(r.workload, r.Metric.Name, r.Ratios)
	}
	add(bootWorkload, "kernel", c.kernels)
	add(bootWorkload, "userspace", c.userspaces)
	add(bootWorkload, "total", c.totals)
	return claim.Of(values)
}

// inverse is a quotient the other way round.
func inverse(v claim.Value) claim.Value {
	if v.Value > 0 && v.Interval.Low > 0 {
		v.Value, v.Interval.Low, v.Interval.High = 1/v.Value, 1/v.Interval.High, 1/v.Interval.Low
	}
	return v
}
