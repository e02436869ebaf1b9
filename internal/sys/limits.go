package sys

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The machine's own limits of tasks (proc_sys_kernel(5)).
const (
	PIDMax     = "/proc/sys/kernel/pid_max"
	ThreadsMax = "/proc/sys/kernel/threads-max"
)

// The controllers that GroupLimit knows.
const (
	PidsController   = "pids"
	MemoryController = "memory"
)

// GroupLimit is the limit of one controller in one group.
type GroupLimit struct {
	Controller string // PidsController or MemoryController
	Version    int    // of the tree: 1 or 2
	Dir        string // the group's directory
}

// LimitsAbove are the limits of a group, given relative to its hierarchy's root,
// and of the groups above it; none where no tree has the controller.
func LimitsAbove(group, controller string) []GroupLimit {
	trees, err := Cgroups()
	if err != nil {
		return nil
	}
	tree, ok := trees.With(controller)
	if !ok {
		return nil
	}
	var limits []GroupLimit
	for dir := tree.Dir(group); strings.HasPrefix(dir, tree.Path); dir = filepath.Dir(dir) {
		limits = append(limits, GroupLimit{controller, tree.Version, dir})
	}
	return limits
}

// File is the file that holds the limit.
func (g GroupLimit) File() string {
	name := g.Controller + ".max"
	if g.Controller == MemoryController && g.Version == 1 {
		name = "memory.limit_in_bytes"
	}
	return filepath.Join(g.Dir, name)
}

// noMemoryLimit is more than any limit of memory: version 1 has a number for none.
const noMemoryLimit = 1 << 60

// Value is the limit; ok is false where there is none.
func (g GroupLimit) Value() (limit int64, ok bool) {
	limit, ok = LimitIn(g.File())
	return limit, ok && (g.Controller != MemoryController || limit < noMemoryLimit)
}

// Left is what a limit of memory leaves, in bytes: the kernel gives up pages of
// files that were not used lately before the limit is reached.
func (g GroupLimit) Left() (left int64, ok bool) {
	used, idle := "memory.current", "inactive_file"
	if g.Version == 1 {
		used, idle = "memory.usage_in_bytes", "total_inactive_file"
	}
	limit, limited := g.Value()
	charged, known := LimitIn(filepath.Join(g.Dir, used))
	if !limited || !known {
		return 0, false
	}
	return limit - charged + fieldOf(filepath.Join(g.Dir, "memory.stat"), idle), true
}

// Met is a number that grows when the limit refused something in the group
// (kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/). Before Linux
// 6.11, and in version 1, a group's pids.events counts who met a limit above, and
// not whose limit it was: there the group's peak decides.
func (g GroupLimit) Met() int64 {
	in := func(name string) string { return filepath.Join(g.Dir, name) }
	switch {
	case g.Controller == MemoryController && g.Version == 1:
		n, _ := LimitIn(in("memory.failcnt"))
		return n
	case g.Controller == MemoryController:
		return fieldOf(in("memory.events.local"), "oom")
	}
	n := fieldOf(in("pids.events"), "max")
	limit, limited := g.Value()
	if most, known := LimitIn(in("pids.peak")); limited && known && most >= limit {
		n++
	}
	return n
}

// LimitIn reads a file that holds one number; ok is false where it has none ("max").
func LimitIn(file string) (n int64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// TasksUnder is how many tasks count against a limit already: the group's own
// where its file is a group's, else all of the machine.
func TasksUnder(limit string, all int64) int64 {
	if group, ok := LimitIn(filepath.Join(filepath.Dir(limit), "pids.current")); ok {
		return group
	}
	return all
}

// fieldOf reads a number from a file of names and numbers; 0 where it has none.
func fieldOf(file, name string) int64 {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			n, _ := strconv.ParseInt(text, 10, 64) // the kernel writes numbers
			return n
		}
	}
	return 0
}

// RunningTasks is the number of processes and threads on the machine (proc_loadavg(5)).
func RunningTasks() (int64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("running tasks: %w", err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 4 {
		return 0, fmt.Errorf("running tasks: /proc/loadavg is %q", text)
	}
	_, all, _ := strings.Cut(fields[3], "/")
	n, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("running tasks: /proc/loadavg is %q", text)
	}
	return n, nil
}
