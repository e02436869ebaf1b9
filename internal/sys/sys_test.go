package sys_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: it makes cgroups and mounts")
	}
}

// TestCgroupLife makes a group with limits, puts a process there, and sweeps it
// away by name.
func TestCgroupLife(t *testing.T) {
	needRoot(t)
	h, err := sys.Cgroups()
	if err != nil || !h.Usable() {
		t.Fatalf("no usable cgroups: %+v, %v", h, err)
	}
	top := fmt.Sprintf("tare/test-sys-%d", os.Getpid())
	rel := top + "/payload"
	if err := h.Make(rel); err != nil {
		t.Fatal(err)
	}
	if err := h.Apply(rel, sys.Bounds{CPUs: 0.5, CPUSet: "0", Memory: 64 << 20, Pids: 10}); err != nil {
		t.Error(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := h.Join(rel, cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	if pids, err := h.PIDs(top); err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
		t.Errorf("PIDs: %v, %v; want %d", pids, err, cmd.Process.Pid)
	}
	if used, ok, err := h.CPUTime(rel); err != nil || !ok {
		t.Errorf("CPUTime: %+v, %v, %v", used, ok, err)
	}
	go cmd.Wait() // the kill below leaves a zombie until then
	if killed, err := sys.RemoveCgroups(top); err != nil || killed != 1 {
		t.Errorf("RemoveCgroups: %d, %v", killed, err)
	}
	for _, dir := range h.Dirs(top) {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
	if killed, err := sys.RemoveCgroups(top); err != nil || killed != 0 {
		t.Errorf("removing what is not there: %d, %v", killed, err)
	}
}

// TestOverlayNames mounts an overlay whose directories have the characters that
// overlayfs separates options by, and takes it away by its upper directory.
func TestOverlayNames(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), `a,b:c\d`)
	o := sys.Overlay{Lower: filepath.Join(dir, "lower"), Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work")}
	at := filepath.Join(dir, "at")
	for _, d := range []string{o.Lower, o.Upper, o.Work, at} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tare-test", at, "overlay", 0, o.Data(false)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "f"), nil, 0o644); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(o.Upper, "f")); err != nil {
		t.Error(err)
	}
	if done, err := sys.UnmountBelow(dir); err != nil || len(done) != 1 || done[0] != at {
		t.Errorf("UnmountBelow: %q, %v", done, err)
	}
	if err := sys.Unmount(at); err != nil {
		t.Errorf("unmounting what is not mounted: %v", err)
	}
}

// TestProbesAreSwept takes away what a killed process's proof left, and leaves what a
// living one made and what is in use.
func TestProbesAreSwept(t *testing.T) {
	needRoot(t)
	h, err := sys.Cgroups()
	if err != nil || !h.Usable() {
		t.Fatalf("no usable cgroups: %+v, %v", h, err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	own := sys.ProbeGroup("own")
	self, err := sys.Self()
	if err != nil {
		t.Fatal(err)
	}
	left := fmt.Sprintf("tare-probe-left-%d-%d-%d", self.Namespace, self.Start, dead.Process.Pid)
	used := fmt.Sprintf("tare-probe-used-%d-%d-%d", self.Namespace, self.Start, dead.Process.Pid)
	unseen := fmt.Sprintf("tare-probe-unseen-%d-%d-%d", self.Namespace+1, self.Start, dead.Process.Pid) // of another PID namespace
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	one := h.Dirs(used)[:1] // a removal that is refused takes a while
	for _, dir := range slices.Concat(h.Dirs(own), h.Dirs(left), h.Dirs(unseen), one) {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer sys.RemoveGroup(dir)
	}
	defer sleeper.Wait()
	defer sleeper.Process.Kill()
	top := filepath.Dir(one[0])
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // without them a cpuset takes no process
		if text, err := os.ReadFile(filepath.Join(top, file)); err == nil {
			_ = os.WriteFile(filepath.Join(one[0], file), text, 0)
		}
	}
	if err := os.WriteFile(filepath.Join(one[0], "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	removed, err := sys.SweepProbes()
	if err != nil {
		t.Error(err)
	}
	for _, dir := range h.Dirs(left) {
		if _, err := os.Stat(dir); !os.IsNotExist(err) || !slices.Contains(removed, dir) {
			t.Errorf("%s is left: %v; removed %q", dir, err, removed)
		}
	}
	for _, dir := range slices.Concat(h.Dirs(own), h.Dirs(unseen), one) {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s should have stayed: %v", dir, err)
		}
	}
}

// At the top of a tree of version 2 what tare needs and is off is switched on, and
// nothing else.
func TestHandDownTouchesWhatItNeeds(t *testing.T) {
	for _, c := range []struct{ have, on, want string }{
		{"hugetlb rdma misc", "", ""},
		{"memory hugetlb", "memory", "memory"},
		{"hugetlb pids misc", "misc", "+pids"},
	} {
		h := sys.Hierarchy{Path: t.TempDir(), Version: 2}
		control := filepath.Join(h.Path, "cgroup.subtree_control")
		err := errors.Join(os.WriteFile(filepath.Join(h.Path, "cgroup.controllers"), []byte(c.have+"\n"), 0o644), os.WriteFile(control, []byte(c.on), 0o644))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.HandDown(""); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(control); err != nil || string(got) != c.want {
			t.Errorf("of %q with %q on: wrote %q, %v, want %q", c.have, c.on, got, err, c.want)
		}
	}
}

// An instance is in the trees by which its use is read: that of perf_event, too, where
// it is one of version 1.
func TestTreesThatAnInstanceIsIn(t *testing.T) {
	one := func(controllers ...string) sys.Hierarchy { return sys.Hierarchy{Version: 1, Controllers: controllers} }
	h := sys.Hierarchies{Mode: sys.Hybrid, All: []sys.Hierarchy{one("freezer"), one("cpu", "cpuacct"), one("memory"), one("perf_event"), one("pids"), {Version: 2}}}
	for bounds, want := range map[sys.Bounds]string{{}: "[cpu cpuacct] [memory] [perf_event] []", {Pids: 1}: "[cpu cpuacct] [memory] [perf_event] [pids] []"} {
		got := ""
		for _, tree := range h.For(bounds).All {
			got += fmt.Sprintf(" %v", tree.Controllers)
		}
		if got != " "+want {
			t.Errorf("with %+v: %s, want %s", bounds, got, want)
		}
	}
}

// All threads are bound, those too that Go makes meanwhile.
func TestUseCPUs(t *testing.T) {
	before, err := sys.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, cpus := range [][]int{before[:1], before} {
		if err := sys.UseCPUs(cpus); err != nil {
			t.Fatal(err)
		}
		threads, err := filepath.Glob("/proc/self/task/*/status")
		if err != nil || len(threads) == 0 {
			t.Fatal(threads, err)
		}
		for _, file := range threads {
			status, err := os.ReadFile(file)
			if err == nil && !strings.Contains(string(status), "Cpus_allowed_list:\t"+sys.FormatCPUs(cpus)+"\n") {
				t.Errorf("%s has other CPUs than %s: %s", file, sys.FormatCPUs(cpus), status)
			}
		}
	}
	if err := sys.UseCPUs(nil); err == nil {
		t.Error("no CPU at all was taken")
	}
}
