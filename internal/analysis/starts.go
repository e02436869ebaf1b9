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

// StartsInput is a run whose trials measure many instances as one.
type StartsInput struct {
	Cells     []study.Cell
	Records   []sample.Record
	Tables    []Table // of the same run, by Analyze: a group whose table is refused is refused here too
	Published *published.ConcurrentStart
	CPUs      int               // of the machine
	Image     string            // the user's own whose command was started, "" for tare's
	Held      map[string]bool   // workloads that hold their instances
	Missing   map[string]string // counters that the machine lacks, with the reason
	Unread    map[string]string // by target, what of its CPU time nobody could read
	Seed      uint64
}

// StartsClaims are what a run says of many instances at once.
type StartsClaims struct {
	Curves    []StartsCurve     `json:"curves"`  // over the number of instances
	Scaling   []StartsScaling   `json:"scaling"` // over the concurrency
	Held      []StartsCurve     `json:"held"`    // instances that were all alive at once, over their number
	Published []PublishedStarts `json:"published"`
	Claims    []finding.Claim   `json:"claims"`
	Findings  []string          `json:"findings"`
	Missing   map[string]string `json:"missing,omitempty"` // counters that the machine lacks, with the reason
	CPUs      int               `json:"cpus"`
	// Image is the user's own image whose command was started, "" for tare's; Silent
	// is the share of its containers that printed nothing, whose end stands for
	// their act.
	Image  string  `json:"image,omitempty"`
	Silent float64 `json:"silent,omitempty"`
}

// StartsCurve is a target at one concurrency, over the number of instances.
type StartsCurve struct {
	Name        string        `json:"name"` // the target, and what else tells it from the other curves
	Workload    string        `json:"workload"`
	Target      string        `json:"target"`
	Environment string        `json:"environment,omitempty"` // the level of limits, "" where it has none
	Concurrency int           `json:"concurrency"`           // 0: all at once
	Unread      string        `json:"unread,omitempty"`      // what its CPU time lacks, because nobody could read it
	Points      []StartsPoint `json:"points"`                // by rising N
	Elapsed     *stats.Laws   `json:"elapsed,omitempty"`
	CPU         *stats.Laws   `json:"cpu,omitempty"`
	NoLaw       string        `json:"noLaw,omitempty"`   // why there are no laws
	Refused     string        `json:"refused,omitempty"` // why its laws and exponents claim nothing: that of one of its points
	// ElapsedExponent and CPUExponent are b of cost ~ n^b between the two largest
	// numbers of instances; nil where there are not two of 2 and more.
	ElapsedExponent *stats.Estimate `json:"elapsedExponent,omitempty"`
	CPUExponent     *stats.Estimate `json:"cpuExponent,omitempty"`
}

// StartsScaling is a target with one number of instances, over the concurrency.
type StartsScaling struct {
	Name        string        `json:"name"` // the target, and what else tells it from the others
	Workload    string        `json:"workload"`
	Target      string        `json:"target"`
	Environment string        `json:"environment,omitempty"` // the level of limits, "" where it has none
	N           int           `json:"n"`
	Points      []StartsPoint `json:"points"` // by rising Concurrency
	USL         *stats.USL    `json:"usl,omitempty"`
	NoLaw       string        `json:"noLaw,omitempty"`
	Refused     string        `json:"refused,omitempty"` // why its law claims nothing: that of one of its points
}

// StartsPoint is one cell: every metric's median over blocks.
type StartsPoint struct {
	N           int                       `json:"n"`
	Concurrency int                       `json:"concurrency"`
	Blocks      int                       `json:"blocks"`
	Failed      int                       `json:"failed,omitempty"` // trials
	Failure     string                    `json:"failure,omitempty"`
	Refused     string                    `json:"refused,omitempty"` // why nothing is claimed of it; "" where something may be
	Values      map[string]stats.Estimate `json:"values"`
	// Shares say where the elapsed time went, each as a share of it, medians over
	// blocks; see StartsShares.
	Shares map[string]float64 `json:"shares,omitempty"`

	blocks map[string]Series // by metric
}

