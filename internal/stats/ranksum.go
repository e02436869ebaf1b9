package stats

import (
	"math"
	"slices"
)

// Between is the shift from x to y, two independent samples on a scale on which
// their difference is the effect: the median of all differences y - x (Hodges and
// Lehmann, Ann. Math. Statist. 34, 1963), with the interval of shifts that the
// rank-sum test does not reject, and that test's p-value of no shift. With too few
// values for the level the interval is the widest that they allow (Shift.Reached).
func Between(x, y []float64, level float64) Shift {
	n := min(len(x), len(y))
	out := Shift{Blocks: n, P: rankSum(x, y), Interval: None(0)}
	if n == 0 {
		return out
	}
	x, y = thinned(x), thinned(y)
	differences := make([]float64, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			differences = append(differences, b-a)
		}
	}
	differences = Sorted(differences)
	out.Value = Median(differences)
	out.Interval = None(out.Value)
	if most := 1 - SmallestBetween(len(x), len(y)); most < level || n < MinimumBlocks {
		level = min(level, most)
		out.Reached = level
	}
	if n < 2 {
		return out
	}
	k := mannWhitneyRank(len(x), len(y), (1-level)/2)
	out.Interval = Interval{Low: differences[k-1], High: differences[len(differences)-k], Level: level, Method: methodAt(level, n)}
	return out
}

// SmallestBetween is the smallest two-sided p-value of the rank-sum test of two
// independent samples of m and n values.
func SmallestBetween(m, n int) float64 { return min(1, 2/math.Exp(logChoose(m+n, n))) }

// BlocksBetween is the number of blocks of each of two runs from which Between has
// an interval at a level; never below MinimumBlocks.
func BlocksBetween(level float64) int {
	n := MinimumBlocks
	for SmallestBetween(n, n) > 1-level+1e-12 {
		n++
	}
	return n
}

// mostBetween bounds the values of a sample of which all differences are formed.
const mostBetween = 1000

// thinned takes evenly spaced order statistics of very large samples.
func thinned(x []float64) []float64 {
	if len(x) <= mostBetween {
		return x
	}
	x = Sorted(x)
	out := make([]float64, mostBetween)
	for i := range out {
		out[i] = x[i*len(x)/mostBetween]
	}
	return out
}

// mannWhitneyRank is the largest k for which P(U < k) is at most tail, at least 1: U
// counts the pairs of m and n equal samples in which the second value is smaller.
func mannWhitneyRank(m, n int, tail float64) int {
	pairs := m * n
	if m+n > exactRankSum {
		mean, sd := float64(pairs)/2, math.Sqrt(float64(pairs)*float64(m+n+1)/12)
		return max(1, int(math.Floor(mean+sd*normal.Quantile(tail)+0.5)))
	}
	// The number of ways to a value of U is the coefficient of a Gaussian binomial
	// (Mann and Whitney, Ann. Math. Statist. 18, 1947).
	ways := make([]float64, pairs+1)
	ways[0] = 1
	for i := 1; i <= m; i++ {
		for s := pairs; s >= n+i; s-- {
			ways[s] -= ways[s-n-i]
		}
		for s := i; s <= pairs; s++ {
			ways[s] += ways[s-i]
		}
	}
	all, below, k := math.Exp(logChoose(m+n, n)), 0.0, 0
	for k < pairs/2 && below+ways[k] <= tail*all*(1+1e-9) {
		below += ways[k]
		k++
	}
	return max(1, k)
}

// exactRankSum is the number of values in both samples up to which the
// permutation distribution is enumerated.
const exactRankSum = 48

// rankSum is the p-value, two-sided, of the permutation test on rank sums of
// two independent samples (Wilcoxon 1945; Mann and Whitney 1947; ties by
// midranks): exact up to 48 values together, its normal limit above.
func rankSum(x, y []float64) float64 {
	if len(x) == 0 || len(y) == 0 {
		return 1
	}
	ranks := Midranks(slices.Concat(x, y))
	n, total := len(ranks), float64(len(ranks)+1)
	sum, squares := 0.0, 0.0
	for i, r := range ranks {
		if i < len(x) {
			sum += r
		}
		squares += (r - total/2) * (r - total/2)
	}
	distance := math.Abs(sum - float64(len(x))*total/2)
	if n <= exactRankSum {
		return exactRankSumP(ranks, len(x), distance)
	}
	variance := float64(len(x)) * float64(len(y)) / float64(n*(n-1)) * squares
	if variance == 0 {
		return 1
	}
	return math.Erfc(distance / math.Sqrt(2*variance))
}

// exactRankSumP counts the subsets of the ranks by size and doubled sum: p is
// the share of those of size k at least that far from the centre.
func exactRankSumP(ranks []float64, k int, distance float64) float64 {
	most := 0
	for _, r := range ranks {
		most += int(2 * r)
	}
	count := make([][]float64, k+1)
	for i := range count {
		count[i] = make([]float64, most+1)
	}
	count[0][0] = 1
	reach := 0
	for i, r := range ranks {
		d := int(2 * r)
		reach += d
		for size := min(k, i+1); size > 0; size-- {
			to, from := count[size][d:reach+1], count[size-1]
			for s := range to {
				to[s] += from[s]
			}
		}
	}
	far, all := 0.0, 0.0
	centre := float64(k * (len(ranks) + 1)) // of the doubled sum
	for s, c := range count[k] {
		all += c
		if math.Abs(float64(s)-centre) >= 2*distance-1e-9 {
			far += c
		}
	}
	return far / all
}

// logChoose is the logarithm of the binomial coefficient n over k.
func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// Midranks gives every value its rank from 1, tied ones their mean.
func Midranks(values []float64) []float64 {
	x := Sorted(values)
	ranks := make([]float64, len(values))
	for i, v := range values {
		low, _ := slices.BinarySearch(x, v)
		high, _ := slices.BinarySearch(x, math.Nextafter(v, math.Inf(1)))
		ranks[i] = float64(low+high+1) / 2
	}
	return ranks
}
