// Package stats turns numbers into estimates: order statistics, medians and
// their intervals, permutation tests, the scalability law and laws of growth. It
// is pure: it knows no record, no table and no study, and imports nothing of
// this module.
package stats

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a confidence interval; Low <= High.
type Interval struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"`  // coverage: 0.95
	Method string  `json:"method"` // one of the Method constants; with "none" there are too few blocks, and Low = High
}

// Exponential turns an interval of a log-ratio into that of the ratio.
func Exponential(i Interval) Interval {
	i.Low, i.High = Ratio(i.Low), Ratio(i.High)
	return i
}

// LargestLog keeps ratios of absurd values finite, so that claims stay JSON.
const LargestLog = 700

// Ratio turns a log-ratio into a ratio, above 0 and finite.
func Ratio(log float64) float64 { return math.Exp(min(max(log, -LargestLog), LargestLog)) }

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
	// BootstrapFrom is the number of blocks from which the bootstrap is trusted;
	// below, the order-statistic interval is exact.
	BootstrapFrom = 12
	// MinimumBlocks is the number of blocks below which no 95 % interval of a
	// median exists: with n blocks the widest one covers 1 - 2^(1-n).
	MinimumBlocks = 6
)

var normal = distuv.UnitNormal

// Decides reports whether a verdict may rest on the interval: it is one of 95 %, not
// the range of a few blocks.
func (i Interval) Decides() bool {
	return i.Method != MethodNone && i.Method != MethodRange && i.Method != ""
}

// None is the interval of something that has too few blocks.
func None(at float64) Interval { return Interval{Low: at, High: at, Method: MethodNone} }

// OfMedian is the median of numbers with its 95 % interval.
func OfMedian(values []float64, rng *rand.Rand) Estimate {
	x := Sorted(values)
	return Estimate{Value: Median(x), Interval: MedianInterval(x, rng, 0.95)}
}

// MedianInterval is the interval of the median of ascending numbers: exact below 12
// numbers, BCa from there on.
func MedianInterval(x []float64, rng *rand.Rand, level float64) Interval {
	if len(x) < BootstrapFrom {
		return orderInterval(x, level)
	}
	out := bcaInterval(Median(x), medianDraws(x, rng), medianAcceleration(x), expanded(len(x), level))
	out.Level = level
	return out
}

// orderInterval is the distribution-free interval of the median between two
// order statistics, x(k) to x(n+1-k) (Hettmansperger and McKean, Robust
// Nonparametric Statistical Methods, 2011, §1.3). It covers at least the level.
func orderInterval(x []float64, level float64) Interval {
	if len(x) == 0 {
		return None(0)
	}
	k := orderRank(len(x), level)
	if k == 0 {
		return None(Median(x))
	}
	return Interval{Low: x[k-1], High: x[len(x)-k], Level: level, Method: MethodOrder}
}

// orderRank is the largest k for which x(k) to x(n+1-k) still covers the level,
// 1 - 2 P(Bin(n, 1/2) < k); 0 when not even the extremes do.
func orderRank(n int, level float64) int {
	if n > 1000 { // 2^-n underflows, and the normal limit is as good
		return int(math.Floor((float64(n) - normal.Quantile((1+level)/2)*math.Sqrt(float64(n))) / 2))
	}
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
		return Quantile(draws, normal.CDF(z0+z/(1-a*z)))
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

// ExpandedInterval is the 95 % percentile interval of ascending draws of n blocks.
func ExpandedInterval(draws []float64, n int) Interval {
	tail := normal.CDF(-expanded(n, 0.95))
	return Interval{Low: Quantile(draws, tail), High: Quantile(draws, 1-tail), Level: 0.95, Method: MethodBootstrap}
}

// Source gives the random numbers of one subject: the same seed and names give
// the same numbers, whatever else is analysed and in which order.
func Source(seed uint64, names ...string) *rand.Rand {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write(append([]byte(name), 0)) // a hash.Hash never fails, by its contract
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// MethodRange is the smallest and the largest block, where there are too few for
// a 95 % interval: no verdict rests on it.
const MethodRange = "range"

// RangeOf is the range of ascending blocks.
func RangeOf(x []float64) Interval {
	if len(x) == 0 {
		return None(0)
	}
	return rangeAt(x[0], x[len(x)-1], len(x))
}

// rangeAt is a range of so many blocks. It holds the median at a level of
// 1 - 2^(1-n): 75 % of three blocks, 94 % of five; one block has none.
func rangeAt(low, high float64, blocks int) Interval {
	if blocks < 2 {
		return None(low)
	}
	return Interval{Low: low, High: high, Level: 1 - math.Pow(2, float64(1-blocks)), Method: MethodRange}
}

// OverBlocks is a median over blocks with its interval, or below six blocks with
// the range of the blocks.
func OverBlocks(values []float64) Estimate {
	x := Sorted(values)
	e := Estimate{Value: Median(x), Interval: orderInterval(x, 0.95)}
	if e.Interval.Method == MethodNone {
		e.Interval = RangeOf(x)
	}
	return e
}