// StartsShares are the parts of elapsed time, in the order of display. Own and
// Others add up to what the CPUs did, for which Busy stands where the two are not
// told apart; in each trial they add up to 1 with Stolen and Idle. The last two
// are times in which some task waited, and overlap.
const (
	ShareOwn    = "own"    // CPU time of the instances, their runtimes, clients and daemons, by that of all CPUs
	ShareOthers = "others" // CPU time of everything else on the machine
	ShareBusy   = "busy"   // CPU time of both, where that of the instances could not be read, or not all of it
	ShareStolen = "stolen" // time that the hypervisor gave to others, in which no CPU of the machine could work
	ShareIdle   = "idle"   // time that no CPU explains
	ShareQueue  = "queue"  // some task of the instances waited for a CPU
	ShareIO     = "io"     // ... for I/O
)

// PublishedStarts is a published row, as ratios.
type PublishedStarts struct {
	N       int     `json:"n"`
	Elapsed float64 `json:"elapsed"` // seconds
	CPU     float64 `json:"cpu"`     // task-clock, seconds
	// Counters are those of perf stat by their names here, in base units.
	Counters       map[string]float64 `json:"counters"`
	ElapsedBy1     float64            `json:"elapsedBy1"`
	ElapsedBy50    float64            `json:"elapsedBy50"` // 0 below 50
	CPUBy50        float64            `json:"cpuBy50"`
	ElapsedPerEach float64            `json:"elapsedPerEach"` // seconds
}

// Starts says what a run of many instances at once tells.
func Starts(in StartsInput) StartsClaims {
	out := StartsClaims{Missing: in.Missing, CPUs: in.CPUs, Image: in.Image, Silent: silentShare(in.Records), Published: publishedStarts(in.Published)}
	points := startsPoints(in)
	g := startsGroupsOf(in)
	for i, name := range startsNames(g.curves, widthOf) {
		out.Curves = append(out.Curves, lawsOf(curveOf(name, g.curves[i], points, in), in.Seed))
	}
	for i, name := range startsNames(g.scaling) {
		out.Scaling = append(out.Scaling, scalingOf(name, g.scaling[i], points, in.Seed))
	}
	for i, name := range startsNames(g.held, widthOf) {
		out.Held = append(out.Held, curveOf(name, g.held[i], points, in))
	}
	out.Claims = startsClaims(out)
	out.Findings = startsFindings(out)
	if text := startsRefusal(in); text != "" {
		out.Findings = slices.Insert(out.Findings, 0, text)
	}
	return out
}

// startsPoints are the points of all cells, by the cells' ids.
func startsPoints(in StartsInput) map[string]*StartsPoint {
	points, unread := map[string]*StartsPoint{}, map[string]bool{}
	for _, c := range in.Cells {
		unread[c.ID] = in.Unread[c.Target] != ""
		points[c.ID] = &StartsPoint{N: c.Copies, Concurrency: c.Concurrency, Refused: refusedOf(in.Tables, c), Values: map[string]stats.Estimate{}, blocks: map[string]Series{}}
	}
	records := slices.Clone(in.Records)
	slices.SortStableFunc(records, func(a, b sample.Record) int { return cmp.Compare(a.Block, b.Block) })
	for _, r := range records {
		p := points[r.Cell]
		switch {
		case p == nil || r.Block < 0:
		case r.Failure != nil:
			p.Failed++
			p.Failure = r.Failure.Message + " (the " + string(r.Failure.Fault) + "'s fault)"
		default:
			p.Blocks++
			for metric, values := range r.Values {
				p.add(metric, r.Block, stats.Mean(values))
			}
			if used, read := r.Values[sample.CPU]; read {
				p.add(groupsCPU, r.Block, sum(used)+sum(r.Values[sample.DaemonCPU]))
			}
			for share, value := range startsShares(r.Values, in.CPUs, unread[r.Cell]) {
				p.add("share-"+share, r.Block, value)
			}
		}
	}
	for _, c := range in.Cells { // what the lock probe saw, in trials of its own
		if watched := points[c.ID]; c.Unwatched != "" && points[c.Unwatched] != nil {
			if waits := watched.blocks[sample.LockWait]; len(waits.values) > 0 {
				points[c.Unwatched].blocks[sample.LockWait] = waits
			}
		}
	}
	for _, p := range points {
		for metric, series := range p.blocks {
			values := series.values
			if share, is := cutShare(metric); is {
				if p.Shares == nil {
					p.Shares = map[string]float64{}
				}
				p.Shares[share] = stats.Median(stats.Sorted(values))
				continue
			}
			p.Values[metric] = stats.OverBlocks(values)
		}
	}
	return points
}

