package unixbench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/workload"
)

// nextTo is a test of the user's own UnixBench, which ran next to tare's in the same
// trials.
type nextTo struct {
	passes
	Result float64 `json:"result"` // of UnixBench's reduction, in the test's unit
	// Ratio is the rate of tare's test by that of UnixBench's program, both by CPU time:
	// the geometric mean over the trials. Interval is its 95 % interval, from two on.
	Ratio    float64        `json:"ratio"`
	Interval stats.Interval `json:"interval"`
	Trials   int            `json:"trials"` // that gave a ratio
}

// scaleTolerance is how far tare's tests may lie from UnixBench's on a common scale.
const scaleTolerance = 0.05

// nextToOf reads what trials gave; nil where no UnixBench of the user's ran in them.
func nextToOf(scores, ratios []float64, baseline float64) (*nextTo, error) {
	if len(scores) == 0 || len(ratios) == 0 {
		return nil, nil
	}
	p, err := reducePasses(scores)
	if err != nil {
		return nil, err
	}
	r, err := reducePasses(ratios)
	if err != nil {
		return nil, err
	}
	return &nextTo{passes: p, Result: p.UnixBench * baseline / 10, Ratio: r.All, Interval: r.Interval, Trials: r.Passes}, nil
}

// Verdict says whether the two are on one scale.
func (n *nextTo) Verdict() string {
	const low, high = 1 / (1 + scaleTolerance), 1 + scaleTolerance
	switch {
	case n.Trials < 2, n.Interval.Low < low && n.Interval.High >= low, n.Interval.High > high && n.Interval.Low <= high:
		return "open"
	case n.Interval.High < low, n.Interval.Low > high:
		return fmt.Sprintf("another scale: divide ours by %s", quantity.Number(n.Ratio, 3))
	}
	return "within 5 %"
}

// Span is the ratio with its interval.
func (n *nextTo) Span() string {
	if n.Trials < 2 {
		return quantity.Number(n.Ratio, 3)
	}
	return fmt.Sprintf("%s [%s, %s]", quantity.Number(n.Ratio, 3), quantity.Number(n.Interval.Low, 3), quantity.Number(n.Interval.High, 3))
}

// nextToHead is the head of a table of these.
var nextToHead = []string{"test", "unit", "your UnixBench", "its INDEX", "ours by it, CPU time", "verdict"}

// cells are a table's row, after the test's name.
func (n *nextTo) cells(unit string) []string {
	return []string{unit, quantity.Number(n.Result, 1), quantity.Number(n.UnixBench, 1), n.Span(), n.Verdict()}
}

// nextToLegend says what the tables hold.
const nextToLegend = `Your UnixBench ran unchanged in the same targets, in the same trials: first or second at random, after tare's where several containers begin together. Its numbers are those of its script Run. Ours by it compares rates by CPU time, which a busy machine disturbs less, with the 95 % interval of Student's t on the logarithms.`

// indexNextTo is the table next to an index; false where no UnixBench ran.
func indexNextTo(t indexTable) (finding.Table, bool) {
	g := finding.Table{Title: indexPlace(t) + ": your UnixBench", Head: nextToHead}
	for _, r := range t.Rows {
		if r.NextTo != nil {
			g.Rows = append(g.Rows, append([]string{r.Test}, r.NextTo.cells(r.Unit)...))
		}
	}
	return g, len(g.Rows) > 0
}

// nextToFinding names the tests that are on another scale than the user's UnixBench.
func nextToFinding(t indexTable) string {
	var within, apart, open []string
	for _, r := range t.Rows {
		switch {
		case r.NextTo == nil:
		case r.NextTo.Verdict() == "open":
			open = append(open, r.Test)
		case strings.HasPrefix(r.NextTo.Verdict(), "within"):
			within = append(within, r.Test)
		default:
			apart = append(apart, r.Test+" "+r.NextTo.Span())
		}
	}
	all := len(within) + len(apart) + len(open)
	if all == 0 {
		return ""
	}
	text := fmt.Sprintf("%s next to your UnixBench, by CPU time: %d of %s within 5 %%", indexPlace(t), len(within), quantity.Count(all, "test"))
	if len(apart) > 0 {
		text += "; on another scale: " + strings.Join(apart, ", ")
	}
	if len(open) > 0 {
		text += "; open: " + strings.Join(open, ", ") + " (more passes settle it)"
	}
	return text + "."
}

// besideCell is what the trials of a cell gave.
type besideCell struct{ scores, ratios []float64 }

// besideCells are the cells in which a UnixBench of the user's ran.
func besideCells(records []sample.Record) map[string]besideCell {
	all := map[string]besideCell{}
	for _, r := range records {
		if len(r.Values[sample.UnixBenchRatio]) == 0 {
			continue
		}
		c := all[r.Cell]
		c.scores = append(c.scores, stats.Mean(r.Values[sample.UnixBenchScore])) // over the trial's containers
		c.ratios = append(c.ratios, stats.Mean(r.Values[sample.UnixBenchRatio]))
		all[r.Cell] = c
	}
	return all
}

// studyNextTo are the tables of a run of the study in which a UnixBench of the user's
// ran: one for each target and environment.
func studyNextTo(in input) ([]finding.Table, error) {
	beside := besideCells(in.Records)
	tables := map[place]*finding.Table{}
	var order []place
	for _, c := range in.Cells {
		baseline, unit, ok := workload.UnixBaseline(c.Workload)
		n, err := nextToOf(beside[c.ID].scores, beside[c.ID].ratios, baseline)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
		if !ok || n == nil || c.AA {
			continue
		}
		at := place{c.Target, c.Environment}
		if !slices.Contains(order, at) {
			order = append(order, at)
			tables[at] = &finding.Table{Title: c.Target + ", " + placeName(c.Environment) + ": your UnixBench", Head: slices.Insert(slices.Clone(nextToHead), 1, "containers")}
		}
		tables[at].Rows = append(tables[at].Rows, append([]string{c.Workload, fmt.Sprint(c.Copies)}, n.cells(unit)...))
	}
	var all []finding.Table
	for _, at := range order {
		all = append(all, *tables[at])
	}
	return all, nil
}
