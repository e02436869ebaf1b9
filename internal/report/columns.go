package report

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/quantity"
)

// column is one column of a price list, for the terminal and for Markdown.
type column struct {
	head  string
	right bool // numbers stand right
	point bool // numbers stand with their points below each other
	// expendable columns are dropped when the terminal is narrow, the highest
	// number first; 0 stays.
	expendable int
	cell       func(shownRow) string
}

// priceColumns are the columns of a primary table.
func priceColumns(t shownTable) []column {
	columns := []column{
		{head: "target", cell: func(r shownRow) string { return r.claim.Label }},
		{head: strings.TrimSuffix("median "+t.Unit, " "), right: true, point: true, cell: func(r shownRow) string { return r.Median.Value }},
		{head: level(t), right: true, expendable: 3, cell: func(r shownRow) string { return r.Median.Interval() }},
		{head: "ratio", right: true, point: true, cell: ratioCell},
		{head: "ratio's interval", right: true, expendable: 2, cell: func(r shownRow) string { return r.Ratio.Interval() }},
		{head: "verdict", cell: func(r shownRow) string { return r.Verdict }},
		{head: "n", right: true, expendable: 4, cell: func(r shownRow) string { return strconv.Itoa(r.claim.Summary.N) }},
		{head: "failed", right: true, expendable: 1, cell: failedCell},
		{head: strings.TrimSuffix("cold "+t.Unit, " "), right: true, point: true, expendable: 5, cell: func(r shownRow) string { return r.Cold }},
	}
	return slices.DeleteFunc(columns, func(c column) bool { return c.expendable > 0 && empty(c, t.Rows) })
}

// level heads the column of the median's interval, with its coverage.
func level(t shownTable) string {
	for _, r := range t.Rows {
		if i := r.claim.Summary.Interval; quantity.Known(i) && i.Level > 0 {
			return "median's " + quantity.Percent(i.Level)
		}
	}
	return "median's interval"
}

// empty reports whether a column says nothing in any row.
func empty(c column, rows []shownRow) bool {
	return !slices.ContainsFunc(rows, func(r shownRow) bool { return c.cell(r) != "" })
}

func failedCell(r shownRow) string {
	if r.claim.Summary.Failed == 0 {
		return ""
	}
	return strconv.Itoa(r.claim.Summary.Failed)
}

func ratioCell(r shownRow) string {
	if r.claim.Control {
		return "1"
	}
	return r.Ratio.Value
}

// alignPoints pads numbers on the right so that right-aligned they stand with
// their decimal points below each other.
func alignPoints(cells []string) {
	most := 0
	for _, c := range cells {
		most = max(most, fraction(c))
	}
	for i, c := range cells {
		cells[i] = c + strings.Repeat(" ", most-fraction(c))
	}
}

// fraction is the width of a number's point and decimals.
func fraction(s string) int {
	if at := strings.IndexByte(s, '.'); at >= 0 {
		return len(s) - at
	}
	return 0
}

// briefCell is a secondary metric in one cell: the median and the ratio.
func briefCell(r shownRow) string {
	if r.claim.Summary.N == 0 || r.claim.Control || r.claim.Effect == nil || r.Ratio.Value == quantity.Missing {
		return r.Median.Value
	}
	return r.Median.Value + " " + r.times()
}

const legend = "× ratio to the control (Δ difference, where the control is zero); these metrics are described, not judged"

// brief is the table of a group's secondary metrics: rows are targets, columns
// are metrics.
func brief(g group) (head []string, rows [][]string) {
	head = []string{"target"}
	at := map[string]int{}
	for _, t := range g.secondary {
		head = append(head, strings.TrimSuffix(t.claim.Metric.Name+" "+t.Unit, " "))
		for _, r := range t.Rows {
			if _, ok := at[r.claim.Cell]; !ok {
				at[r.claim.Cell] = len(rows)
				rows = append(rows, append([]string{r.claim.Label}, make([]string, len(g.secondary))...))
			}
		}
	}
	for i, t := range g.secondary {
		for _, r := range t.Rows {
			rows[at[r.claim.Cell]][i+1] = briefCell(r)
		}
	}
	return head, rows
}

// resolution says how much the control differs from itself.
func resolution(t shownTable) string {
	if t.claim.Noise <= 0 {
		return ""
	}
	return "Noise: the control differs from itself by up to " + quantity.Percent(t.claim.Noise)
}
