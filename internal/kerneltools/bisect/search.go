// Package bisect narrows a difference between two kernels to two neighbours in a list that
// leads from one to the other: releases, images, or configurations of one source. Each step
// is a run in which both ends and a candidate between them are measured together.
package bisect

// Answer is which end a candidate resembles.
type Answer string

// The answers.
const (
	Good    Answer = "good"
	Bad     Answer = "bad"
	Open    Answer = "open"    // the intervals do not tell
	Skipped Answer = "skipped" // it could not be measured
)

// interval is what a search knows: the change lies behind good, and at bad or before it.
type interval struct{ good, bad int }

// search halves a list of n kernels, the first of which is good and the last bad, until
// the two ends of an interval are neighbours, or every kernel between them is open or
// skipped. Where the change comes and goes along the list, it finds one place where it
// comes. It ends at the first error, with what is known by then.
func search(n int, ask func(at int) (Answer, error)) (interval, error) {
	known := interval{0, n - 1}
	unsettled := map[int]bool{}
	for {
		at := known.middle(unsettled)
		if at < 0 {
			return known, nil
		}
		answer, err := ask(at)
		if err != nil {
			return known, err
		}
		switch answer {
		case Good:
			known.good = at
		case Bad:
			known.bad = at
		default:
			unsettled[at] = true
		}
	}
}

// middle is the kernel nearest to the middle of an interval that is not unsettled; -1 for
// none. Of two it is the earlier one.
func (i interval) middle(unsettled map[int]bool) int {
	best := -1
	for at := i.good + 1; at < i.bad; at++ {
		if !unsettled[at] && (best < 0 || i.off(at) < i.off(best)) {
			best = at
		}
	}
	return best
}

// off is how far a place lies from the middle, doubled.
func (i interval) off(at int) int {
	return max(2*at-i.good-i.bad, i.good+i.bad-2*at)
}

// halvings is how many kernels of n are asked for at most, where none is unsettled.
func halvings(n int) (steps int) {
	for between := n - 2; between > 0; between /= 2 {
		steps++
	}
	return steps
}
