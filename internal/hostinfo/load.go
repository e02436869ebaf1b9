package hostinfo

import (
	"fmt"

	"github.com/prometheus/procfs"
)

// Noise is how busy the machine is at a moment. It is read before a trial: a
// busy machine makes a result doubtful.
type Noise struct {
	// CPUPressure is the share of the last 10 s in which some task waited for
	// a CPU, 0 to 1; -1 where the kernel has no PSI.
	CPUPressure float64 `json:"cpuPressure"`
	Load1       float64 `json:"load1"`   // the 1-minute load average
	Running     int     `json:"running"` // tasks that run or want to, this process among them
	// Steal is the CPU time in seconds, over all CPUs since boot, that the
	// hypervisor gave to others: the difference of two readings tells.
	Steal float64 `json:"steal"`
}

// Load reads how busy the machine is now.
func Load() (Noise, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return Noise{}, fmt.Errorf("load of the machine: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return Noise{}, fmt.Errorf("load of the machine: %w", err)
	}
	average, err := proc.LoadAvg()
	if err != nil {
		return Noise{}, fmt.Errorf("load of the machine: %w", err)
	}
	n := Noise{CPUPressure: -1, Load1: average.Load1, Running: int(stat.ProcessesRunning), Steal: stat.CPUTotal.Steal}
	// An error means a kernel without PSI, or with it turned off.
	if psi, err := proc.PSIStatsForResource("cpu"); err == nil && psi.Some != nil {
		n.CPUPressure = psi.Some.Avg10 / 100
	}
	return n, nil
}
