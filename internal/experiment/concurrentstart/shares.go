package concurrentstart

import "github.com/tarelab/tare/internal/sample"

// The parts of elapsed time, in the order of display. The instances' own and others'
// add up to what the CPUs did, for which busy stands where the two are not told
// apart; in each trial they add up to 1 with stolen and idle. The last two
// are times in which some task waited, and overlap.
const (
	shareOwn    = "own"    // CPU time of the instances, their runtimes, clients and daemons, by that of all CPUs
	shareOthers = "others" // CPU time of everything else on the machine
	shareBusy   = "busy"   // CPU time of both, where that of the instances could not be read, or not all of it
	shareStolen = "stolen" // time that the hypervisor gave to others, in which no CPU of the machine could work
	shareIdle   = "idle"   // time that no CPU explains
	shareQueue  = "queue"  // some task of the instances waited for a CPU
	shareIO     = "io"     // ... for I/O
)

// sharesOf takes one trial's elapsed time apart. What the instances used is
// told apart from what others did where all of it was read.
func sharesOf(values map[string][]float64, cpus int, unread bool) map[string]float64 {
	elapsed := sum(values[sample.Elapsed])
	if elapsed <= 0 || cpus < 1 {
		return nil
	}
	shares := map[string]float64{}
	if machine, known := values[sample.MachineCPU]; known {
		all := sum(machine) + sum(values[sample.TareCPU])
		whole := elapsed * float64(cpus)
		steal, told := values[sample.Steal]
		stolen := sum(steal)
		scale := 1 / max(whole, all+stolen) // the probes' window is a little longer than elapsed
		if used, read := values[sample.CPU]; read && !unread {
			own := min(sum(used)+sum(values[sample.DaemonCPU]), all)
			shares[shareOwn], shares[shareOthers] = own*scale, (all-own)*scale
		} else {
			shares[shareBusy] = all * scale
		}
		if told {
			shares[shareStolen] = stolen * scale
		}
		shares[shareIdle] = idleShare(whole, all+stolen)
	}
	for share, metric := range map[string]string{shareQueue: sample.GroupCPUPressure, shareIO: sample.GroupIOPressure} {
		if v, known := values[metric]; known {
			shares[share] = min(1, sum(v)/elapsed)
		}
	}
	return shares
}

// idleShare is exactly 0 where the CPUs did all that they could.
func idleShare(whole, done float64) float64 {
	if done >= whole {
		return 0
	}
	return 1 - done/whole
}
