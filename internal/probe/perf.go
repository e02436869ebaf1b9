package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// Perf counts events of the instances' cgroups with perf_event_open(2):
// task-clock, context switches, migrations and page faults, and where the
// machine has a PMU cycles, instructions, branches and misses. It needs root and a tree of
// cgroups to count by, see countingTree, and gives nothing elsewhere. It opens a
// counter per event, CPU and cgroup, and each makes a switch between cgroups a
// little slower: it is for looking closer, not for every trial.
type Perf struct{}

// event is one that perf counts.
type event struct {
	metric string
	kind   uint32
	config uint64
	factor float64 // to the base unit
}

// events are what is counted.
var events = []event{
	{sample.TaskClock, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK, 1e-9},
	{sample.Switches, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CONTEXT_SWITCHES, 1},
	{sample.Migrations, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_MIGRATIONS, 1},
	{sample.PageFaults, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS, 1},
	{sample.Cycles, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES, 1},
	{sample.Instructions, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS, 1},
	{sample.Branches, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 1},
	{sample.BranchMisses, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES, 1},
}

// eventOf finds an event by its metric.
func eventOf(metric string) event {
	return events[slices.IndexFunc(events, func(e event) bool { return e.metric == metric })]
}

// counter is one open event.
type counter struct {
	event event
	file  *os.File
}

// Begin opens the counters, which count from then on.
func (Perf) Begin(_ context.Context, on []driver.Watch) (func() ([]sample.Value, error), error) {
	open, err := openFor(on, events)
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	return func() ([]sample.Value, error) {
		defer closeAll(open)
		return readCounters(open)
	}, nil
}

// countingTree is the tree by whose groups the kernel counts events: that of version
// 1 where the controller perf_event is bound to it, else that of version 2.
func countingTree(h sys.Hierarchies) (sys.Hierarchy, bool) {
	if tree, ok := h.With("perf_event"); ok && tree.Version == 1 {
		return tree, true
	}
	return h.Unified()
}

// openFor opens those of the events that this machine has, for the instances'
// groups; none where there is no tree to count by.
func openFor(on []driver.Watch, wanted []event) ([]counter, error) {
	h, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	tree, ok := countingTree(h)
	if !ok {
		return nil, nil
	}
	var groups []string
	for _, w := range distinct(on) {
		if w.Role != driver.RoleDaemon {
			groups = append(groups, w.Cgroup)
		}
	}
	return openAll(tree, groups, wanted)
}

// openAll opens those of the events that this machine has, for all groups. One that
// cannot be counted everywhere is left out: a part of it would pass for the whole.
func openAll(tree sys.Hierarchy, groups []string, wanted []event) (open []counter, err error) {
	cpus, err := sys.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	for _, e := range wanted {
		counters, err := openEvent(tree, groups, cpus, e)
		if cannotCount(err) {
			continue
		}
		if err != nil {
			closeAll(open)
			return nil, err
		}
		open = append(open, counters...)
	}
	return open, nil
}

// openEvent opens an event for all groups that there are, on each CPU: an event of a
// cgroup is bound to one. All are open, or none with the error.
func openEvent(tree sys.Hierarchy, groups []string, cpus []int, e event) (open []counter, err error) {
	defer func() {
		if err != nil {
			closeAll(open)
			open = nil
		}
	}()
	for _, g := range groups {
		group, err := os.Open(tree.Dir(g))
		if gone(err) {
			continue
		}
		if err != nil {
			return open, err
		}
		counters, err := openOn(group, cpus, e)
		group.Close()
		open = append(open, counters...)
		if err != nil {
			return open, err
		}
	}
	return open, nil
}

// openOn opens an event of one group. A CPU that has gone off-line meanwhile is left
// out, unless none is left. What was opened before an error is returned with it.
func openOn(group *os.File, cpus []int, e event) (open []counter, err error) {
	attr := unix.PerfEventAttr{Type: e.kind, Config: e.config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING}
	var offline error
	for _, cpu := range cpus {
		fd, err := sys.OpenPerf(&attr, int(group.Fd()), cpu, unix.PERF_FLAG_PID_CGROUP)
		if errors.Is(err, unix.ENODEV) {
			offline = err
			continue
		}
		if err != nil {
			return open, fmt.Errorf("perf_event_open for %s on CPU %d: %w", e.metric, cpu, err)
		}
		open = append(open, counter{e, os.NewFile(uintptr(fd), e.metric)})
	}
	if len(open) == 0 && offline != nil {
		return nil, fmt.Errorf("perf_event_open for %s on any CPU: %w", e.metric, offline)
	}
	return open, nil
}

