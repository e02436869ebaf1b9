package probe

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// group makes an instance's cgroup with its children and removes it at the end.
func group(t *testing.T) (sys.Hierarchies, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes cgroups: run it as root")
	}
	h, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	rel := fmt.Sprintf("tare/probe-test-%d", os.Getpid())
	for _, g := range []string{rel, rel + "/payload", rel + "/runtime"} {
		if err := h.Make(g); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := h.Remove(rel); err != nil {
			t.Error(err)
		}
		for _, top := range h.Dirs("tare") {
			_ = os.Remove(top) // another process may have groups there
		}
	})
	return h, rel
}

// inside runs a script in a group and returns the CPU seconds that it took.
func inside(t *testing.T, h sys.Hierarchies, rel, script string) float64 {
	t.Helper()
	c := exec.Command("/bin/sh", "-ec", entering(h, rel)+script)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
}

// entering is how a script begins that runs in a group.
func entering(h sys.Hierarchies, rel string) string {
	script := ""
	for _, dir := range h.Dirs(rel) {
		script += "echo $$ > " + filepath.Join(dir, "cgroup.procs") + "; "
	}
	return script
}

func toMap(values []sample.Value) map[string]float64 {
	m := map[string]float64{}
	for _, v := range values {
		m[v.Metric] += v.Value
	}
	return m
}

func TestCgroupCounts(t *testing.T) {
	h, rel := group(t)
	inside(t, h, rel+"/payload", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done") // before Begin: must not count
	end, err := Cgroup{}.Begin(t.Context(), []driver.Watch{
		{Role: driver.RolePayload, Cgroup: rel + "/payload"},
		{Role: driver.RoleRuntime, Cgroup: rel + "/runtime"},
		{Role: driver.RoleRuntime, Cgroup: rel + "/runtime"}, // twice: must count once
		{Role: driver.RoleDaemon, Cgroup: "no/such/group"},
		{Role: driver.RoleClient},
	})
	if err != nil {
		t.Fatal(err)
	}
	payload := inside(t, h, rel+"/payload", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; dd if=/dev/zero of=/dev/null bs=32M count=2 2>/dev/null")
	runtime := inside(t, h, rel+"/runtime", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; dd if=/dev/zero of=/dev/null bs=8M count=2 2>/dev/null")
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	near := func(metric string, want, tolerance float64) {
		t.Helper()
		if v, ok := got[metric]; !ok || math.Abs(v-want) > tolerance {
			t.Errorf("%s is %v, want %v +- %v", metric, v, want, tolerance)
		}
	}
	// rusage counts the shell's own start before it enters the group.
	near(sample.PayloadCPU, payload, 0.02+payload/10)
	near(sample.RuntimeCPU, runtime, 0.02+runtime/10)
	near("cpu", got[sample.PayloadCPU]+got[sample.RuntimeCPU], 1e-9)
	near("cpu", got["cpu-user"]+got["cpu-system"], 1e-9)
	near(sample.PayloadPeak, 34<<20, 4<<20)
	near(sample.RuntimePeak, 10<<20, 4<<20)
	near("peak-memory", got[sample.PayloadPeak], 4<<20) // one after the other: not the sum
	if _, there := got[sample.DaemonCPU]; there {
		t.Error("a cgroup that does not exist gave a value")
	}
}

func TestWithoutCgroupsThereIsNothing(t *testing.T) {
	end, err := Cgroup{}.Begin(t.Context(), []driver.Watch{{Role: driver.RolePayload, PID: os.Getpid()}})
	if err != nil {
		t.Fatal(err)
	}
	if values, err := end(); err != nil || len(values) != 0 {
		t.Errorf("%v, %v", values, err)
	}
}

func TestDistinct(t *testing.T) {
	w := func(role driver.Role, cgroup string) driver.Watch { return driver.Watch{Role: role, Cgroup: cgroup} }
	on := []driver.Watch{
		w("runtime", "a/runtime"), w("payload", "a/payload"), w("payload", "a/payload/inner"),
		w("payload", "a/payload2"), w("runtime", "a/runtime/"), w("client", ""),
	}
	want := []driver.Watch{on[0], on[1], on[3]}
	if diff := cmp.Diff(want, distinct(on)); diff != "" {
		t.Error(diff)
	}
}

func TestInner(t *testing.T) {
	w := func(role driver.Role, cgroup string) driver.Watch { return driver.Watch{Role: role, Cgroup: cgroup} }
	on := []driver.Watch{
		w("runtime", "engine"), w("payload", "a/payload"), w("runtime", "a/payload/conmon"), w("runtime", "a/payload/conmon"),
		w("payload", "a/payload/libpod"), w("payload", "b/payload"), {Role: "daemon", Cgroup: "b/payload/daemon", Alone: true}, w("runtime", ""),
	}
	if diff := cmp.Diff(map[string][]driver.Watch{"a/payload": {on[2]}}, inner(on)); diff != "" {
		t.Error(diff)
	}
}

// What a monitor uses in a group inside the payload's is the runtime's, and the roles
// sum to the whole.
func TestAMonitorInsideIsTheRuntimes(t *testing.T) {
	h, rel := group(t)
	monitor := rel + "/payload/conmon"
	if err := h.Make(monitor); err != nil {
		t.Fatal(err)
	}
	on := []driver.Watch{{Role: driver.RolePayload, Cgroup: rel + "/payload"}, {Role: driver.RoleRuntime, Cgroup: monitor}}
	end, err := Cgroup{}.Begin(t.Context(), on)
	if err != nil {
		t.Fatal(err)
	}
	used := inside(t, h, monitor, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	if got[sample.RuntimeCPU] < used/2 || got[sample.PayloadCPU] > used/2 || math.Abs(got[sample.RuntimeCPU]+got[sample.PayloadCPU]-got["cpu"]) > 1e-9 {
		t.Errorf("%v, and the monitor used %v", got, used)
	}
}

func TestInstanceOf(t *testing.T) {
	for in, want := range map[string]string{
		"tare/run/id/payload":       "tare/run/id",
		"tare/run/id/payload/inner": "tare/run/id",
		"tare/run/id/runtime":       "tare/run/id",
		"system.slice/docker":       "system.slice/docker",
	} {
		if got := instanceOf(in); got != want {
			t.Errorf("instanceOf(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNoise(t *testing.T) {
	end, err := Noise{}.Begin(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	if v, ok := got[sample.Steal]; !ok || v < 0 || v > 1 {
		t.Errorf("steal is %v", v)
	}
	if _, err := os.Stat("/proc/pressure/cpu"); err == nil {
		if _, ok := got[sample.CPUPressure]; !ok {
			t.Error("the kernel has PSI and the probe gave none")
		}
	}
}

// Every metric that a probe gives must be defined, here or as a general one.
func TestMetricsAreDefined(t *testing.T) {
	known := map[string]bool{}
	for _, m := range Metrics() {
		if known[m.Name] || m.Unit == "" || m.Better == "" || m.Help == "" {
			t.Errorf("%+v is defined twice or not wholly", m)
		}
		known[m.Name] = true
	}
	for _, name := range roleCPU {
		if !known[name] {
			t.Errorf("%s is not defined", name)
		}
	}
}
