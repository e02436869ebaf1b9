package stats

import "math"

// Trend is the p-value, two-sided, of Spearman's rank correlation between
// values and their order, by its normal limit z = rho sqrt(n-1).
func Trend(values []float64) float64 {
	n := len(values)
	rho := pearsonOfRanks(Midranks(values))
	return math.Erfc(math.Abs(rho) * math.Sqrt(float64(n-1)) / math.Sqrt2)
}

// pearsonOfRanks correlates ranks with 1..n; 0 when all are tied.
func pearsonOfRanks(ranks []float64) float64 {
	centre := float64(len(ranks)+1) / 2
	var xy, xx, yy float64
	for i, r := range ranks {
		x, y := float64(i+1)-centre, r-centre
		xy += x * y
		xx += x * x
		yy += y * y
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}
