package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

func TestTogetherIsWhatHoldsThemAll(t *testing.T) {
	on := []driver.Watch{
		{Role: driver.RolePayload, Cgroup: "tare/s/trial/a/payload"}, {Role: driver.RoleRuntime, Cgroup: "tare/s/trial/a/runtime"},
		{Role: driver.RolePayload, Cgroup: "tare/s/trial/b/payload/inner"},
		{Role: driver.RoleRuntime, Cgroup: "tare/s/engine"}, {Role: driver.RoleDaemon, PID: 7, Cgroup: "tare/s/engine", Alone: true},
		{Role: driver.RolePayload},
	}
	if got := together(on); !slices.Equal(got, []string{"tare/s/trial", "tare/s/engine"}) {
		t.Errorf("%q", got)
	}
	if got := together(nil); got != nil {
		t.Errorf("of nothing %q", got)
	}
}

func TestDistinctOfThousandsIsQuick(t *testing.T) {
	var on []driver.Watch
	for i := range 8000 {
		on = append(on, driver.Watch{Cgroup: fmt.Sprintf("tare/s/%d/payload", i)}, driver.Watch{Cgroup: "tare/engine"},
			driver.Watch{Cgroup: fmt.Sprintf("tare/s/%d/payload/inner", i)}, driver.Watch{Cgroup: fmt.Sprintf("tare/t/%d", i)})
	}
	began := time.Now()
	got := distinct(on)
	if len(got) != 2*8000+1 {
		t.Errorf("%d of %d", len(got), len(on))
	}
	if took := time.Since(began); took > 20*time.Second { // quadratic would be minutes
		t.Errorf("it took %v", took)
	}
}

func TestManyCountsTheGroup(t *testing.T) {
	h, rel := group(t)
	if _, ok := h.Unified(); !ok {
		t.Skip("cgroup v2 is not mounted: perf and pressure count by its groups alone")
	}
	watch := driver.Watch{Role: driver.RolePayload, Cgroup: path.Join(rel, "payload")}
	end, err := Many{}.Begin(t.Context(), []driver.Watch{watch})
	if err != nil {
		t.Fatal(err)
	}
	// The group above the instance's holds what its neighbours do as well.
	used := inside(t, h, rel+"/runtime", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	if got[sample.TaskClock] < used/2 || got[sample.Switches] < 0 {
		t.Errorf("%v, and the neighbour used %v", got, used)
	}
	if _, known := got[sample.GroupCPUPressure]; !known {
		if _, err := os.Stat("/proc/pressure/cpu"); err == nil {
			t.Errorf("no pressure in %v", got)
		}
	}
	if got[sample.TareCPU] <= 0 {
		t.Errorf("no CPU time of tare's own in %v", got)
	}
}

// Without perf's counters the rest is still read, and it is told what is not.
func TestManyWithoutCounters(t *testing.T) {
	_, rel := group(t)
	uncounted := Many{Uncounted: true}
	end, err := uncounted.Begin(t.Context(), []driver.Watch{{Role: driver.RolePayload, Cgroup: path.Join(rel, "payload")}})
	if err != nil {
		t.Fatal(err)
	}
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	if _, known := got[sample.TareCPU]; !known {
		t.Errorf("no CPU time of tare's own in %v", got)
	}
	missing, err := uncounted.Missing()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if value, known := got[e.metric]; known {
			t.Errorf("%s was counted: %v", e.metric, value)
		}
		if missing[e.metric] == "" {
			t.Errorf("%s is missing without a reason", e.metric)
		}
	}
}

