package unixbench

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tarelab/tare/internal/stats"
)

// fall is how a score falls as containers become more.
type fall string

// The ways. The limits on the exponent are those by which the publication's
// claim "roughly as 1/n" is judged.
const (
	fallsNot     fall = "not at all" // b below 0.05
	fallsSlower  fall = "slower than 1/n"
	fallsAsOneN  fall = "as 1/n" // b from 0.75 to 1.25
	fallsFaster  fall = "faster than 1/n"
	fallsSomehow fall = "in an undecided way" // the interval of b reaches across these limits
	fallsOpen    fall = "open"                // one repetition: no interval, so no way is claimed
)

const (
	flatExponent = 0.05
	leastOneN    = 0.75
	mostOneN     = 1.25
)

// fallLaw is the law behind a fall, over n of 1 and more. Each number is fitted
// to the mean over repetitions; its interval comes from the fits of the single
// repetitions by Student's t.
type fallLaw struct {
	Decay stats.Estimate `json:"decay"` // b of score = a/n^b: 0 does not fall, 1 is 1/n
	Falls fall           `json:"falls"`
	// Capacity is k of score = a min(1, k/n): so many containers run at full
	// speed, and from there on the curve bends into k/n. nil where the most
	// containers measured still ran at full speed.
	Capacity *stats.Estimate `json:"capacity,omitempty"`
	// USL is fitted to the throughput of all containers together, n times the
	// score; nil below three numbers of containers. A contention of 0 is a
	// score that does not fall, 1 is 1/n; coherency is what is lost beyond.
	USL *stats.USL `json:"usl,omitempty"`
	// OverOneN is the score at the most containers by what 1/n would leave of
	// that in one: above 1, the machine does more in all.
	OverOneN stats.Estimate `json:"overOneN"`
	Most     int            `json:"most"` // containers, for OverOneN and the range of the fits
	// Beside is the same fall over the numbers of containers that were published
	// too; nil where there is no published row, or fewer than two such numbers.
	Beside *besideLaw `json:"beside,omitempty"`
}

// besideLaw is a fall and the published one over the same numbers of
// containers: an exponent depends on how far it is fitted.
type besideLaw struct {
	Counts    []int          `json:"counts"` // of containers, rising
	Decay     stats.Estimate `json:"decay"`  // b here
	Published fallLaw        `json:"published"`
}

// beside fits the falls of a curve and of its published row over what both have.
func beside(c, row curve) *besideLaw {
	out := &besideLaw{}
	both := func(points []point, other curve) []point {
		return slices.DeleteFunc(slices.Clone(points), func(p point) bool {
			at := other.At(p.N)
			return len(p.blocks) == 0 || at == nil || len(at.blocks) == 0
		})
	}
	x, y := c, row
	x.Points, y.Points = both(c.Points, row), both(row.Points, c)
	here, there := fitLaw(x), fitLaw(y)
	if here == nil || there == nil {
		return nil
	}
	for _, p := range x.Points {
		if p.N > 0 {
			out.Counts = append(out.Counts, p.N)
		}
	}
	out.Decay, out.Published = here.Decay, *there
	return out
}

// Counts are the numbers of containers that a curve's law is fitted over.
func (c curve) Counts() []int {
	var out []int
	for _, p := range c.Points {
		if p.N > 0 && len(p.blocks) > 0 {
			out = append(out, p.N)
		}
	}
	return out
}

// rangeOf names numbers of containers by the first and the last.
func rangeOf(counts []int) string {
	if len(counts) == 0 {
		return ""
	}
	return fmt.Sprintf("n = %d to %d", counts[0], counts[len(counts)-1])
}

// fitLaw fits the laws to a curve; nil with fewer than two numbers of containers.
func fitLaw(c curve) *fallLaw {
	points := slices.DeleteFunc(slices.Clone(c.Points), func(p point) bool { return p.N < 1 || len(p.blocks) == 0 })
	if len(points) < 2 || points[0].N != 1 || points[len(points)-1].ToOne == nil { // no repetition has both ends
		return nil
	}
	n := make([]float64, len(points))
	for i, p := range points {
		n[i] = float64(p.N)
	}
	all, single := scoresOf(points)
	last := points[len(points)-1]
	l := &fallLaw{Most: last.N, Decay: repeated(n, all, single, decayOf)}
	l.Falls = fallOf(l.Decay)
	if _, bends := capacityOf(n, all); bends {
		k := repeated(n, all, single, func(n, y []float64) float64 { k, _ := capacityOf(n, y); return k })
		l.Capacity = &k
	}
	l.USL = fitUSL(n, all, single)
	over := *last.ToOne
	over.Value, over.Interval = over.Value*n[len(n)-1], stats.Scaled(over.Interval, n[len(n)-1])
	l.OverOneN = over
	return l
}

