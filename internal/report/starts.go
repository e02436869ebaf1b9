package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// startsSection is many instances at once, beside the publication.
func startsSection(s *analysis.StartsClaims) finding.Section {
	headline := s.Findings
	if len(headline) > 3 {
		headline = headline[:3]
	}
	out := finding.Section{
		ID: "concurrent-start", Title: "Many containers at once", Headline: headline, Findings: s.Findings,
		Claims: s.Claims, Note: startsNote(s), Alone: true,
	}
	out.Figures = append(growthFigures(s), timeFigure(s)...)
	out.Figures = append(out.Figures, scalingFigures(s)...)
	for _, g := range []finding.Table{
		startsGrid(s), growthGrid(s), timeGrid(s), eachGrid(s), lawsGrid(s), lawChoiceGrid(s), countersGrid(s), rolesGrid(s), scalingGrid(s), uslGrid(s), heldGrid(s), failedGrid(s),
	} {
		if len(g.Rows) > 0 {
			out.Tables = append(out.Tables, g)
		}
	}
	return out
}

// startsNote says what the numbers are and which are missing.
func startsNote(s *analysis.StartsClaims) string {
	note := "Elapsed is from the first request until the last container had ended or, where they are held, acted; latency from a container's request until its payload acted. " +
		"A number is the median over blocks, in brackets its 95 % interval, or the range of the blocks where there are fewer than six. " +
		"Rows that begin with · are published: the counters there are those of the script and of its docker clients, without the daemon, and the row of one container was measured without the script."
	if anyValue(s.Curves, sample.Counted) {
		note += " The CPU has too few registers for all counters at once: they are scaled up by the time in which they were not counted, as perf stat does."
	}
	if !anyValue(s.Curves, sample.LockWait) {
		note += " Waits for kernel locks were not watched (--probes locks)."
	}
	if !anyValue(s.Curves, sample.RunQueueWait) {
		note += " This kernel has no schedstats, so that waits on run queues are told by PSI alone."
	} else {
		note += " Waits on run queues are those of all tasks of the machine, others' too, by the number of containers."
	}
	if slices.ContainsFunc(s.Curves, untoldRoles) {
		note += " Context switches are told by role as long as none has more than 64 groups, for a counter of a group makes every switch a little slower."
	}
	unread := map[string]string{}
	for _, c := range s.Curves {
		if c.Unread != "" {
			unread[c.Target] = c.Unread
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		note += fmt.Sprintf(" Of %s nobody can read the CPU time of the %s: what the CPUs did for its containers is not told apart from what they did for others.", name, unread[name])
	}
	if s.Image != "" {
		note += " " + imageNote(s)
	}
	if len(s.Missing) > 0 {
		byReason := map[string][]string{}
		for _, counter := range slices.Sorted(maps.Keys(s.Missing)) {
			byReason[s.Missing[counter]] = append(byReason[s.Missing[counter]], counter)
		}
		for _, reason := range slices.Sorted(maps.Keys(byReason)) {
			note += fmt.Sprintf(" Not counted here: %s (%s).", strings.Join(byReason[reason], ", "), reason)
		}
	}
	return note
}

// anyValue says that some point has the metric.
func anyValue(curves []analysis.StartsCurve, metric string) bool {
	return len(measured([]startsColumn{{metric: metric}}, curves, "")) > 0
}

// untoldRoles says that some point has its context switches by no role.
func untoldRoles(c analysis.StartsCurve) bool {
	return slices.ContainsFunc(c.Points, func(p analysis.StartsPoint) bool {
		_, all := p.Values[sample.Switches]
		_, told := p.Values[sample.RoleSwitches("payload").Name]
		return p.N > 64 && all && !told
	})
}

// imageNote says what acted means of a user's own image.
func imageNote(s *analysis.StartsClaims) string {
	note := fmt.Sprintf("What was started is the own command of the image %s, as it is: it acted at its first byte of standard output", s.Image)
	switch {
	case s.Silent == 1:
		note = fmt.Sprintf("What was started is the own command of the image %s, as it is: it prints nothing, so it acted at its end", s.Image)
	case s.Silent > 0:
		note += fmt.Sprintf("; %s of the containers printed nothing, and acted at their end", quantity.Percent(s.Silent))
	}
	return note + ". Containers that are held run tare's own payload in that image."
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
func of(p analysis.StartsPoint, metric string, unit sample.Unit) string {
	e, known := p.Values[metric]
	if !known {
		return quantity.Missing
	}
	return estimate(e, unit)
}

func plainOf(p analysis.StartsPoint, metric string, unit sample.Unit) string {
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

func startsGrid(s *analysis.StartsClaims) finding.Table {
	g := finding.Table{Title: "Starts", Head: []string{"target", "containers", "elapsed", "a second", "p50", "p90", "p99", "max", "removed in", "at once", "blocks"}}
	for _, c := range s.Curves {
		for _, p := range c.Points {
			g.Rows = append(g.Rows, []string{c.Name, strconv.Itoa(p.N), of(p, sample.Elapsed, sample.Seconds), plainOf(p, sample.StartsPerSecond, sample.Count),
				plainOf(p, sample.ReadyP50, sample.Seconds), plainOf(p, sample.ReadyP90, sample.Seconds), plainOf(p, sample.ReadyP99, sample.Seconds), plainOf(p, sample.ReadyMax, sample.Seconds),
				plainOf(p, sample.Removal, sample.Seconds), atOnce(c.Concurrency), strconv.Itoa(p.Blocks)})
		}
	}
	return g
}

func atOnce(concurrency int) string {
	if concurrency == 0 {
		return "all"
	}
	return strconv.Itoa(concurrency)
}

// growthGrid is the published curve beside this machine's, relative to one and
// to fifty containers.
func growthGrid(s *analysis.StartsClaims) finding.Table {
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
	{analysis.ShareOwn, "the containers' CPU"}, {analysis.ShareOthers, "others' CPU"}, {analysis.ShareBusy, "CPU, not told whose"},
	{analysis.ShareStolen, "stolen"}, {analysis.ShareIdle, "no CPU"},
}

var timeColumns = []timeShare{
	{analysis.ShareOwn, "CPU, containers'"}, {analysis.ShareOthers, "CPU, others'"}, {analysis.ShareBusy, "CPU, not told whose"},
	{analysis.ShareStolen, "stolen by the hypervisor"}, {analysis.ShareIdle, "no CPU"}, {analysis.ShareQueue, "some waited for a CPU"}, {analysis.ShareIO, "some waited for I/O"},
}

// shared are the parts that some point has.
func shared(parts []timeShare, curves []analysis.StartsCurve) []timeShare {
	return slices.DeleteFunc(slices.Clone(parts), func(t timeShare) bool {
		return !slices.ContainsFunc(curves, func(c analysis.StartsCurve) bool {
			return slices.ContainsFunc(c.Points, func(p analysis.StartsPoint) bool { _, known := p.Shares[t.share]; return known })
		})
	})
}

func timeGrid(s *analysis.StartsClaims) finding.Table {
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

// eachGrid is what a container, on average, spent its time under way with; the
// columns overlap, as its threads do. Waits on run queues are the machine's: the
// kernel does not tell whose.
func eachGrid(s *analysis.StartsClaims) finding.Table {
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
func eachOf(p analysis.StartsPoint, metrics []string) string {
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

func costs(c analysis.StartsCurve) []grown {
	return []grown{{sample.Elapsed, c.Elapsed, c.ElapsedExponent}, {cpuTime(c), c.CPU, c.CPUExponent}}
}

// lawsGrid are the laws, the best first, and how fast the cost grows between the
// two largest numbers of containers.
func lawsGrid(s *analysis.StartsClaims) finding.Table {
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

// lawChoiceGrid says which law it is, and why.
func lawChoiceGrid(s *analysis.StartsClaims) finding.Table {
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
func cpuTime(c analysis.StartsCurve) string {
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
var perfCounters = []startsColumn{
	{sample.TaskClock, sample.TaskClock, sample.Seconds}, {sample.Switches, "switches", sample.Count}, {sample.Migrations, "migrations", sample.Count},
	{sample.PageFaults, "page faults", sample.Count}, {sample.Cycles, "cycles", sample.Count}, {sample.Instructions, "instructions", sample.Count},
	{sample.Branches, "branches", sample.Count}, {sample.BranchMisses, "misses", sample.Count},
}

// startsColumn is a metric of a table over the numbers of containers.
type startsColumn struct {
	metric, head string
	unit         sample.Unit
}

// cell shows a point's value; prefix stands before the metric's name.
func (c startsColumn) cell(p analysis.StartsPoint, prefix string) string {
	v, known := p.Values[prefix+c.metric]
	if !known {
		return quantity.Missing
	}
	return c.show(v.Value)
}

func (c startsColumn) show(v float64) string {
	if c.unit == sample.Count {
		return counted(v)
	}
	return quantity.Rounded(v, c.unit)
}

// measured are the columns that some point has, with the prefix before the metric.
func measured(columns []startsColumn, curves []analysis.StartsCurve, prefix string) []startsColumn {
	return slices.DeleteFunc(slices.Clone(columns), func(c startsColumn) bool {
		return !slices.ContainsFunc(curves, func(curve analysis.StartsCurve) bool {
			return slices.ContainsFunc(curve.Points, func(p analysis.StartsPoint) bool {
				_, known := p.Values[prefix+c.metric]
				return known
			})
		})
	})
}

// clientPrefix is before the names of the counters of clients alone.
const clientPrefix = "client-"

// countersGrid are the published counters, those of our own command-line clients,
// which stand for the same, and those of everybody. What the machine does not
// count has no column.
func countersGrid(s *analysis.StartsClaims) finding.Table {
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
	rows := func(name func(analysis.StartsCurve) string, prefix string) {
		for _, curve := range s.Curves {
			if len(measured(columns, []analysis.StartsCurve{curve}, prefix)) == 0 {
				continue
			}
			for _, p := range curve.Points {
				row := []string{name(curve), strconv.Itoa(p.N)}
				for _, c := range columns {
					row = append(row, c.cell(p, prefix))
				}
				g.Rows = append(g.Rows, row)
			}
		}
	}
	rows(func(c analysis.StartsCurve) string { return c.Name + ", clients alone" }, clientPrefix)
	rows(func(c analysis.StartsCurve) string { return c.Name }, "")
	return g
}

// rolesGrid is who of a start used the CPU and switched.
func rolesGrid(s *analysis.StartsClaims) finding.Table {
	var columns []startsColumn
	for _, role := range []string{"payload", "runtime", "client", "daemon"} {
		columns = append(columns, startsColumn{role + "-cpu", "CPU, " + role, sample.Seconds})
	}
	for _, role := range []string{"payload", "runtime", "client", "daemon"} {
		columns = append(columns, startsColumn{role + "-context-switches", "switches, " + role, sample.Count})
	}
	columns = measured(columns, s.Curves, "")
	if len(columns) == 0 {
		return finding.Table{Title: "Who pays"}
	}
	return pointGrid("Who pays", "containers", columns, s.Curves)
}

// pointGrid has a row for each point of each curve, and number as the head of its n.
func pointGrid(title, number string, columns []startsColumn, curves []analysis.StartsCurve) finding.Table {
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

func scalingGrid(s *analysis.StartsClaims) finding.Table {
	g := finding.Table{Title: "Over the concurrency", Head: []string{"target", "containers", "at once", "a second", "elapsed", "p50", "p99", "no CPU"}}
	for _, c := range s.Scaling {
		for _, p := range c.Points {
			idle := quantity.Missing
			if v, known := p.Shares[analysis.ShareIdle]; known {
				idle = quantity.Percent(v)
			}
			g.Rows = append(g.Rows, []string{c.Name, strconv.Itoa(p.N), atOnce(p.Concurrency), of(p, sample.StartsPerSecond, sample.Count),
				plainOf(p, sample.Elapsed, sample.Seconds), plainOf(p, sample.ReadyP50, sample.Seconds), plainOf(p, sample.ReadyP99, sample.Seconds), idle})
		}
	}
	return g
}

func uslGrid(s *analysis.StartsClaims) finding.Table {
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

func heldGrid(s *analysis.StartsClaims) finding.Table {
	columns := measured([]startsColumn{
		{sample.AvailableDrop, "MemAvailable", sample.Bytes}, {sample.PayloadPSS, "PSS", sample.Bytes}, {sample.PayloadRSS, "RSS", sample.Bytes}, {sample.PayloadCharge, "cgroup", sample.Bytes},
		{sample.RuntimePSS, "runtime PSS", sample.Bytes}, {sample.RuntimeRSS, "runtime RSS", sample.Bytes}, {sample.RuntimeCharge, "runtime cgroup", sample.Bytes},
		{sample.ClientPSS, "client PSS", sample.Bytes}, {sample.ClientRSS, "client RSS", sample.Bytes}, {sample.DaemonPSS, "daemon PSS, whole", sample.Bytes}, {sample.Removal, "removed in", sample.Seconds},
	}, s.Held, "")
	return pointGrid("Memory of each container held", "held", columns, s.Held)
}

func failedGrid(s *analysis.StartsClaims) finding.Table {
	g := finding.Table{Title: "Trials that failed", Words: true, Head: []string{"target", "containers", "at once", "trials", "the last one"}}
	type cell struct {
		workload, target, environment string
		n, concurrency                int
	}
	shown := map[cell]bool{} // a cell may be in a curve over n and in one over the concurrency
	add := func(at cell, name string, points []analysis.StartsPoint) {
		for _, p := range points {
			at.n, at.concurrency = p.N, p.Concurrency
			if p.Failed > 0 && !shown[at] {
				g.Rows = append(g.Rows, []string{name, strconv.Itoa(p.N), atOnce(p.Concurrency), strconv.Itoa(p.Failed), p.Failure})
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

// growthFigures draw elapsed time over the number of containers, relative to
// fifty and to one, and the published curve.
func growthFigures(s *analysis.StartsClaims) []finding.Figure {
	var out []finding.Figure
	for _, base := range []int{50, 1} {
		f := finding.Figure{Title: fmt.Sprintf("Elapsed time, by that of %d", base), Beside: len(out) > 0,
			X: finding.Axis{Label: "containers", Log: true}, Y: finding.Axis{Label: fmt.Sprintf("times the elapsed time of %d", base), Log: true}}
		for _, c := range s.Curves {
			l := finding.Line{Name: c.Name, Look: finding.Measured}
			for _, p := range c.Points {
				over := c.Over(p.N, base)
				if over <= 0 || p.N < base {
					continue
				}
				e := p.Values[sample.Elapsed]
				one := over / e.Value
				at := finding.Point{X: float64(p.N), Y: over, Low: over, High: over, Tip: estimate(e, sample.Seconds)}
				if quantity.Known(e.Interval) {
					at.Low, at.High = e.Interval.Low*one, e.Interval.High*one
				}
				l.Points = append(l.Points, at)
			}
			if len(l.Points) > 1 {
				f.Lines = append(f.Lines, l)
			}
		}
		published := finding.Line{Name: "published docker run", Look: finding.Published}
		for _, p := range s.Published {
			y := p.ElapsedBy1
			if base == 50 {
				y = p.ElapsedBy50
			}
			if y > 0 {
				published.Points = append(published.Points, finding.Point{X: float64(p.N), Y: y, Low: y, High: y, Tip: quantity.Rounded(p.Elapsed, sample.Seconds)})
			}
		}
		if len(f.Lines) > 0 {
			f.Lines = append(f.Lines, published)
			out = append(out, f)
		}
	}
	return out
}

// timeFigure draws what all CPUs did while the most containers were started.
func timeFigure(s *analysis.StartsClaims) []finding.Figure {
	f := finding.Figure{Title: "What the CPUs did while the most containers were started", Y: finding.Axis{Label: "share of what all CPUs could do, %", Zero: true}}
	for _, c := range s.Curves {
		for i := len(c.Points) - 1; i >= 0; i-- {
			p := c.Points[i]
			if p.Shares == nil {
				continue
			}
			b := finding.Bar{Name: fmt.Sprintf("%s, %d", c.Name, p.N), Look: finding.Measured}
			for _, piece := range shared(timeParts, s.Curves) {
				b.Parts = append(b.Parts, finding.Part{Name: piece.name, Value: 100 * p.Shares[piece.share]})
			}
			f.Bars = append(f.Bars, b)
			break
		}
	}
	if len(f.Bars) == 0 {
		return nil
	}
	return []finding.Figure{f}
}

// scalingFigures draw starts a second over the concurrency, with the law.
func scalingFigures(s *analysis.StartsClaims) []finding.Figure {
	f := finding.Figure{Title: "Starts a second over the concurrency", X: finding.Axis{Label: "at once", Log: true}, Y: finding.Axis{Label: "starts a second", Zero: true}}
	slowest, fastest := math.Inf(1), 0.0
	sizes := slices.ContainsFunc(s.Scaling, func(c analysis.StartsScaling) bool { return c.N != s.Scaling[0].N })
	for _, c := range s.Scaling {
		name := c.Name
		if sizes {
			name += fmt.Sprintf(", %d containers", c.N)
		}
		l := finding.Line{Name: name, Look: finding.Measured}
		fit := finding.Line{Name: name + ", law", Look: finding.Fit}
		for _, p := range c.Points {
			e, measured := p.Values[sample.StartsPerSecond]
			if !measured {
				continue
			}
			slowest, fastest = min(slowest, e.Value), max(fastest, e.Value)
			at := finding.Point{X: float64(p.Concurrency), Y: e.Value, Low: e.Value, High: e.Value}
			if quantity.Known(e.Interval) {
				at.Low, at.High = e.Interval.Low, e.Interval.High
			}
			l.Points = append(l.Points, at)
			if c.USL != nil {
				y := c.USL.At(float64(p.Concurrency))
				fit.Points = append(fit.Points, finding.Point{X: float64(p.Concurrency), Y: y, Low: y, High: y})
			}
		}
		if len(l.Points) > 1 {
			f.Lines = append(f.Lines, l)
			if len(fit.Points) > 1 {
				f.Lines = append(f.Lines, fit)
			}
		}
	}
	if len(f.Lines) == 0 {
		return nil
	}
	if slowest > 0 && fastest > logSpan*slowest { // an engine beside bare namespaces would be a line at the bottom
		f.Y = finding.Axis{Label: f.Y.Label, Log: true}
	}
	return []finding.Figure{f}
}
