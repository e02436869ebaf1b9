package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/analysis"
)

// The limits of what the page draws. Above pointsMost samples a table is shown
// as densities with outliers, so that a large run gives a page that opens.
const (
	pointsMost   = 20_000 // samples drawn as dots, in all tables of a page
	outliersMost = 200    // outliers drawn for one cell; the farthest are kept
	densityBins  = 120    // of one cell
)

// shape is how the page draws one row's samples: as dots, every one, or as a
// density with outliers.
type shape struct {
	Dots     []float64 `json:"dots,omitempty"`     // every sample, in block order
	Density  *density  `json:"density,omitempty"`  // where there are too many
	Outliers []float64 `json:"outliers,omitempty"` // beside a density, in rising order
	LeftOut  int       `json:"leftOut,omitempty"`  // outliers that were not drawn
}

// density is a histogram of the samples that are no outliers: equal bins
// between Low and High, on the log scale where Log says so.
type density struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Log    bool    `json:"log,omitempty"`
	Counts []int   `json:"counts"`
}

// shapes decides for each table whether its samples are drawn as dots: primary
// tables first, as long as the page's limit allows whole tables.
func shapes(tables []analysis.Table) (all [][]shape, points int) {
	all = make([][]shape, len(tables))
	for _, primary := range []bool{true, false} {
		for i, t := range tables {
			if t.Primary != primary {
				continue
			}
			n := samples(t)
			dots := points+n <= pointsMost
			if dots {
				points += n
			}
			for _, r := range t.Rows {
				all[i] = append(all[i], shapeOf(r, dots))
			}
		}
	}
	return all, points
}

func samples(t analysis.Table) int {
	n := 0
	for _, r := range t.Rows {
		n += len(r.Samples)
	}
	return n
}

func shapeOf(r analysis.Row, dots bool) shape {
	if dots || len(r.Samples) == 0 {
		return shape{Dots: r.Samples}
	}
	low, high := usual(r)
	s := shape{Density: densityOf(r.Samples, low, high)}
	for _, v := range r.Samples {
		if v < low || v > high {
			s.Outliers = append(s.Outliers, v)
		}
	}
	s.Outliers, s.LeftOut = farthest(s.Outliers, r.Summary.Median)
	return s
}

// usual is the range of the samples that are no outliers, by the rule that
// analysis.Summary counts them by: a modified z-score of at most 3.5, where
// 0.6745 MAD is a normal distribution's standard deviation.
func usual(r analysis.Row) (low, high float64) {
	reach := math.Inf(1)
	if r.Summary.MAD > 0 {
		reach = 3.5 * r.Summary.MAD / 0.6745
	}
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range r.Samples {
		if math.Abs(v-r.Summary.Median) <= reach {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

func densityOf(samples []float64, low, high float64) *density {
	d := &density{Low: low, High: high, Log: low > 0 && high > logSpan*low, Counts: make([]int, densityBins)}
	at := func(v float64) float64 { return v }
	if d.Log {
		at = math.Log
	}
	width := at(high) - at(low)
	for _, v := range samples {
		if !(v >= low && v <= high) {
			continue
		}
		bin := 0
		if width > 0 {
			bin = min(int((at(v)-at(low))/width*densityBins), densityBins-1)
		}
		d.Counts[bin]++
	}
	return d
}

// farthest keeps the outliers that lie farthest from the median.
func farthest(outliers []float64, median float64) (kept []float64, leftOut int) {
	slices.SortFunc(outliers, func(a, b float64) int {
		return cmp.Compare(math.Abs(b-median), math.Abs(a-median))
	})
	if len(outliers) > outliersMost {
		outliers, leftOut = outliers[:outliersMost], len(outliers)-outliersMost
	}
	slices.Sort(outliers)
	return outliers, leftOut
}