// scoresOf are the scores by n: of the means over repetitions, and of every
// repetition that has all n.
func scoresOf(points []point) (all []float64, single [][]float64) {
	for _, p := range points {
		all = append(all, p.Data.Value)
	}
	for _, block := range slices.Sorted(maps.Keys(points[0].blocks)) {
		var one []float64
		for _, p := range points {
			if v, ok := p.blocks[block]; ok {
				one = append(one, v)
			}
		}
		if len(one) == len(points) {
			single = append(single, one)
		}
	}
	return all, single
}

// repeated is a fit with the interval of its fits to single repetitions.
func repeated(n, all []float64, single [][]float64, fit func(n, y []float64) float64) stats.Estimate {
	at := fit(n, all)
	values := make([]float64, len(single))
	for i, y := range single {
		values[i] = fit(n, y)
	}
	return stats.Estimate{Value: at, Interval: stats.Student(at, values)}
}

func decayOf(n, y []float64) float64 {
	_, b := stats.Line(stats.Mapped(n, math.Log), stats.Mapped(y, math.Log))
	return -b
}

// leaveOpen takes back the way of a fall that was measured here without an
// interval. Published rows keep theirs: nobody can repeat them.
func (l *fallLaw) leaveOpen() {
	if l != nil && !l.Decay.Interval.Decides() {
		l.Falls = fallsOpen
	}
}

// fallOf tells the way by an exponent and all of its interval. Without an
// interval, as published rows are, the number alone decides.
func fallOf(e stats.Estimate) fall {
	way := wayOf(e.Value)
	if i := e.Interval; wayOf(i.Low) != way || wayOf(i.High) != way || way == fallsNot && i.Low <= -flatExponent {
		if i.Method != stats.MethodNone && i.Method != "" {
			return fallsSomehow
		}
	}
	return way
}

func wayOf(b float64) fall {
	switch {
	case b < flatExponent:
		return fallsNot
	case b < leastOneN:
		return fallsSlower
	case b <= mostOneN:
		return fallsAsOneN
	}
	return fallsFaster
}

// capacityOf fits log y = log a + log min(1, k/n) by least squares. Between two
// neighbouring n the loss is quadratic in log a and log k, so the best of every
// stretch, held inside it, is the best of all. bends is false where no n lies
// beyond k, or y falls by less than the flat exponent allows.
func capacityOf(n, y []float64) (k float64, bends bool) {
	logs := stats.Mapped(y, math.Log)
	least := math.Inf(1)
	for i := 1; i <= len(n); i++ { // n[:i] at full speed, n[i:] at k/n
		flat := stats.Mean(logs[:i])
		at := n[len(n)-1]
		if i < len(n) {
			at = math.Exp(stats.Mean(logs[i:]) + stats.Mean(stats.Mapped(n[i:], math.Log)) - flat)
			at = min(max(at, n[i-1]), n[i])
		}
		loss := 0.
		for j := range n {
			d := logs[j] - flat - math.Log(min(1, at/n[j]))
			loss += d * d
		}
		if loss < least {
			least, k, bends = loss, at, i < len(n)
		}
	}
	return k, bends && decayOf(n, y) >= flatExponent
}

// fitUSL fits the throughput of all containers; nil where it cannot.
func fitUSL(n, all []float64, single [][]float64) *stats.USL {
	levels := func(y []float64) []stats.Level {
		out := make([]stats.Level, len(n))
		for i := range n {
			out[i] = stats.Level{N: n[i], Values: []float64{n[i] * y[i]}}
		}
		return out
	}
	fit, err := stats.FitUSL(levels(all), 0)
	if err != nil {
		return nil
	}
	var rates, contentions, coherencies []float64
	for _, y := range single {
		if one, err := stats.FitUSL(levels(y), 0); err == nil {
			rates, contentions, coherencies = append(rates, one.Rate.Value), append(contentions, one.Contention.Value), append(coherencies, one.Coherency.Value)
		}
	}
	fit.Rate.Interval = stats.Student(fit.Rate.Value, rates)
	fit.Contention.Interval = atLeastZero(stats.Student(fit.Contention.Value, contentions))
	fit.Coherency.Interval = atLeastZero(stats.Student(fit.Coherency.Value, coherencies))
	return &fit
}

func atLeastZero(i stats.Interval) stats.Interval {
	i.Low = max(0, i.Low)
	return i
}

func fmtNote(repetitions int) string {
	text := fmt.Sprintf("Intervals are Student's t at 95 %% over %d repetitions", repetitions)
	if repetitions < stats.MinimumBlocks {
		text += fmt.Sprintf(" (%d degrees of freedom, so they are wide): below %d repetitions no interval is free of assumptions, and this one takes the scatter of the logarithms to be normal", repetitions-1, stats.MinimumBlocks)
	}
	return text + ". Ratios are taken within a repetition."
}
