package probe

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
)

// processMeter is one process whose CPU time is read apart from that of the
// group in which it lives with others.
type processMeter struct {
	role   driver.Role
	pid    int
	cgroup string
	before float64
}

// armProcesses notes what the processes that are watched alone have used so far.
func armProcesses(on []driver.Watch) []processMeter {
	var all []processMeter
	for _, w := range on {
		known := slices.ContainsFunc(all, func(p processMeter) bool { return p.pid == w.PID })
		if !w.Alone || known {
			continue
		}
		if before, ok := processCPU(w.PID); ok {
			all = append(all, processMeter{role: w.Role, pid: w.PID, cgroup: w.Cgroup, before: before})
		}
	}
	return all
}

// used is the CPU time since arming; 0 of a process that has ended, whose time
// stays with its group.
func (p processMeter) used() float64 {
	after, ok := processCPU(p.pid)
	if !ok {
		return 0
	}
	return after - p.before
}

// processCPU is the CPU time of all threads of a process, ended ones included,
// in seconds: its CPU-time clock, whose id is made of the pid as
// clock_getcpuclockid(3) does.
func processCPU(pid int) (float64, bool) {
	const scheduled = 2 // CPUCLOCK_SCHED: exact, not by ticks
	var t unix.Timespec
	if pid <= 0 || unix.ClockGettime(int32(^pid<<3|scheduled), &t) != nil {
		return 0, false
	}
	return float64(t.Nano()) * 1e-9, true
}
