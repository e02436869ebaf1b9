package bridgenetwork

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// choice is one way against another that does the same, by blocks.
type choice struct {
	What     string           `json:"what"`          // what is changed: "mtu-9000 instead of apart", "macvlan instead of bridge"
	How      string           `json:"how,omitempty"` // by which command or setting, where there is one
	Where    string           `json:"where"`         // on which target and level
	Workload string           `json:"workload"`
	Metric   sample.Metric    `json:"metric"`
	Gain     float64          `json:"gain"` // ratio of the better direction: above 1 is a gain, whatever the metric
	Interval stats.Interval   `json:"interval"`
	Blocks   int              `json:"blocks"`
	Verdict  analysis.Verdict `json:"verdict"`
	// P is of the choice alone; Interval holds for all choices of the workload together.
	P float64 `json:"p"`

	contrast *analysis.Contrast
	refused  bool // one of the two tables was
}

// choices compare each level with the first one with as many containers, and each path
// that does what the bridge does with the bridge, at the first level.
func (r reader) choices() []choice {
	var out []choice
	for _, s := range r.byLevel() {
		for i, c := range s.cells {
			first := slices.IndexFunc(s.cells, func(o study.Cell) bool { return containers(c) == containers(o) })
			if first == i {
				continue
			}
			if one, ok := r.choice(c, s.cells[first]); ok {
				one.What, one.Where = c.Environment+" instead of "+s.cells[first].Environment, c.Target
				one.How = settingOf(*c.Limits.Network, *s.cells[first].Limits.Network)
				out = append(out, one)
			}
		}
	}
	for _, bridge := range r.Cells {
		base, path := onPath(bridge.Target)
		if path != onBridge || !plain(bridge) {
			continue
		}
		for _, c := range r.Cells {
			other, ok := strings.CutPrefix(c.Target, base+study.PathSign)
			if !ok || c.AA || other == path || c.Group != bridge.Group {
				continue
			}
			if one, ok := r.choice(c, bridge); ok {
				one.What, one.Where, one.How = insteadOfBridge(base, other), base+", "+bridge.Environment, pathCommands[other]
				out = append(out, one)
			}
		}
	}
	return judged(out)
}

// insteadOfBridge names a choice against two ends on one bridge.
func insteadOfBridge(base, path string) string {
	if path == loopback && base != "host" {
		return "one container instead of two on a bridge"
	}
	return path + " instead of bridge"
}

// faster gives the words for the ratio of a choice's rate.
var faster = sample.Metric{Unit: sample.PerSecond, Better: sample.Higher}

// choice sets a cell against another one; ok is false where the two say nothing.
func (r reader) choice(c, from study.Cell) (one choice, ok bool) {
	t, ok := r.primary(from)
	if !ok || t.Metric.Name == sample.Ready { // a start says nothing of how two talk
		return choice{}, false
	}
	at := func(c study.Cell) analysis.Place {
		return analysis.Place{Cell: c.ID, Group: c.Group, Metric: t.Metric.Name}
	}
	better, worse := at(c), at(from)
	if t.Metric.Better == sample.Lower { // a gain is above 1
		better, worse = worse, better
	}
	contrast := r.Contrast(r.tables, better, worse)
	if contrast == nil {
		return choice{}, false
	}
	return choice{Workload: c.Workload, Metric: t.Metric, Blocks: contrast.Effect().Blocks,
		contrast: contrast.Worded(faster), refused: r.refused(c) || r.refused(from)}, true
}

// judged are the choices with their verdicts; those that have no ratio are left out.
// The choices of one workload are judged together: out of them the best are taken.
func judged(all []choice) []choice {
	families := map[string][]*analysis.Contrast{}
	for _, c := range all {
		families[c.Workload] = append(families[c.Workload], c.contrast)
	}
	for _, family := range families {
		analysis.JudgeTogether(family)
	}
	for i := range all {
		c, e := &all[i], all[i].contrast.Effect()
		c.Gain, c.Interval, c.P, c.Verdict = e.Ratio, e.Interval, e.P, e.Verdict
		if c.refused {
			c.Verdict = analysis.NotComparable
		}
	}
	return slices.DeleteFunc(all, func(c choice) bool { return c.Gain <= 0 })
}

// pathCommands say how a path is had in the place of a bridge.
var pathCommands = map[string]string{
	"host-network": "docker run --network host",
	"macvlan":      "docker network create -d macvlan -o parent=LINK",
	"ipvlan":       "docker network create -d ipvlan -o parent=LINK",
}

// offloadCommands switch a link's offloads: all but GRO are on by themselves
// (drivers/net/veth.c).
var offloadCommands = map[string][]string{
	"on":           {"ethtool -K vethX gro on"},
	"off":          {"ethtool -K vethX tx off gso off tso off gro off"},
	"no-checksums": {"ethtool -K vethX tx off"},
	"no-tso":       {"ethtool -K vethX tso off"},
	"no-gso":       {"ethtool -K vethX gso off"},
}

// settingOf says by which commands a network becomes another; each link of the way
// has them, as vethX.
func settingOf(to, from study.Network) string {
	var how []string
	if to.MTU != from.MTU && to.MTU > 0 {
		how = append(how, fmt.Sprintf("ip link set dev vethX mtu %d", to.MTU))
	}
	if to.Offload != from.Offload {
		how = append(how, offloadCommands[to.Offload]...)
	}
	if to.RPS && !from.RPS {
		how = append(how, "echo CPUS > /sys/class/net/vethX/queues/rx-0/rps_cpus")
	}
	if to.Pin != from.Pin && to.Pin != "" {
		how = append(how, map[string]string{"same": "the same CPU for both: docker run --cpuset-cpus 0", "apart": "a CPU for each: docker run --cpuset-cpus N",
			"free": "no docker run --cpuset-cpus"}[to.Pin])
	}
	if to.Neighbours != from.Neighbours && to.Neighbours == "permanent" {
		how = append(how, "ip neighbour replace ADDRESS lladdr MAC dev LINK nud permanent")
	}
	return strings.Join(how, "; ")
}
