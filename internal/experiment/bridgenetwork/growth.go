package bridgenetwork

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// growth is how one metric of one target changes with the number of containers
// on its bridges.
type growth struct {
	Target   string        `json:"target"`
	Workload string        `json:"workload"`
	Arm      string        `json:"arm"` // what else stands on the bridge: "permanent neighbours, silent"
	Metric   sample.Metric `json:"metric"`
	Points   []growthPoint `json:"points"`
	// Slope is the change per container as a share of the most that any number of
	// containers reaches: the median over blocks of each block's least-squares
	// slope. Negative is a loss.
	Slope    float64          `json:"slope"`
	Interval stats.Interval   `json:"interval"` // 95 %
	P        float64          `json:"p"`
	Blocks   int              `json:"blocks"`
	Verdict  analysis.Verdict `json:"verdict"`
	Why      string           `json:"why"`
	// Neighbours is the least number of entries that either end's table held at
	// the end of a trial, by the number of containers; nil where none was read.
	Neighbours map[int]float64 `json:"neighbours,omitempty"`
}

// growthPoint is one number of containers.
type growthPoint struct {
	Containers int            `json:"containers"`
	Median     float64        `json:"median"`
	Interval   stats.Interval `json:"interval"`
}

// shared reports whether a target's path has a bridge that others can be on.
func shared(target string) bool {
	_, path := onPath(target)
	return path != "" && !slices.Contains([]string{loopback, "host-network", "veth", "macvlan", "ipvlan"}, path)
}

func (r reader) growths() []growth {
	var out []growth
	for _, s := range r.byLevel() {
		for left := s.cells; len(left) > 0; {
			// One factor alone: what else the levels differ in would be in the slope.
			arm := slices.DeleteFunc(slices.Clone(left), func(c study.Cell) bool { return !sameBut(c, left[0]) })
			left = slices.DeleteFunc(slices.Clone(left), func(c study.Cell) bool { return sameBut(c, arm[0]) })
			slices.SortStableFunc(arm, func(a, b study.Cell) int { return cmp.Compare(containers(a), containers(b)) })
			if len(arm) < 2 || containers(arm[0]) == containers(arm[len(arm)-1]) || !shared(s.target) {
				continue
			}
			t, ok := r.primary(arm[0])
			if !ok {
				continue
			}
			// Where every trial failed there is nothing to say: the failures are listed.
			if g := r.growth(s, arm, t.Metric); len(g.Points) > 0 {
				out = append(out, g)
			}
		}
	}
	return out
}

// byEngine reports whether all others on the cells' networks were containers although
// the levels do not ask for them: an engine made the networks, and fills no table.
func (r reader) byEngine(cells []study.Cell) bool {
	last := cells[len(cells)-1]
	alive := r.Series(last.ID, sample.OnNetwork).Values()
	return last.Limits.Network.Others == "" && containers(last) > 2 && len(alive) > 0 && slices.Min(alive) > 2
}

// armOf says what else a level's containers are. A client that is attached inside the
// clock knows no neighbours yet.
func armOf(target string, n study.Network, byEngine bool) string {
	arm := cmp.Or(n.Neighbours, "empty") + " neighbours"
	if byEngine {
		arm, n.Others = "neighbours by ARP", driver.OthersAreContainers
	}
	if _, path := onPath(target); path == attach {
		arm = "no neighbours yet"
	}
	if n.Chatter {
		arm += ", each sending a little"
	} else {
		arm += ", silent"
	}
	if n.Others != "" {
		arm += ", others are " + n.Others
	}
	if n.Pairs > 1 {
		arm += fmt.Sprintf(", %d pairs at work", n.Pairs)
	}
	if n.Limit > 0 {
		arm += fmt.Sprintf(", limit %d", n.Limit)
	}
	return arm
}

// sameBut reports whether two cells' networks differ in their containers alone.
func sameBut(a, b study.Cell) bool {
	x, y := *a.Limits.Network, *b.Limits.Network
	x.Containers, y.Containers = 0, 0
	return x == y
}

