package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// The laws of growth that FitLaws tries.
const (
	LawLinear      = "linear"      // A + B n
	LawPower       = "power"       // A n^B
	LawExponential = "exponential" // A e^(B n)
)

// Law is one law's fit.
type Law struct {
	Name   string   `json:"name"`
	A      Estimate `json:"a"`
	B      Estimate `json:"b"`
	AICc   float64  `json:"aicc"`   // lower is better; only differences mean something
	Weight float64  `json:"weight"` // Akaike weight among the three
	Share  float64  `json:"share"`  // of the bootstrap replicates that this law fits best
	Error  float64  `json:"error"`  // typical relative deviation of a value from the fit
}

// At is the law's value at n.
func (l Law) At(n float64) float64 {
	switch l.Name {
	case LawPower:
		return l.A.Value * math.Pow(n, l.B.Value)
	case LawExponential:
		return l.A.Value * math.Exp(l.B.Value*n)
	}
	return l.A.Value + l.B.Value*n
}

// Laws is what FitLaws found.
type Laws struct {
	Fits []Law  `json:"fits"` // best first
	Best string `json:"best"` // "" when the best two are not told apart, or when the first is provisional
	// Provisional: the first fits best, but some level has too few blocks to show
	// that it stays so.
	Provisional bool   `json:"provisional,omitempty"`
	Why         string `json:"why"`
}

// Fit is the law of a name, which is one of the Law constants.
func (l Laws) Fit(name string) Law {
	return l.Fits[slices.IndexFunc(l.Fits, func(f Law) bool { return f.Name == name })]
}

// akaikeGap is the difference of AICc from which the worse model has
// considerably less support (Burnham and Anderson, Model Selection and
// Multimodel Inference, 2002, §2.6); bestShare is the share of replicates that
// has to agree, so that single blocks do not make the choice.
const (
	akaikeGap = 2.0
	bestShare = 0.8
)

// FitLaws fits cost over n by a linear, a power and an exponential law, all by
// least squares of the logarithm, so that they answer for the same relative
// errors and their AICc can be compared. Every block's value is an observation;
// intervals and the stability of the choice come from a bootstrap over blocks
// of the levels' medians. It needs three levels, and five values in all.
func FitLaws(levels []Level, seed uint64) (Laws, error) {
	n, values, paired, err := checkLevels(levels)
	if err != nil {
		return Laws{}, fmt.Errorf("fit the laws of growth: %w", err)
	}
	count := 0
	for _, v := range values {
		count += len(v)
	}
	if count < 5 {
		return Laws{}, fmt.Errorf("fit the laws of growth: %d values are too few: measure 5 or more", count)
	}
	out := Laws{Fits: fitAll(n, Medians(values))}
	for i := range out.Fits {
		f := &out.Fits[i]
		loss := f.loss(n, values)
		f.AICc, f.Error = aicc(loss, count), math.Expm1(math.Sqrt(loss/float64(count)))
	}
	fewest, most := FewestAndMost(values)
	out.bootstrap(n, values, paired, fewest, most, seed)
	out.choose(fewest)
	return out, nil
}

// loss sums the squared log deviations of all values.
func (l Law) loss(n []float64, values [][]float64) float64 {
	sum := 0.0
	for i := range n {
		at := l.At(n[i])
		for _, v := range values[i] {
			d := math.Log(v / at)
			sum += d * d
		}
	}
	return sum
}

// aicc is Akaike's criterion with the correction for small samples (Hurvich and
// Tsai, Biometrika 76, 1989), for normal errors and k = 3: A, B and the variance.
func aicc(loss float64, n int) float64 {
	if math.IsNaN(loss) { // the law has no value at some n: it fits worst
		return math.Inf(1)
	}
	const k = 3
	count := float64(n)
	return count*math.Log(max(loss, 1e-300)/count) + 2*k + 2*k*(k+1)/(count-k-1)
}

func fitAll(n, y []float64) []Law {
	return []Law{fitLinear(n, y), fitPower(n, y), fitExponential(n, y)}
}

func (l *Laws) bootstrap(n []float64, values [][]float64, paired bool, fewest, most int, seed uint64) {
	if most < MinimumBlocks {
		return
	}
	a, b := make([][]float64, len(l.Fits)), make([][]float64, len(l.Fits))
	wins := make([]int, len(l.Fits))
	LevelMedians(values, paired, Source(seed, "laws"), func(m []float64) {
		best, least := 0, math.Inf(1)
		for i, f := range fitAll(n, m) {
			a[i], b[i] = append(a[i], f.A.Value), append(b[i], f.B.Value)
			loss := 0.0
			for k := range n {
				d := math.Log(m[k] / f.At(n[k]))
				loss += d * d
			}
			if loss < least {
				best, least = i, loss
			}
		}
		wins[best]++
	})
	for i := range l.Fits {
		f := &l.Fits[i]
		f.A.Interval, f.B.Interval = OfReplicates(a[i], fewest), OfReplicates(b[i], fewest)
		f.Share = float64(wins[i]) / fitResamples
	}
}

