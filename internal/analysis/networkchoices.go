package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Choice is one way against another that does the same, by blocks.
type Choice struct {
	What     string         `json:"what"`          // what is changed: "mtu-9000 instead of apart", "macvlan instead of bridge"
	How      string         `json:"how,omitempty"` // by which command or setting, where there is one
	Where    string         `json:"where"`         // on which target and level
	Workload string         `json:"workload"`
	Metric   sample.Metric  `json:"metric"`
	Gain     float64        `json:"gain"` // ratio of the better direction: above 1 is a gain, whatever the metric
	Interval stats.Interval `json:"interval"`
	Blocks   int            `json:"blocks"`
	Verdict  Verdict        `json:"verdict"`
	// P is the sign-flip test's, PAdjusted Holm's over all choices of the workload.
	P         float64 `json:"p"`
	PAdjusted float64 `json:"pAdjusted"`

	least   float64 // that the logarithm of a gain must exceed: the margin and the noise floors
	refused bool    // one of the two tables was
}

// choices compare each level with the first one with as many containers, and each path
// that does what the bridge does with the bridge, at the first level.
func (in Input) choices(tables []Table) []Choice {
	var out []Choice
	for _, s := range in.byLevel() {
		for i, c := range s.cells {
			first := slices.IndexFunc(s.cells, func(o study.Cell) bool { return sameContainers(c, o) })
			if first == i {
				continue
			}
			if choice, ok := in.choice(tables, c, s.cells[first]); ok {
				choice.What, choice.Where = c.Environment+" instead of "+s.cells[first].Environment, c.Target
				choice.How = settingOf(*c.Limits.Network, *s.cells[first].Limits.Network)
				out = append(out, choice)
			}
		}
	}
	for _, bridge := range in.Cells {
		base, path, _ := strings.Cut(bridge.Target, study.PathSign)
		if path != "bridge" || bridge.AA || bridge.Probe != "" {
			continue
		}
		for _, c := range in.Cells {
			if other, ok := strings.CutPrefix(c.Target, base+study.PathSign); ok && !c.AA && other != path && c.Group == bridge.Group {
				if choice, ok := in.choice(tables, c, bridge); ok {
					choice.What, choice.Where, choice.How = insteadOfBridge(base, other), base+", "+bridge.Environment, pathCommands[other]
					out = append(out, choice)
				}
			}
		}
	}
	in.judgeChoices(out)
	return out
}

// insteadOfBridge names a choice against two ends on one bridge.
func insteadOfBridge(base, path string) string {
	if path == "loopback" && base != "host" {
		return "one container instead of two on a bridge"
	}
	return path + " instead of bridge"
}

func sameContainers(a, b study.Cell) bool { return containers(a) == containers(b) }

func (in Input) choice(tables []Table, c, from study.Cell) (Choice, bool) {
	t, ok := primaryOf(tables, from)
	if !ok || t.Metric.Name == sample.Ready { // a start says nothing of how two talk
		return Choice{}, false
	}
	x, y := in.Data.cells[c.ID].series(t.Metric.Name), in.Data.cells[from.ID].series(t.Metric.Name)
	var logs []float64
	pairs(x, y, func(_ int32, v, w float64) {
		if v > 0 && w > 0 {
			gain := math.Log(v) - math.Log(w)
			if t.Metric.Better == sample.Lower {
				gain = -gain
			}
			logs = append(logs, gain)
		}
	})
	if len(logs) == 0 {
		return Choice{}, false
	}
	out := Choice{Workload: c.Workload, Metric: t.Metric, P: stats.SignFlip(logs), Blocks: len(logs), least: math.Log1p(in.Margin)}
	logs = stats.Sorted(logs)
	span := stats.MedianIntervals(logs, stats.Source(in.Seed, "choice", c.ID, from.ID), 0.95)[0]
	out.Gain, out.Interval = stats.Ratio(stats.Median(logs)), stats.Exponential(span)
	tables = []Table{t}
	if other, ok := primaryOf(tables, c); ok {
		tables = append(tables, other)
	}
	for _, t := range tables {
		out.refused = out.refused || refused(t)
		out.least = max(out.least, math.Log1p(t.Noise))
	}
	return out, true
}

// judgeChoices gives all choices their verdicts. Those of one workload are judged
// together: out of them the best are taken.
func (in Input) judgeChoices(all []Choice) {
	families := map[string][]int{}
	for i, c := range all {
		families[c.Workload] = append(families[c.Workload], i)
	}
	for _, family := range families {
		p := make([]float64, len(family))
		for i, n := range family {
			p[i] = all[n].P
		}
		for i, adjusted := range stats.Holm(p) {
			c := &all[family[i]]
			c.PAdjusted, c.Verdict = adjusted, Inconclusive
			excludes := c.Interval.Method != stats.MethodNone && (c.Interval.Low > 1 || c.Interval.High < 1)
			switch {
			case c.refused:
				c.Verdict = Refused
			case excludes && adjusted <= in.Alpha && math.Abs(math.Log(c.Gain)) > c.least:
				c.Verdict = Differs
			}
		}
	}
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
