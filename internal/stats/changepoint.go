package stats

import (
	"math"
	"slices"
)

// Step is a place where the level of a series changed.
type Step struct {
	At int     // index of the first value of the new level
	P  float64 // that the values on both sides are of one level, by permutation
}

// Steps finds where the level of x changed, in the order of x: E-divisive (Matteson and
// James, J. Am. Stat. Assoc. 109, 2014), which splits the series where the energy
// distance of both sides is largest, and goes on in the parts while a permutation test
// rejects at alpha. No part is shorter than smallest values, so that one bad run is no
// step. A test draws the given number of permutations from the seed, so its smallest p-value
// is 1/(permutations+1).
func Steps(x []float64, smallest int, alpha float64, permutations int, seed uint64) []Step {
	rng := Source(seed, "steps")
	bounds := []int{0, len(x)}
	var steps []Step
	for {
		at, most := widestSplit(x, bounds, smallest)
		if at < 0 {
			return steps
		}
		p := permutationP(x, bounds, smallest, alpha, permutations, most, func(part []float64) {
			rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		})
		if p > alpha {
			return steps
		}
		i, _ := slices.BinarySearch(bounds, at)
		bounds = slices.Insert(bounds, i, at)
		i, _ = slices.BinarySearchFunc(steps, at, func(s Step, at int) int { return s.At - at })
		steps = slices.Insert(steps, i, Step{At: at, P: p})
	}
}

// permutationP is the share of series, permuted within their parts, whose widest split is
// at least as wide as most. It ends early where that share is more than alpha.
func permutationP(x []float64, bounds []int, smallest int, alpha float64, permutations int, most float64, shuffle func([]float64)) float64 {
	permuted := slices.Clone(x)
	wider := 1
	for range permutations {
		for i := range len(bounds) - 1 {
			shuffle(permuted[bounds[i]:bounds[i+1]])
		}
		if _, q := widestSplit(permuted, bounds, smallest); q >= most {
			wider++
		}
		if float64(wider) > alpha*float64(permutations+1) {
			return 1
		}
	}
	return float64(wider) / (float64(permutations) + 1)
}

// widestSplit is where the two sides of a part differ most, with how much they do; -1
// where no part can be split.
func widestSplit(x []float64, bounds []int, smallest int) (at int, most float64) {
	at = -1
	for i := range len(bounds) - 1 {
		from, to := bounds[i], bounds[i+1]
		if to-from < 2*smallest {
			continue
		}
		if t, q := splitOf(x[from:to], smallest); at < 0 || q > most {
			at, most = from+t, q
		}
	}
	return at, most
}

// splitOf is the best split of one part: where the values before it and some values
// after it, to wherever these end, have the largest scaled energy distance
// mn/(m+n) (2 E|X-Y| - E|X-X'| - E|Y-Y'|).
func splitOf(x []float64, smallest int) (at int, most float64) {
	d := newDistances(x)
	at, most = smallest, math.Inf(-1)
	for t := smallest; t <= len(x)-smallest; t++ {
		left := d.sum(0, t, 0, t) / 2
		for end := t + smallest; end <= len(x); end++ {
			if q := energy(left, d.sum(t, end, t, end)/2, d.sum(0, t, t, end), float64(t), float64(end-t)); q > most {
				at, most = t, q
			}
		}
	}
	return at, most
}

// distances are sums of the distances between the values of a series: at row i and
// column j over all pairs of values before i and before j.
type distances struct {
	sums  []float64
	width int
}

func newDistances(x []float64) distances {
	d := distances{sums: make([]float64, (len(x)+1)*(len(x)+1)), width: len(x) + 1}
	for i := range x {
		row := 0.0
		for j := range x {
			row += math.Abs(x[i] - x[j])
			d.sums[(i+1)*d.width+j+1] = d.sums[i*d.width+j+1] + row
		}
	}
	return d
}

// sum is over the values from top to bottom and those from left to right.
func (d distances) sum(top, bottom, left, right int) float64 {
	at := func(i, j int) float64 { return d.sums[i*d.width+j] }
	return at(bottom, right) - at(top, right) - at(bottom, left) + at(top, left)
}

func energy(left, right, across, m, n float64) float64 {
	return m * n / (m + n) * (2*across/(m*n) - pairMean(left, m) - pairMean(right, n))
}

// pairMean is the mean over all pairs of n values; 0 for one value.
func pairMean(sum, n float64) float64 {
	if n < 2 {
		return 0
	}
	return sum / (n * (n - 1) / 2)
}
