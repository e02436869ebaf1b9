package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance {
		t.Errorf("%s = %g, want %g ± %g", what, got, want, tolerance)
	}
}

// The spatial test data of Efron and Tibshirani, An Introduction to the
// Bootstrap (1993), table 14.1: the plug-in variance of 26 children's scores.
// Table 14.2 gives its 90 % BCa interval as (115.8, 259.6), with z0 = 0.146 and
// acceleration 0.061.
func TestBCaAgainstEfronTibshirani(t *testing.T) {
	x := []float64{48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41}
	variance := func(x []float64) float64 {
		m, s := Mean(x), 0.0
		for _, v := range x {
			s += (v - m) * (v - m)
		}
		return s / float64(len(x))
	}
	near(t, "variance", variance(x), 171.5, 0.05)
	jackknife := make([]float64, len(x))
	for i := range x {
		jackknife[i] = variance(slices.Delete(slices.Clone(x), i, i+1))
	}
	a := acceleration(jackknife, nil)
	near(t, "acceleration", a, 0.061, 0.0006)
	r := rand.New(rand.NewPCG(1, 1))
	draws, resample := make([]float64, 100_000), make([]float64, len(x))
	for i := range draws {
		for k := range resample {
			resample[k] = x[r.IntN(len(x))]
		}
		draws[i] = variance(resample)
	}
	slices.Sort(draws)
	got := bcaInterval(variance(x), draws, a, normal.Quantile(0.95))
	near(t, "low", got.Low, 115.8, 2)
	near(t, "high", got.High, 259.6, 3)
}

// The short cut of drawing order statistics must give the distribution that
// drawing members gives.
func TestMedianDrawsAgainstPlainBootstrap(t *testing.T) {
	for _, n := range []int{12, 13, 40} {
		r := rand.New(rand.NewPCG(2, uint64(n)))
		x := make([]float64, n)
		for i := range x {
			x[i] = r.ExpFloat64()
		}
		slices.Sort(x)
		short := medianDraws(x, r)
		plain, resample := make([]float64, 40_000), make([]float64, n)
		for i := range plain {
			for k := range resample {
				resample[k] = x[r.IntN(n)]
			}
			plain[i] = selectMedian(resample)
		}
		slices.Sort(plain)
		// Kolmogorov-Smirnov at 0.001 for 4,000 against 40,000 draws.
		limit, worst := 1.95*math.Sqrt(1.0/4000+1.0/40000), 0.0
		for _, v := range x {
			at := func(d []float64) float64 {
				i, _ := slices.BinarySearch(d, v+1e-9)
				return float64(i) / float64(len(d))
			}
			worst = max(worst, math.Abs(at(short)-at(plain)))
		}
		if worst > limit {
			t.Errorf("n=%d: the distributions are %.4f apart, more than %.4f", n, worst, limit)
		}
	}
}

// The jackknife's closed form against the jackknife.
func TestMedianAcceleration(t *testing.T) {
	for _, n := range []int{12, 13, 31} {
		r := rand.New(rand.NewPCG(3, uint64(n)))
		x := make([]float64, n)
		for i := range x {
			x[i] = r.ExpFloat64()
		}
		slices.Sort(x)
		without := make([]float64, n)
		for i := range x {
			without[i] = Median(slices.Delete(slices.Clone(x), i, i+1))
		}
		near(t, fmt.Sprintf("n=%d", n), medianAcceleration(x), acceleration(without, nil), 1e-12)
	}
}

// Intervals cover the true median as often as they say, for every number of
// blocks at which the method changes and for noise of every shape, less two
// standard errors of 1,000 trials.
func TestCoverage(t *testing.T) {
	shapes := map[string]func(r *rand.Rand) float64{
		"normal":    func(r *rand.Rand) float64 { return r.NormFloat64() },
		"lognormal": func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) - 1 },
		"cauchy":    func(r *rand.Rand) float64 { return r.NormFloat64() / r.NormFloat64() },
		"bimodal": func(r *rand.Rand) float64 {
			return r.NormFloat64() + []float64{-1.5, 1.5}[r.IntN(2)]
		},
	}
	for name, draw := range shapes {
		for _, n := range []int{6, 8, 11, 12, 13, 20, 50} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(11, uint64(n)))
				const trials = 1000
				hit95, hit90 := 0, 0
				x := make([]float64, n)
				for range trials {
					for i := range x {
						x[i] = draw(r)
					}
					slices.Sort(x)
					if i := MedianInterval(x, r, 0.95); i.Low <= 0 && 0 <= i.High {
						hit95++
					}
					if i := MedianInterval(x, r, 0.90); i.Low <= 0 && 0 <= i.High {
						hit90++
					}
				}
				if c := float64(hit95) / trials; c < 0.95-0.014 {
					t.Errorf("the 95 %% interval covers %.3f", c)
				}
				if c := float64(hit90) / trials; c < 0.90-0.019 {
					t.Errorf("the 90 %% interval covers %.3f", c)
				}
			})
		}
	}
}

