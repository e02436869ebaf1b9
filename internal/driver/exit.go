package driver

import "time"

// Exit is how a payload ended.
type Exit struct {
	Code   int    // exit code; meaningless when Signal != 0
	Signal int    // the signal that killed it, else 0
	Usage  *Usage // of the payload and the children that it waited for; nil where the target does not report it
	// Clock is what a machine reported of its boot by its own clock, by the names of
	// metrics; nil for none.
	Clock map[string]time.Duration
}

// Usage is resource use as getrusage(2) counts it.
type Usage struct {
	User, System        time.Duration
	MaxRSS              int64 // bytes
	MinorFaults         int64
	MajorFaults         int64
	VoluntarySwitches   int64
	InvoluntarySwitches int64
}
