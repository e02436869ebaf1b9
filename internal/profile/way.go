package profile

// Way is how a profile was measured. What was measured in two ways is not compared.
type Way string

// The ways.
const (
	// ByPrograms: programs in the kernel saw each wait, or each switch, and summed it up
	// there.
	ByPrograms Way = ""
	// BySamples: the kernel wrote samples and switches down as perf events, and tare
	// summed them up.
	BySamples Way = "measured by perf events"
	// BySamplesAlone: perf events, and of samples alone: time off the CPUs is not seen.
	BySamplesAlone Way = "measured by perf events without the scheduler's switches"

	// estimated stands before the way of the stacks from which waits were estimated.
	estimated = "estimated from stacks"
)

// Taker is what takes the CPU time that a profile says it cost.
func (w Way) Taker() string {
	if w == ByPrograms || w == estimated {
		return "the probe's programs"
	}
	return "reading the perf events"
}

// estimate is the way of waits that were estimated from stacks measured in this way.
func (w Way) estimate() Way {
	if w == ByPrograms {
		return estimated
	}
	return estimated + " " + w
}
