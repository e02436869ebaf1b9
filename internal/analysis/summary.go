package analysis

import "math/rand/v2"

// fromP99 is the number of values from which a 99th percentile is more than the
// largest value in disguise.
const fromP99 = 100

// summarize describes one cell's values; Failed and Copies are left to the caller.
func summarize(values []float64, rng *rand.Rand) Summary {
	if len(values) == 0 {
		return Summary{Interval: none(0)}
	}
	x := sorted(values)
	s := Summary{
		N: len(x), Median: median(x), Mean: mean(x), Min: x[0], Max: x[len(x)-1],
		P90: quantile(x, 0.90), P99: p99(x), MAD: deviation(x),
		Interval: medianIntervals(x, rng, 0.95)[0],
	}
	s.Outliers = outliers(x, s.Median, s.MAD)
	return s
}

func summarizeCopies(values []float64) *Copies {
	if len(values) == 0 {
		return nil
	}
	x := sorted(values)
	return &Copies{N: len(x), Median: median(x), P90: quantile(x, 0.90), P99: p99(x), Max: x[len(x)-1]}
}

func p99(x []float64) *float64 {
	if len(x) < fromP99 {
		return nil
	}
	v := quantile(x, 0.99)
	return &v
}
