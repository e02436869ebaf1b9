package sys

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AllowedCPUs are the CPUs that tare may use, ascending: those of its
// cpuset and affinity.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("CPUs that may be used: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
