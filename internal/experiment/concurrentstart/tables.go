package concurrentstart

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

func startsTable(s *description) finding.Table {
	g := finding.Table{Title: "Starts", Head: []string{"target", "containers", "elapsed", "a second", "p50", "p90", "p99", "max", "removed in", "at once", "blocks"}}
	for _, c := range s.Curves {
		for _, p := range c.Points {
			g.Rows = append(g.Rows, []string{c.Name, strconv.Itoa(p.N), of(p, sample.Elapsed, sample.Seconds), plainOf(p, sample.StartsPerSecond, sample.Count),
				plainOf(p, sample.ReadyP50, sample.Seconds), plainOf(p, sample.ReadyP90, sample.Seconds), plainOf(p, sample.ReadyP99, sample.Seconds), plainOf(p, sample.ReadyMax, sample.Seconds),
				plainOf(p, sample.Removal, sample.Seconds), atOnce(p.N, c.Concurrency), strconv.Itoa(p.Blocks)})
		}
	}
	return g
}

// atOnce is how many of n instances are under way at once.
func atOnce(n, concurrency int) string {
	if concurrency == 0 {
		return "all"
	}
	return strconv.Itoa(min(n, concurrency))
}

// growthTable is the published curve beside this machine's, relative to one and
// to fifty containers.
func growthTable(s *description) finding.Table {
	g := finding.Table{Title: "Growth, beside the published", Head: []string{"target", "containers", "elapsed", "by that of 1", "by that of 50", "for each"}}
	for _, p := range s.Published {
		g.Rows = append(g.Rows, []string{"· published docker run", strconv.Itoa(p.N), quantity.Rounded(p.Elapsed, sample.Seconds), times(p.ElapsedBy1), times(p.ElapsedBy50), quantity.Rounded(p.ElapsedPerEach, sample.Seconds)})
	}
	for _, c := range s.Curves {
		for _, p := range c.Points {
			if p.Blocks == 0 {
				continue
			}
			e, by50 := p.Values[sample.Elapsed].Value, 0.0
			if p.N >= 50 {
				by50 = c.Over(p.N, 50)
			}
			g.Rows = append(g.Rows, []string{c.Name, strconv.Itoa(p.N), quantity.Rounded(e, sample.Seconds), times(c.Over(p.N, 1)), times(by50), quantity.Rounded(e/float64(p.N), sample.Seconds)})
		}
	}
	return g
}

func times(v float64) string {
	if v == 0 {
		return quantity.Missing
	}
	return quantity.Number(v, max(quantity.Decimals(v, v/1000), 0))
}

// timeShare is a part of elapsed time with its name in a table, or a figure.
type timeShare struct{ share, name string }

// timeParts are the parts of elapsed time that add up to all of it.
var timeParts = []timeShare{
	{shareOwn, "the containers' CPU"}, {shareOthers, "others' CPU"}, {shareBusy, "CPU, not told whose"},
	{shareStolen, "stolen"}, {shareIdle, "no CPU"},
}

var timeColumns = []timeShare{
	{shareOwn, "CPU, containers'"}, {shareOthers, "CPU, others'"}, {shareBusy, "CPU, not told whose"},
	{shareStolen, "stolen by the hypervisor"}, {shareIdle, "no CPU"}, {shareQueue, "some waited for a CPU"}, {shareIO, "some waited for I/O"},
}

// shared are the parts that some point has.
func shared(parts []timeShare, curves []curve) []timeShare {
	return slices.DeleteFunc(slices.Clone(parts), func(t timeShare) bool {
		return !slices.ContainsFunc(curves, func(c curve) bool {
			return slices.ContainsFunc(c.Points, func(p point) bool { _, known := p.Shares[t.share]; return known })
		})
	})
}

