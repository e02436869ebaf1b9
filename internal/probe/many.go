package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// Many reads what many instances did as one: perf counters and pressure of the
// cgroup that holds them all and, where an engine runs them, of the engine's
// own, the same counters of their clients alone, context switches by role, and
// the machine's run queues. Without cgroup v2 it gives what is left.
type Many struct {
	// Uncounted leaves perf's counters out: a kernel that counts any cgroup does more
	// at every switch between two (docs/bars.md, runc-starts).
	Uncounted bool
}

// manyGroups is how many groups Many counts by every event: that of all instances, the
// engine's and the clients'.
const manyGroups = 3

// ManyFiles is how many descriptors Many takes whatever is left: a counter for each
// event, CPU and group. Those by role are bounded by what is left.
func ManyFiles() (int, error) {
	cpus, err := sys.OnlineCPUs()
	if err != nil {
		return 0, fmt.Errorf("perf probe: %w", err)
	}
	return manyGroups * len(events) * len(cpus), nil
}

// Begin notes the counters.
func (m Many) Begin(ctx context.Context, on []driver.Watch) (func() ([]sample.Value, error), error) {
	groups := together(on)
	watches := make([]driver.Watch, len(groups))
	for i, g := range groups {
		watches[i] = driver.Watch{Role: driver.RolePayload, Cgroup: g}
	}
	endCounters, err := m.count(ctx, watches, on)
	if err != nil {
		return nil, err
	}
	before, err := readWaits(groups)
	if err != nil {
		_, endErr := endCounters()
		return nil, errors.Join(fmt.Errorf("pressure probe: %w", err), endErr)
	}
	return func() ([]sample.Value, error) {
		values, err := endCounters()
		after, waitErr := readWaits(groups)
		if err = errors.Join(err, waitErr); err != nil {
			return nil, fmt.Errorf("pressure probe: %w", err)
		}
		for _, metric := range []string{sample.GroupCPUPressure, sample.GroupIOPressure, sample.GroupMemoryPressure, sample.RunQueueWait, sample.TareCPU} {
			waited, known := 0.0, false
			for group, a := range after[metric] {
				if b, before := before[metric][group]; before {
					waited, known = max(waited, a-b), true
				}
			}
			if known {
				values = append(values, sample.Value{Metric: metric, Value: waited})
			}
		}
		return values, nil
	}, nil
}

// count opens perf's counters of the groups that hold all, and of each role.
func (m Many) count(ctx context.Context, together, on []driver.Watch) (func() ([]sample.Value, error), error) {
	if m.Uncounted {
		return func() ([]sample.Value, error) { return nil, nil }, nil
	}
	endPerf, err := Perf{}.Begin(ctx, together)
	if err != nil {
		return nil, err
	}
	endRoles, err := beginRoles(on)
	if err != nil {
		_, endErr := endPerf()
		return nil, errors.Join(err, endErr)
	}
	return func() ([]sample.Value, error) {
		values, err := endPerf()
		byRole, roleErr := endRoles(values)
		return append(values, byRole...), errors.Join(err, roleErr)
	}, nil
}

// Missing are the counters that Many does not give, by metric, with the reason: the
// machine lacks them, or they are left out.
func (m Many) Missing() (map[string]string, error) {
	if !m.Uncounted {
		return missingCounters()
	}
	missing := map[string]string{}
	for _, e := range events {
		missing[e.metric] = "left out by the study (counters: false, or --no-counters)"
	}
	return missing, nil
}

// together are the cgroups that hold all that is watched: the one above those of
// the instances, and those of engines.
func together(on []driver.Watch) []string {
	seen := map[string]bool{}
	var above []driver.Watch
	for _, w := range on {
		if w.Cgroup == "" {
			continue
		}
		group := path.Clean(w.Cgroup)
		if own := instanceOf(group); own != group {
			group = path.Dir(own)
		}
		if !seen[group] && group != "." && group != "/" {
			seen[group] = true
			above = append(above, driver.Watch{Cgroup: group})
		}
	}
	var groups []string
	for _, w := range distinct(above) {
		groups = append(groups, w.Cgroup)
	}
	return groups
}

// readWaits gives what waited so far, in seconds, by metric and group: some task
// of a group for a resource (PSI); all tasks of the machine for a CPU (schedstat),
// and tare's own CPU time, both under the group "".
func readWaits(groups []string) (map[string]map[string]float64, error) {
	own, err := ownCPU()
	if err != nil {
		return nil, err
	}
	waits := map[string]map[string]float64{sample.TareCPU: {"": own}}
	if stat, err := os.ReadFile("/proc/schedstat"); err == nil {
		delay, err := runDelay(string(stat))
		if err != nil {
			return nil, err
		}
		waits[sample.RunQueueWait] = map[string]float64{"": delay}
	}
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	tree, ok := trees.Unified()
	if !ok {
		return waits, nil
	}
	for resource, metric := range map[string]string{"cpu": sample.GroupCPUPressure, "io": sample.GroupIOPressure, "memory": sample.GroupMemoryPressure} {
		waits[metric] = map[string]float64{}
		for _, group := range groups {
			total, err := pressureTotal(filepath.Join(tree.Dir(group), resource+".pressure"))
			switch {
			case err == nil:
				waits[metric][group] = total
			case !gone(err) && !notSupported(err): // a kernel without PSI, or with it turned off
				return nil, err
			}
		}
	}
	return waits, nil
}

