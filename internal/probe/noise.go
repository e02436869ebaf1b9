package probe

import (
	"context"
	"fmt"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Noise reads what else went on on the machine during the trial: time stolen
// by the hypervisor, time in which tasks waited for CPUs or I/O, and what all
// CPUs did. What the payload itself does and waits for is in it too, so it is
// compared between trials of the same cell, or with the instances' own. Where the kernel does not tell, the value is left out.
type Noise struct{}

// Begin notes the counters.
func (Noise) Begin(context.Context, []driver.Watch) (func() ([]sample.Value, error), error) {
	before, err := readNoise()
	if err != nil {
		return nil, fmt.Errorf("noise probe: %w", err)
	}
	return func() ([]sample.Value, error) {
		after, err := readNoise()
		if err != nil {
			return nil, fmt.Errorf("noise probe: %w", err)
		}
		var values []sample.Value
		for _, m := range []string{sample.Steal, sample.CPUPressure, sample.IOPressure, sample.MachineCPU, sample.SoftIRQ} {
			b, ok := before[m]
			a, still := after[m]
			if ok && still {
				values = append(values, sample.Value{Metric: m, Value: max(0, a-b)})
			}
		}
		return values, nil
	}, nil
}

// readNoise gives the machine's counters in seconds.
func readNoise() (map[string]float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return nil, err
	}
	own, err := ownCPU()
	if err != nil {
		return nil, err
	}
	t := stat.CPUTotal
	noise := map[string]float64{
		sample.SoftIRQ:    t.SoftIRQ,
		sample.Steal:      t.Steal,
		sample.MachineCPU: t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ - own, // a guest's time is in User and Nice
	}
	for resource, metric := range map[string]string{"cpu": sample.CPUPressure, "io": sample.IOPressure} {
		// An error means a kernel without PSI, or with it turned off.
		if psi, err := proc.PSIStatsForResource(resource); err == nil && psi.Some != nil {
			noise[metric] = float64(psi.Some.Total) * 1e-6
		}
	}
	return noise, nil
}

// ownCPU is this process's CPU time in seconds.
func ownCPU() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}
