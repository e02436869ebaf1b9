package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/sys"
)

// faulty is a driver of the fake runtime that fails as name says.
func faulty(t *testing.T, name string) *Driver {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("fake runtimes run in cgroups and mount namespaces as real ones do: run this test as root")
	}
	lab := drivertest.New(t)
	script, err := filepath.Abs("testdata/faulty.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(script, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	lab.ToolDirs = []string{dir}
	return New(lab, Runtime{Name: name, Binary: name, StartTime: time.Millisecond})
}

// try runs a payload in driver, and gives the errors of Start or Wait, and of
// Close. It fails the test where a process or a group is left.
func try(t *testing.T, ctx context.Context, d *Driver) (run, closed error) {
	t.Helper()
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	id := driver.Label + "-oci-test-" + d.Name()
	spec := driver.Spec{ID: id, Rootfs: d.lab.TestRootfs, Args: []string{driver.Mark}, Cgroup: driver.Label + "/" + id}
	if err := trees.Make(spec.Cgroup); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if pids, err := trees.PIDs(spec.Cgroup); err != nil || len(pids) > 0 {
			t.Errorf("processes left after Close: %v, %v", pids, err)
		}
		for _, dir := range trees.Dirs(spec.Cgroup) {
			if below, err := filepath.Glob(dir + "/*/"); err != nil || len(below) > 0 {
				t.Errorf("groups left after Close: %v, %v", below, err)
			}
		}
		if _, err := sys.RemoveCgroups(spec.Cgroup); err != nil {
			t.Error(err)
		}
	}()
	i, err := d.Prepare(ctx, spec, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if run = i.Start(ctx, func(driver.Phase) {}); run == nil {
		_, run = i.Wait(ctx)
	}
	closed = i.Close()
	if again := i.Close(); fmt.Sprint(again) != fmt.Sprint(closed) {
		t.Errorf("second Close: %v, after %v", again, closed)
	}
	return run, closed
}

func TestARuntimeThatFailsIsQuoted(t *testing.T) {
	for name, want := range map[string]string{
		"faulty-dies":             "faulty-dies exited with code 1: cannot frobnicate /x: no such device",
		"faulty-speaks-rust":      "faulty-speaks-rust exited with code 255: failed to frobnicate EBADF",
		"faulty-garbage":          "faulty-garbage exited with code 3: \x01\x02 what is this",
		"faulty-silent":           "faulty-silent exited with code 1, and said nothing in its log",
		"faulty-killed":           "faulty-killed was killed by signal 9",
		"faulty-no-pid":           "left no pid in",
		"faulty-bad-pid":          "left no pid in",
		"faulty-foreign-pid":      "left a process that is not its descendant",
		"faulty-leaves-container": "faulty-leaves-container exited with code 1",
	} {
		t.Run(name, func(t *testing.T) {
			err, closed := try(t, t.Context(), faulty(t, name))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if driver.IsLab(err) {
				t.Errorf("%v is told as the laboratory's fault", err)
			}
			if closed != nil {
				t.Errorf("Close: %v", closed)
			}
		})
	}
}

func TestARuntimeThatHangsIsKilled(t *testing.T) {
	d := faulty(t, "faulty-hangs")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err, closed := try(t, ctx, d)
	if !errors.Is(err, context.DeadlineExceeded) || closed != nil {
		t.Errorf("got %v, and %v from Close; want the context's error", err, closed)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestADeleteThatHangsIsToldAndCleanedUp(t *testing.T) {
	d := faulty(t, "faulty-delete-hangs")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, closed := try(t, ctx, d)
	if !errors.Is(closed, context.DeadlineExceeded) || !strings.Contains(closed.Error(), "faulty-delete-hangs delete") {
		t.Errorf("Close: got %v, want one that names the command and its time-out", closed)
	}
}

func TestCheckBelievesOnlyAnExitCodeThatCameBack(t *testing.T) {
	for name, want := range map[string]string{
		"faulty-silent":      "exited with code 1",
		"faulty-dies":        "cannot frobnicate",
		"faulty-no-pid":      "left no pid",
		"faulty-garbage":     "what is this",
		"faulty-no-protocol": "exited with code 64",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := faulty(t, name).Check(t.Context())
			var cannot *driver.CannotError
			if !errors.As(err, &cannot) || !strings.Contains(cannot.Lacks, want) || cannot.Target != name {
				t.Errorf("got %v, want a CannotError with %q", err, want)
			}
		})
	}
}

func TestCheckRefusesAnotherProgram(t *testing.T) {
	d := faulty(t, "faulty-dies")
	d.runtime.Binary = "true"
	d.lab.ToolDirs = []string{"/bin"}
	if _, err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no version of true") {
		t.Errorf("got %v, want one that says that it is no such runtime", err)
	}
}

// TestAVersionThatHangsLeavesNothing sees the child of a runtime's wrapper end
// with it.
func TestAVersionThatHangsLeavesNothing(t *testing.T) {
	for name, want := range map[string]string{
		"faulty-version-hangs":  "did not end in time",
		"faulty-version-leaves": "left a process behind",
	} {
		t.Run(name, func(t *testing.T) {
			d := faulty(t, name)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if name == "faulty-version-leaves" {
				ctx = t.Context()
			}
			_, err := d.Check(ctx)
			var cannot *driver.CannotError
			if !errors.As(err, &cannot) || !strings.Contains(cannot.Lacks, want) {
				t.Errorf("got %v, want a CannotError with %q", err, want)
			}
			pid, err := os.ReadFile(filepath.Join(d.lab.ToolDirs[0], name+".left"))
			if err != nil {
				t.Fatal(err)
			}
			// A process that was killed and not yet reaped has no command line.
			gone := func() bool {
				line, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "cmdline"))
				return err != nil || len(line) == 0
			}
			for range 100 {
				if gone() {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Errorf("process %s is left", pid)
		})
	}
}

func TestNoVersionIsNotRecordedAsOne(t *testing.T) {
	d := faulty(t, "faulty-unversioned")
	binary, err := d.Locate()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.version(t.Context(), binary); got != unversioned || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, unversioned)
	}
}
