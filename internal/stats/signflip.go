package stats

import (
	"cmp"
	"math"
	"slices"
)

// exactPairs is the number of pairs up to which the sign-flip distribution is
// enumerated; above, the normal limit agrees with it to less than the alphas
// anybody uses need.
const exactPairs = 64

// SignFlip is the p-value, two-sided, of the hypothesis that the differences
// (here log-ratios) are symmetric around 0: the share of all 2^n assignments of
// signs whose signed-rank sum is at least as far from 0 as the observed one
// (Pesarin, Multivariate Permutation Tests, 2001; the statistic is Wilcoxon's
// of 1945, with Pratt's treatment of zeros and midranks for ties). It takes
// ranks, not the differences themselves, because one disturbed block must not
// undo eleven quiet ones. The test is exact up to 64 pairs, ties included; its
// smallest p is 2^(1-n). No differences, or only zeros, give 1, and so does one that is NaN.
func SignFlip(differences []float64) float64 { return signFlipSorted(Sorted(differences)) }

// signFlipSorted is SignFlip of ascending differences.
func signFlipSorted(x []float64) float64 {
	if len(x) > 0 && math.IsNaN(x[0]) { // it sorts first, and has no rank
		return 1
	}
	ranks, positive := signedRanks(x)
	if len(ranks) == 0 {
		return 1
	}
	total, squares := 0, 0.0
	for _, r := range ranks {
		total += r
		squares += float64(r) * float64(r)
	}
	distance := math.Abs(float64(2*positive - total))
	if len(ranks) > exactPairs {
		return math.Erfc(distance / math.Sqrt(2*squares))
	}
	return min(1, 2*upperTail(ranks, max(positive, total-positive), total))
}

// signedRanks gives the doubled midranks of the magnitudes of ascending
// differences, without those of zeros (which keep the lowest ranks: Pratt
// 1959), and the sum of the ranks that belong to positive ones. Negative and
// positive magnitudes are sorted already: a merge ranks them.
func signedRanks(x []float64) (ranks []int, positive int) {
	negative, _ := slices.BinarySearch(x, 0)
	down := negative - 1                                  // the smallest negative magnitude
	up, _ := slices.BinarySearch(x, math.Nextafter(0, 1)) // the smallest positive one
	next := func() (magnitude float64, ok bool) {
		switch {
		case down >= 0 && (up == len(x) || -x[down] <= x[up]):
			return -x[down], true
		case up < len(x):
			return x[up], true
		}
		return 0, false
	}
	below := up - down - 1 // zeros
	ranks = make([]int, 0, len(x)-below)
	for magnitude, ok := next(); ok; magnitude, ok = next() {
		negatives, positives := 0, 0
		for ; down >= 0 && -x[down] == magnitude; down-- {
			negatives++
		}
		for ; up < len(x) && x[up] == magnitude; up++ {
			positives++
		}
		tied := negatives + positives
		rank := 2*below + tied + 1 // twice the mean of below+1 .. below+tied
		for range tied {
			ranks = append(ranks, rank)
		}
		positive += positives * rank
		below += tied
	}
	return ranks, positive
}

// upperTail is P(W >= w) for the sum W of those ranks whose fair coin shows
// heads, by convolving one coin after the other.
func upperTail(ranks []int, w, total int) float64 {
	p := make([]float64, total+1)
	p[0] = 1
	reach := 0
	for _, r := range ranks {
		reach += r
		for s := reach; s >= 0; s-- {
			q := p[s]
			if s >= r {
				q += p[s-r]
			}
			p[s] = q / 2
		}
	}
	tail := 0.0
	for s := total; s >= w; s-- {
		tail += p[s]
	}
	return tail
}

// Holm adjusts the p-values of one family (Holm, Scand. J. Statist. 6, 1979):
// rejecting where the result is at most alpha keeps the chance of one false
// rejection in the family at alpha. The order of p is kept.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := make([]float64, len(p))
	floor := 0.0
	for rank, i := range order {
		floor = max(floor, min(1, p[i]*float64(len(p)-rank)))
		adjusted[i] = floor
	}
	return adjusted
}