// add notes a block's value of a metric; the blocks come in their order.
func (p *StartsPoint) add(metric string, block int, value float64) {
	s := p.blocks[metric]
	p.blocks[metric] = Series{append(s.blocks, int32(block)), append(s.values, value)}
}

func cutShare(metric string) (string, bool) {
	const prefix = "share-"
	if len(metric) > len(prefix) && metric[:len(prefix)] == prefix {
		return metric[len(prefix):], true
	}
	return "", false
}

// startsShares takes one trial's elapsed time apart. What the instances used is
// told apart from what others did where all of it was read.
func startsShares(values map[string][]float64, cpus int, unread bool) map[string]float64 {
	elapsed := sum(values[sample.Elapsed])
	if elapsed <= 0 || cpus < 1 {
		return nil
	}
	shares := map[string]float64{}
	if machine, known := values[sample.MachineCPU]; known {
		all := sum(machine) + sum(values[sample.TareCPU])
		whole := elapsed * float64(cpus)
		steal, told := values[sample.Steal]
		stolen := sum(steal)
		scale := 1 / max(whole, all+stolen) // the probes' window is a little longer than elapsed
		if used, read := values[sample.CPU]; read && !unread {
			own := min(sum(used)+sum(values[sample.DaemonCPU]), all)
			shares[ShareOwn], shares[ShareOthers] = own*scale, (all-own)*scale
		} else {
			shares[ShareBusy] = all * scale
		}
		if told {
			shares[ShareStolen] = stolen * scale
		}
		shares[ShareIdle] = idleShare(whole, all+stolen)
	}
	for share, metric := range map[string]string{ShareQueue: sample.GroupCPUPressure, ShareIO: sample.GroupIOPressure} {
		if v, known := values[metric]; known {
			shares[share] = min(1, sum(v)/elapsed)
		}
	}
	return shares
}

