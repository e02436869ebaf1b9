package probe

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

func TestPerfCountsACgroup(t *testing.T) {
	h, rel := group(t)
	if _, ok := countingTree(h); !ok {
		t.Skip("neither cgroup v2 nor perf_event of version 1 is mounted: perf counts by their groups alone")
	}
	end, err := Perf{}.Begin(t.Context(), []driver.Watch{{Role: driver.RolePayload, Cgroup: rel + "/payload"}})
	if err != nil {
		t.Fatal(err)
	}
	used := inside(t, h, rel+"/payload", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	inside(t, h, rel+"/runtime", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done") // not watched
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	if c := got[sample.TaskClock]; c < used/2 || c > used*1.2+0.02 {
		t.Errorf("task-clock %v, and the payload used %v", c, used)
	}
	if got[sample.PageFaults] < 1 || got[sample.Switches] < 0 {
		t.Errorf("%v", got)
	}
	known := map[string]bool{}
	for _, m := range Metrics() {
		known[m.Name] = true
	}
	for m := range got {
		if !known[m] {
			t.Errorf("%s is not defined", m)
		}
	}
}

// A CPU with fewer registers than there are events counts each for a share of the
// time; the sum over its CPUs is scaled up by that, as perf stat does.
func TestCountersAreScaled(t *testing.T) {
	always := reading{count: 5e9, enabled: 1000, running: 1000}
	half := reading{count: 300, enabled: 1000, running: 500}.plus(reading{count: 100, enabled: 200, running: 100})
	got := toMap(toValues(map[string]reading{sample.TaskClock: always, sample.Cycles: half, sample.Branches: {enabled: 7}, sample.PageFaults: {}}))
	if got[sample.TaskClock] != 5 || math.Abs(got[sample.Cycles]-800) > 1e-9 || got[sample.Counted] != 0.5 {
		t.Errorf("%v", got)
	}
	if _, known := got[sample.Branches]; known {
		t.Errorf("branches were never counted: %v", got)
	}
	if n, known := got[sample.PageFaults]; !known || n != 0 {
		t.Errorf("nothing ran: %v", got)
	}
	if _, told := toMap(toValues(map[string]reading{sample.TaskClock: always}))[sample.Counted]; told {
		t.Error("nothing was scaled")
	}
}

// Where perf_event is bound to a tree of version 1, the kernel knows no groups of
// version 2 by it.
func TestCountingTree(t *testing.T) {
	v2 := sys.Hierarchy{Path: "/v2", Version: 2, Writable: true}
	v1 := sys.Hierarchy{Path: "/v1", Version: 1, Controllers: []string{"perf_event"}, Writable: true}
	closed := v1
	closed.Writable = false
	for _, c := range []struct {
		all  []sys.Hierarchy
		want string
	}{
		{[]sys.Hierarchy{v2}, "/v2"}, {[]sys.Hierarchy{v2, v1}, "/v1"}, {[]sys.Hierarchy{v1}, "/v1"},
		{[]sys.Hierarchy{v2, closed}, "/v2"}, {nil, ""},
	} {
		if got, _ := countingTree(sys.Hierarchies{All: c.all}); got.Path != c.want {
			t.Errorf("of %v: %q, want %q", c.all, got.Path, c.want)
		}
	}
}

// An event that can be counted on some of the CPUs alone is not counted: its sum would
// pass for the whole.
func TestNoPartOfACount(t *testing.T) {
	h, rel := group(t)
	tree, ok := countingTree(h)
	if !ok {
		t.Skip("neither cgroup v2 nor perf_event of version 1 is mounted: perf counts by their groups alone")
	}
	e := eventOf(sample.TaskClock)
	descriptors := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	before := descriptors()
	open, err := openEvent(tree, []string{rel, rel + "/gone"}, []int{0}, e)
	if err != nil || len(open) != 1 {
		t.Errorf("%d counters of one CPU and one group that is there: %v", len(open), err)
	}
	closeAll(open)
	const none = 1 << 20 // no machine has as many CPUs
	open, err = openEvent(tree, []string{rel}, []int{0, none}, e)
	if err == nil || len(open) > 0 || !strings.Contains(err.Error(), fmt.Sprintf("task-clock on CPU %d", none)) {
		t.Errorf("%d counters, %v", len(open), err)
	}
	if after := descriptors(); after != before {
		t.Errorf("%d descriptors are open, and %d were", after, before)
	}
}

// The machine's lack of a PMU is told where the kernel knows of no such event, and not
// where this user may not count, or others do.
func TestWhyACounterIsMissing(t *testing.T) {
	for err, hidden := range map[unix.Errno]bool{unix.ENOENT: true, unix.EOPNOTSUPP: true, unix.ENODEV: true, unix.EACCES: false, unix.EPERM: false, unix.EBUSY: false} {
		wrapped := fmt.Errorf("perf_event_open: %w", err)
		if why := whyMissing(eventOf(sample.Cycles), wrapped); strings.Contains(why, "no PMU") != hidden || !strings.Contains(why, err.Error()) {
			t.Errorf("%v: %s", err, why)
		}
		if why := whyMissing(eventOf(sample.TaskClock), wrapped); strings.Contains(why, "no PMU") {
			t.Errorf("%v of a software event: %s", err, why)
		}
	}
}
