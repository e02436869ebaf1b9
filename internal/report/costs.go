package report

import (
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
)

// isTime reports whether a table's metric is a time that is better short. A cost in
// time is shown as time more than the control's.
func isTime(t shownTable) bool {
	return t.claim.Metric.Unit == sample.Seconds && t.claim.Metric.Better == sample.Lower
}

// isSpeed reports whether a table's metric is a rate. It is shown in percent of the
// control's.
func isSpeed(t shownTable) bool {
	return t.claim.Metric.Better == sample.Higher
}

// isStart reports whether a table is of the time until a payload acted.
func isStart(t shownTable) bool { return t.claim.Metric.Name == sample.Ready }

// costs is the price list in one table: starts first, then other times, then speeds,
// then the rest.
func (v view) costs() SummaryTable {
	tables := v.priced()
	out := SummaryTable{First: "target", Rows: costRows(tables)}
	control := ""
	for _, t := range tables {
		if c := t.control(); c != nil {
			control = c.claim.Label
			break
		}
	}
	out.Title = "What was measured"
	if control != "" && len(out.Rows) > 1 {
		out.Title = "Cost against " + control
	}
	if control != "" && len(out.Rows) > 1 && slices.ContainsFunc(tables, func(t shownTable) bool { return !isSpeed(t) }) {
		out.Note = "+ more than " + control
	}
	for i, t := range tables {
		first := isStart(t) && (i == 0 || !isStart(tables[i-1]))
		out.Columns = append(out.Columns, v.costColumns(t, out.Rows, control, first)...)
	}
	return ownHeads(environmentsOver(out))
}

// overSpeed begins the heading above speeds.
const overSpeed = "speed"

// environmentsOver says once what environment, or how many instances, speeds are of, where
// no workload was measured in two.
func environmentsOver(t SummaryTable) SummaryTable {
	is := func(c SummaryColumn) bool { return strings.HasPrefix(c.Over, overSpeed) }
	first := slices.IndexFunc(t.Columns, is)
	if first < 0 {
		return t
	}
	speeds := t.Columns[first:]
	if end := slices.IndexFunc(speeds, func(c SummaryColumn) bool { return !is(c) }); end > 0 {
		speeds = speeds[:end]
	}
	var names []string
	for _, c := range speeds {
		name, _, _ := strings.Cut(c.Head, "+")
		if slices.Contains(names, name) {
			return t
		}
		names = append(names, name)
	}
	var order []string
	for i, c := range speeds {
		if _, environment, named := strings.Cut(c.Head, "+"); named {
			speeds[i].Over, speeds[i].Head = environment+" "+c.Over, names[i] // what does not fit is cut at its end
		}
		order = append(order, speeds[i].Over)
	}
	slices.SortStableFunc(speeds, func(a, b SummaryColumn) int { return slices.Index(order, a.Over) - slices.Index(order, b.Over) })
	return t
}

// ownHeads gives a column the heading that it shares with no other.
func ownHeads(t SummaryTable) SummaryTable {
	for i, c := range t.Columns {
		over := c.Over
		shares := func(c SummaryColumn) bool { return c.Over == over }
		if rest := slices.Concat(t.Columns[:i], t.Columns[i+1:]); over != "" && !slices.ContainsFunc(rest, shares) {
			environment, unit, _ := strings.Cut(over, overSpeed)
			t.Columns[i].Over, t.Columns[i].Head = "", strings.TrimSuffix(c.Head+unit+", "+strings.TrimSpace(environment), ", ")
		}
	}
	return t
}

// priced are the primary tables in the order of the summary's columns.
func (v view) priced() []shownTable {
	var out []shownTable
	for _, g := range v.groups {
		if !v.watched(g.name) {
			out = append(out, g.primary...)
		}
	}
	slices.SortStableFunc(out, func(a, b shownTable) int { return costOrder(a) - costOrder(b) })
	return out
}

func costOrder(t shownTable) int {
	switch {
	case isStart(t):
		return 0
	case isTime(t):
		return 1
	case isSpeed(t):
		return 2
	}
	return 3
}