// The roles' context switches sum to those of all, and the client's counters are
// its own. Payloads have what nobody else has.
func TestSwitchesOfRolesSum(t *testing.T) {
	h, rel := group(t)
	if _, ok := h.Unified(); !ok {
		t.Skip("cgroup v2 is not mounted: perf counts by its groups alone")
	}
	all := rel + "/all"
	for _, g := range []string{all, all + "/one", all + "/one/runtime", all + "/one/payload", all + "/client"} {
		if err := h.Make(g); err != nil {
			t.Fatal(err)
		}
	}
	on := []driver.Watch{
		{Role: driver.RolePayload, Cgroup: all + "/one/payload"}, {Role: driver.RoleRuntime, Cgroup: all + "/one/runtime"},
		{Role: driver.RoleClient, Cgroup: all + "/client"},
	}
	end, err := Many{}.Begin(t.Context(), on)
	if err != nil {
		t.Fatal(err)
	}
	const switching = "i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done"
	inside(t, h, all+"/one/payload", fmt.Sprintf(switching, 20))
	inside(t, h, all+"/one/runtime", fmt.Sprintf(switching, 10))
	inside(t, h, all+"/client", fmt.Sprintf(switching, 40))
	values, err := end()
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	payload, runtime, client := got["payload-context-switches"], got["runtime-context-switches"], got["client-context-switches"]
	if payload < 20 || runtime < 10 || client < 40 || payload+runtime+client != got[sample.Switches] {
		t.Errorf("%v + %v + %v, and %v in all", payload, runtime, client, got[sample.Switches])
	}
	if got["client-task-clock"] <= 0 || got["client-task-clock"] >= got[sample.TaskClock] {
		t.Errorf("%v of %v", got["client-task-clock"], got[sample.TaskClock])
	}
}

func TestRunDelay(t *testing.T) {
	const stat = "version 17\ntimestamp 4295\ncpu0 0 0 0 0 0 0 1000000000 2500000000 30\ndomain0 03 1 2 3\ncpu1 0 0 0 0 0 0 5 500000000 9\n"
	if got, err := runDelay(stat); err != nil || got != 3 {
		t.Errorf("%v %v", got, err)
	}
	if _, err := runDelay("cpu0 0 0 0 0 0 0 1 x 30\n"); err == nil {
		t.Error("garbage was read")
	}
}

func TestMissingCountersSayWhy(t *testing.T) {
	missing, err := Many{}.Missing()
	if err != nil {
		t.Fatal(err)
	}
	for metric, why := range missing {
		if why == "" {
			t.Errorf("%s is missing without a reason", metric)
		}
	}
	h, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	if why, lacks := missing[sample.TaskClock]; lacks && os.Geteuid() == 0 {
		if _, ok := countingTree(h); ok {
			t.Errorf("task-clock is missing: %s", why)
		}
	}
}

// living starts a process in a group; end ends it.
func living(t *testing.T, h sys.Hierarchies, rel string) (pid int, end func()) {
	t.Helper()
	c := exec.Command("/bin/sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := h.Join(rel, c.Process.Pid); err != nil {
		t.Error(err)
	}
	return c.Process.Pid, func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}
}

// A process that is held is weighed, by itself and by its cgroup; the launcher
// beside it is not.
func TestCensusWeighsTheHeld(t *testing.T) {
	h, rel := group(t)
	census, err := Census{Launcher: "/no/launcher"}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	pid, end := living(t, h, rel+"/payload")
	defer end()
	on := []driver.Watch{{Role: driver.RolePayload, PID: pid, Cgroup: rel + "/payload"}, {Role: driver.RoleRuntime, Cgroup: rel + "/runtime"}}
	values, err := census(on)
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	if got[sample.PayloadPSS] <= 0 || got[sample.PayloadRSS] < got[sample.PayloadPSS] || got[sample.RuntimePSS] != 0 {
		t.Errorf("%v", got)
	}
	if _, ok := h.With("memory"); ok {
		if _, known := got[sample.PayloadCharge]; !known {
			t.Errorf("no charge in %v", got)
		}
	}
	exe, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(pid), "exe"))
	if err != nil {
		t.Fatal(err)
	}
	census, err = Census{Launcher: exe}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if values, err = census(on); err != nil || toMap(values)[sample.PayloadPSS] != 0 {
		t.Errorf("the launcher was weighed: %v %v", values, err)
	}
}

