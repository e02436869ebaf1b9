package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func levels(n []float64, blocks int, sd float64, law func(n float64) float64) []Level {
	r := rand.New(rand.NewPCG(1, 3))
	out := make([]Level, len(n))
	for i := range n {
		out[i].N = n[i]
		for range blocks {
			out[i].Values = append(out[i].Values, law(n[i])*math.Exp(sd*r.NormFloat64()))
		}
	}
	return out
}

var concurrencies = []float64{1, 2, 4, 8, 16, 32, 64}

func TestUSLRecoversItsLaw(t *testing.T) {
	for _, c := range []uslPoint{{1000, 0.02, 0.0005}, {50, 0.3, 0}, {7, 0, 0.001}, {9, 0, 0}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			fit, err := FitUSL(levels(concurrencies, 15, 0, c.throughput), 1)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "rate", fit.Rate.Value, c.rate, 1e-6*c.rate)
			near(t, "contention", fit.Contention.Value, c.contention, 1e-8)
			near(t, "coherency", fit.Coherency.Value, c.coherency, 1e-8)
		})
	}
}

func TestUSLIntervalsCover(t *testing.T) {
	law := uslPoint{1000, 0.05, 0.0008}
	peak, _ := law.peak()
	covered := [4]int{}
	const runs = 60
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 9))
		in := levels(concurrencies, 15, 0, law.throughput)
		for i := range in {
			for k := range in[i].Values {
				in[i].Values[k] *= math.Exp(0.03 * r.NormFloat64())
			}
		}
		fit, err := FitUSL(in, seed)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			e    Estimate
			want float64
		}{{fit.Rate, law.rate}, {fit.Contention, law.contention}, {fit.Coherency, law.coherency}, {*fit.Peak, peak}} {
			if c.e.Interval.Low <= c.want && c.want <= c.e.Interval.High {
				covered[i]++
			}
		}
	}
	for i, n := range covered {
		if n < 51 { // 85 %: a bootstrap of 15 blocks, less two standard errors of 60 runs
			t.Errorf("parameter %d: %d of %d intervals cover", i, n, runs)
		}
	}
}

// Linear scaling has no peak, and a fit must not invent one.
func TestUSLWithoutPeak(t *testing.T) {
	fit, err := FitUSL(levels(concurrencies, 8, 0, func(n float64) float64 { return 10 * n }), 1)
	if err != nil || fit.Peak != nil || fit.PeakShare != 0 {
		t.Errorf("%+v, %v: want no peak", fit, err)
	}
}

// A peak that only some replicates have is none: its interval would be of those.
func TestUSLPeakOfSomeReplicates(t *testing.T) {
	law := uslPoint{10, 0.02, 1e-5} // a peak at 313, far beyond what is measured
	fit, err := FitUSL(levels(concurrencies, 8, 0.05, law.throughput), 1)
	if err != nil {
		t.Fatal(err)
	}
	if fit.PeakShare <= 0 || fit.PeakShare >= peakShown || fit.Peak != nil {
		t.Errorf("a share of %g has the peak %+v", fit.PeakShare, fit.Peak)
	}
}

func TestScalingRefusesBadInput(t *testing.T) {
	ok := []float64{1, 2}
	for name, in := range map[string][]Level{
		"3 or more":     {{1, ok, nil}, {2, ok, nil}},
		"and a block":   {{1, ok, nil}, {2, ok, nil}, {3, nil, nil}},
		"given twice":   {{1, ok, nil}, {2, ok, nil}, {2, ok, nil}},
		"zero or negat": {{1, ok, nil}, {2, ok, nil}, {3, []float64{1, 0}, nil}},
		"positive size": {{0, ok, nil}, {2, ok, nil}, {3, ok, nil}},
	} {
		if _, err := FitUSL(in, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
		if _, err := FitLaws(in, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

func TestLawsNameTheTruth(t *testing.T) {
	sizes := []float64{10, 50, 100, 200, 300, 500}
	for name, law := range map[string]func(n float64) float64{
		LawLinear:      func(n float64) float64 { return 0.5 + 0.02*n },
		LawPower:       func(n float64) float64 { return 0.03 * math.Pow(n, 1.6) },
		LawExponential: func(n float64) float64 { return 0.7 * math.Exp(0.006*n) },
	} {
		t.Run(name, func(t *testing.T) {
			fit, err := FitLaws(levels(sizes, 10, 0.03, law), 1)
			if err != nil {
				t.Fatal(err)
			}
			if fit.Best != name {
				t.Fatalf("best %q: %s", fit.Best, fit.Why)
			}
			for _, n := range sizes {
				near(t, fmt.Sprint("at ", n), fit.Fits[0].At(n)/law(n), 1, 0.05)
			}
		})
	}
}

// A falling line fits too, and one through the origin is a power as well: then
// neither may be called the best.
func TestLawsAtTheirLimits(t *testing.T) {
	falling, err := FitLaws(levels([]float64{1, 2, 3, 4, 5}, 6, 0.001, func(n float64) float64 { return 10 - n }), 1)
	if err != nil || falling.Best != LawLinear {
		t.Errorf("%q: %s, %v", falling.Best, falling.Why, err)
	}
	near(t, "intercept", falling.Fits[0].A.Value, 10, 0.05)
	near(t, "slope", falling.Fits[0].B.Value, -1, 0.02)
	both, err := FitLaws(levels([]float64{1, 2, 4, 8}, 8, 0.05, func(n float64) float64 { return 3 * n }), 1)
	if err != nil || both.Best != "" {
		t.Errorf("%q: %s, %v; want no choice between a line through 0 and a power", both.Best, both.Why, err)
	}
}

// A law that has no value at some n (an exponential of large numbers that are close to each
// other) fits worst.
func TestLawWithoutAValue(t *testing.T) {
	l, err := FitLaws(levels([]float64{1000, 1001, 1002}, 6, 0.001, func(n float64) float64 { return math.Pow(2.2, n-1000) }), 1)
	if err != nil || l.Fits[0].Name == "exponential" || !math.IsInf(l.Fits[2].AICc, 1) {
		t.Errorf("%+v, %v", l.Fits, err)
	}
}
