package report

import (
	"math"
	"testing"

	"github.com/tarelab/tare/internal/analysis"
)

func rowOf(n int, outliers ...float64) analysis.Row {
	r := analysis.Row{Summary: analysis.Summary{N: n + len(outliers), Median: 100, MAD: 1}}
	for i := range n {
		r.Samples = append(r.Samples, 98+4*float64(i)/float64(n))
	}
	r.Samples = append(r.Samples, outliers...)
	return r
}

func TestShapesKeepEverySample(t *testing.T) {
	tables := []analysis.Table{
		{Rows: []analysis.Row{rowOf(15_000)}},                // fits after the primary one? no
		{Primary: true, Rows: []analysis.Row{rowOf(12_000)}}, // drawn as dots: primary first
		{Rows: []analysis.Row{rowOf(8_000)}},                 // the rest fits exactly
	}
	all, points := shapes(tables)
	if points != 20_000 {
		t.Errorf("%d points, want 20000", points)
	}
	if all[0][0].Density == nil || all[0][0].Dots != nil {
		t.Error("the table that does not fit is drawn as dots")
	}
	if len(all[1][0].Dots) != 12_000 || len(all[2][0].Dots) != 8_000 {
		t.Errorf("dots: %d and %d, want all of 12000 and 8000", len(all[1][0].Dots), len(all[2][0].Dots))
	}
}

func TestDensityCountsEverySampleOnce(t *testing.T) {
	r := rowOf(30_000, 200, 300, 1)
	s := shapeOf(r, false)
	n := len(s.Outliers) + s.LeftOut
	for _, c := range s.Density.Counts {
		n += c
	}
	if n != len(r.Samples) || len(s.Outliers) != 3 {
		t.Errorf("%d of %d samples are drawn, %d as outliers (want 3)", n, len(r.Samples), len(s.Outliers))
	}
}

func TestFarthestOutliersStay(t *testing.T) {
	var far []float64
	for i := range 1000 {
		far = append(far, 200+float64(i))
	}
	s := shapeOf(rowOf(100, far...), false)
	if len(s.Outliers) != outliersMost || s.LeftOut != 1000-outliersMost || s.Outliers[outliersMost-1] != 1199 {
		t.Errorf("%d outliers, %d left out, the farthest %v", len(s.Outliers), s.LeftOut, s.Outliers[len(s.Outliers)-1])
	}
}

func TestDensityOfEqualSamples(t *testing.T) {
	r := analysis.Row{Samples: []float64{5, 5, 5}, Summary: analysis.Summary{N: 3, Median: 5}}
	if s := shapeOf(r, false); s.Density.Counts[0] != 3 || len(s.Outliers) != 0 {
		t.Errorf("equal samples are drawn as %+v", s)
	}
}

func TestOpenCosts(t *testing.T) {
	for _, c := range []struct {
		low, at, high float64
		want          string
	}{{1, 2, 3, "+1 to +3"}, {19.9, 20, 20.1, "+20"}, {math.NaN(), 2, math.NaN(), "~+2"}, {-1, 0, 1, "−1 to +1"}} {
		if got := costText(c.low, c.at, c.high, true); got != c.want {
			t.Errorf("[%v, %v] prints %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

// The page is at most 400 kB, and then its data.
func TestPageIsSmall(t *testing.T) {
	if len(built) > 400_000 {
		t.Errorf("the page without data has %d bytes", len(built))
	}
}
