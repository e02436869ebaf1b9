package oci

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/target/targettest"
)

// TestSweep leaves a running container of each runtime, as a killed tare does,
// and has them deleted by what lies below the run's directory.
func TestSweep(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("containers need root here: run this test as root")
	}
	lab := targettest.New(t)
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{"runc", "crun", "runsc"} {
		d := New(lab, named(t, name))
		id := target.Label + "-sweep-test-" + name
		group := target.Label + "/" + id
		if err := trees.Make(group); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := sys.RemoveCgroups(group); err != nil {
				t.Error(err)
			}
		})
		dir := filepath.Join(lab.RunDir, "instances", id)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		i, err := d.Prepare(t.Context(), target.Spec{ID: id, Rootfs: lab.TestRootfs, Args: []string{"/bin/sleep", "300"}, Cgroup: group}, dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = i.Close() }) // the sweep has deleted what it looks for
		if err := i.Start(t.Context(), func(target.Phase) {}); err != nil {
			t.Fatal(err)
		}
		for tries := 0; i.Watch()[0].PID == 0; tries++ { // each waits for a second
			if tries == 10 {
				t.Fatalf("%s has not started", name)
			}
		}
		// The launcher would end its container with tare; here it dies as well.
		if err := syscall.Kill(i.(*instance).process.LauncherPID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		want = append(want, "deleted container "+id+" of "+name)
	}
	// Not ours: no label.
	other := filepath.Join(home{filepath.Join(lab.RunDir, "x")}.state("runc"), "somebody-elses")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	swept, err := Sweep(t.Context(), lab, lab.RunDir)
	slices.Sort(swept)
	slices.Sort(want)
	if err != nil || !slices.Equal(swept, want) {
		t.Errorf("swept %q, %v; want %q", swept, err, want)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("another's container: %v", err)
	}
	if left, err := Find(lab.RunDir); err != nil || len(left) != 0 {
		t.Errorf("still there: %v, %v", left, err)
	}
}

func TestFindInNothing(t *testing.T) {
	if left, err := Find(filepath.Join(t.TempDir(), "missing")); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v", left, err)
	}
}

func named(t *testing.T, name string) Runtime {
	t.Helper()
	for _, r := range Runtimes() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no runtime %q among %s", name, strings.Join(names(), ", "))
	return Runtime{}
}

func names() (all []string) {
	for _, r := range Runtimes() {
		all = append(all, r.Name)
	}
	return all
}