// pressureTotal reads the "some" line of a pressure file (kernel,
// Documentation/accounting/psi.rst), in seconds.
func pressureTotal(file string) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "some ") {
			continue
		}
		_, total, _ := strings.Cut(strings.TrimSpace(line), "total=")
		us, err := strconv.ParseFloat(total, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q", file, line)
		}
		return us * 1e-6, nil
	}
	return 0, fmt.Errorf("%s has no line \"some\"", file)
}

// runDelay sums over CPUs how long tasks have waited on run queues, in seconds:
// the eighth number of a cpu line (kernel, Documentation/scheduler/sched-stats.rst).
func runDelay(stat string) (float64, error) {
	sum := 0.0
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 10 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		ns, err := strconv.ParseFloat(f[8], 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/schedstat: %q", line)
		}
		sum += ns * 1e-9
	}
	return sum, nil
}

// Census reads the memory of instances that are all alive.
type Census struct {
	// Launcher is the path of tare's own helper beside the instances, whose
	// memory is not theirs.
	Launcher string
}

// Begin notes the memory that is available before any instance is made.
func (c Census) Begin() (func(on []driver.Watch) ([]sample.Value, error), error) {
	before, err := sys.AvailableMemory()
	if err != nil {
		return nil, fmt.Errorf("census: %w", err)
	}
	return func(on []driver.Watch) ([]sample.Value, error) {
		values, err := c.count(before, on)
		if err != nil {
			return nil, fmt.Errorf("census: %w", err)
		}
		return values, nil
	}, nil
}

// roleMemory names the values of each role.
var roleMemory = map[driver.Role]struct{ pss, rss, charge string }{
	driver.RolePayload: {sample.PayloadPSS, sample.PayloadRSS, sample.PayloadCharge},
	driver.RoleRuntime: {sample.RuntimePSS, sample.RuntimeRSS, sample.RuntimeCharge},
	driver.RoleClient:  {sample.ClientPSS, sample.ClientRSS, sample.ClientCharge},
	driver.RoleDaemon:  {sample.DaemonPSS, sample.DaemonRSS, sample.DaemonCharge},
}

// censusTurn is when a watch is counted: a daemon alone before all of its group, as
// what is inside (the groups of others in a payload's), and payloads by their pid
// before the daemon's group too, in which they are where a runtime knows version 1
// alone.
func censusTurn(w driver.Watch, inside map[string]driver.Role) int {
	switch _, in := inside[w.Cgroup]; {
	case w.Alone || in:
		return 0
	case w.Role == driver.RolePayload:
		return 1
	}
	return 2
}

func (c Census) count(before int64, on []driver.Watch) ([]sample.Value, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	now, err := sys.AvailableMemory()
	if err != nil {
		return nil, err
	}
	sums, instances, counted := map[string]float64{}, 0, map[string]bool{}
	guests, found := 0, 0        // of a guest whose memory is not found, nothing is told
	engines := map[string]bool{} // groups that a daemon shares with shims
	for _, w := range on {
		engines[w.Cgroup] = engines[w.Cgroup] || w.Alone
	}
	holds, inside := inner(on), map[string]driver.Role{} // by group inside another: that one's role
	for _, w := range distinct(on) {
		for _, in := range holds[path.Clean(w.Cgroup)] {
			inside[in.Cgroup] = w.Role
		}
	}
	slices.SortStableFunc(on, func(a, b driver.Watch) int { return cmp.Compare(censusTurn(a, inside), censusTurn(b, inside)) })
	processes := map[int]bool{}
	for _, w := range on {
		names, known := roleMemory[w.Role]
		if w.Role == driver.RolePayload {
			instances++
		}
		if w.GuestMemory > 0 {
			guests++
		}
		if w.Role == driver.RoleClient && w.Cgroup != "" {
			w.PID = 0 // all clients are in one group, which is counted once
		}
		key := fmt.Sprintf("%s %d %t", w.Cgroup, w.PID, w.Alone)
		if !known || counted[key] {
			continue // engines' groups are watched for each of their instances
		}
		counted[key] = true
		pids, err := c.processes(trees, w)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			if processes[pid] {
				continue
			}
			processes[pid] = true
			m, err := memoryOf(pid, w.GuestMemory)
			if err != nil {
				return nil, err
			}
			sums[names.pss] += m.pss
			sums[names.rss] += m.rss
			if w.Role != driver.RolePayload {
				continue
			}
			if m.guest > 0 {
				found++
			}
			if err := addPayload(sums, pid, m, w.GuestMemory > 0); err != nil {
				return nil, err
			}
		}
		if w.Alone {
			continue
		}
		to := names.charge
		if engines[w.Cgroup] {
			to = sample.DaemonCharge
		}
		if charge, ok, err := chargeOf(trees, w.Cgroup); err != nil {
			return nil, err
		} else if ok {
			sums[to] += charge
			if outer, in := inside[w.Cgroup]; in {
				sums[roleMemory[outer].charge] -= charge
			}
		}
	}
	if found < guests {
		delete(sums, sample.GuestResident)
		delete(sums, sample.VMMOverhead)
	}
	saved, err := savedSize(on)
	if err != nil {
		return nil, err
	}
	each := float64(max(1, instances))
	values := append(saved, sample.Value{Metric: sample.AvailableDrop, Value: float64(before-now) / each})
	return append(values, shares(sums, each)...), nil
}

