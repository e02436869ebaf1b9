package stats

import (
	"math"
	"slices"
)

// MethodRank names the interval of a Contrast: a permutation test on ranks, with
// labels exchanged inside blocks, inverted.
const MethodRank = "block rank-sum"

// Contrast holds the values of a target and of its control, one of each per block,
// on the scale on which a difference between them is the effect: logarithms of
// rates or of times, where the effect is the log ratio.
type Contrast struct {
	Target []float64
	// Control has one value per block. It is nil where Target and Twin are already
	// relative to the control of their own block (log ratios).
	Control []float64
	// Twin is a second measurement of the control; NaN in a block that lacks it. nil
	// where no twin was measured.
	Twin []float64
}

// Shift is the effect of a Contrast.
type Shift struct {
	Value    float64 // the Hodges-Lehmann estimate of the target's shift
	Interval Interval
	P        float64 // of no shift, two-sided
	Blocks   int
	// Reached is the level of Interval where the blocks are too few for the level
	// that was asked for: then it is the widest that they allow. 0 otherwise.
	Reached float64
}

const (
	// exactBlocks is the number of blocks up to which the permutation distribution
	// is enumerated. Above, a normal limit of the same distribution is used.
	exactBlocks = 20
	// rankBlocks is the number of blocks above which the interval of the median of
	// the differences is as good for any use, and much cheaper.
	rankBlocks = 400
	// alignBelow is the ratio of the typical difference within a block to that
	// between blocks below which ranks are taken within blocks.
	alignBelow = 0.75
	// scattersFrom is the ratio of squared typical distances, of the target to its
	// controls and of these to each other, from which a target scatters more than
	// they do. It is 0.75 where all three scatter alike.
	scattersFrom = 1.4
)

// Estimate gives the effect with its interval at a level.
//
// The test needs no shape of the noise: without an effect, target, control and twin
// could have changed places within each block, whatever the blocks have in common. A
// target that scatters more than its controls could not: its differences to their mean
// are tested by their signed ranks (Wilcoxon, Biometrics Bulletin 1, 1945) where the
// blocks suffice for the level. So are those of a target without a twin: nothing tells
// the control's scatter then.
//
// The statistic of the first test is the sum of the target's ranks among the
// values of all blocks (Lehmann, Nonparametrics, 1975, §3.3); where the values of a
// block are alike it ranks their distances from the block's median instead (aligned
// ranks; Hodges and Lehmann, Ann. Math. Statist. 33, 1962). The interval holds the
// shifts that the test does not reject, and the estimate is the shift at which the
// ranks are in balance (Hodges and Lehmann, Ann. Math. Statist. 34, 1963).
func (c Contrast) Estimate(level float64) Shift {
	r := newRanking(c.tested(level))
	n := len(r.sizes)
	out := Shift{Blocks: n, P: 1, Interval: None(0)}
	if n == 0 {
		return out
	}
	if n > rankBlocks {
		return r.byMedian(level)
	}
	out.Value = r.estimate()
	up, down := r.tails(0)
	out.P = min(1, 2*min(up, down))
	out.Interval = None(out.Value)
	if most := 1 - r.smallest(); most < level || n < MinimumBlocks {
		level = min(level, most)
		out.Reached = level
	}
	if n < 2 {
		return out
	}
	tail := (1 - level) / 2
	low := r.lowest(out.Value, tail)
	high := r.search(r.high, out.Value, func(shift float64) bool { _, down := r.tails(shift); return down > tail*(1+1e-9) })
	out.Interval = Interval{Low: low, High: max(high, out.Value), Level: level, Method: methodAt(level, n)}
	return r.settled(out)
}

// settled is a shift without what the searches add to one that is exact: equal values in
// every block are no shift of 1e-12.
func (r *ranking) settled(s Shift) Shift {
	resolution := math.Ldexp(r.high-r.low, 2-r.steps)
	onto := func(v, exact float64) float64 {
		if math.Abs(v-exact) <= resolution {
			return exact
		}
		return v
	}
	s.Value = onto(s.Value, 0)
	s.Interval.Low, s.Interval.High = onto(onto(s.Interval.Low, 0), s.Value), onto(onto(s.Interval.High, 0), s.Value)
	return s
}

// lowest is the low end of Estimate's interval to a thousandth of the values' range, for
// simulations: the whole takes five times as long.
func (c Contrast) lowest(level float64) float64 {
	r := newRanking(c.tested(level))
	if n := len(r.sizes); n < 2 || n > rankBlocks {
		return c.Estimate(level).Interval.Low
	}
	r.steps = 12
	return r.lowest(r.estimate(), max(1-level, r.smallest())/2)
}

// tested is the contrast as its test at a level takes it: with all labels that can change
// places.
func (c Contrast) tested(level float64) Contrast {
	if c.hasTwin() && (!c.scatters() || SmallestP(len(c.Target), false) > 1-level+1e-12) {
		return c
	}
	out := Contrast{Target: make([]float64, len(c.Target))}
	for i, t := range c.Target {
		_, out.Target[i] = c.distances(i, t)
	}
	return out
}

