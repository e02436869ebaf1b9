package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// Perf counts events of the instances' cgroups with perf_event_open(2):
// task-clock, context switches, migrations and page faults, and where the
// machine has a PMU cycles, instructions, branches and misses. It needs root and cgroup v2
// mounted (a hybrid machine will do), and gives nothing elsewhere. It opens a
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
	{TaskClock, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK, 1e-9},
	{Switches, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CONTEXT_SWITCHES, 1},
	{Migrations, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_MIGRATIONS, 1},
	{PageFaults, unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS, 1},
	{Cycles, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES, 1},
	{Instructions, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS, 1},
	{Branches, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 1},
	{BranchMisses, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_BRANCH_MISSES, 1},
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
func (Perf) Begin(_ context.Context, on []target.Watch) (func() ([]sample.Value, error), error) {
	open, err := openFor(on, events)
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	return func() ([]sample.Value, error) {
		defer closeAll(open)
		return readCounters(open)
	}, nil
}

// openFor opens those of the events that this machine has, for the instances'
// groups; none where cgroup v2 is not mounted.
func openFor(on []target.Watch, wanted []event) ([]counter, error) {
	h, err := sys.Cgroups()
	if err != nil {
		return nil, err
	}
	tree, ok := h.Unified()
	if !ok {
		return nil, nil
	}
	var groups []string
	for _, w := range distinct(on) {
		if w.Role != target.RoleDaemon {
			groups = append(groups, w.Cgroup)
		}
	}
	return openAll(tree, groups, wanted)
}

// openAll opens those of the events that this machine has, for all groups.
func openAll(tree sys.Hierarchy, groups []string, wanted []event) (open []counter, err error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		more, err := openCounters(tree.Dir(g), cpus, wanted)
		open = append(open, more...)
		if err != nil {
			closeAll(open)
			return nil, err
		}
	}
	return open, nil
}

// openCounters opens the events for one cgroup, on each CPU: an event of a cgroup
// is bound to one.
func openCounters(dir string, cpus []int, wanted []event) (open []counter, err error) {
	group, err := os.Open(dir)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer group.Close()
	for _, e := range wanted {
		for _, cpu := range cpus {
			attr := unix.PerfEventAttr{Type: e.kind, Config: e.config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
				Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING}
			fd, err := unix.PerfEventOpen(&attr, int(group.Fd()), cpu, -1, unix.PERF_FLAG_PID_CGROUP|unix.PERF_FLAG_FD_CLOEXEC)
			if cannotCount(err) {
				break // the event, or counting by cgroup, is not there
			}
			if err != nil {
				return open, fmt.Errorf("perf_event_open for %s on CPU %d: %w", e.metric, cpu, err)
			}
			open = append(open, counter{e, os.NewFile(uintptr(fd), e.metric)})
		}
	}
	return open, nil
}

// onlineCPUs are the numbers of all CPUs, whatever this process may run on.
func onlineCPUs() ([]int, error) {
	const file = "/sys/devices/system/cpu/online"
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(string(b)), ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
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

// MissingCounters are the counters of Perf that this machine does not have, by
// metric, with the reason.
func MissingCounters() (map[string]string, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, fmt.Errorf("perf probe: %w", err)
	}
	missing := map[string]string{}
	tree, ok := trees.Unified()
	for _, e := range events {
		if !ok {
			missing[e.metric] = "perf counts a cgroup only in a cgroup v2 tree, and none is mounted that tare may write to"
			continue
		}
		if err := tryCounter(tree.Path, e.kind, e.config); err != nil {
			missing[e.metric] = err.Error()
			if e.kind == unix.PERF_TYPE_HARDWARE {
				missing[e.metric] += ": the machine shows no PMU to its kernel, as many virtual machines do"
			}
		}
	}
	return missing, nil
}

func tryCounter(dir string, kind uint32, config uint64) error {
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	attr := unix.PerfEventAttr{Type: kind, Config: config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, int(group.Fd()), 0, -1, unix.PERF_FLAG_PID_CGROUP|unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("perf_event_open says %w", err)
	}
	return unix.Close(fd)
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
		values = append(values, sample.Value{Metric: Counted, Value: least})
	}
	return values
}

func closeAll(open []counter) {
	for _, c := range open {
		c.file.Close()
	}
}
