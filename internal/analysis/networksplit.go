package analysis

import (
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// Split is what it costs to split a service into k containers, by what one hop
// between two containers costs more than between two processes in one. A request
// passes k-1 hops, and their costs add up: no container works while it waits.
type Split struct {
	Target   string        `json:"target"` // without a path
	Level    string        `json:"level"`
	Workload string        `json:"workload"`
	Metric   sample.Metric `json:"metric"` // lower is better: a time for each request, or CPU time for each Gbit
	Places   []SplitPlace  `json:"places"`
	Blocks   int           `json:"blocks"`
}

// SplitPlace is one way to place the containers.
type SplitPlace struct {
	Place  string       `json:"place"` // "one host", "two hosts"
	Points []SplitPoint `json:"points"`
}

// SplitPoint is one number of containers.
type SplitPoint struct {
	K        int            `json:"k"`
	Added    float64        `json:"added"` // in the metric's unit; negative where a hop is cheaper
	Interval stats.Interval `json:"interval"`
}

// splitInto are the numbers of containers that are shown.
var splitInto = []int{2, 3, 5, 10}

// splitMetrics are costs that hops add to, in workloads whose own metric may be
// another one.
var splitMetrics = []string{sample.RTT, sample.CPUPerGbit}

// splits are made of one container, two on a bridge, and where it was measured two
// on two hosts, of the same target at the same level.
func (in Input) splits(tables []Table) []Split {
	var out []Split
	for _, bridge := range in.Cells {
		base, on, _ := strings.Cut(bridge.Target, study.PathSign)
		if on != "bridge" || bridge.AA || bridge.Probe != "" {
			continue
		}
		at := func(path string) *column { return in.Data.cells[in.sibling(bridge, base+study.PathSign+path)] }
		for _, m := range in.Metrics[bridge.Workload] {
			if !slices.Contains(splitMetrics, m.Name) {
				continue
			}
			if t, ok := primaryOf(tables, bridge); ok && refused(t) {
				continue
			}
			s := Split{Target: base, Level: bridge.Environment, Workload: bridge.Workload, Metric: m}
			s.add(in, "one host", at("loopback").series(m.Name), in.Data.cells[bridge.ID].series(m.Name), Series{})
			s.add(in, "two hosts", at("loopback").series(m.Name), in.Data.cells[bridge.ID].series(m.Name), at("vxlan").series(m.Name))
			if len(s.Places) > 0 {
				out = append(out, s)
			}
		}
	}
	return out
}

// sibling is the id of another target's cell in the same group; "" for none.
func (in Input) sibling(c study.Cell, target string) string {
	i := slices.IndexFunc(in.Cells, func(o study.Cell) bool { return o.Target == target && o.Group == c.Group && !o.AA && o.Probe == "" })
	if i < 0 {
		return ""
	}
	return in.Cells[i].ID
}

// add computes a place from each block's differences. far is the hop between two
// hosts, which one of the hops is; none where all are on one.
func (s *Split) add(in Input, place string, one, hop, far Series) {
	if place == "two hosts" && len(far.values) == 0 {
		return
	}
	levels := []Series{one, hop}
	if len(far.values) > 0 {
		levels = append(levels, far)
	}
	values := complete(levels)
	if len(values[0]) < stats.MinimumBlocks {
		return
	}
	p := SplitPlace{Place: place}
	for _, k := range splitInto {
		var added []float64
		for b := range values[0] {
			sum := float64(k-1) * (values[1][b] - values[0][b])
			if len(values) > 2 {
				sum += values[2][b] - values[1][b]
			}
			added = append(added, sum)
		}
		added = stats.Sorted(added)
		span := stats.MedianIntervals(added, stats.Source(in.Seed, "split", s.Target, s.Level, s.Workload, s.Metric.Name, place), 0.95)[0]
		p.Points = append(p.Points, SplitPoint{k, stats.Median(added), span})
	}
	s.Places, s.Blocks = append(s.Places, p), len(values[0])
}
