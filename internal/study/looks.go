package study

import "slices"

// looks are after how many blocks a study with a precision is looked at. They grow by
// half, so that few are needed and a run is at most half longer than it had to be.
var looks = []int{6, 9, 14, 20, 30, 45, 70, 100, 150, 225, 340, 510, 765, 1000}

// Looks are after how many blocks the run is looked at, ascending, the last after its
// last block; one for a study without a precision. Each look may end the run by what it
// sees, so intervals are made at a level that is corrected for the looks (LookAlpha).
func (s Study) Looks() []int {
	var all []int
	for _, n := range looks {
		if s.Precision > 0 && n < s.Blocks {
			all = append(all, n)
		}
	}
	return append(all, s.Blocks)
}

// LookAlpha is the error that a look after so many blocks may make, where the run may go
// on. The first look has half of the study's alpha, the k-th 1/(k(k+1)) of it, and the last
// of K looks what is left, 1/K. The sum is alpha, so a study is wrong no more often for
// being looked at (Bonferroni). Early looks have most, because a run that ends early has no
// later ones.
func (s Study) LookAlpha(blocks int) float64 {
	if k := s.lookAfter(blocks); k < len(s.Looks()) {
		return s.Alpha / float64(k*(k+1))
	}
	return s.LastAlpha(blocks)
}

// LastAlpha is the error of a report of so many blocks, when no block follows: all that the
// looks before it have left. No block follows the last one, nor the one at which the budget
// ends the run, for time knows nothing of the effects.
func (s Study) LastAlpha(blocks int) float64 { return s.Alpha / float64(s.lookAfter(blocks)) }

// lookAfter is the number, from 1, of the first look at so many blocks or more.
func (s Study) lookAfter(blocks int) int {
	looks := s.Looks()
	before, _ := slices.BinarySearch(looks, blocks)
	return min(before+1, len(looks))
}
