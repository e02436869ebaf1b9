package stats

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var long = flag.Bool("long", false, "simulate more runs, and print the figures of docs/method.md")

// noises are the kinds of noise that every interval is tried on: one value's
// deviation in a block, on the log scale.
var noises = []struct {
	name string
	size float64 // an effect of interest among it
	draw func(r *rand.Rand) float64
}{
	{"normal", 0.1, func(r *rand.Rand) float64 { return 0.05 * r.NormFloat64() }},
	{"t2", 0.1, func(r *rand.Rand) float64 { return 0.03 * r.NormFloat64() / math.Sqrt(r.ExpFloat64()) }},
	{"bimodal", 0.2, func(r *rand.Rand) float64 {
		v := 0.02 * r.NormFloat64()
		if r.Float64() < 0.3 {
			v += 0.45
		}
		return v
	}},
	{"3x outliers", 0.1, func(r *rand.Rand) float64 {
		v := 0.03 * r.NormFloat64()
		if r.Float64() < 0.1 {
			v += math.Log(3)
		}
		return v
	}},
}

// simulate makes n blocks. What a block has in common has a standard deviation of
// common. carry is the autocorrelation from one place of a block to the next; the
// cells come in random order, as in a run.
func simulate(r *rand.Rand, n int, twin bool, shift, common, carry float64, draw func(*rand.Rand) float64) Contrast {
	c := Contrast{Target: make([]float64, n), Control: make([]float64, n)}
	columns := [][]float64{c.Target, c.Control}
	if twin {
		c.Twin = make([]float64, n)
		columns = append(columns, c.Twin)
	}
	for i := range n {
		level, last := common*r.NormFloat64(), draw(r)
		for _, k := range r.Perm(len(columns)) {
			last = carry*last + math.Sqrt(1-carry*carry)*draw(r)
			columns[k][i] = level + last
		}
		c.Target[i] += shift
	}
	return c
}