func (c Contrast) hasTwin() bool {
	return slices.ContainsFunc(c.Twin, func(v float64) bool { return !math.IsNaN(v) })
}

// distances are, in a block, how far the control is from its twin (NaN without one), and
// how far the target is from the mean of both.
func (c Contrast) distances(block int, target float64) (controls, apart float64) {
	control := 0.0
	if c.Control != nil {
		control = c.Control[block]
	}
	if block >= len(c.Twin) || math.IsNaN(c.Twin[block]) {
		return math.NaN(), target - control
	}
	return control - c.Twin[block], target - (control+c.Twin[block])/2
}

// scatters reports whether the target scatters more than its controls do.
func (c Contrast) scatters() bool {
	var controls, apart []float64
	for i, t := range c.Target {
		if d, a := c.distances(i, t); !math.IsNaN(d) {
			controls, apart = append(controls, d), append(apart, a)
		}
	}
	x, y := typicalDistance(apart), typicalDistance(controls)
	return x*x > scattersFrom*y*y
}

// typicalDistance is the mean distance from the median.
func typicalDistance(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	middle, sum := Median(Sorted(x)), 0.0
	for _, v := range x {
		sum += math.Abs(v - middle)
	}
	return sum / float64(len(x))
}

// methodAt marks an interval below 95 %, or of too few blocks, as a range: no verdict rests
// on one.
func methodAt(level float64, blocks int) string {
	if level < 0.95-1e-12 || blocks < MinimumBlocks {
		return MethodRange
	}
	return MethodRank
}

// SmallestP is the smallest two-sided p-value of a Contrast of n blocks.
func SmallestP(n int, twin bool) float64 {
	k := 2.0
	if twin {
		k = 3
	}
	return min(1, 2*math.Pow(k, -float64(n)))
}

// BlocksFor is the number of blocks from which a Contrast has an interval at a
// level; never below MinimumBlocks.
func BlocksFor(level float64, twin bool) int {
	n := MinimumBlocks
	for SmallestP(n, twin) > 1-level+1e-12 {
		n++
	}
	return n
}

// ranking is a Contrast's blocks as one list, and what the tests of its shifts
// share.
type ranking struct {
	values    []float64 // block by block; in each the target's first
	sizes     []int     // of the blocks
	relative  bool      // to the control of their block: ranks are always aligned
	aligned   bool
	low, high float64 // shifts beyond which no interval reaches
	steps     int     // halvings of a search
	shifted   []float64
	order     []int
	ranks     []int // doubled midranks
	p, q      []float64
}

func newRanking(c Contrast) *ranking {
	r := &ranking{steps: 40, relative: c.Control == nil}
	for i, t := range c.Target {
		control := 0.0
		if c.Control != nil {
			control = c.Control[i]
		}
		r.values = append(r.values, t, control)
		size := 2
		if i < len(c.Twin) && !math.IsNaN(c.Twin[i]) {
			r.values = append(r.values, c.Twin[i])
			size = 3
		}
		r.sizes = append(r.sizes, size)
	}
	n := len(r.values)
	r.shifted, r.order, r.ranks = make([]float64, n), make([]int, n), make([]int, n)
	if n > 0 {
		least, most := slices.Min(r.values), slices.Max(r.values)
		r.low, r.high = 2*(least-most)-1e-9, 2*(most-least)+1e-9
	}
	return r
}

// blocks calls f for each block with its place in values.
func (r *ranking) blocks(f func(at, size int)) {
	at := 0
	for _, size := range r.sizes {
		f(at, size)
		at += size
	}
}

