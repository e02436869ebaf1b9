package study

// looks are after how many blocks a study with a precision is looked at. They grow by
// half, so that few are needed and a run is at most half longer than it had to be.
var looks = []int{6, 9, 14, 20, 30, 45, 70, 100, 150, 225, 340, 510, 765, 1000}

// Looks are after how many blocks the run is looked at, ascending, the last after its
// last block; one for a study without a precision. Each look may end the run by what it
// sees, so intervals are made at a level that is corrected for their number.
func (s Study) Looks() []int {
	var all []int
	for _, n := range looks {
		if s.Precision > 0 && n < s.Blocks {
			all = append(all, n)
		}
	}
	return append(all, s.Blocks)
}

// LookAlpha is the error that the study allows each of its looks (Bonferroni).
func (s Study) LookAlpha() float64 { return s.Alpha / float64(len(s.Looks())) }
