package preflight

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/study"
)

// firstCPUs is how a study asks for so many of the CPUs that are allowed, on
// any machine: "first", "first-4".
const firstCPUs = "first"

// cpus refuses levels that ask for CPUs that may not be used here.
func cpus(_ context.Context, q *Question) ([]Outcome, error) {
	allowed, err := q.Machine.CPUs()
	if err != nil {
		return nil, err
	}
	for i, l := range q.Study.Environments {
		if _, _, err := CPUsOf(l, allowed); err != nil {
			where := fmt.Sprintf("environments[%d]", i)
			if l.Name != "" {
				where += " (" + l.Name + ")"
			}
			return refuse(fmt.Errorf("study %s: %s: %w", q.Study.ID, where, err)), nil
		}
	}
	return nil, nil
}

// CPUsOf are the CPUs that a level's instances may use on a machine where the given
// ones are allowed, and its cpuset by their numbers ("" where it has none).
func CPUsOf(l study.Environment, allowed []int) (set string, usable []int, err error) {
	if l.CPUs > float64(len(allowed)) {
		return "", nil, fmt.Errorf("cpus: the study asks for %g, and only %d may be used here (%s)", l.CPUs, len(allowed), FormatCPUs(allowed))
	}
	if l.CPUSet == "" {
		return "", allowed, nil
	}
	usable, err = chooseCPUs(l.CPUSet, allowed)
	if err != nil {
		return "", nil, fmt.Errorf("cpuset %s: %w", l.CPUSet, err)
	}
	return FormatCPUs(usable), usable, nil
}

// chooseCPUs reads a cpuset; each of its CPUs must be allowed.
func chooseCPUs(set string, allowed []int) ([]int, error) {
	if number, first := strings.CutPrefix(set, firstCPUs); first {
		n := 1
		if number != "" {
			var err error
			if n, err = strconv.Atoi(strings.TrimPrefix(number, "-")); err != nil {
				return nil, err
			}
		}
		if n > len(allowed) {
			return nil, fmt.Errorf("--cpus or the study asks for %d CPUs, and only %d may be used here (%s)", n, len(allowed), FormatCPUs(allowed))
		}
		return allowed[:n], nil
	}
	cpus, err := parseCPUs(set)
	if err != nil {
		return nil, err
	}
	var outside []int
	for _, cpu := range cpus {
		if !slices.Contains(allowed, cpu) {
			outside = append(outside, cpu)
		}
	}
	if len(outside) > 0 {
		return nil, fmt.Errorf("CPU %s may not be used here, only %s (this machine's CPUs, and the cpuset and affinity of tare)", FormatCPUs(outside), FormatCPUs(allowed))
	}
	return cpus, nil
}

// parseCPUs reads cpuset(7)'s list format.
func parseCPUs(list string) ([]int, error) {
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
		for cpu := a; cpu <= b; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
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