// costRows are the targets in the order of their first appearance, the control first.
func costRows(tables []shownTable) []string {
	var controls, rows []string
	for _, t := range tables {
		for _, r := range t.Rows {
			switch {
			case r.claim.AA || slices.Contains(rows, r.claim.Label) || slices.Contains(controls, r.claim.Label):
			case r.claim.Control:
				controls = append(controls, r.claim.Label)
			default:
				rows = append(rows, r.claim.Label)
			}
		}
	}
	return append(controls, rows...)
}

// control is the control's row where it has samples, else nil.
func (t shownTable) control() *shownRow {
	at := slices.IndexFunc(t.Rows, func(r shownRow) bool { return r.claim.Control && r.claim.Summary.N > 0 })
	if at < 0 {
		return nil
	}
	return &t.Rows[at]
}

func (t shownTable) row(label string) *shownRow {
	at := slices.IndexFunc(t.Rows, func(r shownRow) bool { return r.claim.Label == label && !r.claim.AA })
	if at < 0 {
		return nil
	}
	return &t.Rows[at]
}

// costColumns are the columns of one table; the first start has its CPU time and memory
// next to it.
func (v view) costColumns(t shownTable, rows []string, control string, withUse bool) []SummaryColumn {
	c := t.costColumn(rows, control)
	out := []SummaryColumn{c}
	if !withUse || t.control() == nil {
		return out
	}
	for _, g := range v.groups {
		for _, s := range g.secondary {
			if g.name == t.claim.Group && (s.claim.Metric.Name == sample.CPU || s.claim.Metric.Name == sample.PeakMemory) {
				use := s.levels(rows)
				use.Over, use.weight = t.claim.Group, c.weight/2
				out = append(out, use)
				out[0].Over, out[0].Head = t.claim.Group, withUnit("time", t.costScale().Unit)
			}
		}
	}
	return out
}

// levels is a metric's medians, without verdicts.
func (t shownTable) levels(rows []string) SummaryColumn {
	head := map[string]string{sample.CPU: "CPU", sample.PeakMemory: "memory"}[t.claim.Metric.Name]
	if head == "" {
		head = t.claim.Metric.Name
	}
	c := SummaryColumn{Head: withUnit(head, t.Unit)}
	for _, label := range rows {
		text := quantity.Missing
		if r := t.row(label); r != nil && r.claim.Summary.N > 0 {
			text = twoDigits(r.claim.Summary.Median / t.Factor)
		}
		c.Cells = append(c.Cells, SummaryCell{Text: text})
	}
	return c
}

func withUnit(head, unit string) string {
	if unit == "" {
		return head
	}
	return head + ", " + unit
}

// costColumn is a primary table as one column.
func (t shownTable) costColumn(rows []string, control string) SummaryColumn {
	scale := t.costScale()
	c := SummaryColumn{Head: t.claim.Group, weight: t.weight()}
	switch {
	case t.control() == nil:
		c.Head = withUnit(t.named(), t.Unit)
	case isSpeed(t):
		c.Over = overSpeed + ", % of " + control
	case isStart(t):
		c.Head = withUnit(t.claim.Group, scale.Unit)
	default:
		c.Head = withUnit(t.named(), scale.Unit)
	}
	for _, label := range rows {
		c.Cells = append(c.Cells, t.costCell(t.row(label), scale))
	}
	return c
}

// named is the group with its metric, where that is not the group's own name.
func (t shownTable) named() string {
	if strings.HasPrefix(t.claim.Group, t.claim.Metric.Name) {
		return t.claim.Group
	}
	return t.claim.Group + ": " + t.claim.Metric.Name
}

// weight is what is missed without a table: starts always, then how far the farthest
// certain target is from the control.
func (t shownTable) weight() float64 {
	w := 0.0
	for _, r := range t.Rows {
		if r.verdict().Shown() {
			w = max(w, min(distance(r), 10))
		}
	}
	if isStart(t) {
		w += 100
	}
	return w
}

// costScale is the unit of a column of differences.
func (t shownTable) costScale() quantity.Scale {
	values := []float64{}
	for _, r := range t.Rows {
		if low, _, _ := t.cost(&r); !r.claim.Control && !r.claim.AA && !math.IsNaN(low) {
			_, at, _ := t.cost(&r)
			values = append(values, at)
		}
	}
	if c := t.control(); c != nil {
		values = append(values, c.claim.Summary.Median)
	}
	return quantity.ScaleFor(t.claim.Metric.Unit, values)
}