func (r reader) growth(s levels, cells []study.Cell, m sample.Metric) growth {
	g := growth{Target: s.target, Workload: s.workload, Arm: armOf(s.target, *cells[0].Limits.Network, r.byEngine(cells)), Metric: m, Interval: stats.None(0)}
	var measured []analysis.Series
	var n []float64
	noisy := false
	for _, c := range cells {
		series := r.Series(c.ID, m.Name)
		if series.Len() == 0 {
			continue
		}
		measured, n = append(measured, series), append(n, float64(containers(c)))
		e := stats.OfMedian(series.Values(), stats.Source(r.Seed, "growth", c.ID, m.Name))
		g.Points = append(g.Points, growthPoint{containers(c), e.Value, e.Interval})
		noisy = noisy || r.refused(c)
		r.readTables(&g, c)
	}
	switch {
	case len(measured) < 2 || n[0] == n[len(n)-1]:
		g.Verdict, g.Why = analysis.Open, "fewer than two numbers of containers were measured"
	case g.most() <= 0:
		g.Verdict, g.Why = analysis.Open, "no number of containers has a value above zero"
	default:
		g.judge(slopes(n, analysis.Complete(measured), g.most()), n[len(n)-1]-n[0], r.Input, noisy)
	}
	return g
}

// most is the largest median, at least 0.
func (g growth) most() float64 {
	most := 0.0
	for _, p := range g.Points {
		most = max(most, p.Median)
	}
	return most
}

// readTables notes how full the neighbour tables were.
func (r reader) readTables(g *growth, c study.Cell) {
	if _, path := onPath(c.Target); path == attach {
		return
	}
	for _, metric := range []string{sample.ClientNeighbours, sample.ServerNeighbours} {
		for _, v := range r.Series(c.ID, metric).Values() {
			if g.Neighbours == nil {
				g.Neighbours = map[int]float64{}
			}
			if least, ok := g.Neighbours[containers(c)]; !ok || v < least {
				g.Neighbours[containers(c)] = v
			}
		}
	}
}

// slopes are the least-squares slopes of each block's values over n, as shares
// of most.
func slopes(n []float64, values [][]float64, most float64) []float64 {
	centre, square := stats.Mean(n), 0.0
	for _, x := range n {
		square += (x - centre) * (x - centre)
	}
	out := make([]float64, len(values[0]))
	for block := range out {
		for i, x := range n {
			out[block] += (x - centre) * values[i][block] / square / most
		}
	}
	return out
}

// judge says whether the slope differs from zero. A slope counts as none when
// its interval keeps the change over the whole range inside the margin.
func (g *growth) judge(slopes []float64, span float64, in analysis.Input, noisy bool) {
	if len(slopes) == 0 {
		g.Verdict, g.Why = analysis.Open, "no block holds every number of containers"
		return
	}
	e := stats.OfMedian(slopes, stats.Source(in.Seed, "slope", g.Target, g.Workload, g.Arm))
	g.Slope, g.Interval, g.Blocks, g.P = e.Value, e.Interval, len(slopes), stats.SignFlip(slopes)
	inside := math.Max(math.Abs(g.Interval.Low), math.Abs(g.Interval.High))*span < in.Margin
	switch {
	case noisy:
		g.Verdict, g.Why = analysis.NotComparable, "the machine was too noisy for these cells"
	case !g.Interval.Decides():
		g.Verdict, g.Why = analysis.Open, fmt.Sprintf("%d blocks give no interval: take %d or more", g.Blocks, stats.MinimumBlocks)
	case g.Interval.Low <= 0 && g.Interval.High >= 0 && inside:
		g.Verdict, g.Why = analysis.Same, "the interval keeps the change over the whole range inside the margin"
	case g.Interval.Low <= 0 && g.Interval.High >= 0:
		g.Verdict, g.Why = analysis.Open, "the 95 % interval of the slope holds zero"
	case g.P > in.Alpha:
		g.Verdict, g.Why = analysis.Open, fmt.Sprintf("the test gives p = %.3g", g.P)
	default:
		g.Verdict, g.Why = analysis.Directed(g.Metric, g.Slope > 0), "the 95 % interval of the slope excludes zero"
	}
}
