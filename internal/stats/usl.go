package stats

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Level is one level of a scaling study: a concurrency or a size, with one
// value per block. Levels of the same blocks are drawn together, else each by
// itself.
type Level struct {
	N      float64
	Values []float64
	Blocks []int32 // of the values, ascending; nil for 0, 1, 2 ...
}

// Estimate is a number with its interval.
type Estimate struct {
	Value    float64  `json:"value"`
	Interval Interval `json:"interval"`
}

// USL is a fit of the Universal Scalability Law to throughput over concurrency,
//
//	X(N) = Rate N / (1 + Contention (N-1) + Coherency N (N-1))
//
// (Gunther, Guerrilla Capacity Planning, 2007). Contention is the share of the work
// that must wait its turn, Coherency the cost of keeping pairs coherent.
type USL struct {
	Rate       Estimate `json:"rate"` // throughput of one, in the metric's unit
	Contention Estimate `json:"contention"`
	Coherency  Estimate `json:"coherency"`
	// Peak is the concurrency of the highest throughput, sqrt((1-Contention)/Coherency);
	// nil when the fit has no coherency and so no peak, or where fewer than 95 % of
	// the replicates have one: the interval is of those that do.
	Peak      *Estimate `json:"peak,omitempty"`
	PeakShare float64   `json:"peakShare"` // share of the bootstrap replicates that have a peak
	Error     float64   `json:"error"`     // largest relative deviation of a level's median from the fit
}

// At is the law's throughput at a concurrency of n.
func (fit USL) At(n float64) float64 {
	return uslPoint{fit.Rate.Value, fit.Contention.Value, fit.Coherency.Value}.throughput(n)
}

// peakShown is the share of the replicates from which on there is a peak.
const peakShown = 0.95

// fitResamples of a fit: every replicate is a fit of its own.
const fitResamples = 2000

// FitUSL fits the law to the medians of the levels' throughput, again for every
// bootstrap replicate over blocks. It needs three concurrencies or more, and
// intervals need 6 blocks of each: with fewer of some they are ranges.
func FitUSL(levels []Level, seed uint64) (USL, error) {
	n, values, paired, err := checkLevels(levels)
	if err != nil {
		return USL{}, fmt.Errorf("fit the scalability law: %w", err)
	}
	at, err := solveUSL(n, Medians(values))
	if err != nil {
		return USL{}, fmt.Errorf("fit the scalability law: %w", err)
	}
	fit := USL{Rate: Exact(at.rate), Contention: Exact(at.contention), Coherency: Exact(at.coherency)}
	for i, m := range Medians(values) {
		fit.Error = max(fit.Error, math.Abs(m/at.throughput(n[i])-1))
	}
	if peak, ok := at.peak(); ok {
		e := Exact(peak)
		fit.Peak = &e
	}
	fewest, most := FewestAndMost(values)
	if most < MinimumBlocks {
		return fit, nil
	}
	fit.intervals(n, values, paired, fewest, seed)
	return fit, nil
}

func (fit *USL) intervals(n []float64, values [][]float64, paired bool, blocks int, seed uint64) {
	var rates, contentions, coherencies, peaks []float64
	rng := Source(seed, "usl")
	LevelMedians(values, paired, rng, func(m []float64) {
		p, err := solveUSL(n, m)
		if err != nil {
			return
		}
		rates, contentions, coherencies = append(rates, p.rate), append(contentions, p.contention), append(coherencies, p.coherency)
		if peak, ok := p.peak(); ok {
			peaks = append(peaks, peak)
		}
	})
	fit.Rate.Interval = OfReplicates(rates, blocks)
	fit.Contention.Interval = OfReplicates(contentions, blocks)
	fit.Coherency.Interval = OfReplicates(coherencies, blocks)
	fit.PeakShare = float64(len(peaks)) / fitResamples
	if fit.PeakShare < peakShown {
		fit.Peak = nil
	}
	if fit.Peak != nil {
		fit.Peak.Interval = OfReplicates(peaks, blocks)
	}
}

// Exact is an estimate without an interval.
func Exact(v float64) Estimate { return Estimate{Value: v, Interval: None(v)} }

// OfReplicates is the 95 % interval of what replicates gave, or all of their range where
// the level with the fewest blocks has too few for one.
func OfReplicates(draws []float64, fewest int) Interval {
	switch {
	case len(draws) == 0:
		return None(0)
	case fewest < MinimumBlocks:
		return rangeAt(slices.Min(draws), slices.Max(draws), fewest)
	}
	slices.Sort(draws)
	return ExpandedInterval(draws, fewest)
}

