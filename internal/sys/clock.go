package sys

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CPUDir is where the kernel tells of its CPUs.
const CPUDir = "/sys/devices/system/cpu"

// FastestClock is the rate of the fastest CPU now, in Hz, as cpufreq says below
// a directory such as CPUDir; 0 where it says nothing.
func FastestClock(cpus string) (hz float64) {
	files, err := filepath.Glob(filepath.Join(cpus, "cpu[0-9]*/cpufreq/scaling_cur_freq"))
	if err != nil {
		return 0 // not reached: the pattern is a good one
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // a CPU that has gone
		}
		if khz, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
			hz = max(hz, khz*1e3)
		}
	}
	return hz
}