// TestContrastCovers: the interval holds the true shift as often as its level says,
// less one point and the simulation's own error, for every kind of noise, with and
// without a twin, with blocks that differ and with autocorrelation within blocks.
func TestContrastCovers(t *testing.T) {
	runs, blocks := 100, []int{6, 9, 21}
	if *long {
		runs, blocks = 1000, []int{6, 9, 12, 21, 30}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, noise := range noises {
		for _, n := range blocks {
			for _, twin := range []bool{true, false} {
				for _, place := range []struct{ common, carry float64 }{{0, 0}, {0.3, 0}, {0.05, 0.6}} {
					for _, level := range []float64{0.95, 1 - 0.05/8} {
						if SmallestP(n, twin) > 1-level {
							continue
						}
						covered, excludes, width := 0, 0, 0.0
						for range runs {
							e := simulate(r, n, twin, 0.3, place.common, place.carry, noise.draw).Estimate(level).Interval
							if e.Low <= 0.3 && 0.3 <= e.High {
								covered++
							}
							if e.Low > 0.3-noise.size {
								excludes++
							}
							width += (e.High - e.Low) / 2 / float64(runs)
						}
						share := float64(covered) / float64(runs)
						if least := level - 0.01 - 3*math.Sqrt(level*(1-level)/float64(runs)); share < least {
							t.Errorf("%s, %d blocks, twin %v, common %.2f, carry %.1f: a level of %.4f covers %.4f", noise.name, n, twin, place.common, place.carry, level, share)
						}
						if *long {
							fmt.Printf("%-11s n=%-2d twin=%-5v common=%.2f carry=%.1f level=%.4f covers %.4f, half-width %.3f, +%.0f %% found in %.2f\n", noise.name, n, twin, place.common, place.carry, level, share, width, 100*math.Expm1(noise.size), float64(excludes)/float64(runs))
						}
					}
				}
			}
		}
	}
}

// TestContrastCoversUnequalScatter: the same where the target scatters more than its
// control, whose labels cannot change places then.
func TestContrastCoversUnequalScatter(t *testing.T) {
	runs := 400
	if *long {
		runs = 4000
	}
	r := rand.New(rand.NewPCG(11, 12))
	for _, noise := range noises[:2] { // those without skew, whose middle the scatter does not move
		for _, times := range []float64{1, 1.5, 2, 4, 10} {
			for _, n := range []int{6, 9, 12, 21, 30} {
				for _, twin := range []bool{true, false} {
					for _, common := range []float64{0, 0.3} {
						for _, level := range []float64{0.95, 1 - 0.05/8} {
							if SmallestP(n, false) > 1-level {
								continue
							}
							covered := 0
							for range runs {
								c := simulate(r, n, twin, 0, common, 0, noise.draw)
								for i := range c.Target {
									c.Target[i] += 0.3 + (times-1)*noise.draw(r)
								}
								// What Estimate's interval holds, its test does not reject.
								k := newRanking(c.tested(level))
								k.estimate()
								up, down := k.tails(0.3)
								if tail := (1 - level) / 2; up > tail && down > tail {
									covered++
								}
							}
							share := float64(covered) / float64(runs)
							if least := level - 0.015 - 3*math.Sqrt(level*(1-level)/float64(runs)); share < least {
								t.Errorf("%s, scatter x%g, %d blocks, twin %v, common %.1f: a level of %.4f covers %.4f", noise.name, times, n, twin, common, level, share)
							}
							if *long {
								fmt.Printf("%-7s scatter x%-3g n=%-2d twin=%-5v common=%.1f level=%.4f covers %.4f\n", noise.name, times, n, twin, common, level, share)
							}
						}
					}
				}
			}
		}
	}
}

// TestContrastAgainstEnumeration: p-values against all exchanges of labels written
// out, ties and blocks without a twin included.
func TestContrastAgainstEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for try := range 40 {
		n := 2 + try%4
		c := Contrast{Target: make([]float64, n), Control: make([]float64, n), Twin: make([]float64, n)}
		for i := range n {
			c.Target[i], c.Control[i], c.Twin[i] = math.Floor(6*r.Float64()), math.Floor(6*r.Float64()), math.Floor(6*r.Float64())
			if try%3 == 0 && i == 0 {
				c.Twin[i] = math.NaN()
			}
		}
		for _, aligned := range []bool{false, true} {
			k := newRanking(c)
			k.aligned = aligned
			up, down := k.tails(0)
			// the same by hand
			total, atLeast, atMost := 0, 0, 0
			observed := 0
			k.blocks(func(at, _ int) { observed += k.ranks[at] })
			var walk func(block, at, sum int)
			walk = func(block, at, sum int) {
				if block == n {
					total++
					if sum >= observed {
						atLeast++
					}
					if sum <= observed {
						atMost++
					}
					return
				}
				for j := range k.sizes[block] {
					for range 6 / k.sizes[block] { // blocks of two and of three weigh the same
						walk(block+1, at+k.sizes[block], sum+k.ranks[at+j])
					}
				}
			}
			walk(0, 0, 0)
			if want := float64(atLeast) / float64(total); math.Abs(up-want) > 1e-12 {
				t.Errorf("%+v aligned %v: upper tail %g, by enumeration %g", c, aligned, up, want)
			}
			if want := float64(atMost) / float64(total); math.Abs(down-want) > 1e-12 {
				t.Errorf("%+v aligned %v: lower tail %g, by enumeration %g", c, aligned, down, want)
			}
		}
	}
}

