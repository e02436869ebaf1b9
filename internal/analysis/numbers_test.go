package analysis

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/stats"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		alpha float64
		m     int
		twin  bool
		want  int
	}{{0.05, 1, true, 6}, {0.05, 8, true, 6}, {0.05, 12, true, 6}, {0.05, 40, true, 7}, {0.05, 8, false, 9}, {0.05, 1, false, 6}, {0.01, 10, false, 11}, {0.05, 0, true, 6}} {
		n := PlanBlocks(c.alpha, c.m, c.twin)
		if n != c.want {
			t.Errorf("PlanBlocks(%g, %d, %v) = %d, want %d", c.alpha, c.m, c.twin, n, c.want)
		}
		if err := CheckPlan(n, c.alpha, c.m, c.twin); err != nil {
			t.Errorf("%d blocks: %v", n, err)
		}
		if err := CheckPlan(n-1, c.alpha, c.m, c.twin); err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("use %d blocks", n)) {
			t.Errorf("%d blocks: %v, want a refusal that names %d", n-1, err, n)
		}
	}
}

func TestSummary(t *testing.T) {
	x := make([]float64, 100)
	for i := range x {
		x[i] = float64(i + 1)
	}
	x[99] = 1000
	s := summarize(x, stats.Source(1))
	if s.Median != 50.5 || math.Abs(s.P90-90.1) > 1e-9 || s.MAD != 25 { // numpy.percentile(range(1, 101), 90)
		t.Errorf("median %g, p90 %g, MAD %g; want 50.5, 90.1, 25", s.Median, s.P90, s.MAD)
	}
	if s.Outliers != 1 {
		t.Errorf("%d outliers, want 1", s.Outliers)
	}
	if s.P99 == nil {
		t.Error("no p99 from 100 values")
	}
	if s := summarize(x[:99], stats.Source(1)); s.P99 != nil {
		t.Error("a p99 from 99 values")
	}
	if s := summarize([]float64{5, 5, 5, 5, 9}, stats.Source(1)); s.Outliers != 0 {
		t.Error("outliers where most values are equal")
	}
}
