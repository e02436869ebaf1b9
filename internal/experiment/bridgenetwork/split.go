package bridgenetwork

import (
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// split is what it costs to split a service into k containers, by what one hop
// between two containers costs more than between two processes in one. A request
// passes k-1 hops, and their costs add up: no container works while it waits.
type split struct {
	Target   string        `json:"target"` // without a path
	Level    string        `json:"level"`
	Workload string        `json:"workload"`
	Metric   sample.Metric `json:"metric"` // lower is better: a time for each request, or CPU time for each Gbit
	Places   []splitPlace  `json:"places"`
	Blocks   int           `json:"blocks"`
}

// splitPlace is one way to place the containers.
type splitPlace struct {
	Place  string       `json:"place"` // "one host", "two hosts"
	Points []splitPoint `json:"points"`
}

// splitPoint is one number of containers.
type splitPoint struct {
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
func (r reader) splits() []split {
	var out []split
	for _, bridge := range r.Cells {
		base, path := onPath(bridge.Target)
		if path != onBridge || !plain(bridge) || r.refused(bridge) {
			continue
		}
		for _, m := range r.Metrics[bridge.Workload] {
			if !slices.Contains(splitMetrics, m.Name) {
				continue
			}
			at := func(path string) analysis.Series {
				return r.Series(r.sibling(bridge, base+study.PathSign+path).ID, m.Name)
			}
			one, hop, far := at(loopback), r.Series(bridge.ID, m.Name), at(twoHosts)
			s := split{Target: base, Level: bridge.Environment, Workload: bridge.Workload, Metric: m}
			s.add(r.Seed, "one host", one, hop)
			if far.Len() > 0 {
				s.add(r.Seed, "two hosts", one, hop, far)
			}
			if len(s.Places) > 0 {
				out = append(out, s)
			}
		}
	}
	return out
}

// add computes a place from each block's differences. at are one container, the hop
// between two, and where one of the hops is between two hosts that one.
func (s *split) add(seed uint64, place string, at ...analysis.Series) {
	values := analysis.Complete(at)
	if len(values[0]) < stats.MinimumBlocks {
		return
	}
	p := splitPlace{Place: place}
	for _, k := range splitInto {
		var added []float64
		for b := range values[0] {
			sum := float64(k-1) * (values[1][b] - values[0][b])
			if len(values) > 2 {
				sum += values[2][b] - values[1][b]
			}
			added = append(added, sum)
		}
		e := stats.OfMedian(added, stats.Source(seed, "split", s.Target, s.Level, s.Workload, s.Metric.Name, place))
		p.Points = append(p.Points, splitPoint{k, e.Value, e.Interval})
	}
	s.Places, s.Blocks = append(s.Places, p), len(values[0])
}
