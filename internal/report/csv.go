package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/stats"
	"github.com/tarelab/tare/internal/study"
)

// csvHeader names the columns of the CSV format; new ones are appended, none
// is renamed.
var csvHeader = []string{
	"run", "group", "workload", "metric", "unit", "better", "primary",
	"cell", "target", "label", "control", "aa", "n", "failed",
	"median", "median_low", "median_high", "median_level", "median_method",
	"mean", "min", "max", "p90", "p99", "mad", "outliers", "cold",
	"ratio", "ratio_low", "ratio_high", "ratio_level",
	"p", "blocks", "below_margin", "blocks_needed", "noise", "verdict", "why",
	"difference", "difference_low", "difference_high",
	"environment", "instances", "accel",
}

// csvComparison names the columns of the CSV format where runs are compared: one line
// per cell and metric that both runs have.
var csvComparison = []string{
	"run_a", "run_b", "group", "workload", "metric", "unit", "better", "primary",
	"cell", "target", "label", "control", "aa",
	"n_a", "failed_a", "median_a", "median_low_a", "median_high_a",
	"n_b", "failed_b", "median_b", "median_low_b", "median_high_b",
	"raw_ratio", "ratio", "ratio_low", "ratio_high", "ratio_level", "p", "blocks", "below_margin", "blocks_needed",
	"noise", "verdict", "why",
}

// CSV writes one line per cell and metric (tidy, long form), all numbers in
// base units (seconds, bytes, counts), empty where a number does not exist. Runs that
// are compared have columns of their own.
func CSV(w io.Writer, in Input) error {
	rows := slices.Concat([][]string{csvHeader}, csvRows(in))
	if len(in.Claims.Comparisons) > 0 {
		rows = slices.Concat([][]string{csvComparison}, csvChanges(in))
	}
	if err := csv.NewWriter(w).WriteAll(rows); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func csvRows(in Input) [][]string {
	cells := map[string]study.Cell{}
	for _, c := range in.Manifest.Cells {
		cells[c.ID] = c
	}
	var rows [][]string
	for i := range in.Claims.Tables {
		t := &in.Claims.Tables[i]
		for j := range t.Rows {
			line := append(csvLine(in.Manifest.ID, t, &t.Rows[j]), csvPlace(cells, t.Rows[j].Cell)...)
			rows = append(rows, csvCells(append(line, t.Rows[j].Accel)))
		}
	}
	return rows
}

func csvChanges(in Input) [][]string {
	var rows [][]string
	for _, c := range in.Claims.Comparisons {
		for _, r := range c.Rows {
			line := []string{
				in.Manifest.ID, c.With, c.Group, c.Workload, c.Metric.Name, string(c.Metric.Unit), string(c.Metric.Better), strconv.FormatBool(c.Primary),
				r.Cell, r.Target, r.Label, strconv.FormatBool(r.Control), strconv.FormatBool(r.AA),
			}
			line = slices.Concat(line, csvMedian(r.A), csvMedian(r.B))
			raw, verdict, why := "", "no verdict", ""
			if r.Raw > 0 {
				raw = csvNumber(r.Raw)
			}
			switch {
			case r.Control:
				verdict = "control"
			case r.Failed():
				verdict = "failed"
			case r.Effect != nil:
				verdict, why = string(r.Effect.Verdict), r.Effect.Why
			}
			rows = append(rows, csvCells(slices.Concat(line, []string{raw}, csvEffect(r.Effect), []string{csvNumber(c.Noise), verdict, why})))
		}
	}
	return rows
}

func csvMedian(s analysis.Summary) []string {
	out := []string{strconv.Itoa(s.N), strconv.Itoa(s.Failed)}
	if s.N == 0 {
		return append(out, "", "", "")
	}
	return append(append(out, csvNumber(s.Median)), csvBounds(s.Interval)...)
}

// csvPlace is the environment of a cell, empty for none, and its instances at once.
func csvPlace(cells map[string]study.Cell, id string) []string {
	c, ok := cells[id]
	if !ok {
		return []string{"", ""}
	}
	return []string{c.Environment, strconv.Itoa(c.Copies)}
}

// csvCells makes texts safe for the programs that open a table: control characters
// are visible, and a text that a spreadsheet would take for a formula begins with an
// apostrophe (OWASP, "CSV Injection"). Numbers stay as they are.
func csvCells(cells []string) []string {
	for i, c := range cells {
		if _, err := strconv.ParseFloat(c, 64); err == nil {
			continue
		}
		if cells[i] = clean(c); strings.IndexAny(cells[i], "=+-@") == 0 {
			cells[i] = "'" + cells[i]
		}
	}
	return cells
}

func csvLine(run string, t *analysis.Table, r *analysis.Row) []string {
	line := []string{
		run, t.Group, t.Workload, t.Metric.Name, string(t.Metric.Unit), string(t.Metric.Better), strconv.FormatBool(t.Primary),
		r.Cell, r.Target, r.Label, strconv.FormatBool(r.Control), strconv.FormatBool(r.AA),
		strconv.Itoa(r.Summary.N), strconv.Itoa(r.Summary.Failed),
	}
	line = append(line, csvSummary(r)...)
	line = append(line, csvEffect(r.Effect)...)
	noise := ""
	if t.Noise > 0 {
		noise = csvNumber(t.Noise)
	}
	why := ""
	if r.Effect != nil {
		why = r.Effect.Why
	}
	line = append(line, noise, verdictWord(r), why)
	return append(line, csvDifference(r.Effect)...)
}

func csvSummary(r *analysis.Row) []string {
	s := r.Summary
	if s.N == 0 {
		return append(make([]string, 12), csvOptional(r.Cold))
	}
	low, high, level := "", "", ""
	if quantity.Known(s.Interval) {
		low, high, level = csvNumber(s.Interval.Low), csvNumber(s.Interval.High), csvNumber(s.Interval.Level)
	}
	return []string{
		csvNumber(s.Median), low, high, level, s.Interval.Method,
		csvNumber(s.Mean), csvNumber(s.Min), csvNumber(s.Max), csvNumber(s.P90), csvOptional(s.P99),
		csvNumber(s.MAD), strconv.Itoa(s.Outliers), csvOptional(r.Cold),
	}
}

func csvEffect(e *analysis.Effect) []string {
	if e == nil {
		return make([]string, 8)
	}
	ratio, p, level, need := "", "", "", ""
	if e.HasRatio() {
		ratio = csvNumber(e.Ratio)
	}
	if e.HasRatio() || e.Difference != nil {
		p = csvNumber(e.P) // without either nothing was tested
	}
	if quantity.Known(e.Interval) {
		level = csvNumber(e.Interval.Level)
	}
	if e.Need > 0 {
		need = strconv.Itoa(e.Need)
	}
	out := append([]string{ratio}, csvBounds(e.Interval)...)
	return append(out, level, p, strconv.Itoa(e.Blocks), strconv.FormatBool(e.BelowMargin), need)
}

func csvDifference(e *analysis.Effect) []string {
	if e == nil || e.Difference == nil {
		return make([]string, 3)
	}
	return append([]string{csvNumber(e.Difference.Median)}, csvBounds(e.Difference.Interval)...)
}

func csvBounds(i stats.Interval) []string {
	if !quantity.Known(i) {
		return []string{"", ""}
	}
	return []string{csvNumber(i.Low), csvNumber(i.High)}
}

// csvNumber prints the shortest decimal that reads back as the same number.
func csvNumber(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func csvOptional(v *float64) string {
	if v == nil {
		return ""
	}
	return csvNumber(*v)
}
