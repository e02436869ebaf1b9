package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// Many reads what many instances did as one: perf counters and pressure of the
// cgroup that holds them all, and the machine's run queues. Where there is no
// such group, or no cgroup v2, it gives what is left. Engines' daemons are
// outside of it: their CPU time is Cgroup's to tell.
type Many struct{}

// Begin notes the counters.
func (Many) Begin(ctx context.Context, on []target.Watch) (func() ([]sample.Value, error), error) {
	group := together(on)
	endPerf := func() ([]sample.Value, error) { return nil, nil }
	if group != "" {
		var err error
		endPerf, err = Perf{}.Begin(ctx, []target.Watch{{Role: target.RolePayload, Cgroup: group}})
		if err != nil {
			return nil, err
		}
	}
	before, err := readWaits(group)
	if err != nil {
		_, endErr := endPerf()
		return nil, errors.Join(fmt.Errorf("pressure probe: %w", err), endErr)
	}
	return func() ([]sample.Value, error) {
		values, err := endPerf()
		after, waitErr := readWaits(group)
		if err = errors.Join(err, waitErr); err != nil {
			return nil, fmt.Errorf("pressure probe: %w", err)
		}
		for _, m := range []string{GroupCPUPressure, GroupIOPressure, GroupMemoryPressure, RunQueueWait, TareCPU} {
			b, ok := before[m]
			a, still := after[m]
			if ok && still {
				values = append(values, sample.Value{Metric: m, Value: max(0, a-b)})
			}
		}
		return values, nil
	}, nil
}

// together is the cgroup that holds the groups of all instances and nothing
// else; "" where they have none in common.
func together(on []target.Watch) string {
	common := ""
	for _, w := range on {
		if w.Cgroup == "" || w.Role == target.RoleDaemon {
			continue
		}
		parent := path.Dir(instanceOf(w.Cgroup))
		if common != "" && parent != common {
			return ""
		}
		common = parent
	}
	if common == "." || common == "/" {
		return ""
	}
	return common
}

// readWaits gives what waited so far, in seconds: some task of the group for a
// resource (PSI), and all tasks of the machine for a CPU (schedstat).
func readWaits(group string) (map[string]float64, error) {
	waits := map[string]float64{}
	own, err := ownCPU()
	if err != nil {
		return nil, err
	}
	waits[TareCPU] = own
	if stat, err := os.ReadFile("/proc/schedstat"); err == nil {
		if waits[RunQueueWait], err = runDelay(string(stat)); err != nil {
			return nil, err
		}
	}
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	tree, ok := trees.Unified()
	if !ok || group == "" {
		return waits, nil
	}
	for resource, metric := range map[string]string{"cpu": GroupCPUPressure, "io": GroupIOPressure, "memory": GroupMemoryPressure} {
		total, err := pressureTotal(filepath.Join(tree.Dir(group), resource+".pressure"))
		switch {
		case err == nil:
			waits[metric] = total
		case !errors.Is(err, fs.ErrNotExist) && !notSupported(err): // a kernel without PSI, or with it turned off
			return nil, err
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
func (c Census) Begin() (func(on []target.Watch) ([]sample.Value, error), error) {
	before, err := available()
	if err != nil {
		return nil, fmt.Errorf("census: %w", err)
	}
	return func(on []target.Watch) ([]sample.Value, error) {
		values, err := c.count(before, on)
		if err != nil {
			return nil, fmt.Errorf("census: %w", err)
		}
		return values, nil
	}, nil
}

// roleMemory names the values of each role; a client's memory is the runtime's
// business, as it lives no longer than that.
var roleMemory = map[target.Role]struct{ pss, rss, charge string }{
	target.RolePayload: {PayloadPSS, PayloadRSS, PayloadCharge},
	target.RoleRuntime: {RuntimePSS, RuntimeRSS, RuntimeCharge},
	target.RoleDaemon:  {DaemonPSS, DaemonRSS, DaemonCharge},
}

func (c Census) count(before float64, on []target.Watch) ([]sample.Value, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	now, err := available()
	if err != nil {
		return nil, err
	}
	sums, instances := map[string]float64{}, 0
	for _, w := range on {
		names, known := roleMemory[w.Role]
		if w.Role == target.RolePayload {
			instances++
		}
		if !known {
			continue
		}
		pids, err := c.processes(trees, w)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			m, err := memoryOf(pid, w.GuestMemory)
			if err != nil {
				return nil, err
			}
			sums[names.pss] += m.pss
			sums[names.rss] += m.rss
			if w.Role != target.RolePayload {
				continue
			}
			sums[Mapped] += m.mapped
			sums[Dirty] += m.dirty
			if m.guest > 0 {
				sums[GuestResident] += m.guest
				sums[VMMOverhead] += m.rss - m.guest
			}
		}
		if charge, ok, err := chargeOf(trees, w.Cgroup); err != nil {
			return nil, err
		} else if ok {
			sums[names.charge] += charge
		}
	}
	values := []sample.Value{{Metric: AvailableDrop, Value: (before - now) / float64(max(1, instances))}}
	for _, m := range []string{Mapped, Dirty, GuestResident, VMMOverhead} {
		if sum, ok := sums[m]; ok {
			values = append(values, sample.Value{Metric: m, Value: sum / float64(max(1, instances))})
		}
	}
	for role, names := range roleMemory {
		each := float64(max(1, instances))
		if role == target.RoleDaemon {
			each = 1 // they share it
		}
		for _, m := range []string{names.pss, names.rss, names.charge} {
			if sum, ok := sums[m]; ok {
				values = append(values, sample.Value{Metric: m, Value: sum / each})
			}
		}
	}
	return values, nil
}

// processes are those of a watch: all in its cgroup, or the one that is named.
func (c Census) processes(trees sys.Hierarchies, w target.Watch) ([]int, error) {
	pids := map[int]bool{}
	if w.PID > 0 {
		pids[w.PID] = true
	}
	if w.Cgroup != "" {
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

// available is MemAvailable (proc(5)) in bytes.
func available() (float64, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	m, err := proc.Meminfo()
	if err != nil {
		return 0, err
	}
	if m.MemAvailableBytes == nil {
		return 0, errors.New("/proc/meminfo has no MemAvailable")
	}
	return float64(*m.MemAvailableBytes), nil
}
