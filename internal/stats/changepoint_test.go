package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// stepped is a series of normal noise with deviation 1 around levels, n values each.
func stepped(rng *rand.Rand, n int, at ...float64) []float64 {
	var x []float64
	for _, level := range at {
		for range n {
			x = append(x, level+rng.NormFloat64())
		}
	}
	return x
}

func TestSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	spike := stepped(rng, 30, 0)
	spike[15] = 40
	for name, c := range map[string]struct {
		x    []float64
		want []int
	}{
		"a step":        {stepped(rng, 15, 0, 5), []int{15}},
		"up and down":   {stepped(rng, 12, 0, 6, 0), []int{12, 24}},
		"noise":         {stepped(rng, 30, 0), nil},
		"one bad run":   {spike, nil},
		"all the same":  {make([]float64, 20), nil},
		"too short":     {[]float64{1, 1, 9, 9, 9}, nil},
		"nothing":       {nil, nil},
		"the last five": {append(stepped(rng, 25, 0), stepped(rng, 5, 8)...), []int{25}},
	} {
		var got []int
		for _, s := range Steps(c.x, 3, 0.01, 4999, 7) {
			got = append(got, s.At)
			if s.P <= 0 || s.P > 0.01 {
				t.Errorf("%s: p = %v", name, s.P)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: steps at %v, want %v", name, got, c.want)
		}
	}
}

// Noise alone has a step in about alpha of the series: 5 of 100 expected, and more than
// 14 with a chance of 1 in 10,000.
func TestStepsOfNoiseAreRare(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	found := 0
	for seed := range uint64(100) {
		if len(Steps(stepped(rng, 20, 0), 3, 0.05, 4999, seed)) > 0 {
			found++
		}
	}
	if found > 14 {
		t.Errorf("%d of 100 series of noise have a step", found)
	}
}

// The split is where the definition, computed pair by pair, is largest.
func TestSplitOfIsTheEnergyDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	mean := func(a, b []float64, n float64) (sum float64) {
		for _, v := range a {
			for _, w := range b {
				sum += max(v-w, w-v) / n
			}
		}
		return sum
	}
	for range 20 {
		x := stepped(rng, 6, 0, rng.Float64()*3)
		at, most := splitOf(x, 3)
		want, where := -1.0, 0
		for split := 3; split <= len(x)-3; split++ {
			for end := split + 3; end <= len(x); end++ {
				l, r := x[:split], x[split:end]
				m, n := float64(len(l)), float64(len(r))
				if q := m * n / (m + n) * (2*mean(l, r, m*n) - mean(l, l, m*(m-1)) - mean(r, r, n*(n-1))); q > want {
					want, where = q, split
				}
			}
		}
		if at != where || math.Abs(most-want) > 1e-9 {
			t.Errorf("found %d with %v, want %d with %v", at, most, where, want)
		}
	}
}
