package containerload

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tarelab/tare/internal/stats"
)

// usage is what one container used during one interval. A number that the machine
// does not account is -1.
type usage struct {
	At       float64 `json:"at"`       // seconds since the watch began
	CPU      float64 `json:"cpu"`      // CPUs: 1 is one all the time
	Memory   float64 `json:"memory"`   // bytes
	Load     float64 `json:"load"`     // processes that run, or wait for a CPU or a disk
	Read     float64 `json:"read"`     // bytes a second of block devices, as Written
	Written  float64 `json:"written"`  //
	Received float64 `json:"received"` // bytes a second of its network, as Sent
	Sent     float64 `json:"sent"`     //
}

// numbers are those of a usage but its time, in one order.
func (u *usage) numbers() []*float64 {
	return []*float64{&u.CPU, &u.Memory, &u.Load, &u.Read, &u.Written, &u.Received, &u.Sent}
}

// trial is one trial whose containers were watched.
type trial struct {
	Target     string // "" for containers that nobody's trial started
	Containers []watched
}

// watched is one container over time, without its readings: a trial may have many.
type watched struct {
	ID         string // the same in all trials of a target
	Name       string
	Mean, Peak usage
	Points     []usage // the curve, see thinned; nil where a later trial's is drawn
}

// reduced is what is kept of a container's readings.
func reduced(id, name string, readings []usage) watched {
	return watched{id, name, summary(readings, stats.Mean), summary(readings, slices.Max[[]float64]), thinned(readings)}
}

// description are containers over time.
type description struct {
	// Citation is of the published load that this one is after; "" for another.
	Citation string      `json:"citation,omitempty"`
	Curves   []curve     `json:"curves"` // of the last trial of each target, those that use most CPU time
	Peaks    []peaks     `json:"peaks"`
	Shown    *shownPeaks `json:"published,omitempty"`
}

// curve is one container in one trial.
type curve struct {
	Target    string  `json:"target"`
	ID        string  `json:"id"`
	Container string  `json:"container"`
	Points    []usage `json:"points"` // means of stretches, at most mostPoints
}

// peaks are the largest readings of one container, each the median over the
// trials; its means beside them. Unknown numbers are -1.
type peaks struct {
	Target    string `json:"target"`
	ID        string `json:"id"`
	Container string `json:"container"`
	Trials    int    `json:"trials"`
	Mean      usage  `json:"mean"`
	Peak      usage  `json:"peak"`
}

// shownPeaks are those of the published load, in this package's units.
type shownPeaks struct {
	Minutes    int     `json:"minutes"`
	PackageCPU float64 `json:"packageCPU"` // CPUs
	LateCPU    float64 `json:"lateCPU"`    // CPUs
	Read       float64 `json:"read"`       // bytes a second
	Written    float64 `json:"written"`    // bytes a second
}

// mostPoints is how many points a curve has at most, and mostDrawn how many
// curves a target.
const (
	mostPoints = 150
	mostDrawn  = 6
)

// describe describes trials whose containers were watched, in the order of targets
// and of the containers' first appearance. It claims nothing: what may be claimed
// are the ratios of the trials' means, which the tables have. d is the publication
// of the load that was measured, nil for none.
func describe(trials []trial, d *source) *description {
	c := &description{}
	if d != nil {
		c.Citation = d.Citation
		c.Shown = &shownPeaks{Minutes: d.Minutes, PackageCPU: d.PackageCPU / 100, LateCPU: d.LateCPU / 100, Read: d.Read * 1e6, Written: d.Written * 1e6}
	}
	type key struct{ target, id string }
	var order []key
	all := map[key][]watched{}
	for _, t := range trials {
		for _, w := range t.Containers {
			k := key{t.Target, w.ID}
			if all[k] == nil {
				order = append(order, k)
			}
			all[k] = append(all[k], w)
		}
	}
	for _, k := range order {
		of := all[k]
		last := of[len(of)-1]
		c.Curves = append(c.Curves, curve{k.target, k.id, last.Name, last.Points})
		var means, most []usage
		for _, w := range of {
			means, most = append(means, w.Mean), append(most, w.Peak)
		}
		c.Peaks = append(c.Peaks, peaks{k.target, k.id, last.Name, len(of), summary(means, median), summary(most, median)})
	}
	c.Curves = c.busiest()
	return c
}

// summary is, of each number, what of makes of the readings that know it.
func summary(readings []usage, of func([]float64) float64) usage {
	var out usage
	for i, to := range out.numbers() {
		*to = -1
		if known := knownOf(readings, i); len(known) > 0 {
			*to = of(known)
		}
	}
	return out
}

func median(x []float64) float64 { return stats.Median(stats.Sorted(x)) }

// knownOf are the readings of the number i.
func knownOf(points []usage, i int) []float64 {
	var known []float64
	for _, p := range points {
		if v := *p.numbers()[i]; v >= 0 {
			known = append(known, v)
		}
	}
	return known
}

// thinned are means of stretches of equal length, so that a curve of hours can be
// drawn; those of few points stay as they are.
func thinned(points []usage) []usage {
	if len(points) <= mostPoints {
		return points
	}
	last := points[len(points)-1].At
	stretch := (last - points[0].At) / mostPoints
	by := map[int][]usage{}
	for _, p := range points {
		i := max(0, min(int((p.At-points[0].At)/stretch), mostPoints-1)) // times of a foreign run are in any order
		by[i] = append(by[i], p)
	}
	var out []usage
	for _, i := range slices.Sorted(maps.Keys(by)) {
		one := summary(by[i], stats.Mean)
		one.At = by[i][0].At
		out = append(out, one)
	}
	return out
}

// busiest are the curves of those containers of each target that use most CPU time:
// a chart of a hundred shows none.
func (c *description) busiest() []curve {
	rank := map[string]int{}
	shown := map[[2]string]bool{}
	byCPU := slices.Clone(c.Peaks)
	slices.SortStableFunc(byCPU, func(x, y peaks) int { return cmp.Compare(y.Mean.CPU, x.Mean.CPU) })
	for _, p := range byCPU {
		rank[p.Target]++
		shown[[2]string{p.Target, p.ID}] = rank[p.Target] <= mostDrawn
	}
	return slices.DeleteFunc(c.Curves, func(of curve) bool { return !shown[[2]string{of.Target, of.ID}] })
}
