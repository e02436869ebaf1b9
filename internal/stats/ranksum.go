package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Shifted is the difference of two medians with its intervals.
type Shifted struct {
	At             float64
	Span95, Span90 Interval
}

// Shift is median(b) - median(a) of ascending independent samples. From 12
// blocks on its interval is an unpaired bootstrap: each run's blocks are drawn
// for themselves. Below, it is the difference of two order-statistic intervals
// that cover sqrt(level) each, so both cover together; that is exact and wide,
// and needs 7 blocks.
func Shift(a, b []float64, rng *rand.Rand) Shifted {
	s := Shifted{At: Median(b) - Median(a)}
	n := min(len(a), len(b))
	if n < BootstrapFrom {
		s.Span95, s.Span90 = orderShift(a, b, s.At, 0.95), orderShift(a, b, s.At, 0.90)
		return s
	}
	x, y := medianDraws(a, rng), medianDraws(b, rng)
	rng.Shuffle(len(x), func(i, j int) { x[i], x[j] = x[j], x[i] })
	for i := range y {
		y[i] -= x[i]
	}
	slices.Sort(y)
	s.Span95, s.Span90 = ExpandedInterval(y, n, 0.95), ExpandedInterval(y, n, 0.90)
	return s
}

func orderShift(a, b []float64, at, level float64) Interval {
	x, y := OrderInterval(a, math.Sqrt(level)), OrderInterval(b, math.Sqrt(level))
	if x.Method == MethodNone || y.Method == MethodNone {
		return None(at)
	}
	return Interval{Low: y.Low - x.High, High: y.High - x.Low, Level: level, Method: MethodOrder}
}

// exactRankSum is the number of values in both samples up to which the
// permutation distribution is enumerated.
const exactRankSum = 48

// RankSum is the p-value, two-sided, of the permutation test on rank sums of
// two independent samples (Wilcoxon 1945; Mann and Whitney 1947; ties by
// midranks): exact up to 48 values together, its normal limit above.
func RankSum(x, y []float64) float64 {
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

// LogChoose is the logarithm of the binomial coefficient n over k.
func LogChoose(n, k int) float64 {
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
		low := sort.SearchFloat64s(x, v)
		high := sort.Search(len(x), func(i int) bool { return x[i] > v })
		ranks[i] = float64(low+high+1) / 2
	}
	return ranks
}
