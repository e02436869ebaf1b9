package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// fleets simulates machines whose true log ratios scatter by ratio standard errors, and
// whose own standard errors are estimates from nine blocks.
func fleets(k int, ratio float64, rng *rand.Rand) (values, errors []float64, next float64) {
	const se = 0.01
	for range k {
		own, chi := se*math.Exp(0.3*rng.NormFloat64()), 0.
		for range 8 {
			z := rng.NormFloat64()
			chi += z * z
		}
		values = append(values, ratio*se*rng.NormFloat64()+own*rng.NormFloat64())
		errors = append(errors, own*math.Sqrt(chi/8))
	}
	return values, errors, ratio * se * rng.NormFloat64()
}

func within(i Interval, v float64) float64 {
	if v >= i.Low && v <= i.High {
		return 1
	}
	return 0
}

// The intervals of one population of machines hold what they promise. 4,000 fleets give a
// coverage to 0.4 % (standard error); the short form, with 1,000, to 0.7 %.
func TestCoverageOverMachines(t *testing.T) {
	times := 4000
	if testing.Short() {
		times = 1000
	}
	for _, k := range []int{3, 5, 10, 30} {
		for _, ratio := range []float64{0, 1, 3} {
			rng := Source(26, fmt.Sprint(k, ratio))
			var mean, next, between float64
			for range times {
				values, errors, more := fleets(k, ratio, rng)
				m, ok := OverMachines(values, errors)
				if !ok {
					t.Fatal(k)
				}
				mean += within(m.Mean.Interval, 0)
				next += within(m.Next, more)
				between += within(m.Between.Interval, ratio*0.01)
			}
			n := float64(times)
			t.Logf("%2d machines, scatter %g: mean %.1f %%, next machine %.1f %%, between %.1f %%", k, ratio, 100*mean/n, 100*next/n, 100*between/n)
			if mean/n < 0.93 || next/n < 0.93 || between/n < 0.93 {
				t.Errorf("%d machines, scatter %g: coverage %.3f of the mean, %.3f of the next machine, %.3f of the scatter", k, ratio, mean/n, next/n, between/n)
			}
			if mean/n > 0.985 { // as wide as that, an interval says nothing
				t.Errorf("%d machines, scatter %g: the mean's interval covers %.3f", k, ratio, mean/n)
			}
		}
	}
}

func TestOverMachines(t *testing.T) {
	for k := range MinimumMachines {
		if _, ok := OverMachines(make([]float64, k), make([]float64, k)); ok {
			t.Errorf("%d machines have a mean", k)
		}
	}
	m, ok := OverMachines([]float64{1, 2, 3}, []float64{0.5, 0.5, 0.5})
	// Student's t with 2 degrees of freedom has the quantiles 4.302653 and 2.919986, and
	// chi-squared -2 ln(1-p).
	for what, c := range map[string][2]float64{
		"mean": {m.Mean.Value, 2}, "low": {m.Mean.Interval.Low, -0.484138}, "high": {m.Mean.Interval.High, 4.484138},
		"next": {m.Next.High, 6.968275}, "next at 90 %": {m.Next90.High, 5.371712},
		"between": {m.Between.Value, math.Sqrt(0.75)}, "between, low": {m.Between.Interval.Low, math.Sqrt(2/(-2*math.Log(0.025)) - 0.25)}, "between, high": {m.Between.Interval.High, math.Sqrt(2/(-2*math.Log(0.975)) - 0.25)},
		"within": {m.Within, 0.5}, "range": {m.Range.Level, 0.5},
	} {
		if math.Abs(c[0]-c[1]) > 1e-5 {
			t.Errorf("%s: %.6f, want %.6f", what, c[0], c[1])
		}
	}
	if !ok || m.Median != nil {
		t.Errorf("%+v", m)
	}
	if m, _ := OverMachines([]float64{1, 1, 1}, []float64{0.5, 0.5, 0.5}); m.Between.Value != 0 || m.Next.Low != 1 || m.Next.High != 1 {
		t.Errorf("machines that agree: %+v", m)
	}
	if m, _ := OverMachines([]float64{5, 1, 2, 3, 4, 6}, make([]float64, 6)); m.Median == nil || m.Median.Value != 3.5 || m.Median.Interval.Low != 1 || m.Median.Interval.High != 6 {
		t.Errorf("the median: %+v", m.Median)
	}
}

func TestLeaveOneOut(t *testing.T) {
	if got := LeaveOneOut([]float64{1, 2, 9}); got != nil {
		t.Errorf("three machines: %v", got)
	}
	got := LeaveOneOut([]float64{0, 0.01, -0.01, 0.005, 0.5})
	if len(got) != 5 || got[4].P > 1e-4 || got[4].Score < 10 || got[0].P < 0.5 {
		t.Errorf("%+v", got)
	}
	for _, u := range LeaveOneOut([]float64{1, 1, 1, 1, 2}) {
		if (u.P < 1e-6) != (u.Machine == 4) || math.IsInf(u.Score, 0) || math.IsNaN(u.Score) {
			t.Errorf("%+v", u)
		}
	}
	// Of machines of one kind, few fleets name any: 5 % by Holm.
	rng, named := Source(26, "alike"), 0
	for range 1000 {
		values, _, _ := fleets(10, 1, rng)
		for _, u := range LeaveOneOut(values) {
			if u.P < 0.05 {
				named++
				break
			}
		}
	}
	if named > 75 {
		t.Errorf("of 1000 fleets of machines of one kind, %d name one", named)
	}
}

func TestGroups(t *testing.T) {
	// By hand: t = 1.75/sqrt(35/48 + 1/3) = 1.69775 with 4.8496 degrees of freedom.
	d, p := Groups([]float64{1, 2, 3}, []float64{2, 3, 4, 6})
	if math.Abs(d.Value-1.75) > 1e-9 || math.Abs(p-0.1521268) > 1e-6 || math.Abs(d.Interval.Low+0.9246038) > 1e-6 || math.Abs(d.Interval.High-4.4246038) > 1e-6 {
		t.Errorf("%+v, p %.4f", d, p)
	}
	if d, p := Groups([]float64{1}, []float64{2, 3}); p != 1 || d.Interval.Decides() {
		t.Errorf("one machine: %+v, %g", d, p)
	}
	if _, p := Groups([]float64{1, 1}, []float64{2, 2}); p != 0 {
		t.Errorf("groups without scatter: %g", p)
	}
	if _, p := Groups([]float64{1, 1}, []float64{1, 1}); p != 1 {
		t.Errorf("equal groups: %g", p)
	}
}

func TestMachinesFor(t *testing.T) {
	if got := MachinesFor(0.01, 0.01); got != 7 { // qt(.975,6)/sqrt(7) = 0.925, qt(.975,5)/sqrt(6) = 1.049
		t.Errorf("%d machines", got)
	}
	if got := MachinesFor(1, 0.001); got != 0 {
		t.Errorf("%d machines", got)
	}
}
