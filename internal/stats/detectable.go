package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// DetectableShift is MinimumDetectable for two runs of n blocks each, whose
// log-ratios scatter by s together (the root of the sum of squares); like runs
// have 2n-2 degrees of freedom.
func DetectableShift(s float64, n int, alpha, margin float64) float64 {
	if n <= MinimumBlocks {
		return 0
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(2*n - 2)}
	se := s * math.Sqrt(math.Pi/2/float64(n))
	half := expanded(n, 0.95) * se
	if n < BootstrapFrom { // two runs' half-widths, each of s/sqrt(2)
		half = math.Sqrt2 * s * normalScore(n+1-orderRank(n, math.Sqrt(0.95)), n)
	}
	test := (t.Quantile(1-alpha/2) + t.Quantile(hurdlePower)) * s * math.Sqrt(math.Pi/3/float64(n))
	return FromLog(max(test, widthHurdle(t, se, half, margin)))
}

// pilotLimit is the level at which a pilot's scatter is taken.
const pilotLimit = 0.8

// PilotScatter is the standard deviation of the log-ratios of two trials of a
// cell, from the logarithms of two or more of its trials. So few tell it badly,
// and as often too small as too large: what is given is its upper 80 % limit, with
// which plans keep their promise (Browne, On the Use of a Pilot Sample for Sample
// Size Determination, Statistics in Medicine 14, 1995).
func PilotScatter(logs []float64) float64 {
	freedom := float64(len(logs) - 1)
	least := distuv.ChiSquared{K: freedom}.Quantile(1 - pilotLimit)
	return math.Sqrt2 * stat.StdDev(logs, nil) * math.Sqrt(freedom/least)
}

// hurdlePower is the chance given to each of two hurdles; 0.8 is left for both.
const hurdlePower = 0.9

// MinimumDetectable is the smallest effect, as a ratio-1, that n blocks give
// the verdict "differs" with a chance of 0.8 or more, when their log-ratios
// have a standard deviation of s (of a pilot, or of the run itself) and the
// p-value has to reach alpha (already divided by the number of cells). It is 0
// when nothing can be said: n is too small for alpha.
//
// The verdict has two hurdles: evidence (interval and test) and size (margin
// and noise floor). Each is given a chance of 0.9, so that by Bonferroni's
// inequality both are taken with at least 0.8. For normal log-ratios the sample
// size formula of a t test (Lachin, Controlled Clinical Trials 2, 1981) gives them
// as
//
//	interval, noise floor  H + t(0.9) hypot(SE, 0.3 H)
//	test                   (t(1-alpha/2) + t(0.9)) s sqrt(pi/3 / n), of signed ranks
//	margin                 log(1+margin) + t(0.9) SE
//
// with t of n-1 degrees of freedom, SE = s sqrt(pi/2 / n) of a median, and H the
// half-width of a 95 % interval, the cell's or the A/A pair's, itself uncertain
// by some 0.3. Below 12 blocks the interval's hurdle is exact besides: so many
// blocks must agree in sign as its order statistics ask for.
func MinimumDetectable(s float64, n int, alpha, margin float64) float64 {
	if n < MinimumBlocks || math.Pow(2, float64(1-n)) > alpha {
		return 0
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	se := s * math.Sqrt(math.Pi/2/float64(n))
	half, signs := expanded(n, 0.95)*se, 0.0
	if n < BootstrapFrom {
		k := orderRank(n, 0.95)
		half = s * normalScore(n+1-k, n)
		signs = s * normal.Quantile(agreement(n, k))
	}
	test := (t.Quantile(1-alpha/2) + t.Quantile(hurdlePower)) * s * math.Sqrt(math.Pi/3/float64(n))
	return FromLog(max(signs, test, widthHurdle(t, se, half, margin)))
}

// FromLog turns a log-ratio into a ratio-1, finite.
func FromLog(log float64) float64 { return math.Expm1(min(log, LargestLog)) }

// widthHurdle is what an effect must be to exceed the margin, the noise floor
// and its own interval's reach.
func widthHurdle(t distuv.StudentsT, se, half, margin float64) float64 {
	const floorSpread = 0.3 // of the floor itself, which comes from as few blocks
	again := t.Quantile(hurdlePower)
	return max(math.Log1p(margin)+again*se, half+again*math.Hypot(se, floorSpread*half))
}

// normalScore is the expected i-th of n standard normal numbers in order
// (Blom, Statistical Estimates and Transformed Beta-Variables, 1958).
func normalScore(i, n int) float64 {
	return normal.Quantile((float64(i) - 0.375) / (float64(n) + 0.25))
}

// agreement is the chance that one block's effect must have of showing the
// right sign, for at most k-1 of n blocks to show the wrong one with a chance of
// hurdlePower.
func agreement(n, k int) float64 {
	low, high := 0.5, 1.0
	for range 50 {
		q := (low + high) / 2
		if (distuv.Binomial{N: float64(n), P: 1 - q}).CDF(float64(k-1)) < hurdlePower {
			low = q
		} else {
			high = q
		}
	}
	return high
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
