package concurrentstart

import (
	"cmp"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// input is a run whose trials measure many instances as one.
type input struct {
	Cells     []study.Cell
	Records   []sample.Record
	Tables    []analysis.Table // of the same run: a group whose table is refused is refused here too
	Published *source
	CPUs      int               // of the machine
	Image     string            // the user's own whose command was started, "" for tare's
	Held      map[string]bool   // workloads that hold their instances
	Missing   map[string]string // counters that the machine lacks, with the reason
	Unread    map[string]string // by target, what of its CPU time nobody could read
	Seed      uint64
}

// description are what a run says of many instances at once.
type description struct {
	Curves    []curve           `json:"curves"`  // over the number of instances
	Scaling   []scaling         `json:"scaling"` // over the concurrency
	Held      []curve           `json:"held"`    // instances that were all alive at once, over their number
	Published []publishedStart  `json:"published"`
	Missing   map[string]string `json:"missing,omitempty"` // counters that the machine lacks, with the reason
	CPUs      int               `json:"cpus"`
	// Image is the user's own image whose command was started, "" for tare's; Silent
	// is the share of its containers that printed nothing, whose end stands for
	// their act.
	Image  string  `json:"image,omitempty"`
	Silent float64 `json:"silent,omitempty"`

	refusal string // the groups that are refused, in a sentence; "" for none
}

// curve is a target at one concurrency, over the number of instances.
type curve struct {
	Name        string      `json:"name"` // the target, and what else tells it from the other curves
	Workload    string      `json:"workload"`
	Target      string      `json:"target"`
	Environment string      `json:"environment,omitempty"` // its name, "" where it has none
	Concurrency int         `json:"concurrency"`           // 0: all at once
	Unread      string      `json:"unread,omitempty"`      // what its CPU time lacks, because nobody could read it
	Points      []point     `json:"points"`                // by rising N
	Elapsed     *stats.Laws `json:"elapsed,omitempty"`
	CPU         *stats.Laws `json:"cpu,omitempty"`
	NoLaw       string      `json:"noLaw,omitempty"`   // why there are no laws
	Refused     string      `json:"refused,omitempty"` // why its laws and exponents claim nothing: that of one of its points
	// ElapsedExponent and CPUExponent are b of cost ~ n^b between the two largest
	// numbers of instances; nil where there are not two of 2 and more.
	ElapsedExponent *stats.Estimate `json:"elapsedExponent,omitempty"`
	CPUExponent     *stats.Estimate `json:"cpuExponent,omitempty"`
}

// scaling is a target with one number of instances, over the concurrency.
type scaling struct {
	Name        string     `json:"name"` // the target, and what else tells it from the others
	Workload    string     `json:"workload"`
	Target      string     `json:"target"`
	Environment string     `json:"environment,omitempty"` // its name, "" where it has none
	N           int        `json:"n"`
	Points      []point    `json:"points"` // by rising Concurrency
	USL         *stats.USL `json:"usl,omitempty"`
	NoLaw       string     `json:"noLaw,omitempty"`
	Refused     string     `json:"refused,omitempty"` // why its law claims nothing: that of one of its points
}

// point is one cell: every metric's median over blocks.
type point struct {
	N           int                       `json:"n"`
	Concurrency int                       `json:"concurrency"`
	Blocks      int                       `json:"blocks"`
	Failed      int                       `json:"failed,omitempty"` // trials
	Failure     string                    `json:"failure,omitempty"`
	Refused     string                    `json:"refused,omitempty"` // why nothing is claimed of it; "" where something may be
	Values      map[string]stats.Estimate `json:"values"`
	// Shares say where the elapsed time went, each as a share of it, medians over
	// blocks.
	Shares map[string]float64 `json:"shares,omitempty"`

	blocks map[string]stats.Level // by metric, of no N yet
	shares map[string][]float64   // by part of the elapsed time
}

// describe describes a run of many instances at once.
func describe(in input) *description {
	out := &description{refusal: refusal(in), Missing: in.Missing, CPUs: in.CPUs, Image: in.Image, Silent: silentShare(in.Records), Published: publishedStartsOf(in.Published)}
	points := pointsByCell(in)
	g := groupsOf(in)
	for i, name := range namesOf(g.curves, widthOf) {
		out.Curves = append(out.Curves, lawsOf(curveOf(name, g.curves[i], points, in), in.Seed))
	}
	for i, name := range namesOf(g.scaling) {
		out.Scaling = append(out.Scaling, scalingOf(name, g.scaling[i], points, in.Seed))
	}
	for i, name := range namesOf(g.held, widthOf) {
		out.Held = append(out.Held, curveOf(name, g.held[i], points, in))
	}
	return out
}

// pointsByCell are the points of all cells, by the cells' ids.
func pointsByCell(in input) map[string]*point {
	points, unread := map[string]*point{}, map[string]bool{}
	for _, c := range in.Cells {
		unread[c.ID] = in.Unread[c.Target] != ""
		points[c.ID] = &point{N: c.Copies, Concurrency: c.Concurrency, Refused: refusedOf(in.Tables, c), blocks: map[string]stats.Level{}, shares: map[string][]float64{}}
	}
	records := slices.Clone(in.Records)
	slices.SortStableFunc(records, func(a, b sample.Record) int { return cmp.Compare(a.Block, b.Block) })
	for _, r := range records {
		if p := points[r.Cell]; p != nil && r.Block >= 0 {
			p.record(r, in.CPUs, unread[r.Cell])
		}
	}
	for _, c := range in.Cells { // what the lock probe saw, in trials of its own
		if watched := points[c.ID]; c.Unwatched != "" && points[c.Unwatched] != nil {
			if waits := watched.blocks[sample.LockWait]; len(waits.Values) > 0 {
				points[c.Unwatched].blocks[sample.LockWait] = waits
			}
		}
	}
	for _, p := range points {
		p.summarize()
	}
	return points
}

// record notes one trial; the blocks come in their order.
func (p *point) record(r sample.Record, cpus int, unread bool) {
	if r.Failure != nil {
		p.Failed++
		p.Failure = r.Failure.Message + " (the " + string(r.Failure.Fault) + "'s fault)"
		return
	}
	p.Blocks++
	for metric, values := range r.Values {
		p.add(metric, r.Block, stats.Mean(values))
	}
	if used, read := r.Values[sample.CPU]; read {
		p.add(groupsCPU, r.Block, sum(used)+sum(r.Values[sample.DaemonCPU]))
	}
	for share, value := range sharesOf(r.Values, cpus, unread) {
		p.shares[share] = append(p.shares[share], value)
	}
}

// add notes a block's value of a metric.
func (p *point) add(metric string, block int, value float64) {
	l := p.blocks[metric]
	p.blocks[metric] = stats.Level{Blocks: append(l.Blocks, int32(block)), Values: append(l.Values, value)}
}

// summarize makes medians of what the blocks gave.
func (p *point) summarize() {
	p.Values = map[string]stats.Estimate{}
	for metric, l := range p.blocks {
		p.Values[metric] = stats.OverBlocks(l.Values)
	}
	for share, values := range p.shares {
		if p.Shares == nil {
			p.Shares = map[string]float64{}
		}
		p.Shares[share] = stats.Median(stats.Sorted(values))
	}
}

// silentShare is the share of all instances that printed nothing.
func silentShare(records []sample.Record) float64 {
	silent, all := 0.0, 0
	for _, r := range records {
		silent += sum(r.Values[sample.Silent])
		all += len(r.Values[sample.Silent])
	}
	return silent / float64(max(1, all))
}

func sum(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total
}

func curveOf(name string, g []study.Cell, all map[string]*point, in input) curve {
	c, points := g[0], pointsOf(g, all)
	return curve{Name: name, Workload: c.Workload, Target: c.Target, Environment: c.Environment, Concurrency: c.Concurrency,
		Unread: in.Unread[c.Target], Refused: refusedAmong(points), Points: points}
}

func pointsOf(g []study.Cell, all map[string]*point) []point {
	var points []point
	for _, c := range g {
		points = append(points, *all[c.ID])
	}
	return points
}

// At is a curve's point of n instances, nil for none.
func (c curve) At(n int) *point {
	for i := range c.Points {
		if c.Points[i].N == n {
			return &c.Points[i]
		}
	}
	return nil
}

// Over is how many times the point of base instances the elapsed time at n is;
// 0 where either is missing.
func (c curve) Over(n, base int) float64 {
	a, b := c.At(n), c.At(base)
	if a == nil || b == nil || b.Values[sample.Elapsed].Value <= 0 {
		return 0
	}
	return a.Values[sample.Elapsed].Value / b.Values[sample.Elapsed].Value
}