// cannotCount are the errors of perf_event_open(2) that say that the machine
// or the user has no such counter, or none that is free.
func cannotCount(err error) bool {
	for _, e := range []unix.Errno{unix.ENOENT, unix.EOPNOTSUPP, unix.ENODEV, unix.EINVAL, unix.EACCES, unix.EPERM, unix.ENOSYS, unix.EBUSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// notSupported is a file of the kernel's that is there and switched off.
func notSupported(err error) bool { return errors.Is(err, unix.EOPNOTSUPP) }

// missingCounters are the counters of Perf that this machine does not have, by
// metric, with the reason.
func missingCounters() (map[string]string, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	cpus, err := sys.OnlineCPUs()
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	missing := map[string]string{}
	tree, ok := countingTree(trees)
	for _, e := range events {
		if !ok {
			missing[e.metric] = "perf counts a cgroup only in a tree of version 2, or of version 1 with the controller perf_event, and none is mounted that tare may write to"
			continue
		}
		open, err := openEvent(tree, []string{""}, cpus, e)
		closeAll(open)
		if err != nil {
			missing[e.metric] = whyMissing(e, err)
		}
	}
	return missing, nil
}

// whyMissing words why an event cannot be counted.
func whyMissing(e event, err error) string {
	hidden := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV)
	if e.kind == unix.PERF_TYPE_HARDWARE && hidden {
		return err.Error() + ": the machine shows no PMU for it to its kernel, as many virtual machines do"
	}
	return err.Error()
}

// reading is what read(2) gives of a counter, or of several added up: the count,
// for how long it was wanted, and for how much of that the CPU had a register for
// it (perf_event_open(2), PERF_FORMAT_TOTAL_TIME_*).
type reading struct{ count, enabled, running uint64 }

func (r reading) plus(other reading) reading {
	return reading{r.count + other.count, r.enabled + other.enabled, r.running + other.running}
}

// scaled is the count, scaled up by the time that it was not counted, as perf stat
// does over all CPUs; share is the share of the time that it was. ok is false of
// an event that was wanted and never counted.
func (r reading) scaled() (count, share float64, ok bool) {
	switch {
	case r.running == 0:
		return 0, 1, r.enabled == 0 // no task of the groups ran
	case r.running >= r.enabled:
		return float64(r.count), 1, true
	}
	share = float64(r.running) / float64(r.enabled)
	return float64(r.count) / share, share, true
}

// readCounters gives the values of what sumCounters read. Where the CPU had to
// share its registers between events, the least share of the time that one was
// counted is among them.
func readCounters(open []counter) ([]sample.Value, error) {
	sums, err := sumCounters(open)
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	return toValues(sums), nil
}

// sumCounters sums each event over groups and CPUs.
func sumCounters(open []counter) (map[string]reading, error) {
	sums := map[string]reading{}
	for _, c := range open {
		var b [24]byte
		if _, err := io.ReadFull(c.file, b[:]); err != nil {
			return nil, fmt.Errorf("read %s: %w", c.file.Name(), err)
		}
		number := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
		sums[c.event.metric] = sums[c.event.metric].plus(reading{number(0), number(1), number(2)})
	}
	return sums, nil
}

func toValues(sums map[string]reading) []sample.Value {
	var values []sample.Value
	least := 1.0
	for _, e := range events {
		r, known := sums[e.metric]
		if !known {
			continue
		}
		count, share, ok := r.scaled()
		if ok {
			values = append(values, sample.Value{Metric: e.metric, Value: count * e.factor})
		}
		least = min(least, share)
	}
	if least < 1 {
		values = append(values, sample.Value{Metric: sample.Counted, Value: least})
	}
	return values
}

func closeAll(open []counter) {
	for _, c := range open {
		c.file.Close()
	}
}
