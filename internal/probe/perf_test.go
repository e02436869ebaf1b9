package probe

import (
	"math"
	"testing"

	"github.com/tarelab/tare/internal/target"
)

func TestPerfCountsACgroup(t *testing.T) {
	h, rel := group(t)
	if _, ok := h.Unified(); !ok {
		t.Skip("cgroup v2 is not mounted: perf counts by its groups alone")
	}
	end, err := Perf{}.Begin(t.Context(), []target.Watch{{Role: target.RolePayload, Cgroup: rel + "/payload"}})
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
	if c := got[TaskClock]; c < used/2 || c > used*1.2+0.02 {
		t.Errorf("task-clock %v, and the payload used %v", c, used)
	}
	if got[PageFaults] < 1 || got[Switches] < 0 {
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
	got := toMap(toValues(map[string]reading{TaskClock: always, Cycles: half, Branches: {enabled: 7}, PageFaults: {}}))
	if got[TaskClock] != 5 || math.Abs(got[Cycles]-800) > 1e-9 || got[Counted] != 0.5 {
		t.Errorf("%v", got)
	}
	if _, known := got[Branches]; known {
		t.Errorf("branches were never counted: %v", got)
	}
	if n, known := got[PageFaults]; !known || n != 0 {
		t.Errorf("nothing ran: %v", got)
	}
	if _, told := toMap(toValues(map[string]reading{TaskClock: always}))[Counted]; told {
		t.Error("nothing was scaled")
	}
}