// A monitor inside the payload's group is weighed as the runtime, by itself and by
// what its group is charged with.
func TestCensusWeighsAMonitor(t *testing.T) {
	h, rel := group(t)
	monitor := rel + "/payload/conmon"
	if err := h.Make(monitor); err != nil {
		t.Fatal(err)
	}
	census, err := Census{Launcher: "/no/launcher"}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	const held = 16 << 20
	c := exec.Command("/bin/sh", "-ec", fmt.Sprintf("%sx=$(head -c %d /dev/zero | tr '\\0' x); echo; read x", entering(h, monitor), held))
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	values, err := census([]driver.Watch{{Role: driver.RolePayload, Cgroup: rel + "/payload"}, {Role: driver.RoleRuntime, Cgroup: monitor}})
	_ = stdin.Close()
	_ = c.Wait() // its read has failed
	if err != nil {
		t.Fatal(err)
	}
	got := toMap(values)
	if got[sample.RuntimePSS] < held || got[sample.RuntimeRSS] < got[sample.RuntimePSS] || got[sample.PayloadPSS] != 0 {
		t.Errorf("%v", got)
	}
	if _, ok := h.With("memory"); ok && (got[sample.RuntimeCharge] < held || got[sample.PayloadCharge] > held/2) {
		t.Errorf("what the monitor holds is not charged to it alone: %v", got)
	}
}

// A command-line client lives as long as its container is held: it is weighed apart,
// its group once however many it holds, and tare's launchers beside it are not.
func TestCensusWeighsClients(t *testing.T) {
	h, rel := group(t)
	client := rel + "/client"
	if err := h.Make(client); err != nil {
		t.Fatal(err)
	}
	census, err := Census{Launcher: "/no/launcher"}.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var on []driver.Watch
	charge := 0.0
	for range 2 {
		pid, end := living(t, h, client)
		defer end()
		on = append(on, driver.Watch{Role: driver.RoleClient, PID: pid, Cgroup: client}, driver.Watch{Role: driver.RolePayload, Cgroup: rel + "/payload"})
	}
	values, err := census(on)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok, err := chargeOf(h, client); err == nil && ok {
		charge = c
	}
	got := toMap(values)
	if got[sample.ClientPSS] <= 0 || got[sample.ClientRSS] < got[sample.ClientPSS] || got[sample.RuntimePSS] != 0 || got[sample.PayloadPSS] != 0 {
		t.Errorf("%v", got)
	}
	if got[sample.ClientCharge] > charge/2+1<<20 {
		t.Errorf("each of two is charged with %v, and their group with %v", got[sample.ClientCharge], charge)
	}
}

// A machine of many CPUs runs out of descriptors before it runs out of groups: then
// roles are not told apart, and the trial does not fail.
func TestRolesFitIntoTheDescriptorsLeft(t *testing.T) {
	h, rel := group(t)
	if _, ok := countingTree(h); !ok {
		t.Skip("neither cgroup v2 nor perf_event of version 1 is mounted: perf counts by their groups alone")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	on := []driver.Watch{{Role: driver.RolePayload, Cgroup: rel + "/payload"}, {Role: driver.RoleRuntime, Cgroup: rel + "/runtime"}}
	for left, counted := range map[uint64]bool{0: false, 1 << 12: true} {
		few := limit
		few.Cur = uint64(len(open)) + spareFiles + left
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		end, err := beginRoles(on)
		if restored := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); restored != nil {
			t.Fatal(restored)
		}
		if err != nil {
			t.Fatal(err)
		}
		values, err := end([]sample.Value{{Metric: sample.Switches, Value: 1e6}})
		if err != nil {
			t.Fatal(err)
		}
		if _, told := toMap(values)[sample.RoleSwitches(string(driver.RolePayload)).Name]; told != counted {
			t.Errorf("with %d descriptors left: %v", left, values)
		}
	}
}