// Ranks and exact coverages of the table for the sign test's intervals
// (Hollander and Wolfe, Nonparametric Statistical Methods): n=6 gives the
// extremes, 96.9 %; n=9 x(2)..x(8), 96.1 %; n=12 x(3)..x(10), 96.1 %.
func TestOrderInterval(t *testing.T) {
	for n, want := range map[int]int{1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 20: 6} {
		if k := orderRank(n, 0.95); k != want {
			t.Errorf("n=%d: rank %d, want %d", n, k, want)
		}
	}
	i := orderInterval([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0.95)
	if i.Low != 2 || i.High != 8 || i.Method != MethodOrder {
		t.Errorf("%+v, want 2..8", i)
	}
	if i := orderInterval([]float64{1, 2, 3}, 0.95); i.Method != MethodNone || i.Low != 2 || i.High != 2 {
		t.Errorf("%+v of three values, want none at 2", i)
	}
}

// bruteSignFlip walks all 2^n assignments of signs.
func bruteSignFlip(d []float64) float64 {
	magnitude := make([]float64, len(d))
	for i, v := range d {
		magnitude[i] = math.Abs(v)
	}
	ranks := Midranks(magnitude)
	observed := 0.0
	for i, v := range d {
		observed += math.Copysign(ranks[i], v) * b2f(v != 0)
	}
	far := 0
	for signs := range 1 << len(d) {
		sum := 0.0
		for i, v := range d {
			sum += ranks[i] * float64(signs>>i&1*2-1) * b2f(v != 0)
		}
		if math.Abs(sum) >= math.Abs(observed)-1e-9 {
			far++
		}
	}
	return float64(far) / float64(int(1)<<len(d))
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func TestSignFlipAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 200 {
		d := make([]float64, 1+r.IntN(12))
		for i := range d {
			d[i] = r.NormFloat64() + 0.5
			if r.IntN(2) == 0 {
				d[i] = float64(r.IntN(7) - 3) // ties and zeros
			}
		}
		near(t, fmt.Sprint(d), SignFlip(d), bruteSignFlip(d), 1e-12)
	}
}

func TestSignFlipKnown(t *testing.T) {
	for n := 1; n <= 60; n++ {
		d := make([]float64, n)
		for i := range d {
			d[i] = 1 + float64(i)
		}
		near(t, fmt.Sprintf("smallest p of %d", n), SignFlip(d), math.Pow(2, float64(1-n)), 1e-15)
	}
	// Hollander and Wolfe, Nonparametric Statistical Methods, table 3.1 (the
	// Hamilton depression scale of nine patients): T+ = 5, two-sided p 0.039.
	depression := []float64{-0.952, 0.147, -1.022, -0.430, -0.620, -0.590, -0.490, 0.080, -0.010}
	near(t, "depression scale", SignFlip(depression), 0.0390625, 1e-12)
	near(t, "nothing", SignFlip(nil), 1, 0)
	near(t, "zeros", SignFlip([]float64{0, 0, 0}), 1, 0)
}

// A number that is none shows nothing, and does not keep the test from ending.
func TestSignFlipOfNaN(t *testing.T) {
	if p := SignFlip([]float64{1, math.NaN(), -2}); p != 1 {
		t.Errorf("p = %v", p)
	}
}

// Where the enumeration ends, the normal limit goes on.
func TestSignFlipLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 50 {
		d := make([]float64, exactPairs)
		for i := range d {
			d[i] = r.NormFloat64() + 0.2
		}
		x := Sorted(d)
		ranks, positive := signedRanks(x)
		total, squares := 0, 0.0
		for _, k := range ranks {
			total += k
			squares += float64(k * k)
		}
		limit := math.Erfc(math.Abs(float64(2*positive-total)) / math.Sqrt(2*squares))
		near(t, "limit", limit, signFlipSorted(x), 0.005)
	}
}

// The adjusted values of R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, fmt.Sprint("p", i), got[i], want, 1e-15)
	}
	if got := Holm(nil); len(got) != 0 {
		t.Errorf("%v of nothing", got)
	}
	near(t, "capped", Holm([]float64{0.9, 0.8})[0], 1, 0)
}

func TestRankSumAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 100 {
		x, y := make([]float64, 1+r.IntN(6)), make([]float64, 1+r.IntN(6))
		for _, s := range [][]float64{x, y} {
			for i := range s {
				s[i] = float64(r.IntN(8))
			}
		}
		ranks := Midranks(slices.Concat(x, y))
		centre := float64(len(x)*(len(ranks)+1)) / 2
		observed := 0.0
		for _, v := range ranks[:len(x)] {
			observed += v
		}
		far, all := 0, 0
		for set := range 1 << len(ranks) {
			sum, size := 0.0, 0
			for i, v := range ranks {
				if set>>i&1 == 1 {
					sum += v
					size++
				}
			}
			if size != len(x) {
				continue
			}
			all++
			if math.Abs(sum-centre) >= math.Abs(observed-centre)-1e-9 {
				far++
			}
		}
		near(t, fmt.Sprint(x, y), rankSum(x, y), float64(far)/float64(all), 1e-12)
	}
}

func TestRankSumLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	rejected := 0
	for range 1000 {
		x, y := make([]float64, 40), make([]float64, 60)
		for i := range x {
			x[i] = math.Floor(10 * r.NormFloat64())
		}
		for i := range y {
			y[i] = math.Floor(10 * r.NormFloat64())
		}
		if rankSum(x, y) <= 0.05 {
			rejected++
		}
	}
	if rejected < 30 || rejected > 70 {
		t.Errorf("%d of 1000 equal samples rejected at 0.05", rejected)
	}
}

// A pilot's estimate of the scatter is as often too small as too large, its limits hold the
// true one in 80 of 100 pilots, and of eight trials it is right within a factor of 1.5 in
// more than 80.
func TestPilotScatter(t *testing.T) {
	const pilots, scatter = 2000, 0.03
	r := rand.New(rand.NewPCG(10, 10))
	for _, n := range []int{3, 8, 500} {
		small, held, right := 0, 0, 0
		for range pilots {
			logs := make([]float64, n)
			for i := range logs {
				logs[i] = 5 + scatter*r.NormFloat64()
			}
			low, estimate, high := PilotScatter(logs)
			if estimate < scatter {
				small++
			}
			if low <= scatter && scatter <= high {
				held++
			}
			if estimate*1.5 >= scatter && estimate <= scatter*1.5 {
				right++
			}
		}
		if share := float64(small) / pilots; math.Abs(share-0.5) > 0.05 {
			t.Errorf("%d trials: %.3f of the estimates are too small, want half", n, share)
		}
		if share := float64(held) / pilots; math.Abs(share-0.8) > 0.04 {
			t.Errorf("%d trials: the limits hold the scatter in %.3f of the pilots, want 0.8", n, share)
		}
		if n >= 8 && right < pilots*8/10 {
			t.Errorf("%d trials: right within a factor of 1.5 in %d of %d pilots", n, right, pilots)
		}
	}
}

// What a run's own blocks show is what runs with its noise show: an effect of that size is
// found in about 80 % of them, in few of a third of it.
func TestDetectableOfARunsOwnBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	run := func(shift float64) Contrast {
		var c Contrast
		for range 15 {
			block := r.NormFloat64() // shared by all of a block
			c.Target = append(c.Target, block+shift+0.03*r.NormFloat64())
			c.Control = append(c.Control, block+0.03*r.NormFloat64())
			c.Twin = append(c.Twin, block+0.03*r.NormFloat64())
		}
		return c
	}
	const runs = 40
	least := 0.0
	for range runs {
		own := run(0.5)
		least += own.Detectable(own.Estimate(0.95).Value, 0.95) / runs
	}
	found := func(shift float64) (n int) {
		for range 200 {
			if run(shift).Estimate(0.95).Interval.Low > 0 {
				n++
			}
		}
		return n
	}
	if whole, third := found(least), found(least/3); whole < 130 || whole > 190 || third > 80 {
		t.Errorf("an effect of %.3f is found in %d of 200 runs, a third of it in %d", least, whole, third)
	}
}

func TestSortingAndSelection(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for _, n := range []int{1, 2, 3, 100, radixFrom, 3 * radixFrom} {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
			if r.IntN(4) == 0 {
				x[i] = float64(r.IntN(3) - 1)
			}
		}
		want := slices.Sorted(slices.Values(x))
		if !slices.Equal(Sorted(x), want) || !slices.Equal(radixSort(slices.Clone(x)), want) {
			t.Fatalf("n=%d is not sorted", n)
		}
		if got := selectMedian(slices.Clone(x)); got != Median(want) {
			near(t, "selected median", got, Median(want), 1e-9*math.Abs(got))
		}
		far := make([]float64, n)
		for i, v := range want {
			far[i] = math.Abs(v - Median(want))
		}
		slices.Sort(far)
		mid := (far[(n-1)/2] + far[n/2]) / 2
		near(t, fmt.Sprintf("MAD of %d", n), Deviation(want), mid, 1e-12*max(1, mid))
	}
}