// cost is what a row costs more than the control, with its interval, in the metric's
// unit: the control's median times the effect, so that it agrees with the verdict. NaN
// where there is no effect, or no interval.
func (t shownTable) cost(r *shownRow) (low, at, high float64) {
	nan := math.NaN()
	e, c := r.claim.Effect, t.control()
	switch {
	case e == nil || c == nil || !e.HasRatio() && e.Difference == nil:
		return nan, nan, nan
	case e.Difference != nil:
		low, at, high = e.Difference.Interval.Low, e.Difference.Median, e.Difference.Interval.High
		if !quantity.Known(e.Difference.Interval) {
			low, high = nan, nan
		}
		return low, at, high
	}
	base := c.claim.Summary.Median
	low, at, high = base*(e.Interval.Low-1), base*(e.Ratio-1), base*(e.Interval.High-1)
	if !quantity.Known(e.Interval) {
		low, high = nan, nan
	}
	return low, at, high
}

// costCell is a row as one cell: certain effects as a number, open ones as an interval.
func (t shownTable) costCell(r *shownRow, scale quantity.Scale) SummaryCell {
	switch {
	case r == nil:
		return SummaryCell{Text: quantity.Missing}
	case r.Verdict == "failed":
		return SummaryCell{Text: "failed", Verdict: "failed"}
	case r.claim.Summary.N == 0:
		return SummaryCell{Text: quantity.Missing}
	case t.control() == nil || r.claim.Effect == nil && !r.claim.Control:
		return SummaryCell{Text: twoDigits(r.claim.Summary.Median / t.Factor)}
	case r.claim.Control && isSpeed(t):
		return SummaryCell{Text: "100", Verdict: "control"}
	case r.claim.Control:
		return SummaryCell{Text: twoDigits(r.claim.Summary.Median / scale.Factor), Verdict: "control"}
	}
	cell := SummaryCell{Verdict: string(r.verdict()), Effect: r.Effect}
	switch {
	case r.verdict() == analysis.NotComparable:
		return cell
	case r.Ratio.Value == quantity.Missing:
		cell.Text = quantity.Missing
		return cell
	}
	if isSpeed(t) && r.claim.Effect.Difference == nil {
		cell.Text = speedText(r.claim.Effect)
		return cell
	}
	low, at, high := t.cost(r)
	cell.Text = costText(low/scale.Factor, at/scale.Factor, high/scale.Factor, r.verdict() == analysis.Open)
	return cell
}

// speedText is a ratio in percent; an open one as its interval.
func speedText(e *analysis.Effect) string {
	if e.Verdict == analysis.Open && quantity.Known(e.Interval) {
		return fromTo(twoOrWhole(100*e.Interval.Low), "–", twoOrWhole(100*e.Interval.High))
	}
	if e.Verdict == analysis.Open {
		return "~" + twoOrWhole(100*e.Ratio)
	}
	text := twoOrWhole(100 * e.Ratio)
	for d := 1; d <= 3 && e.Verdict.Shown() && strings.TrimRight(strings.TrimSuffix(text, "."), "0.") == "1"; d++ {
		text = quantity.Number(100*e.Ratio, d) // certain, so not printed as no difference
	}
	return text
}

// twoOrWhole prints two significant digits, and from 10 on whole numbers.
func twoOrWhole(v float64) string {
	if v >= 10 {
		return quantity.Number(v, 0)
	}
	return twoDigits(v)
}

// costText is a difference with its sign; an open one as its interval.
func costText(low, at, high float64, open bool) string {
	switch {
	case open && math.IsNaN(low):
		return "~" + plus(at)
	case open:
		return fromTo(plus(low), " to ", plus(high))
	}
	return plus(at)
}

// fromTo is an interval, or one number where its bounds print alike.
func fromTo(low, between, high string) string {
	if low == high {
		return low
	}
	return low + between + high
}

func plus(v float64) string {
	text := twoDigits(v)
	if strings.HasPrefix(text, "−") || strings.Trim(text, "0.") == "" {
		return text
	}
	return "+" + text
}