// TestContrastKnowsItsLimits: the fewest blocks, the widest interval below them, and
// data without scatter.
func TestContrastKnowsItsLimits(t *testing.T) {
	for _, c := range []struct {
		level float64
		twin  bool
		want  int
	}{{0.95, true, 6}, {0.95, false, 6}, {1 - 0.05/8, true, 6}, {1 - 0.05/8, false, 9}, {1 - 0.05/40, true, 7}} {
		if n := BlocksFor(c.level, c.twin); n != c.want {
			t.Errorf("BlocksFor(%g, %v) = %d, want %d", c.level, c.twin, n, c.want)
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	e := simulate(r, 4, true, 0, 0, 0, noises[0].draw).Estimate(0.99)
	if want := 1 - 2./81; math.Abs(e.Reached-want) > 1e-12 || e.Interval.Level != e.Reached || e.Interval.Low >= e.Interval.High {
		t.Errorf("4 blocks at 0.99: %+v, want a level of %g", e, want)
	}
	if e := simulate(r, 5, true, 1, 0, 0, noises[0].draw).Estimate(0.95); e.Reached != 0.95 || e.Interval.Decides() {
		t.Errorf("5 blocks decide: %+v", e)
	}
	if e := simulate(r, 1, true, 0, 0, 0, noises[0].draw).Estimate(0.95); e.Interval.Method != MethodNone {
		t.Errorf("one block has an interval: %+v", e)
	}
	same := Contrast{Target: []float64{2, 2, 2, 2, 2, 2}, Control: []float64{1, 1, 1, 1, 1, 1}}.Estimate(0.95)
	if math.Abs(same.Value-1) > 1e-9 || same.Interval.High-same.Interval.Low > 1e-9 || same.P != 2./64 {
		t.Errorf("six blocks that are exactly 1 apart: %+v", same)
	}
	if e := (Contrast{}).Estimate(0.95); e.Blocks != 0 || e.P != 1 {
		t.Errorf("no blocks: %+v", e)
	}
}

// TestContrastOfLogRatios: values that are relative to the control already give
// what the values themselves give, where blocks differ much.
func TestContrastOfLogRatios(t *testing.T) {
	c := simulate(rand.New(rand.NewPCG(7, 8)), 9, true, 0.2, 5, 0, noises[0].draw)
	relative := Contrast{Target: slices.Clone(c.Target), Twin: slices.Clone(c.Twin)}
	for i, v := range c.Control {
		relative.Target[i] -= v
		relative.Twin[i] -= v
	}
	x, y := c.Estimate(0.99), relative.Estimate(0.99)
	if math.Abs(x.Value-y.Value) > 1e-6 || math.Abs(x.Interval.Low-y.Interval.Low) > 1e-6 || math.Abs(x.P-y.P) > 1e-9 {
		t.Errorf("%+v from values, %+v from log ratios", x, y)
	}
}

// TestContrastOfManyBlocks: the limits for many blocks go on where the exact ones end.
func TestContrastOfManyBlocks(t *testing.T) {
	for _, n := range []int{rankBlocks, rankBlocks + 1, 20_000} {
		c := simulate(rand.New(rand.NewPCG(9, 10)), n, true, 0.3, 0.1, 0, noises[0].draw)
		e := c.Estimate(0.99)
		if e.Interval.Low > 0.3 || e.Interval.High < 0.3 || (e.Interval.High-e.Interval.Low)*math.Sqrt(float64(n)) > 0.05*12 {
			t.Errorf("%d blocks: %+v", n, e)
		}
	}
}

// TestBetweenCovers is TestContrastCovers for two runs.
func TestBetweenCovers(t *testing.T) {
	runs, blocks := 200, []int{6, 9, 26}
	if *long {
		runs, blocks = 2000, []int{6, 7, 8, 9, 10, 12, 20, 30}
	}
	r := rand.New(rand.NewPCG(11, 12))
	for _, noise := range noises {
		for _, n := range blocks {
			for _, level := range []float64{0.95, 1 - 0.05/8} {
				if SmallestBetween(n, n) > 1-level {
					continue
				}
				covered := 0
				for range runs {
					x, y := make([]float64, n), make([]float64, n)
					for i := range n {
						x[i], y[i] = noise.draw(r), noise.draw(r)+0.3
					}
					if e := Between(x, y, level).Interval; e.Low <= 0.3 && 0.3 <= e.High {
						covered++
					}
				}
				share := float64(covered) / float64(runs)
				if least := level - 0.01 - 3*math.Sqrt(level*(1-level)/float64(runs)); share < least {
					t.Errorf("%s, %d blocks: a level of %.4f covers %.4f", noise.name, n, level, share)
				}
				if *long {
					fmt.Printf("%-11s two runs of n=%-2d level=%.4f covers %.4f\n", noise.name, n, level, share)
				}
			}
		}
	}
}

// TestDetectable: an effect of the size is found in 80 % of runs.
func TestDetectable(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, noise := range noises {
		size, found := Detectable(noise.draw, 9, 0.99, true, 1), 0
		for range 400 {
			if simulate(r, 9, true, size, 0, 0, noise.draw).Estimate(0.99).Interval.Low > 0 {
				found++
			}
		}
		if found < 280 || found > 370 {
			t.Errorf("%s: an effect of %.3f is found in %d of 400 runs", noise.name, size, found)
		}
	}
	if d := Detectable(noises[0].draw, 5, 0.999, false, 1); d != 0 {
		t.Errorf("5 blocks find %g at a level that they do not have", d)
	}
}