// idleShare is exactly 0 where the CPUs did all that they could.
func idleShare(whole, done float64) float64 {
	if done >= whole {
		return 0
	}
	return 1 - done/whole
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

// startsGroups are the cells of each curve and of each scaling, by rising number
// of instances and concurrency.
type startsGroups struct{ curves, scaling, held [][]study.Cell }

// startsGroupsOf finds them in a run: of one workload, target and environment, a
// curve is made of the cells of one concurrency, and a scaling of those of one
// number of instances. A curve takes two numbers, or is all that there is of its
// workload and target; a scaling takes the three concurrencies that its law does,
// or is all that there is.
func startsGroupsOf(in StartsInput) (g startsGroups) {
	type key struct{ workload, target, environment string }
	measured := slices.DeleteFunc(slices.Clone(in.Cells), func(c study.Cell) bool { return c.AA || c.Probe != "" })
	for _, grid := range gathered(measured, func(c study.Cell) key { return key{c.Workload, c.Target, c.Environment} }) {
		slices.SortStableFunc(grid, func(a, b study.Cell) int {
			return cmp.Or(cmp.Compare(a.Copies, b.Copies), cmp.Compare(a.Concurrency, b.Concurrency))
		})
		columns := gathered(grid, func(c study.Cell) int { return c.Concurrency })
		if in.Held[grid[0].Workload] {
			g.held = append(g.held, columns...)
			continue
		}
		for _, column := range columns {
			if len(column) > 1 || len(columns) == 1 {
				g.curves = append(g.curves, column)
			}
		}
		rows := gathered(grid, func(c study.Cell) int { return c.Copies })
		for _, row := range rows {
			if narrow(row) > 2 || len(row) > 1 && len(rows) == 1 {
				g.scaling = append(g.scaling, row)
			}
		}
	}
	return g
}

// gathered puts cells of the same key together, in the order of the first ones.
func gathered[K comparable](cells []study.Cell, key func(study.Cell) K) [][]study.Cell {
	var out [][]study.Cell
	at := map[K]int{}
	for _, c := range cells {
		i, seen := at[key(c)]
		if !seen {
			i = len(out)
			at[key(c)], out = i, append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// narrow counts the cells that have as many instances as may be under way at once,
// or more: in the others fewer are.
func narrow(cells []study.Cell) int {
	n := 0
	for _, c := range cells {
		if c.Concurrency <= c.Copies {
			n++
		}
	}
	return n
}

// startsNames name groups of cells by their targets, and by what else tells one
// from another: workloads, environments and what further gives.
func startsNames(groups [][]study.Cell, further ...func(study.Cell) string) []string {
	names, details := make([]string, len(groups)), make([][]string, len(groups))
	for _, part := range append([]func(study.Cell) string{
		func(c study.Cell) string { return c.Workload }, func(c study.Cell) string { return c.Environment },
	}, further...) {
		if !slices.ContainsFunc(groups, func(g []study.Cell) bool { return part(g[0]) != part(groups[0][0]) }) {
			continue
		}
		for i, g := range groups {
			if text := part(g[0]); text != "" {
				details[i] = append(details[i], text)
			}
		}
	}
	for i, g := range groups {
		names[i] = g[0].Target
		if len(details[i]) > 0 {
			names[i] += " (" + strings.Join(details[i], ", ") + ")"
		}
	}
	return names
}

// widthOf says how many of a cell's instances are under way at once.
func widthOf(c study.Cell) string {
	if c.Concurrency == 0 {
		return "all at once"
	}
	return fmt.Sprintf("%d at once", c.Concurrency)
}

// levelsOf are a metric's values over what at gives, for the laws.
func levelsOf(points []StartsPoint, metric string, at func(StartsPoint) int) []stats.Level {
	var levels []stats.Level
	for _, p := range points {
		if s := p.blocks[metric]; len(s.values) > 0 {
			levels = append(levels, stats.Level{N: float64(at(p)), Values: s.values, Blocks: s.blocks})
		}
	}
	return levels
}

func instancesOf(p StartsPoint) int { return p.N }

// groupsCPU is the CPU time of the instances' groups and, where there is one, of
// their daemon: what perf's task-clock counts too.
const groupsCPU = "cpu-with-daemon"

// cpuMetric is what stands for the CPU time of all instances: perf's, or the
// cgroups' where there is none.
func cpuMetric(points []StartsPoint) string {
	for _, p := range points {
		if len(p.blocks[sample.TaskClock].values) > 0 {
			return sample.TaskClock
		}
	}
	return groupsCPU
}

func curveOf(name string, g []study.Cell, all map[string]*StartsPoint, in StartsInput) StartsCurve {
	c, points := g[0], pointsOf(g, all)
	return StartsCurve{Name: name, Workload: c.Workload, Target: c.Target, Environment: c.Environment, Concurrency: c.Concurrency,
		Unread: in.Unread[c.Target], Refused: refusedAmong(points), Points: points}
}

func pointsOf(g []study.Cell, all map[string]*StartsPoint) []StartsPoint {
	var points []StartsPoint
	for _, c := range g {
		points = append(points, *all[c.ID])
	}
	return points
}

// lawsOf fits the laws of growth to a curve.
func lawsOf(curve StartsCurve, seed uint64) StartsCurve {
	points := curve.Points
	cpu := cpuMetric(points)
	if laws, err := stats.FitLaws(levelsOf(points, sample.Elapsed, instancesOf), seed); err == nil {
		curve.Elapsed = &laws
	} else {
		curve.NoLaw = err.Error()
	}
	if laws, err := stats.FitLaws(levelsOf(points, cpu, instancesOf), seed); err == nil {
		curve.CPU = &laws
	}
	curve.ElapsedExponent = lastExponent(levelsOf(points, sample.Elapsed, instancesOf), seed)
	curve.CPUExponent = lastExponent(levelsOf(points, cpu, instancesOf), seed)
	return curve
}

// lastExponent is b of cost ~ n^b between the two largest levels, with its
// interval from a bootstrap over blocks or, where there are too few for that, the
// range of the blocks' own exponents.
func lastExponent(levels []stats.Level, seed uint64) *stats.Estimate {
	levels = slices.DeleteFunc(levels, func(l stats.Level) bool { return l.N < 2 || slices.Min(l.Values) <= 0 })
	if len(levels) < 2 {
		return nil
	}
	a, b := levels[len(levels)-2], levels[len(levels)-1]
	values := [][]float64{a.Values, b.Values}
	exponent := func(m []float64) float64 { return math.Log(m[1]/m[0]) / math.Log(b.N/a.N) }
	e := stats.Exact(exponent(stats.Medians(values)))
	var draws []float64
	fewest, _ := stats.FewestAndMost(values)
	if fewest < stats.MinimumBlocks {
		pairs(Series{a.Blocks, a.Values}, Series{b.Blocks, b.Values}, func(_ int32, x, y float64) {
			draws = append(draws, exponent([]float64{x, y}))
		})
		e.Interval = stats.RangeOf(stats.Sorted(draws))
	} else {
		stats.LevelMedians(values, stats.SameBlocks(levels[len(levels)-2:]), stats.FitResamples, stats.Source(seed, "exponent"), func(m []float64) { draws = append(draws, exponent(m)) })
		e.Interval = stats.OfReplicates(draws, fewest)
	}
	return &e
}

func scalingOf(name string, g []study.Cell, all map[string]*StartsPoint, seed uint64) StartsScaling {
	c, points := g[0], pointsOf(g, all)
	s := StartsScaling{Name: name, Workload: c.Workload, Target: c.Target, Environment: c.Environment, N: c.Copies, Refused: refusedAmong(points), Points: points}
	reached := slices.DeleteFunc(slices.Clone(points), func(p StartsPoint) bool { return p.Concurrency > p.N }) // so many were never under way
	fit, err := stats.FitUSL(levelsOf(reached, sample.StartsPerSecond, func(p StartsPoint) int { return p.Concurrency }), seed)
	if err != nil {
		s.NoLaw = err.Error()
		return s
	}
	s.USL = &fit
	return s
}

// At is a curve's point of n instances, nil for none.
func (c StartsCurve) At(n int) *StartsPoint {
	for i := range c.Points {
		if c.Points[i].N == n {
			return &c.Points[i]
		}
	}
	return nil
}

// Over is how many times the point of base instances the elapsed time at n is;
// 0 where either is missing.
func (c StartsCurve) Over(n, base int) float64 {
	a, b := c.At(n), c.At(base)
	if a == nil || b == nil || b.Values[sample.Elapsed].Value <= 0 {
		return 0
	}
	return a.Values[sample.Elapsed].Value / b.Values[sample.Elapsed].Value
}

func publishedStarts(p *published.ConcurrentStart) []PublishedStarts {
	if p == nil {
		return nil
	}
	var one, fifty published.ConcurrentStarts
	for _, s := range p.Starts {
		switch s.Containers {
		case 1:
			one = s
		case 50:
			fifty = s
		}
	}
	var out []PublishedStarts
	for _, s := range p.Starts {
		row := PublishedStarts{
			N: s.Containers, Elapsed: s.Elapsed, CPU: s.TaskClock / 1e3, Counters: map[string]float64{
				sample.TaskClock: s.TaskClock / 1e3, sample.Switches: float64(s.ContextSwitches), sample.Migrations: float64(s.Migrations),
				sample.PageFaults: float64(s.PageFaults), sample.Cycles: float64(s.Cycles), sample.Instructions: float64(s.Instructions),
				sample.Branches: float64(s.Branches), sample.BranchMisses: float64(s.BranchMisses),
			},
			ElapsedBy1: s.Elapsed / one.Elapsed, ElapsedPerEach: s.Elapsed / float64(s.Containers),
		}
		if s.Containers >= 50 {
			row.ElapsedBy50, row.CPUBy50 = s.Elapsed/fifty.Elapsed, s.TaskClock/fifty.TaskClock
		}
		out = append(out, row)
	}
	return out
}

// describeLaw words a fit: "as n^1.04".
func describeLaw(l stats.Laws) string {
	f := l.Fits[0]
	shape := "linearly"
	switch f.Name {
	case stats.LawPower:
		shape = fmt.Sprintf("as n^%.2f", f.B.Value)
		if i := f.B.Interval; i.Decides() {
			shape += fmt.Sprintf(" [%.2f, %.2f]", i.Low, i.High)
		}
	case stats.LawExponential:
		shape = fmt.Sprintf("exponentially, doubling every %.0f", math.Ln2/f.B.Value)
	}
	switch {
	case l.Provisional:
		shape += " (provisional: too few blocks)"
	case l.Best == "":
		shape += " (not told apart from " + l.Fits[1].Name + ")"
	}
	return shape
}
