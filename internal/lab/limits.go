package lab

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// The machine's own limits of tasks (proc_sys_kernel(5)).
const (
	pidMax     = "/proc/sys/kernel/pid_max"
	threadsMax = "/proc/sys/kernel/threads-max"
)

// groupLimit is what bounds a resource in one group.
type groupLimit struct {
	controller string // "pids", "memory"
	version    int    // of the tree
	dir        string
}

// limitsAbove are the limits of a group and of those above it; none where no tree has
// the controller.
func limitsAbove(group, controller string) []groupLimit {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil
	}
	tree, ok := trees.With(controller)
	if !ok {
		return nil
	}
	var limits []groupLimit
	for dir := tree.Dir(group); strings.HasPrefix(dir, tree.Path); dir = filepath.Dir(dir) {
		limits = append(limits, groupLimit{controller, tree.Version, dir})
	}
	return limits
}

// file is the limit's own.
func (g groupLimit) file() string {
	name := g.controller + ".max"
	if g.controller == "memory" && g.version == 1 {
		name = "memory.limit_in_bytes"
	}
	return filepath.Join(g.dir, name)
}

// noMemoryLimit is more than any limit of memory: version 1 has a number for none.
const noMemoryLimit = 1 << 60

// value is the limit; ok is false where there is none.
func (g groupLimit) value() (limit int64, ok bool) {
	limit, ok = numberIn(g.file())
	return limit, ok && (g.controller != "memory" || limit < noMemoryLimit)
}

// left is what a limit of memory leaves: pages of files that have not been used of late
// are given up before it is reached.
func (g groupLimit) left() (left int64, ok bool) {
	used, idle := "memory.current", "inactive_file"
	if g.version == 1 {
		used, idle = "memory.usage_in_bytes", "total_inactive_file"
	}
	limit, limited := g.value()
	charged, known := numberIn(filepath.Join(g.dir, used))
	if !limited || !known {
		return 0, false
	}
	return limit - charged + fieldOf(filepath.Join(g.dir, "memory.stat"), idle), true
}

// met is a number that grows when something was refused in the group by this limit
// (kernel, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/). Before Linux 6.11,
// and in version 1, a group's pids.events counts by whom a limit above was met, and not
// whose it was: there the most that the group has held tells it.
func (g groupLimit) met() int64 {
	in := func(name string) string { return filepath.Join(g.dir, name) }
	switch {
	case g.controller == "memory" && g.version == 1:
		n, _ := numberIn(in("memory.failcnt"))
		return n
	case g.controller == "memory":
		return fieldOf(in("memory.events.local"), "oom")
	}
	n := fieldOf(in("pids.events"), "max")
	limit, limited := g.value()
	if most, known := numberIn(in("pids.peak")); limited && known && most >= limit {
		n++
	}
	return n
}

// taskLimits are the files that bound how many tasks there can be: the machine's,
// and those of the groups above all that tare makes.
func taskLimits() []string {
	files := []string{pidMax, threadsMax}
	for _, g := range limitsAbove(driver.Label, "pids") {
		files = append(files, g.file())
	}
	return files
}

// numberIn reads a limit; ok is false where there is none.
func numberIn(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil // "max" is none
}

// tasksUnder is how many tasks a limit counts already: a group's own, else all.
func tasksUnder(limit string, all int64) int64 {
	if group, ok := numberIn(filepath.Join(filepath.Dir(limit), "pids.current")); ok {
		return group
	}
	return all
}

// fieldOf reads a number of a file of names and numbers; 0 where it has none.
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

// runningTasks is how many processes and threads there are (proc_loadavg(5)).
func runningTasks() (int64, error) {
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

// nearlyAll is the share of a limit from which on a failure is told with it.
const nearlyAll = 0.95

// limitsReached notes how often the limits of a group and of those above it have been
// met so far; what it returns names those that have been met since.
func limitsReached(group string) func() string {
	limits := append(limitsAbove(group, "pids"), limitsAbove(group, "memory")...)
	before := make([]int64, len(limits))
	for i, g := range limits {
		before[i] = g.met()
	}
	return func() string {
		var out []string
		for i, g := range limits {
			if value, limited := g.value(); limited && g.met() > before[i] {
				out = append(out, fmt.Sprintf("the limit %s, which is %d, was reached", g.file(), value))
			}
		}
		if tasks, err := runningTasks(); err == nil {
			for _, file := range []string{pidMax, threadsMax} {
				if limit, ok := numberIn(file); ok && float64(tasks) > nearlyAll*float64(limit) {
					out = append(out, fmt.Sprintf("the limit %s is %d, and %d processes and threads were running", file, limit, tasks))
				}
			}
		}
		var files unix.Rlimit
		open, err := os.ReadDir("/proc/self/fd")
		if err == nil && unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && float64(len(open)) > nearlyAll*float64(files.Cur) {
			out = append(out, fmt.Sprintf("tare's limit of open files is %d, and %d were open", files.Cur, len(open)))
		}
		slices.Sort(out)
		return strings.Join(out, "; ")
	}
}