// checkLevels checks the levels and orders them by N. They are paired where all
// are of the same blocks.
func checkLevels(levels []Level) (n []float64, values [][]float64, paired bool, err error) {
	levels = slices.Clone(levels)
	slices.SortFunc(levels, func(a, b Level) int { return cmp.Compare(a.N, b.N) })
	for i, l := range levels {
		if l.N <= 0 || len(l.Values) == 0 {
			return nil, nil, false, fmt.Errorf("level %g has %d values: every level needs a positive size and a block", l.N, len(l.Values))
		}
		if i > 0 && l.N == levels[i-1].N {
			return nil, nil, false, fmt.Errorf("level %g is given twice", l.N)
		}
		if slices.Min(l.Values) <= 0 {
			return nil, nil, false, fmt.Errorf("level %g has a value that is zero or negative: no law of scaling holds for it", l.N)
		}
		n, values = append(n, l.N), append(values, l.Values)
	}
	if len(n) < 3 {
		return nil, nil, false, fmt.Errorf("%d levels are too few: measure 3 or more", len(n))
	}
	return n, values, SameBlocks(levels), nil
}

// SameBlocks says whether the levels' values are of the same blocks.
func SameBlocks(levels []Level) bool {
	return !slices.ContainsFunc(levels, func(l Level) bool {
		return len(l.Values) != len(levels[0].Values) || !slices.Equal(l.Blocks, levels[0].Blocks)
	})
}

// FewestAndMost are the fewest and the most blocks of a level.
func FewestAndMost(values [][]float64) (fewest, most int) {
	fewest = len(values[0])
	for _, v := range values {
		fewest, most = min(fewest, len(v)), max(most, len(v))
	}
	return fewest, most
}

// LevelMedians draws blocks with replacement, fitResamples times, and gives the levels'
// medians: the same blocks for all levels where they are paired, else each level's own (a
// stratified bootstrap).
func LevelMedians(values [][]float64, paired bool, rng *rand.Rand, use func(medians []float64)) {
	_, most := FewestAndMost(values)
	if paired {
		JointMedians(values, most, fitResamples, rng, use)
		return
	}
	scratch, drawn := make([]float64, most), make([]float64, len(values))
	for range fitResamples {
		for i, v := range values {
			own := scratch[:len(v)]
			for k := range own {
				own[k] = v[rng.IntN(len(v))]
			}
			drawn[i] = selectMedian(own)
		}
		use(drawn)
	}
}

// Medians are those of each row, which need not be sorted.
func Medians(values [][]float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = Median(Sorted(v))
	}
	return out
}

// uslPoint is one solution of the law.
type uslPoint struct{ rate, contention, coherency float64 }

func (p uslPoint) throughput(n float64) float64 {
	return p.rate * n / (1 + p.contention*(n-1) + p.coherency*n*(n-1))
}

func (p uslPoint) peak() (float64, bool) {
	if p.coherency <= 0 || p.contention >= 1 {
		return 0, false
	}
	return math.Sqrt((1 - p.contention) / p.coherency), true
}

// solveUSL uses that N/X is linear in 1/rate, contention/rate and coherency/rate:
// weighted least squares of the relative error, with contention and coherency not
// negative. Of the four choices of which of them is held at zero, the best
// feasible one is the constrained optimum, so there is no starting value and no
// local minimum.
func solveUSL(n, x []float64) (uslPoint, error) {
	best, found, least := uslPoint{}, false, math.Inf(1)
	for _, terms := range [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {0}} {
		coefficients, loss, ok := solveTerms(n, x, terms)
		if !ok || loss >= least {
			continue
		}
		p := uslPoint{rate: 1 / coefficients[0], contention: coefficients[1] / coefficients[0], coherency: coefficients[2] / coefficients[0]}
		best, found, least = p, true, loss
	}
	if !found {
		return best, errors.New("no rate above zero fits these throughputs")
	}
	return best, nil
}

// solveTerms solves for some of the terms 1, N-1, N(N-1); ok is false when a
// coefficient comes out negative, or the rate's not positive.
func solveTerms(n, x []float64, terms []int) (coefficients [3]float64, loss float64, ok bool) {
	term := func(k int, n float64) float64 { return [3]float64{1, n - 1, n * (n - 1)}[k] }
	largest := [3]float64{1, 1, 1} // columns are scaled to 1 for the solver
	for _, v := range n {
		for k := range largest {
			largest[k] = max(largest[k], math.Abs(term(k, v)))
		}
	}
	a, ones := mat.NewDense(len(n), len(terms), nil), mat.NewVecDense(len(n), nil)
	for i := range n {
		for c, k := range terms {
			a.Set(i, c, term(k, n[i])/largest[k]*x[i]/n[i])
		}
		ones.SetVec(i, 1)
	}
	var solution, fitted mat.VecDense
	if err := solution.SolveVec(a, ones); err != nil {
		return coefficients, 0, false // singular: another choice of terms will do
	}
	for c, k := range terms {
		coefficients[k] = solution.AtVec(c) / largest[k]
		if coefficients[k] < 0 {
			return coefficients, 0, false
		}
	}
	fitted.MulVec(a, &solution)
	for i := range n {
		loss += (fitted.AtVec(i) - 1) * (fitted.AtVec(i) - 1)
	}
	return coefficients, loss, coefficients[0] > 0
}