// choose orders the fits and names the best, where the level with the fewest blocks
// has enough of them.
func (l *Laws) choose(fewest int) {
	slices.SortStableFunc(l.Fits, func(x, y Law) int { return cmp.Compare(x.AICc, y.AICc) })
	total := 0.0
	for _, f := range l.Fits {
		total += math.Exp((l.Fits[0].AICc - f.AICc) / 2)
	}
	for i := range l.Fits {
		l.Fits[i].Weight = math.Exp((l.Fits[0].AICc-l.Fits[i].AICc)/2) / total
	}
	first, second := l.Fits[0], l.Fits[1]
	gap := second.AICc - first.AICc
	switch {
	case gap < akaikeGap:
		l.Why = fmt.Sprintf("%s and %s fit alike (AICc differs by %.1f, less than %g): measure more levels, further apart", first.Name, second.Name, gap, akaikeGap)
	case fewest < MinimumBlocks:
		l.Provisional = true
		l.Why = fmt.Sprintf("%s fits best so far (AICc better by %.1f), but with fewer than %d blocks of some level nothing shows that it stays so", first.Name, gap, MinimumBlocks)
	case first.Share < bestShare:
		l.Why = fmt.Sprintf("%s fits best (AICc better by %.1f), but only in %.0f %% of the bootstrap replicates: take more blocks", first.Name, gap, 100*first.Share)
	default:
		l.Best = first.Name
		l.Why = fmt.Sprintf("%s fits best: AICc better by %.1f than %s, and best in %.0f %% of the bootstrap replicates", first.Name, gap, second.Name, 100*first.Share)
	}
}

// Line is the least squares line y = a + b x.
func Line(x, y []float64) (a, b float64) {
	mx, my := Mean(x), Mean(y)
	var xy, xx float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	b = xy / xx
	return my - b*mx, b
}

// Mapped is f of every number.
func Mapped(x []float64, f func(float64) float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f(v)
	}
	return out
}

func fitPower(n, y []float64) Law {
	a, b := Line(Mapped(n, math.Log), Mapped(y, math.Log))
	return Law{Name: LawPower, A: Exact(math.Exp(a)), B: Exact(b)}
}

func fitExponential(n, y []float64) Law {
	a, b := Line(n, Mapped(y, math.Log))
	return Law{Name: LawExponential, A: Exact(math.Exp(a)), B: Exact(b)}
}

// fitLinear writes the line as c (1 + w (n/mean - 1)): for a given tilt w the
// best c has a closed form, and w lies where the line is positive at every n.
// A grid finds the valley and a golden section its floor.
func fitLinear(n, y []float64) Law {
	centre := Mean(n)
	logs := Mapped(y, math.Log)
	profile := func(w float64) (c, loss float64) {
		r := make([]float64, len(n))
		for i := range n {
			r[i] = logs[i] - math.Log(1+w*(n[i]/centre-1))
		}
		m := Mean(r)
		for _, v := range r {
			loss += (v - m) * (v - m)
		}
		return m, loss
	}
	low, high := -1/(slices.Max(n)/centre-1), 1/(1-slices.Min(n)/centre)
	const cells = 64
	at := func(i int) float64 { return low + (high-low)*float64(i)/cells }
	best, least := 1, math.Inf(1)
	for i := 1; i < cells; i++ {
		if _, loss := profile(at(i)); loss < least {
			best, least = i, loss
		}
	}
	w := golden(at(best-1), at(best+1), func(w float64) float64 { _, loss := profile(w); return loss })
	c, _ := profile(w)
	scale := math.Exp(c)
	return Law{Name: LawLinear, A: Exact(scale * (1 - w)), B: Exact(scale * w / centre)}
}

// golden finds the minimum of a function with one valley between a and b
// (golden section search; Kiefer, Proc. AMS 4, 1953). It never evaluates the
// ends, where the function may be infinite.
func golden(a, b float64, f func(float64) float64) float64 {
	ratio := (math.Sqrt(5) - 1) / 2
	x, y := b-ratio*(b-a), a+ratio*(b-a)
	fx, fy := f(x), f(y)
	for range 60 {
		if fx < fy {
			b, y, fy = y, x, fx
			x = b - ratio*(b-a)
			fx = f(x)
		} else {
			a, x, fx = x, y, fy
			y = a + ratio*(b-a)
			fy = f(y)
		}
	}
	return (a + b) / 2
}
