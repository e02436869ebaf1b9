package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/sample"
)

// churnPath is the program in the workbench (helpers/churn.c).
const churnPath = "/.tare/churn"

// Kinds of workload that make and remove one kind of kernel object.
const (
	kindChurnCgroup  = "churn-cgroup"
	kindChurnNet     = "churn-net"
	kindChurnMount   = "churn-mount"
	kindChurnProcess = "churn-process"
)

// p99From is how many cycles a p99 takes; below, the longest time is all that is told.
const p99From = 100

// churn makes and removes kernel objects of one kind from many tasks at once.
// It needs root and the host's own view: it is for the target host.
type churn struct {
	kind, help string
	phases     []string // in the order of a cycle
}

func churnWorkloads() []Workload {
	return []Workload{
		churn{kindChurnCgroup, "cgroups made, joined and removed by many tasks at once: what they wait for is cgroupfs", []string{"mkdir", "join", "leave", "rmdir"}},
		churn{kindChurnNet, "network namespaces made, given a veth pair and addresses, and left, by many tasks at once", []string{"create", "veth", "address", "destroy"}},
		churn{kindChurnMount, "mount namespaces made, an overlay mounted in each, made the root, and taken away, by many tasks at once", []string{"create", "mount", "pivot", "umount", "destroy"}},
		churn{kindChurnProcess, "processes cloned with each kind of new namespace in turn, and waited for, by many tasks at once", []string{"none", "pid", "uts", "ipc", "mount", "net", "cgroup", "user"}},
	}
}

func (c churn) Kind() string { return c.kind }
func (c churn) Help() string { return c.help }

func (c churn) Params() []Param {
	all := []Param{
		threads(),
		{Name: "each", Type: Integer, Default: "100", Help: "cycles of each task; a p99 takes a hundred of all tasks together", Min: 1, Max: 1_000_000},
	}
	if c.kind != kindChurnCgroup {
		return all
	}
	return append(all,
		Param{Name: "version", Type: Choice, Default: "v2", Help: "of the cgroups", Choices: []string{"v1", "v2"}},
		Param{Name: "attach", Type: Choice, Default: "procs", Help: "what joins a group: a child that the task moves there by cgroup.procs, or that is born there by clone3; the task itself; or nothing", Choices: []string{"procs", "into", "self", "none"}},
		Param{Name: "controllers", Type: Choice, Default: "none", Help: "v2: controllers handed down; v1: hierarchies used", Choices: []string{"none", "memory", "pids", "cpu", "all"}},
		Param{Name: "pool", Type: Choice, Default: "no", Help: "use one group again and again instead of a new one in each cycle", Choices: []string{"no", "yes"}},
		Param{Name: "favordynmods", Type: Choice, Default: "no", Help: "v2: mount the tree so meanwhile, which is the whole machine's and from Linux 6.18 on cannot be taken back: in virtual machines alone", Choices: []string{"no", "yes"}},
	)
}

func (c churn) Metrics() []sample.Metric {
	all := append([]sample.Metric{sample.In(sample.Cycles, sample.PerSecond)}, sample.Describe(sample.ChurnDone)...)
	for _, p := range c.phases {
		all = append(all, sample.PhaseRate(p), sample.PhaseP50(p), sample.PhaseP99(p), sample.PhaseMax(p))
	}
	return all
}

func (c churn) Command(v Values, _ []string) (Command, error) {
	args := []string{churnPath, strconv.FormatInt(v.Int("threads"), 10), strconv.FormatInt(v.Int("each"), 10), strings.TrimPrefix(c.kind, "churn-")}
	if c.kind == kindChurnCgroup {
		version, controllers := v.Text("version"), v.Text("controllers")
		if version == "v1" && controllers == "none" {
			return Command{}, fmt.Errorf("cgroups of version 1 need controllers: memory, pids, cpu or all")
		}
		if version == "v1" && v.Text("attach") == "into" {
			return Command{}, fmt.Errorf("attach: clone3 knows cgroups of version 2 alone")
		}
		args = append(args, version, v.Text("attach"), controllers)
		if v.Text("pool") == "yes" {
			args = append(args, "pool")
		}
	}
	if c.kind == kindChurnCgroup && v.Text("favordynmods") == "yes" {
		if v.Text("version") != "v2" {
			return Command{}, fmt.Errorf("favordynmods: cgroups of version 2 have it alone")
		}
		return Command{Args: append(args, "favordynmods"), OwnMachine: true}, nil
	}
	return Command{Args: args, Modules: churnModules[c.kind]}, nil
}

// churnModules are what a kind makes that is a module in most kernels.
var churnModules = map[string][]string{kindChurnNet: {"veth"}, kindChurnMount: {"overlay"}}

func (c churn) Parse(stdout []byte) ([]sample.Value, error) {
	var elapsed, tasks, cycles float64
	var values []sample.Value
	seen, done := map[string]bool{}, false
	for lines := bufio.NewScanner(bytes.NewReader(stdout)); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case done:
			return nil, fmt.Errorf("%q stands behind the end", lines.Text())
		case name == "done":
			done = true
		case name == "elapsed" && elapsed == 0:
			n, err := numbers(rest, 3)
			if err != nil {
				return nil, fmt.Errorf("elapsed: %w", err)
			}
			elapsed, tasks, cycles = n[0], n[1], n[1]*n[2]
			values = append(values, sample.Value{Metric: sample.Cycles, Value: cycles / elapsed}, sample.Value{Metric: sample.ChurnDone, Value: cycles})
		case name == "phase" && elapsed > 0:
			phase, text, _ := strings.Cut(rest, " ")
			n, err := numbers(text, 6)
			if err != nil {
				return nil, fmt.Errorf("phase %s: %w", phase, err)
			}
			switch {
			case !slices.Contains(c.phases, phase) || seen[phase]:
				return nil, fmt.Errorf("phase %s is none of %s, or stands twice", phase, c.kind)
			case n[0] != cycles:
				return nil, fmt.Errorf("phase %s was gone through %g times in %g cycles", phase, n[0], cycles)
			}
			seen[phase] = true
			values = append(values, c.phaseValues(phase, tasks, n)...)
		default:
			return nil, fmt.Errorf("%q is not what churn prints", lines.Text())
		}
	}
	if !done || len(seen) != len(c.phases) {
		return nil, fmt.Errorf("the output has no elapsed time, or not all phases of %s", c.kind)
	}
	return checked(values)
}

// phaseValues are those of a phase's line: count, mean, p50, p90, p99 and max.
func (c churn) phaseValues(phase string, tasks float64, n []float64) []sample.Value {
	values := []sample.Value{
		{Metric: sample.PhaseRate(phase).Name, Value: tasks / n[1]},
		{Metric: sample.PhaseP50(phase).Name, Value: n[2]},
		{Metric: sample.PhaseMax(phase).Name, Value: n[5]},
	}
	if n[0] >= p99From {
		values = append(values, sample.Value{Metric: sample.PhaseP99(phase).Name, Value: n[4]})
	}
	return values
}

// numbers reads so many positive numbers.
func numbers(text string, n int) ([]float64, error) {
	fields := strings.Fields(text)
	if len(fields) != n {
		return nil, fmt.Errorf("%q: want %d numbers", text, n)
	}
	all := make([]float64, n)
	for i, f := range fields {
		var err error
		if all[i], err = strconv.ParseFloat(f, 64); err != nil || !(all[i] > 0) {
			return nil, fmt.Errorf("%q is no positive number", f)
		}
	}
	return all, nil
}
