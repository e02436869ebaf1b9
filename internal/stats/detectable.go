package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// PilotScatter is the standard deviation of the logarithm of a trial, from the
// logarithms of two or more trials of a cell, with the limits of its 80 % interval:
// (n-1)s²/σ² has the χ² distribution with n-1 degrees of freedom. The estimate is as often
// too small as too large.
func PilotScatter(logs []float64) (low, estimate, high float64) {
	freedom := float64(len(logs) - 1)
	s := stat.StdDev(logs, nil)
	at := func(p float64) float64 { return s * math.Sqrt(freedom/distuv.ChiSquared{K: freedom}.Quantile(1-p)) }
	return at(0.1), at(0.5), at(0.9)
}

const (
	detectableRuns  = 100 // simulated runs
	detectablePower = 0.8
)

// Detectable is the smallest shift that a Contrast of n blocks excludes from being
// zero with a chance of 0.8, at a level: the 80th percentile over simulated runs
// without an effect of how far the interval reaches below zero. noise gives one
// value's deviation. It is 0 where so few blocks have no interval at the level.
func Detectable(noise func(*rand.Rand) float64, n int, level float64, twin bool, seed uint64) float64 {
	if SmallestP(n, twin) > 1-level+1e-12 {
		return 0
	}
	rng := Source(seed, "detectable")
	draw := func() []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = noise(rng)
		}
		return x
	}
	return reach(level, func() Contrast {
		c := Contrast{Target: draw(), Control: draw()}
		if twin {
			c.Twin = draw()
		}
		return c
	})
}

// Detectable is the same of runs like this one, whose shift is known: their blocks are
// drawn from its own, with replacement, and the shift is taken away. NaN where it has no
// interval.
func (c Contrast) Detectable(shift, level float64) float64 {
	n := len(c.Target)
	rng := Source(uint64(n), "detectable")
	return reach(level, func() Contrast {
		var run Contrast
		for range n {
			i := rng.IntN(n)
			run.Target = append(run.Target, c.Target[i]-shift)
			if c.Control != nil {
				run.Control = append(run.Control, c.Control[i])
			}
			if c.Twin != nil {
				run.Twin = append(run.Twin, c.Twin[i])
			}
		}
		return run
	})
}

// reach is the 80th percentile of how far the intervals of simulated runs reach below zero.
func reach(level float64, run func() Contrast) float64 {
	all := make([]float64, detectableRuns)
	for i := range all {
		all[i] = -run().lowest(level)
	}
	slices.Sort(all)
	return max(0, Quantile(all, detectablePower))
}

// Scatter estimates the standard deviation of ascending numbers from their MAD,
// or directly where more than half of them are equal.
func Scatter(x []float64) float64 {
	if mad := Deviation(x); mad > 0 {
		return mad / normalScale
	}
	m, square := Mean(x), 0.0
	for _, v := range x {
		square += (v - m) * (v - m)
	}
	return math.Sqrt(square / float64(max(1, len(x)-1)))
}

// FromLog turns a log-ratio into a ratio-1, finite.
func FromLog(log float64) float64 { return math.Expm1(min(log, LargestLog)) }
