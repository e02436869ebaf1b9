package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// AllowedCPUs are the CPUs that tare may use, ascending: those of its
// cpuset and affinity, as they were when it was first asked for.
var AllowedCPUs = sync.OnceValues(allowedCPUs)

func allowedCPUs() ([]int, error) {
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

// OnlineCPUs are all CPUs of the machine that are on, ascending, whatever tare may use.
func OnlineCPUs() ([]int, error) {
	const file = "/sys/devices/system/cpu/online"
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	cpus, err := ParseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cpus, nil
}

// UseCPUs has every thread of this process use these CPUs alone, and what it starts
// from now on: new threads and processes get the CPUs of the one that makes them.
func UseCPUs(cpus []int) error {
	done := map[string]bool{}
	for found := true; found; { // a thread that was not reached yet may have made another
		found = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list the threads of tare: %w", err)
		}
		for _, one := range threads {
			if done[one.Name()] {
				continue
			}
			found, done[one.Name()] = true, true
			thread, err := strconv.Atoi(one.Name())
			if err != nil {
				return fmt.Errorf("list the threads of tare: %w", err)
			}
			if err := BindThread(thread, cpus); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// BindThread has a thread, or the first one of a process, use these CPUs alone.
func BindThread(thread int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("have thread %d use the CPUs %q alone: %w", thread, FormatCPUs(cpus), err)
	}
	return nil
}

// mostCPUs is how many numbers a list may name: more than any machine has CPUs or NUMA
// nodes, and a list may come from a stranger's study.
const mostCPUs = 1 << 17

// ParseCPUs reads numbers in cpuset(7)'s list format, ascending and each once. The error
// shows the text.
func ParseCPUs(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(low)
		b := a
		if err == nil && isRange {
			b, err = strconv.Atoi(high)
		}
		if err != nil || b < a {
			return nil, fmt.Errorf("%q is not a list of CPUs: write 0-1 or 0,2", list)
		}
		if b-a >= mostCPUs-len(cpus) {
			return nil, fmt.Errorf("%.40q names more than %d CPUs", list, mostCPUs)
		}
		for cpu := a; cpu <= b; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// AllowedMems are the NUMA nodes whose memory tare may use, ascending: those of its
// cpuset. A kernel that counts none has node 0 alone.
func AllowedMems() ([]int, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("memory that may be used: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(line, "Mems_allowed_list:"); ok {
			return ParseCPUs(strings.TrimSpace(list))
		}
	}
	return []int{0}, nil
}

// NodeCPUs are the CPUs of a NUMA node, ascending; none where the machine has no such node.
func NodeCPUs(node int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/node/node%d/cpulist", node))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("CPUs of NUMA node %d: %w", node, err)
	}
	if list := strings.TrimSpace(string(text)); list != "" {
		return ParseCPUs(list)
	}
	return nil, nil
}

// SchedExt is the name of the BPF scheduler that runs this machine's processes
// (sched_ext), "" where the kernel's own does.
func SchedExt() string {
	state, err := os.ReadFile("/sys/kernel/sched_ext/state")
	if err != nil || strings.TrimSpace(string(state)) != "enabled" {
		return ""
	}
	name, err := os.ReadFile("/sys/kernel/sched_ext/root/ops")
	if err != nil {
		return "a BPF scheduler"
	}
	return strings.TrimSpace(string(name))
}

// FormatCPUs writes CPUs, ascending, in cpuset(7)'s list format.
func FormatCPUs(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		part := strconv.Itoa(cpus[i])
		if j > i {
			part += "-" + strconv.Itoa(cpus[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