func timeTable(s *description) finding.Table {
	g := finding.Table{Title: "Where the elapsed time goes", Head: []string{"target", "containers"}}
	columns := shared(timeColumns, s.Curves)
	for _, c := range columns {
		g.Head = append(g.Head, c.name)
	}
	for _, c := range s.Curves {
		for _, p := range c.Points {
			if p.Shares == nil {
				continue
			}
			row := []string{c.Name, strconv.Itoa(p.N)}
			for _, column := range columns {
				v, known := p.Shares[column.share]
				if !known {
					row = append(row, quantity.Missing)
					continue
				}
				row = append(row, quantity.Percent(v))
			}
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

// eachTable is what a container, on average, spent its time under way with; the
// columns overlap, as its threads do. Waits on run queues are the machine's: the
// kernel does not tell whose.
func eachTable(s *description) finding.Table {
	g := finding.Table{Title: "Of each container, on average", Head: []string{"target", "containers", "under way", "CPU time", "waits on run queues, of all the machine", "waits for kernel locks"}}
	for _, c := range s.Curves {
		for _, p := range c.Points {
			under, known := p.Values[sample.Wall]
			if !known {
				continue
			}
			row := []string{c.Name, strconv.Itoa(p.N), quantity.Rounded(under.Value, sample.Seconds)}
			for _, metrics := range [][]string{{sample.CPU, sample.DaemonCPU}, {sample.RunQueueWait}, {sample.LockWait}} {
				if c.Unread != "" && metrics[0] == sample.CPU {
					row = append(row, quantity.Missing)
					continue
				}
				row = append(row, eachOf(p, metrics))
			}
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

// eachOf is the sum of metrics of a point for one of its containers.
func eachOf(p point, metrics []string) string {
	sum := 0.0
	for i, m := range metrics {
		v, known := p.Values[m]
		if !known && i == 0 {
			return quantity.Missing
		}
		sum += v.Value
	}
	return quantity.Rounded(sum/float64(p.N), sample.Seconds)
}

// grown is a cost of a curve that grows with the number of containers.
type grown struct {
	of   string
	laws *stats.Laws
	last *stats.Estimate // exponent between the two largest numbers
}

func costs(c curve) []grown {
	return []grown{{sample.Elapsed, c.Elapsed, c.ElapsedExponent}, {cpuTime(c), c.CPU, c.CPUExponent}}
}

// lawsTable are the laws, the best first, and how fast the cost grows between the
// two largest numbers of containers.
func lawsTable(s *description) finding.Table {
	g := finding.Table{Title: "The laws of growth", Head: []string{"target", "of", "law over n", "a", "b", "off by", "weight", "best in"}}
	for _, c := range s.Curves {
		for _, cost := range costs(c) {
			if cost.laws != nil {
				for _, l := range cost.laws.Fits {
					share := quantity.Missing
					if quantity.Known(l.B.Interval) {
						share = quantity.Percent(l.Share)
					}
					form, b := lawForm(l)
					g.Rows = append(g.Rows, []string{c.Name, cost.of, l.Name + ", " + form, estimate(l.A, sample.Seconds), b, quantity.Percent(l.Error), quantity.Percent(l.Weight), share})
				}
			}
			if cost.last != nil {
				g.Rows = append(g.Rows, []string{c.Name, cost.of, "n^b, " + c.Between(), quantity.Missing, estimate(*cost.last, sample.Count), quantity.Missing, quantity.Missing, quantity.Missing})
			}
		}
	}
	return g
}

// lawChoiceTable says which law it is, and why.
func lawChoiceTable(s *description) finding.Table {
	g := finding.Table{Title: "Which law", Words: true, Head: []string{"target", "of", "law", "why"}}
	for _, c := range s.Curves {
		for _, cost := range costs(c) {
			law, why := quantity.Missing, cmp.Or(c.NoLaw, quantity.Missing)
			if cost.laws != nil {
				law, why = cmp.Or(cost.laws.Best, quantity.Missing), cost.laws.Why
				if cost.laws.Provisional {
					law = cost.laws.Fits[0].Name + ", provisional"
				}
			}
			if c.Refused != "" {
				why = "refused: " + c.Refused
			}
			g.Rows = append(g.Rows, []string{c.Name, cost.of, law, why})
		}
	}
	return g
}

// cpuTime names a curve's CPU time in a table, whose note says what it lacks.
func cpuTime(c curve) string {
	if c.Unread != "" {
		return "CPU time, in part"
	}
	return "CPU time"
}

// lawForm is how a law goes, and its b with the interval: a time for each container,
// or a number.
func lawForm(l stats.Law) (form, b string) {
	switch l.Name {
	case stats.LawPower:
		return "a n^b", estimate(l.B, sample.Count)
	case stats.LawExponential:
		b = fmt.Sprintf("%.3g", l.B.Value)
		if quantity.Known(l.B.Interval) {
			b += fmt.Sprintf(" [%.2g, %.2g]", l.B.Interval.Low, l.B.Interval.High)
		}
		return "a e^(b n)", b
	}
	return "a + b n", estimate(l.B, sample.Seconds)
}

// perfCounters are the counters as perf stat gives them.
var perfCounters = []column{
	{sample.TaskClock, sample.TaskClock, sample.Seconds}, {sample.Switches, "switches", sample.Count}, {sample.Migrations, "migrations", sample.Count},
	{sample.PageFaults, "page faults", sample.Count}, {sample.Cycles, "cycles", sample.Count}, {sample.Instructions, "instructions", sample.Count},
	{sample.Branches, "branches", sample.Count}, {sample.BranchMisses, "misses", sample.Count},
}

// column is a metric of a table over the numbers of containers.
type column struct {
	metric, head string
	unit         sample.Unit
}

// cell shows a point's value; prefix stands before the metric's name.
func (c column) cell(p point, prefix string) string {
	v, known := p.Values[prefix+c.metric]
	if !known {
		return quantity.Missing
	}
	return c.show(v.Value)
}

func (c column) show(v float64) string {
	if c.unit == sample.Count {
		return counted(v)
	}
	return quantity.Rounded(v, c.unit)
}

// measured are the columns that some point has, with the prefix before the metric.
func measured(columns []column, curves []curve, prefix string) []column {
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(curves, func(curve curve) bool {
			return slices.ContainsFunc(curve.Points, func(p point) bool {
				_, known := p.Values[prefix+c.metric]
				return known
			})
		})
	})
}

// clientPrefix is before the names of the counters of clients alone.
const clientPrefix = "client-"

// countersTable are the published counters, those of our own command-line clients,
// which stand for the same, and those of everybody. What the machine does not
// count has no column.
func countersTable(s *description) finding.Table {
	columns := measured(perfCounters, s.Curves, "")
	g := finding.Table{Title: "Counters", Head: []string{"target", "containers"}}
	if len(columns) == 0 {
		return g
	}
	for _, c := range columns {
		g.Head = append(g.Head, c.head)
	}
	for _, p := range s.Published {
		row := []string{"· published docker run", strconv.Itoa(p.N)}
		for _, c := range columns {
			row = append(row, c.show(p.Counters[c.metric]))
		}
		g.Rows = append(g.Rows, row)
	}
	rows := func(name func(curve) string, prefix string) {
		for _, of := range s.Curves {
			if len(measured(columns, []curve{of}, prefix)) == 0 {
				continue
			}
			for _, p := range of.Points {
				row := []string{name(of), strconv.Itoa(p.N)}
				for _, c := range columns {
					row = append(row, c.cell(p, prefix))
				}
				g.Rows = append(g.Rows, row)
			}
		}
	}
	rows(func(c curve) string { return c.Name + ", clients alone" }, clientPrefix)
	rows(func(c curve) string { return c.Name }, "")
	return g
}

// rolesTable is who of a start used the CPU and switched.
func rolesTable(s *description) finding.Table {
	var columns []column
	for _, role := range []string{"payload", "runtime", "client", "daemon"} {
		columns = append(columns, column{role + "-cpu", "CPU, " + role, sample.Seconds})
	}
	for _, role := range []string{"payload", "runtime", "client", "daemon"} {
		columns = append(columns, column{role + "-context-switches", "switches, " + role, sample.Count})
	}
	columns = measured(columns, s.Curves, "")
	if len(columns) == 0 {
		return finding.Table{Title: "Who pays"}
	}
	return pointTable("Who pays", "containers", columns, s.Curves)
}

// pointTable has a row for each point of each curve, and number as the head of its n.
func pointTable(title, number string, columns []column, curves []curve) finding.Table {
	g := finding.Table{Title: title, Head: []string{"target", number}}
	for _, c := range columns {
		g.Head = append(g.Head, c.head)
	}
	for _, curve := range curves {
		for _, p := range curve.Points {
			row := []string{curve.Name, strconv.Itoa(p.N)}
			for _, c := range columns {
				row = append(row, c.cell(p, ""))
			}
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}

func scalingTable(s *description) finding.Table {
	g := finding.Table{Title: "Over the concurrency", Head: []string{"target", "containers", "at once", "a second", "elapsed", "p50", "p99", "no CPU"}}
	for _, c := range s.Scaling {
		for _, p := range c.Points {
			idle := quantity.Missing
			if v, known := p.Shares[shareIdle]; known {
				idle = quantity.Percent(v)
			}
			g.Rows = append(g.Rows, []string{c.Name, strconv.Itoa(p.N), atOnce(p.N, p.Concurrency), of(p, sample.StartsPerSecond, sample.Count),
				plainOf(p, sample.Elapsed, sample.Seconds), plainOf(p, sample.ReadyP50, sample.Seconds), plainOf(p, sample.ReadyP99, sample.Seconds), idle})
		}
	}
	return g
}

func uslTable(s *description) finding.Table {
	g := finding.Table{Title: "The scalability law over the concurrency", Head: []string{"target", "containers", "one alone, a second", "contention", "coherency", "peak concurrency", "off by at most", "refused"}}
	for _, c := range s.Scaling {
		if c.USL == nil {
			g.Rows = append(g.Rows, []string{c.Name, strconv.Itoa(c.N), quantity.Missing, quantity.Missing, quantity.Missing, quantity.Missing, c.NoLaw, cmp.Or(c.Refused, quantity.Missing)})
			continue
		}
		g.Rows = append(g.Rows, []string{c.Name, strconv.Itoa(c.N), estimate(c.USL.Rate, sample.Count), estimate(c.USL.Contention, sample.Count),
			estimate(c.USL.Coherency, sample.Count), peakText(*c.USL), quantity.Percent(c.USL.Error), cmp.Or(c.Refused, quantity.Missing)})
	}
	return g
}

// peakText is a law's peak concurrency, and how many replicates have one where not all have.
func peakText(u stats.USL) string {
	text := "none"
	if u.Peak != nil {
		text = estimate(*u.Peak, sample.Count)
	}
	if u.PeakShare == 0 || u.PeakShare == 1 {
		return text
	}
	if u.Peak == nil {
		text += ": one"
	}
	return text + " in " + quantity.Percent(u.PeakShare) + " of replicates"
}

func heldTable(s *description) finding.Table {
	columns := measured([]column{
		{sample.AvailableDrop, "MemAvailable", sample.Bytes}, {sample.PayloadPSS, "PSS", sample.Bytes}, {sample.PayloadRSS, "RSS", sample.Bytes}, {sample.PayloadCharge, "cgroup", sample.Bytes},
		{sample.RuntimePSS, "runtime PSS", sample.Bytes}, {sample.RuntimeRSS, "runtime RSS", sample.Bytes}, {sample.RuntimeCharge, "runtime cgroup", sample.Bytes},
		{sample.ClientPSS, "client PSS", sample.Bytes}, {sample.ClientRSS, "client RSS", sample.Bytes}, {sample.DaemonPSS, "daemon PSS, whole", sample.Bytes}, {sample.Removal, "removed in", sample.Seconds},
	}, s.Held, "")
	return pointTable("Memory of each container held", "held", columns, s.Held)
}

func failedTable(s *description) finding.Table {
	g := finding.Table{Title: "Trials that failed", Words: true, Head: []string{"target", "containers", "at once", "trials", "the last one"}}
	type cell struct {
		workload, target, environment string
		n, concurrency                int
	}
	shown := map[cell]bool{} // a cell may be in a curve over n and in one over the concurrency
	add := func(at cell, name string, points []point) {
		for _, p := range points {
			at.n, at.concurrency = p.N, p.Concurrency
			if p.Failed > 0 && !shown[at] {
				g.Rows = append(g.Rows, []string{name, strconv.Itoa(p.N), atOnce(p.N, p.Concurrency), strconv.Itoa(p.Failed), p.Failure})
			}
			shown[at] = true
		}
	}
	for _, c := range append(slices.Clone(s.Curves), s.Held...) {
		add(cell{workload: c.Workload, target: c.Target, environment: c.Environment}, c.Name, c.Points)
	}
	for _, c := range s.Scaling {
		add(cell{workload: c.Workload, target: c.Target, environment: c.Environment}, c.Name, c.Points)
	}
	return g
}

// estimate shows a number with its interval, in a unit of its own size.
func estimate(e stats.Estimate, unit sample.Unit) string {
	s := quantity.ScaleFor(unit, []float64{e.Value})
	n := s.Show(e.Value, e.Interval)
	text := quantity.WithUnit(n.Value, s.Unit)
	if i := n.Interval(); i != "" {
		text += " " + i
	}
	return text
}

// of is a point's number of a metric, "–" where it has none.
func of(p point, metric string, unit sample.Unit) string {
	e, known := p.Values[metric]
	if !known {
		return quantity.Missing
	}
	return estimate(e, unit)
}

func plainOf(p point, metric string, unit sample.Unit) string {
	e, known := p.Values[metric]
	if !known {
		return quantity.Missing
	}
	return quantity.Rounded(e.Value, unit)
}

// mostPlain is from where on a count is shown in thousands and more.
const mostPlain = 1e6

// counted shows a count of events: whole, as long as that is short.
func counted(value float64) string {
	if value < mostPlain {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return quantity.Rounded(value, sample.Count)
}
