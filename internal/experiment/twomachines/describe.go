package twomachines

import (
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// split is what a call costs when its server is at another place than its client.
type split struct {
	Target   string  `json:"target"` // with its path
	Workload string  `json:"workload"`
	Call     float64 `json:"call"` // median time of a call, in seconds
	// Added is how much longer a call takes than with both in one place, in seconds: the
	// median over blocks of the differences.
	Added    float64        `json:"added"`
	Interval stats.Interval `json:"interval"`
	// Work is how long a service has to work for each call until the split costs share of
	// its time, by the interval's upper end; 0 where a call is not shown to cost more.
	Work   float64 `json:"work"`
	Blocks int     `json:"blocks"`
}

// share is what a split may cost of a service's time.
const share = 0.1

// refusal is a placement of which nothing is claimed.
type refusal struct{ target, workload, why string }

// describe compares each placement's calls with those of its control, block by block. What
// the run's tables refuse is refused here.
func describe(in analysis.Input, tables []analysis.Table) (out []split, refused []refusal) {
	for _, c := range in.Cells {
		if c.Control || c.AA || c.Probe != "" {
			continue
		}
		i := slices.IndexFunc(in.Cells, func(o study.Cell) bool { return o.Control && o.Group == c.Group })
		if i < 0 {
			continue
		}
		values := analysis.Complete([]analysis.Series{in.Series(in.Cells[i].ID, sample.RTT), in.Series(c.ID, sample.RTT)})
		if len(values) < 2 || len(values[0]) < stats.MinimumBlocks {
			continue
		}
		if why := analysis.Refused(tables, analysis.Place{Cell: c.ID, Group: c.Group, Metric: sample.RTT}); why != "" {
			refused = append(refused, refusal{c.Target, c.Workload, why})
			continue
		}
		added := make([]float64, len(values[0]))
		for b := range added {
			added[b] = values[1][b] - values[0][b]
		}
		e := stats.OfMedian(added, stats.Source(in.Seed, name, c.ID))
		s := split{Target: c.Target, Workload: c.Workload, Call: stats.Median(stats.Sorted(values[1])), Added: e.Value, Interval: e.Interval, Blocks: len(added)}
		if s.Interval.Low > 0 {
			s.Work = s.Interval.High / share
		}
		out = append(out, s)
	}
	return out, refused
}
