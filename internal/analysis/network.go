package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// NetworkClaims is what a run of the network studies says beyond its tables.
type NetworkClaims struct {
	Published *published.BridgeNetwork `json:"published"`
	Loss      float64                  `json:"loss"` // published loss per container, as a share of the maximum
	Growth    []Growth                 `json:"growth,omitempty"`
	Choices   []Choice                 `json:"choices,omitempty"`
	Splits    []Split                  `json:"splits,omitempty"`
	Attaching []Attaching              `json:"attaching,omitempty"`
	Claims    []finding.Claim          `json:"claims,omitempty"`
}

// Growth is how one metric of one target changes with the number of containers
// on its bridges.
type Growth struct {
	Target   string        `json:"target"`
	Workload string        `json:"workload"`
	Arm      string        `json:"arm"` // what else stands on the bridge: "permanent neighbours, silent"
	Metric   sample.Metric `json:"metric"`
	Points   []GrowthPoint `json:"points"`
	// Slope is the change per container as a share of the most that any number of
	// containers reaches: the median over blocks of each block's least-squares
	// slope. Negative is a loss.
	Slope    float64        `json:"slope"`
	Interval stats.Interval `json:"interval"` // 95 %
	P        float64        `json:"p"`
	Blocks   int            `json:"blocks"`
	Verdict  Verdict        `json:"verdict"`
	Why      string         `json:"why"`
	// Neighbours is the least number of entries that either end's table held at
	// the end of a trial, by the number of containers; nil where none was read.
	Neighbours map[int]float64 `json:"neighbours,omitempty"`
}

// GrowthPoint is one number of containers.
type GrowthPoint struct {
	Containers int            `json:"containers"`
	Median     float64        `json:"median"`
	Interval   stats.Interval `json:"interval"`
}

// NetworkStudy makes the claims of a run whose tables are already made.
func NetworkStudy(in Input, tables []Table, d *published.BridgeNetwork) (*NetworkClaims, error) {
	in = in.defaults()
	n := &NetworkClaims{Published: d}
	var err error
	if n.Loss, err = d.Loss(); err != nil {
		return nil, err
	}
	n.Growth = in.growths(tables)
	n.Choices = in.choices(tables)
	n.Splits = in.splits(tables)
	n.Attaching = in.attachings(tables)
	n.Claims = networkClaims(in, tables, n)
	return n, nil
}

// series is one target's cells of one workload that differ in a level alone.
type levelSeries struct {
	target, workload string
	cells            []study.Cell
}

// byLevel groups cells by target and workload, without A/A twins and probes.
func (in Input) byLevel() []levelSeries {
	var out []levelSeries
	for _, c := range in.Cells {
		if c.AA || c.Probe != "" || c.Limits.Network == nil {
			continue
		}
		i := slices.IndexFunc(out, func(s levelSeries) bool { return s.target == c.Target && s.workload == c.Workload })
		if i < 0 {
			i = len(out)
			out = append(out, levelSeries{target: c.Target, workload: c.Workload})
		}
		out[i].cells = append(out[i].cells, c)
	}
	return out
}

// primaryOf is the primary metric of a cell's table and whether the table was
// refused; ok is false where the cell has no table.
func primaryOf(tables []Table, c study.Cell) (t Table, ok bool) {
	i := slices.IndexFunc(tables, func(t Table) bool { return t.Primary && t.Group == c.Group })
	if i < 0 {
		return Table{}, false
	}
	return tables[i], true
}

func refused(t Table) bool {
	return slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Effect != nil && r.Effect.Verdict == NotComparable })
}

// onBridge reports whether a target's path has a bridge that others can share.
func onBridge(target string) bool {
	_, path, _ := strings.Cut(target, study.PathSign)
	return path != "" && path != "loopback" && path != "host-network" && path != "veth" && path != "macvlan" && path != "ipvlan"
}

func (in Input) growths(tables []Table) []Growth {
	var out []Growth
	for _, s := range in.byLevel() {
		for left := s.cells; len(left) > 0; {
			// One factor alone: what else the levels differ in would be in the slope.
			arm := slices.DeleteFunc(slices.Clone(left), func(c study.Cell) bool { return !sameBut(c, left[0]) })
			left = slices.DeleteFunc(slices.Clone(left), func(c study.Cell) bool { return sameBut(c, arm[0]) })
			slices.SortStableFunc(arm, func(a, b study.Cell) int { return cmp.Compare(containers(a), containers(b)) })
			if len(arm) < 2 || containers(arm[0]) == containers(arm[len(arm)-1]) || !onBridge(s.target) {
				continue
			}
			t, ok := primaryOf(tables, arm[0])
			if !ok {
				continue
			}
			// Where every trial failed there is nothing to say: the failures are listed.
			if g := in.growth(tables, s, arm, t.Metric); len(g.Points) > 0 {
				out = append(out, g)
			}
		}
	}
	return out
}