// rank ranks the values with the target's moved back by a shift.
func (r *ranking) rank(shift float64) {
	copy(r.shifted, r.values)
	r.blocks(func(at, size int) {
		b := r.shifted[at : at+size]
		b[0] -= shift
		if !r.aligned {
			return
		}
		centre := middle(b)
		for i := range b {
			b[i] -= centre
		}
	})
	for i := range r.order {
		r.order[i] = i
	}
	slices.SortFunc(r.order, func(a, b int) int {
		switch x, y := r.shifted[a], r.shifted[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	for i := 0; i < len(r.order); {
		j := i + 1
		for j < len(r.order) && r.shifted[r.order[j]] == r.shifted[r.order[i]] {
			j++
		}
		for _, at := range r.order[i:j] {
			r.ranks[at] = i + j + 1
		}
		i = j
	}
}

// middle is the median of two or three numbers.
func middle(b []float64) float64 {
	if len(b) == 2 {
		return (b[0] + b[1]) / 2
	}
	return max(min(b[0], b[1]), min(max(b[0], b[1]), b[2]))
}

// surplus is the target's rank sum above its expectation, and the variance of it
// when labels are exchanged within blocks.
func (r *ranking) surplus() (above, variance float64) {
	r.blocks(func(at, size int) {
		sum, squares := 0.0, 0.0
		for _, rank := range r.ranks[at : at+size] {
			sum += float64(rank)
			squares += float64(rank) * float64(rank)
		}
		mean := sum / float64(size)
		above += float64(r.ranks[at]) - mean
		variance += squares/float64(size) - mean*mean
	})
	return above, variance
}

// balance is the shift at which the target's ranks are in balance: the middle of
// the shifts where they are.
func (r *ranking) balance() float64 {
	above := func(shift float64) float64 { r.rank(shift); a, _ := r.surplus(); return a }
	low := r.search(r.low, r.high, func(shift float64) bool { return above(shift) <= 1e-9 })
	high := r.search(r.high, r.low, func(shift float64) bool { return above(shift) >= -1e-9 })
	return (low + high) / 2
}

// estimate is the shift at which the target's ranks are in balance, among the values
// themselves where those of a block are no more alike than others. Differences to a control
// are always aligned, which makes those of two labels signed ranks.
func (r *ranking) estimate() float64 {
	r.aligned = true
	value := r.balance()
	if r.aligned = r.relative || r.alike(value); !r.aligned {
		value = r.balance()
	}
	return value
}

// lowest is the least shift below an estimate that is not rejected at a tail.
func (r *ranking) lowest(value, tail float64) float64 {
	return min(value, r.search(r.low, value, func(shift float64) bool { up, _ := r.tails(shift); return up > tail*(1+1e-9) }))
}

// search is the border, from outside, of the shifts that a condition accepts: it
// does not accept from, and accepts to.
func (r *ranking) search(from, to float64, accepts func(shift float64) bool) float64 {
	for range r.steps {
		at := from + (to-from)/2
		if accepts(at) {
			to = at
		} else {
			from = at
		}
	}
	return to
}

// tails are the chances that the target's rank sum is at least, and at most, as
// large as observed when it is moved back by a shift.
func (r *ranking) tails(shift float64) (up, down float64) {
	r.rank(shift)
	if len(r.sizes) > exactBlocks {
		above, variance := r.surplus()
		if variance == 0 {
			return 1, 1
		}
		z := above / math.Sqrt(variance)
		return math.Erfc(z/math.Sqrt2) / 2, math.Erfc(-z/math.Sqrt2) / 2
	}
	return r.enumerate()
}

// enumerate convolves the blocks: in each, the target's rank is any of the block's
// with the same chance.
func (r *ranking) enumerate() (up, down float64) {
	most, observed, lowest := 0, 0, 0
	r.blocks(func(at, size int) {
		b := r.ranks[at : at+size]
		least := slices.Min(b)
		most += slices.Max(b) - least
		observed += b[0]
		lowest += least
	})
	if cap(r.p) <= most {
		r.p, r.q = make([]float64, 2*most+1), make([]float64, 2*most+1)
	}
	p, q := r.p[:most+1], r.q[:most+1]
	clear(p)
	p[0] = 1
	reach := 0
	r.blocks(func(at, size int) {
		b := r.ranks[at : at+size]
		least, share := slices.Min(b), 1/float64(size)
		clear(q[:min(most, reach+slices.Max(b)-least)+1])
		for _, rank := range b {
			to := q[rank-least:]
			for s, v := range p[:reach+1] {
				to[s] += v * share
			}
		}
		reach += slices.Max(b) - least
		p, q = q, p
	})
	for s, v := range p[:reach+1] {
		if s+lowest >= observed {
			up += v
		}
		if s+lowest <= observed {
			down += v
		}
	}
	return up, down
}

// smallest is the smallest two-sided p-value that the blocks allow.
func (r *ranking) smallest() float64 {
	p := 2.0
	for _, size := range r.sizes {
		p /= float64(size)
	}
	return min(1, p)
}

// alike reports whether the values of a block are closer to each other than to
// those of other blocks. The labels have no part in it, so the test that it chooses
// stays exact.
func (r *ranking) alike(shift float64) bool {
	r.aligned = false
	r.rank(shift)
	within, pairs := 0.0, 0
	r.blocks(func(at, size int) {
		for i := at; i < at+size; i++ {
			for j := at; j < i; j++ {
				within += math.Abs(r.shifted[i] - r.shifted[j])
				pairs++
			}
		}
	})
	all, n := 0.0, len(r.order)
	for i, at := range r.order { // of ascending numbers, i are below and n-1-i above
		all += float64(2*i-n+1) * r.shifted[at]
	}
	between := (all - within) / float64(n*(n-1)/2-pairs)
	return within/float64(pairs) < alignBelow*between
}

// byMedian is for very many blocks: the median of the differences, and the interval
// between its order statistics.
func (r *ranking) byMedian(level float64) Shift {
	differences := make([]float64, 0, len(r.sizes))
	r.blocks(func(at, size int) {
		control := r.values[at+1]
		if size == 3 {
			control = (control + r.values[at+2]) / 2
		}
		differences = append(differences, r.values[at]-control)
	})
	x := Sorted(differences)
	return Shift{Value: Median(x), Interval: orderInterval(x, level), P: signFlipSorted(x), Blocks: len(x)}
}
