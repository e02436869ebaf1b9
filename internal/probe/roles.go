package probe

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// mostGroups is how many groups are counted for their role alone: a counter of a
// cgroup makes every switch on its CPU a little slower.
const mostGroups = 64

// spareFiles are the descriptors that a trial may still need when its counters are
// open: for its starts, and tare's own.
const spareFiles = 256

// filesLeft is how many more descriptors counters may take.
func filesLeft() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, fmt.Errorf("open files: %w", err)
	}
	return int(min(limit.Cur, 1<<30)) - len(open) - spareFiles, nil
}

// roleMeter counts one role's groups.
type roleMeter struct {
	groups  []string
	counted bool // else there are too many of them
	open    []counter
}

// daemonMeter is a daemon whose switches are read apart from those of its group.
type daemonMeter struct {
	pid    int
	before float64
}

// beginRoles counts the clients by themselves, and the context switches of each
// role. Payloads, whose groups are often made inside the clock, have what nobody
// else has. A role with too many groups, for the switches or for the descriptors that
// are left, is not told apart from them. The returned
// function takes what was counted of all, and closes every counter.
func beginRoles(on []driver.Watch) (func(all []sample.Value) ([]sample.Value, error), error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	tree, ok := countingTree(trees)
	if !ok {
		return func([]sample.Value) ([]sample.Value, error) { return nil, nil }, nil
	}
	roles := map[driver.Role]*roleMeter{}
	watches := distinct(on)
	for _, inside := range inner(on) {
		watches = append(watches, inside...)
	}
	for _, w := range watches {
		if roles[w.Role] == nil {
			roles[w.Role] = &roleMeter{}
		}
		roles[w.Role].groups = append(roles[w.Role].groups, w.Cgroup)
	}
	closeRoles := func() {
		for _, m := range roles {
			closeAll(m.open)
		}
	}
	left, err := filesLeft()
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	cpus, err := sys.OnlineCPUs()
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	for _, role := range slices.Sorted(maps.Keys(roles)) { // the same ones in each trial
		m, wanted := roles[role], []event{eventOf(sample.Switches)}
		if role == driver.RoleClient {
			wanted = events
		}
		takes := len(m.groups) * len(cpus) * len(wanted)
		if role == driver.RolePayload || len(m.groups) > mostGroups || takes > left {
			continue
		}
		left -= takes
		m.counted = true
		if m.open, err = openAll(tree, m.groups, wanted); err != nil {
			closeRoles()
			return nil, fmt.Errorf("perf probe: %w", err)
		}
	}
	daemons := armDaemons(on)
	return func(all []sample.Value) ([]sample.Value, error) {
		defer closeRoles()
		return readRoles(roles, daemons, all)
	}, nil
}

// readRoles gives what was counted by role; all has the switches of everybody.
func readRoles(roles map[driver.Role]*roleMeter, daemons []daemonMeter, all []sample.Value) ([]sample.Value, error) {
	total, counted := valueOf(all, sample.Switches)
	if !counted {
		return nil, nil
	}
	var values []sample.Value
	by, rest, told := map[driver.Role]float64{}, total, true
	for role, m := range roles {
		if role == driver.RolePayload {
			continue
		}
		told = told && m.counted
		own, err := readCounters(m.open)
		if err != nil {
			return nil, err
		}
		if role == driver.RoleClient {
			for _, v := range own {
				values = append(values, sample.Value{Metric: sample.ClientCounter(v.Metric).Name, Value: v.Value})
			}
		}
		n, _ := valueOf(own, sample.Switches)
		by[role], rest = n, rest-n
	}
	if !told || rest <= 0 { // else payloads are in groups of others, as where a runtime knows version 1 alone
		return values, nil
	}
	by[driver.RolePayload] = rest
	for _, d := range daemons { // of the switches of the group that they share with shims
		own := max(0, min(switchesOf(d.pid)-d.before, by[driver.RoleRuntime]))
		by[driver.RoleDaemon] += own
		by[driver.RoleRuntime] -= own
	}
	for _, role := range sample.SwitchRoles {
		if n, known := by[driver.Role(role)]; known {
			values = append(values, sample.Value{Metric: sample.RoleSwitches(role).Name, Value: n})
		}
	}
	return values, nil
}

func valueOf(values []sample.Value, metric string) (float64, bool) {
	i := slices.IndexFunc(values, func(v sample.Value) bool { return v.Metric == metric })
	if i < 0 {
		return 0, false
	}
	return values[i].Value, true
}

// armDaemons notes what the processes that are watched alone have switched so far.
func armDaemons(on []driver.Watch) []daemonMeter {
	var all []daemonMeter
	for _, w := range on {
		known := slices.ContainsFunc(all, func(d daemonMeter) bool { return d.pid == w.PID })
		if w.Alone && !known {
			all = append(all, daemonMeter{pid: w.PID, before: switchesOf(w.PID)})
		}
	}
	return all
}

// switchesOf are the context switches of a process's threads, voluntary or not
// (proc_pid_status(5)). Those of threads that have ended are lost; a daemon's
// seldom end.
func switchesOf(pid int) float64 {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0
	}
	total := 0.0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if !strings.HasSuffix(name, "voluntary_ctxt_switches") {
				continue
			}
			if n, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				total += n
			}
		}
	}
	return total
}