// armOf says what else a level's containers are. A client that is attached inside the
// clock knows no neighbours yet.
func armOf(target string, n study.Network) string {
	arm := cmp.Or(n.Neighbours, "empty") + " neighbours"
	if strings.HasSuffix(target, study.PathSign+attachPath) {
		arm = "no neighbours yet"
	}
	if n.Chatter {
		arm += ", each sending a little"
	} else {
		arm += ", silent"
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

func containers(c study.Cell) int {
	return max(2, c.Limits.Network.Containers)
}

func (in Input) growth(tables []Table, s levelSeries, cells []study.Cell, m sample.Metric) Growth {
	g := Growth{Target: s.target, Workload: s.workload, Arm: armOf(s.target, *cells[0].Limits.Network), Metric: m, Neighbours: map[int]float64{}}
	var levels []Series
	var n []float64
	noisy := false
	for _, c := range cells {
		series := in.Data.cells[c.ID].series(m.Name)
		if len(series.values) == 0 {
			continue
		}
		levels, n = append(levels, series), append(n, float64(containers(c)))
		x := stats.Sorted(series.values)
		span := stats.MedianIntervals(x, stats.Source(in.Seed, "growth", c.ID, m.Name), 0.95)[0]
		g.Points = append(g.Points, GrowthPoint{containers(c), stats.Median(x), span})
		if t, ok := primaryOf(tables, c); ok {
			noisy = noisy || refused(t)
		}
		if !strings.HasSuffix(s.target, study.PathSign+attachPath) {
			in.readTables(&g, c)
		}
	}
	if len(g.Neighbours) == 0 {
		g.Neighbours = nil
	}
	if len(levels) < 2 {
		g.Verdict, g.Why, g.Interval = Open, "fewer than two numbers of containers were measured", stats.None(0)
		return g
	}
	most := 0.0
	for _, p := range g.Points {
		most = max(most, p.Median)
	}
	slopes := slopesOf(n, complete(levels), most)
	g.judge(slopes, n[len(n)-1]-n[0], in, noisy)
	return g
}

// readTables notes how full the neighbour tables were.
func (in Input) readTables(g *Growth, c study.Cell) {
	for _, metric := range []string{sample.ClientNeighbours, sample.ServerNeighbours} {
		for _, v := range in.Data.cells[c.ID].series(metric).values {
			if least, ok := g.Neighbours[containers(c)]; !ok || v < least {
				g.Neighbours[containers(c)] = v
			}
		}
	}
}

// slopesOf are the least-squares slopes of each block's values over n, as shares
// of most.
func slopesOf(n []float64, values [][]float64, most float64) []float64 {
	centre, square := stats.Mean(n), 0.0
	for _, x := range n {
		square += (x - centre) * (x - centre)
	}
	slopes := make([]float64, len(values[0]))
	for block := range slopes {
		for i, x := range n {
			slopes[block] += (x - centre) * values[i][block] / square / most
		}
	}
	return slopes
}

// judge says whether the slope differs from zero. A slope counts as none when
// its interval keeps the change over the whole range inside the margin.
func (g *Growth) judge(slopes []float64, span float64, in Input, noisy bool) {
	x := stats.Sorted(slopes)
	if len(x) == 0 {
		g.Verdict, g.Why, g.Interval = Open, "no block holds every number of containers", stats.None(0)
		return
	}
	spans := stats.MedianIntervals(x, stats.Source(in.Seed, "slope", g.Target, g.Workload, g.Arm), 0.95)
	g.Slope, g.Interval, g.Blocks, g.P = stats.Median(x), spans[0], len(x), stats.SignFlip(slopes)
	inside := math.Max(math.Abs(g.Interval.Low), math.Abs(g.Interval.High))*span < in.Margin
	switch {
	case noisy:
		g.Verdict, g.Why = NotComparable, "the machine was too noisy for these cells"
	case !g.Interval.Decides():
		g.Verdict, g.Why = Open, fmt.Sprintf("%d blocks give no interval: take %d or more", g.Blocks, stats.MinimumBlocks)
	case g.Interval.Low <= 0 && g.Interval.High >= 0 && inside:
		g.Verdict, g.Why = Same, "the interval keeps the change over the whole range inside the margin"
	case g.Interval.Low <= 0 && g.Interval.High >= 0:
		g.Verdict, g.Why = Open, "the 95 % interval of the slope holds zero"
	case g.P > in.Alpha:
		g.Verdict, g.Why = Open, fmt.Sprintf("the test gives p = %.3g", g.P)
	default:
		g.Verdict, g.Why = Directed(g.Metric, g.Slope > 0), "the 95 % interval of the slope excludes zero"
	}
}
