package probe

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// A group's counter has the time that the group's tasks were on a CPU, which is
// what cycles are divided by: shown by an event that every machine has.
func TestCountersRunWithTheirGroup(t *testing.T) {
	h, rel := group(t)
	if _, ok := h.Unified(); !ok {
		t.Skip("cgroup v2 is not mounted: perf counts by its groups alone")
	}
	open, err := openFor([]driver.Watch{{Role: driver.RolePayload, Cgroup: rel + "/payload"}}, []event{eventOf(sample.PageFaults)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(open)
	used := inside(t, h, rel+"/payload", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.3")
	inside(t, h, rel+"/runtime", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done") // not watched
	sums, err := sumCounters(open)
	if err != nil {
		t.Fatal(err)
	}
	if ran := float64(sums[sample.PageFaults].running) * 1e-9; ran < used/2 || ran > used*1.2+0.02 {
		t.Errorf("the counters ran for %v s, and the payload used %v", ran, used)
	}
}

func TestCountedClock(t *testing.T) {
	two := reading{count: 6e9, enabled: 2e9, running: 2e9}.plus(reading{count: 1.5e9, enabled: 1e9, running: 5e8}) // one shared its register
	if got := toMap(countedClock(two))[sample.ClockCounted]; got != 3e9 {
		t.Errorf("7.5e9 cycles in 2.5 s are %v Hz", got)
	}
	for _, none := range []reading{{}, {enabled: 7}, {running: 7}} {
		if got := countedClock(none); got != nil {
			t.Errorf("%+v: %v", none, got)
		}
	}
}

// The clock is what cpufreq says while it is asked, of the fastest CPU.
func TestSampledClock(t *testing.T) {
	dir := t.TempDir()
	if values, err := sampleClock(dir, time.Millisecond)(); err != nil || values != nil {
		t.Errorf("without cpufreq: %v, %v", values, err)
	}
	write := func(cpu, khz string) {
		t.Helper()
		policy := filepath.Join(dir, cpu, "cpufreq")
		if err := os.MkdirAll(policy, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(policy, "scaling_cur_freq"), []byte(khz+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu0", "1450000")
	write("cpu1", "3600000")
	if values, err := sampleClock(dir, time.Hour)(); err != nil || values != nil {
		t.Errorf("before the first answer: %v, %v", values, err)
	}
	end := sampleClock(dir, time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	values, err := end()
	if err != nil || toMap(values)[sample.ClockCPUFreq] != 3.6e9 {
		t.Errorf("%v, %v", values, err)
	}
}

// The probe of this machine gives a rate that a CPU can have, or none.
func TestClockHere(t *testing.T) {
	h, rel := group(t)
	end, err := Clock{}.Begin(t.Context(), []driver.Watch{{Role: driver.RolePayload, Cgroup: rel + "/payload"}})
	if err != nil {
		t.Fatal(err)
	}
	inside(t, h, rel+"/payload", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v.Value < 1e8 || v.Value > 1e10 {
			t.Errorf("%s is %v Hz", v.Metric, v.Value)
		}
	}
}