// costFigures draw the first start of a run: how much time each target adds, with the
// intervals. Runs that are compared, ladders and runs of experiments with tables of
// their own have figures elsewhere.
func (v view) costFigures() []finding.Figure {
	tables := v.priced()
	if v.alone() != nil || v.isLadder() || len(tables) == 0 || !isStart(tables[0]) || tables[0].control() == nil {
		return nil
	}
	t := tables[0]
	scale := t.costScale()
	dots := finding.Dots{Name: "more than " + t.control().claim.Label, Look: finding.Measured}
	least, most := math.Inf(1), 0.0
	for _, r := range t.Rows {
		low, at, high := t.cost(&r)
		if r.claim.AA || math.IsNaN(low) || r.verdict() == analysis.NotComparable {
			continue
		}
		least, most = min(least, low), max(most, high)
		dots.At = append(dots.At, finding.Dot{Row: r.claim.Label, Value: at / scale.Factor, Low: low / scale.Factor, High: high / scale.Factor})
	}
	if len(dots.At) < 2 {
		return nil
	}
	x := finding.Axis{Label: withUnit("time", scale.Unit), Log: least > 0 && most > logSpan*least}
	return []finding.Figure{{Title: t.claim.Group + ": time until the payload acts, more than " + t.control().claim.Label, X: x, Dots: []finding.Dots{dots}}}
}

// layers is a run's ladders as one table: what each step adds.
func (v view) layers() SummaryTable {
	out := SummaryTable{Title: "Layer by layer: what each step adds", First: "layer"}
	longest := v.ladders[0]
	for _, l := range v.ladders {
		if len(l.claim.Steps) > len(longest.claim.Steps) {
			longest = l
		}
	}
	out.Rows = []string{longest.claim.Base}
	for _, s := range longest.claim.Steps {
		out.Rows = append(out.Rows, stepName(s))
	}
	for i, l := range v.ladders {
		out.Columns = append(out.Columns, l.stepColumn(out.Rows, i))
		if i == 0 {
			out.Columns = append(out.Columns, l.totalColumn(out.Rows))
		}
	}
	return out
}

// share reports whether a ladder's steps are shown in percent of its base: rates.
func (l shownLadder) share() bool { return l.claim.Metric.Better == sample.Higher }

func (l shownLadder) stepColumn(rows []string, i int) SummaryColumn {
	factor, unit := l.Delta.Factor, l.Delta.Unit
	if l.share() && l.claim.BaseMedian > 0 {
		factor, unit = l.claim.BaseMedian/100, "%"
	}
	c := SummaryColumn{Head: withUnit(l.claim.Group, unit), Cells: make([]SummaryCell, len(rows)), weight: -float64(2 * i)}
	c.Cells[0].Text = quantity.Missing
	for j := range c.Cells[1:] {
		c.Cells[j+1].Text = quantity.Missing
	}
	for _, s := range l.claim.Steps {
		at := slices.Index(rows, stepName(s))
		if at < 0 {
			continue
		}
		c.Cells[at] = l.stepCell(s, factor)
	}
	return c
}

func (l shownLadder) stepCell(s analysis.Step, factor float64) SummaryCell {
	cell := SummaryCell{Text: plus(s.Delta / factor)}
	certain := quantity.Known(s.Interval) && (s.Interval.Low > 0 || s.Interval.High < 0)
	switch {
	case l.claim.Refused != "":
		cell.Text, cell.Verdict = "", string(analysis.NotComparable)
	case !certain:
		cell.Verdict = string(analysis.Open)
		low, high := math.NaN(), math.NaN()
		if quantity.Known(s.Interval) {
			low, high = s.Interval.Low/factor, s.Interval.High/factor
		}
		cell.Text = costText(low, s.Delta/factor, high, true)
	default:
		cell.Verdict = string(analysis.Directed(l.claim.Metric, s.Delta > 0))
		cell.Effect = map[bool]string{true: "cost", false: "gain"}[(s.Delta > 0) == (l.claim.Metric.Better == sample.Lower)]
	}
	return cell
}

func (l shownLadder) totalColumn(rows []string) SummaryColumn {
	c := SummaryColumn{Head: withUnit("in all", l.Total.Unit), Cells: make([]SummaryCell, len(rows)), weight: -1}
	c.Cells[0].Text = l.Base.Value
	for i, s := range l.claim.Steps {
		if at := slices.Index(rows, stepName(s)); at >= 0 {
			c.Cells[at].Text = l.Steps[i].Level
		}
	}
	return c
}
