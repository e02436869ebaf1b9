package analysis

import (
	"math/rand/v2"

	"github.com/tarelab/tare/internal/stats"
)

// fromP99 is the number of values from which a 99th percentile is more than the
// largest value in disguise.
const fromP99 = 100

// summarize describes one cell's values; Failed and Copies are left to the caller.
func summarize(values []float64, rng *rand.Rand) Summary {
	if len(values) == 0 {
		return Summary{Interval: stats.None(0)}
	}
	x := stats.Sorted(values)
	s := Summary{
		N: len(x), Median: stats.Median(x), Mean: stats.Mean(x), Min: x[0], Max: x[len(x)-1],
		P90: stats.Quantile(x, 0.90), P99: p99(x), MAD: stats.Deviation(x),
		Interval: stats.MedianInterval(x, rng, 0.95),
	}
	s.Outliers = stats.Outliers(x, s.Median, s.MAD)
	return s
}

func summarizeCopies(values []float64) *Copies {
	if len(values) == 0 {
		return nil
	}
	x := stats.Sorted(values)
	return &Copies{N: len(x), Median: stats.Median(x), P90: stats.Quantile(x, 0.90), P99: p99(x), Max: x[len(x)-1]}
}

func p99(x []float64) *float64 {
	if len(x) < fromP99 {
		return nil
	}
	v := stats.Quantile(x, 0.99)
	return &v
}
