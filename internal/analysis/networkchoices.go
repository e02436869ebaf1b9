package analysis

import (
	"fmt"
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
	// P is of the choice alone; Interval holds for all choices of the workload together.
	P float64 `json:"p"`

	compared *compared
	refused  bool // one of the two tables was
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
	pair := compare(x, y, Series{})
	if pair.effect.Blocks == 0 || pair.scale != asRatio {
		return Choice{}, false
	}
	if t.Metric.Better == sample.Lower { // a gain is above 1
		pair.blocks.Target, pair.blocks.Control = pair.blocks.Control, pair.blocks.Target
	}
	out := Choice{Workload: c.Workload, Metric: t.Metric, Blocks: pair.effect.Blocks, compared: pair}
	for _, side := range []study.Cell{c, from} {
		if t, ok := primaryOf(tables, side); ok {
			out.refused = out.refused || refused(t)
		}
	}
	return out, true
}

// faster gives the words for the ratio of a choice's rate.
var faster = sample.Metric{Unit: sample.PerSecond, Better: sample.Higher}

// judgeChoices gives all choices their verdicts. Those of one workload are judged
// together: out of them the best are taken.
func (in Input) judgeChoices(all []Choice) {
	families := map[string][]int{}
	for i, c := range all {
		families[c.Workload] = append(families[c.Workload], i)
	}
	for _, family := range families {
		for _, i := range family {
			c := &all[i]
			rule := rules{alpha: in.Alpha, margin: in.Margin, cells: len(family), metric: faster}
			if c.refused {
				rule.refused = "the machine was too noisy for one of the two"
			}
			rule.judge(c.compared)
			e := c.compared.effect
			c.Gain, c.Interval, c.P, c.Verdict = e.Ratio, e.Interval, e.P, e.Verdict
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