// addPayload adds what only the process of a payload is asked for.
func addPayload(sums map[string]float64, pid int, m processMemory, isVMM bool) error {
	sums[sample.Mapped] += m.mapped
	sums[sample.Dirty] += m.dirty
	if m.guest > 0 {
		sums[sample.GuestResident] += m.guest
		sums[sample.VMMOverhead] += m.rss - m.guest
	}
	if !isVMM {
		return nil
	}
	all, filtered, err := threadsOf(pid)
	if err != nil {
		return err
	}
	sums[sample.VMMThreads] += float64(all)
	sums[sample.VMMFiltered] += float64(filtered)
	return nil
}

// shares are the parts of sums that one instance has. A daemon's sums are not divided:
// all instances share it.
func shares(sums map[string]float64, instances float64) (values []sample.Value) {
	add := func(by float64, metrics ...string) {
		for _, m := range metrics {
			if sum, ok := sums[m]; ok {
				values = append(values, sample.Value{Metric: m, Value: sum / by})
			}
		}
	}
	add(instances, sample.Mapped, sample.Dirty, sample.GuestResident, sample.VMMOverhead, sample.VMMThreads, sample.VMMFiltered)
	for _, role := range slices.Sorted(maps.Keys(roleMemory)) {
		names, by := roleMemory[role], instances
		if role == driver.RoleDaemon {
			by = 1
		}
		add(by, names.pss, names.rss, names.charge)
	}
	return values
}

// threadsOf counts a process's threads, and those under a seccomp filter: mode 2 of
// proc(5), where a kernel without seccomp has none.
func threadsOf(pid int) (all, filtered int, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended since
		}
		if err != nil {
			return 0, 0, err
		}
		all++
		if strings.Contains(string(text), "\nSeccomp:\t2\n") {
			filtered++
		}
	}
	return all, filtered, nil
}

// savedSize is what the saved guests take on their disk that instances were restored
// from; nothing where none were.
func savedSize(on []driver.Watch) ([]sample.Value, error) {
	seen, blocks := map[string]bool{"": true}, int64(0)
	for _, w := range on {
		if seen[w.Saved] {
			continue
		}
		seen[w.Saved] = true
		entries, err := os.ReadDir(w.Saved)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(w.Saved, e.Name()), &st); err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Join(w.Saved, e.Name()), err)
			}
			blocks += st.Blocks
		}
	}
	if len(seen) == 1 {
		return nil, nil
	}
	return []sample.Value{{Metric: sample.SavedSize, Value: float64(blocks) * 512}}, nil
}

// processes are those of a watch: all in its cgroup, or the one that is named.
func (c Census) processes(trees sys.Hierarchies, w driver.Watch) ([]int, error) {
	pids := map[int]bool{}
	if w.PID > 0 {
		pids[w.PID] = true
	}
	if w.Cgroup != "" && !w.Alone {
		inside, err := trees.PIDs(w.Cgroup)
		if err != nil {
			return nil, err
		}
		for _, pid := range inside {
			pids[pid] = true
		}
	}
	var out []int
	for pid := range pids {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && exe != c.Launcher {
			out = append(out, pid)
		}
	}
	return out, nil
}

// chargeOf is what a cgroup is charged with now, in bytes.
func chargeOf(trees sys.Hierarchies, cgroup string) (float64, bool, error) {
	tree, ok := trees.With("memory")
	if !ok || cgroup == "" {
		return 0, false, nil
	}
	file := "memory.current"
	if tree.Version == 1 {
		file = "memory.usage_in_bytes"
	}
	n, err := sys.ReadNumber(filepath.Join(tree.Dir(cgroup), file))
	if gone(err) {
		return 0, false, nil
	}
	return n, err == nil, err
}
