package analysis

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// The methods an Interval names.
const (
	MethodBCa       = "BCa"
	MethodOrder     = "order-statistic"
	MethodBootstrap = "bootstrap"
	MethodNone      = "none"
)

const (
	// resamples of a bootstrap. Efron and Tibshirani (1993, §14.3) ask for 1,000
	// at least for BCa limits; 4,000 keep the limits' own noise below 5 % of the
	// interval's width.
	resamples = 4000
	// bootstrapFrom is the number of blocks from which the bootstrap is trusted;
	// below, the order-statistic interval is exact.
	bootstrapFrom = 12
	// MinimumBlocks is the number of blocks below which no 95 % interval of a
	// median exists: with n blocks the widest one covers 1 - 2^(1-n).
	MinimumBlocks = 6
)

var normal = distuv.UnitNormal

// none is the interval of something that has too few blocks.
func none(at float64) Interval { return Interval{Low: at, High: at, Method: MethodNone} }

// medianIntervals gives the intervals of the median of ascending numbers, one
// for each level: exact below 12 numbers, BCa from there on.
func medianIntervals(x []float64, rng *rand.Rand, levels ...float64) []Interval {
	out := make([]Interval, len(levels))
	if len(x) < bootstrapFrom {
		for i, level := range levels {
			out[i] = orderInterval(x, level)
		}
		return out
	}
	draws := medianDraws(x, rng)
	acceleration := medianAcceleration(x)
	for i, level := range levels {
		out[i] = bcaInterval(median(x), draws, acceleration, expanded(len(x), level))
		out[i].Level = level
	}
	return out
}

// orderInterval is the distribution-free interval of the median between two
// order statistics, x(k) to x(n+1-k) (Hettmansperger and McKean, Robust
// Nonparametric Statistical Methods, 2011, §1.3). It covers at least the level.
func orderInterval(x []float64, level float64) Interval {
	if len(x) == 0 {
		return none(0)
	}
	k := orderRank(len(x), level)
	if k == 0 {
		return none(median(x))
	}
	return Interval{Low: x[k-1], High: x[len(x)-k], Level: level, Method: MethodOrder}
}

// orderRank is the largest k for which x(k) to x(n+1-k) still covers the level,
// 1 - 2 P(Bin(n, 1/2) < k); 0 when not even the extremes do.
func orderRank(n int, level float64) int {
	k, tail, term := 0, 0.0, math.Pow(0.5, float64(n)) // term = P(Bin = k)
	for 1-2*(tail+term) >= level {
		tail += term
		term *= float64(n-k) / float64(k+1)
		k++
	}
	return k
}

// medianDraws returns the ascending medians of resamples drawn with replacement
// from ascending numbers. It draws each resample's middle order statistics
// instead of its members: the order statistics of n uniform numbers are Beta
// distributed, and the resample's k-th value is x at n times the k-th uniform.
// That is the bootstrap distribution itself, at a cost that does not grow with n.
func medianDraws(x []float64, rng *rand.Rand) []float64 {
	n := len(x)
	low := (n + 1) / 2 // rank of the middle, the lower one of two
	beta := distuv.Beta{Alpha: float64(low), Beta: float64(n + 1 - low), Src: rng}
	pick := func(u float64) float64 { return x[min(int(u*float64(n)), n-1)] }
	draws := make([]float64, resamples)
	for i := range draws {
		u := beta.Rand()
		draws[i] = pick(u)
		if n%2 == 0 {
			next := u + (1-u)*(1-math.Pow(rng.Float64(), 1/float64(n-low)))
			draws[i] += (pick(next) - draws[i]) / 2
		}
	}
	slices.Sort(draws)
	return draws
}

// medianAcceleration is BCa's acceleration from the jackknife of the median.
// Leaving out a number below, at or above the middle leaves one of three
// medians, so the sums have three terms; for an even count they cancel.
func medianAcceleration(x []float64) float64 {
	n := len(x)
	if n%2 == 0 {
		return 0
	}
	m := n / 2
	without := []float64{(x[m] + x[m+1]) / 2, (x[m-1] + x[m+1]) / 2, (x[m-1] + x[m]) / 2}
	return acceleration(without, []float64{float64(m), 1, float64(m)})
}

// acceleration is sum d^3 / (6 (sum d^2)^1.5), d = mean - value, of jackknife
// values with their weights (Efron 1987, eq. 6.6; nil weights are ones).
func acceleration(jackknife, weights []float64) float64 {
	weight := func(i int) float64 {
		if weights == nil {
			return 1
		}
		return weights[i]
	}
	var sum, total, square, cube float64
	for i, v := range jackknife {
		sum += weight(i) * v
		total += weight(i)
	}
	for i, v := range jackknife {
		d := sum/total - v
		square += weight(i) * d * d
		cube += weight(i) * d * d * d
	}
	if square == 0 {
		return 0
	}
	return cube / (6 * math.Pow(square, 1.5))
}

// bcaInterval is the bias-corrected and accelerated interval (Efron, Better
// Bootstrap Confidence Intervals, JASA 82, 1987) from ascending bootstrap draws.
// Draws equal to the estimate count half: a median's draws have many. score is
// the normal score of the upper limit, 1.96 for the textbook's 95 % interval.
func bcaInterval(estimate float64, draws []float64, a, score float64) Interval {
	below, _ := slices.BinarySearch(draws, estimate)
	to, _ := slices.BinarySearch(draws, math.Nextafter(estimate, math.Inf(1)))
	b := float64(len(draws))
	share := (float64(below) + float64(to-below)/2) / b
	share = min(max(share, 0.5/b), 1-0.5/b)
	z0 := normal.Quantile(share)
	limit := func(score float64) float64 {
		z := z0 + score
		return quantile(draws, normal.CDF(z0+z/(1-a*z)))
	}
	return Interval{Low: limit(-score), High: limit(score), Level: 2*normal.CDF(score) - 1, Method: MethodBCa}
}

// expanded is the normal score at which a bootstrap of n blocks has to be read
// for a level. A resample scatters too little, by sqrt((n-1)/n), and a normal
// score ignores that the scatter is estimated: this one makes up for both
// (Hesterberg, What Teachers Should Know About the Bootstrap, The American
// Statistician 69, 2015, "expanded percentile"). It matters below 30 blocks.
func expanded(n int, level float64) float64 {
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile((1 + level) / 2)
	return t * math.Sqrt(float64(n)/float64(n-1))
}

// expandedInterval is the percentile interval of ascending draws of n blocks.
func expandedInterval(draws []float64, n int, level float64) Interval {
	tail := normal.CDF(-expanded(n, level))
	return Interval{Low: quantile(draws, tail), High: quantile(draws, 1-tail), Level: level, Method: MethodBootstrap}
}

// source gives the random numbers of one subject: the same seed and names give
// the same numbers, whatever else is analysed and in which order.
func source(seed uint64, names ...string) *rand.Rand {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write(append([]byte(name), 0)) // a hash.Hash never fails, by its contract
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
