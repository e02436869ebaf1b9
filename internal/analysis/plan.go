package analysis

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// power is the chance with which a minimum detectable effect is detected.
const power = 0.8

// PlanBlocks is the number of blocks that suffices for a verdict in a table of
// m compared cells: the smallest p-value of n blocks, 2^(1-n), must reach
// alpha/m, which Holm asks of the smallest of m. Never below MinimumBlocks.
func PlanBlocks(alpha float64, m int) int {
	n := MinimumBlocks
	for math.Pow(2, float64(1-n)) > alpha/float64(max(1, m)) {
		n++
	}
	return n
}

// TooFewBlocks is the error of a plan that cannot promise a verdict.
type TooFewBlocks struct {
	Blocks int     // planned
	Need   int     // that suffice
	Cells  int     // compared in one table
	Alpha  float64 // of the table
}

// Error says what is missing and what to do.
func (e *TooFewBlocks) Error() string {
	return fmt.Sprintf("%d blocks cannot give a verdict on %d compared cells at alpha %g: the smallest p-value that they allow is %.2g; use %d blocks",
		e.Blocks, e.Cells, e.Alpha, math.Pow(2, float64(1-e.Blocks)), e.Need)
}

// CheckPlan returns a *TooFewBlocks error when a plan of so many blocks cannot
// promise a verdict on m compared cells of one table.
func CheckPlan(blocks int, alpha float64, m int) error {
	if need := PlanBlocks(alpha, m); blocks < need {
		return &TooFewBlocks{Blocks: blocks, Need: need, Cells: m, Alpha: alpha}
	}
	return nil
}

// MinimumDetectable is the smallest effect, as a ratio-1, that n blocks give
// the verdict "differs" with a chance of 0.8, when their log-ratios scatter as
// the given ones do (of a pilot, or of the run itself) and the p-value has to
// reach alpha (already divided by the number of cells). It is the sample size
// formula of a two-sided t test (Lachin, Controlled Clinical Trials 2, 1981),
//
//	(t(1-alpha/2, n-1) + t(0.8, n-1)) s / sqrt(n) sqrt(pi/2),
//
// with the scatter s from the MAD, so that single outliers do not spoil it, and
// sqrt(pi/2) for the median in place of the mean. As the estimate has to exceed
// the margin too, the result is never below margin + t(0.8) SE. It is 0 when
// nothing can be said: fewer than 2 log-ratios, or n too small for alpha.
func MinimumDetectable(logRatios []float64, n int, alpha, margin float64) float64 {
	if len(logRatios) < 2 {
		return 0
	}
	return minimumDetectable(scatter(sorted(logRatios)), n, alpha, margin)
}

func minimumDetectable(s float64, n int, alpha, margin float64) float64 {
	if n < MinimumBlocks || math.Pow(2, float64(1-n)) > alpha {
		return 0
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}
	se := s * math.Sqrt(math.Pi/2/float64(n))
	again := t.Quantile(power) * se
	return math.Expm1(max(t.Quantile(1-alpha/2)*se, math.Log1p(margin)) + again)
}

// scatter estimates the standard deviation of ascending numbers from their MAD,
// or directly where more than half of them are equal.
func scatter(x []float64) float64 {
	if mad := deviation(x); mad > 0 {
		return mad / normalScale
	}
	m, square := mean(x), 0.0
	for _, v := range x {
		square += (v - m) * (v - m)
	}
	return math.Sqrt(square / float64(max(1, len(x)-1)))
}

// BlocksFor is the smallest number of blocks, up to 100,000, whose minimum
// detectable effect is at most the given one (a ratio-1), for log-ratios that
// scatter as those of a pilot do; 0 when no number suffices, as for an effect
// within the margin.
func BlocksFor(effect float64, logRatios []float64, alpha, margin float64) int {
	if len(logRatios) < 2 {
		return 0
	}
	s := scatter(sorted(logRatios))
	const most = 100_000
	enough := func(n int) bool {
		d := minimumDetectable(s, n, alpha, margin)
		return d > 0 && d <= effect
	}
	if !enough(most) {
		return 0
	}
	low, high := MinimumBlocks-1, most // not enough, enough
	for high-low > 1 {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}
