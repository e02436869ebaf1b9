package preflight

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
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
		where := fmt.Sprintf("environments[%d]", i)
		if l.Name != "" {
			where += " (" + l.Name + ")"
		}
		if err := levelCPUs(l, allowed); err != nil {
			return refuse(fmt.Errorf("study %s: %s: %w", q.Study.ID, where, err)), nil
		}
	}
	return nil, nil
}

// levelCPUs refuses a level that asks, for its instances or its load, for CPUs or memory
// that may not be used here.
func levelCPUs(l study.Environment, allowed []int) error {
	_, _, err := CPUsOf(l, allowed)
	if err != nil || l.Load == nil {
		return err
	}
	if _, _, err = CPUsOf(l.Load.Environment(), allowed); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

// CPUsOf are the CPUs that a level's instances may use on a machine where the given
// ones are allowed, and its cpuset by their numbers ("" where it has none).
func CPUsOf(l study.Environment, allowed []int) (set string, usable []int, err error) {
	if l.CPUs > float64(len(allowed)) {
		return "", nil, fmt.Errorf("cpus: the study asks for %g, and only %d may be used here (%s)", l.CPUs, len(allowed), sys.FormatCPUs(allowed))
	}
	if err := memsOf(l.Mems); err != nil {
		return "", nil, err
	}
	if l.CPUSet == "" {
		return "", allowed, nil
	}
	usable, err = chooseCPUs(l.CPUSet, allowed)
	if err != nil {
		return "", nil, fmt.Errorf("cpuset %s: %w", l.CPUSet, err)
	}
	return sys.FormatCPUs(usable), usable, nil
}

// memsOf refuses NUMA nodes that may not be used here.
func memsOf(mems string) error {
	if mems == "" {
		return nil
	}
	asked, err := sys.ParseCPUs(mems)
	if err != nil {
		return fmt.Errorf("mems %s: %w", mems, err)
	}
	allowed, err := sys.AllowedMems()
	if err != nil {
		return err
	}
	for _, node := range asked {
		if !slices.Contains(allowed, node) {
			return fmt.Errorf("mems %s: memory of the NUMA node %d may not be used here, only of %s", mems, node, sys.FormatCPUs(allowed))
		}
	}
	return nil
}

// restCPUs is how a study asks for all CPUs but the first.
const restCPUs = "rest"

// nodeCPUs is how a study asks for the CPUs of a NUMA node: "node-0".
const nodeCPUs = "node-"

// ofNode are the allowed ones of a node's CPUs.
func ofNode(number string, allowed []int) ([]int, error) {
	node, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	cpus, err := sys.NodeCPUs(node)
	if err != nil {
		return nil, err
	}
	cpus = slices.DeleteFunc(cpus, func(cpu int) bool { return !slices.Contains(allowed, cpu) })
	if len(cpus) == 0 {
		return nil, fmt.Errorf("this machine has no NUMA node %d with CPUs that may be used", node)
	}
	return cpus, nil
}

// moreCPUsError is a level of more CPUs than may be used here.
type moreCPUsError struct {
	asked   int
	allowed []int
}

func (e *moreCPUsError) Error() string {
	return fmt.Sprintf("--cpuset or the study asks for %d CPUs, and only %d may be used here (%s)", e.asked, len(e.allowed), sys.FormatCPUs(e.allowed))
}

// chooseCPUs reads a cpuset; each of its CPUs must be allowed.
func chooseCPUs(set string, allowed []int) ([]int, error) {
	if number, node := strings.CutPrefix(set, nodeCPUs); node {
		return ofNode(number, allowed)
	}
	if set == restCPUs {
		if len(allowed) < 2 {
			return nil, fmt.Errorf("only CPU %s may be used here, and rest is all but the first", sys.FormatCPUs(allowed))
		}
		return allowed[1:], nil
	}
	if number, first := strings.CutPrefix(set, firstCPUs); first {
		n := 1
		if number != "" {
			var err error
			if n, err = strconv.Atoi(strings.TrimPrefix(number, "-")); err != nil {
				return nil, err
			}
		}
		if n > len(allowed) {
			return nil, &moreCPUsError{n, allowed}
		}
		return allowed[:n], nil
	}
	cpus, err := sys.ParseCPUs(set)
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
		return nil, fmt.Errorf("CPU %s may not be used here, only %s (this machine's CPUs, and the cpuset and affinity of tare)", sys.FormatCPUs(outside), sys.FormatCPUs(allowed))
	}
	return cpus, nil
}
