package containers_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/probe/containers"
	"github.com/tarelab/tare/internal/sys"
)

// start starts a shell in a PID and network namespace and in a group of its own
// in every tree, as a bare OCI runtime does, and gives the group's path.
func start(t *testing.T, script string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("containers are made here: run this as root")
	}
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("tare-watch-test-%d-%s", os.Getpid(), strings.ToLower(filepath.Base(t.Name())))
	var dirs []string
	var enter strings.Builder
	for _, h := range trees.All {
		dir := filepath.Join(h.Path, path)
		if slices.Contains(h.Controllers, "cpuset") && h.Version == 1 || !h.Writable { // a new cpuset has no CPUs
			continue
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
		fmt.Fprintf(&enter, "echo 0 >%s/cgroup.procs; ", dir) // 0: who writes
	}
	cmd := exec.Command("unshare", "--pid", "--net", "--mount", "--fork", "--kill-child", "sh", "-c", enter.String()+script)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // --kill-child ends the shell
		_ = cmd.Wait()
		for _, d := range dirs {
			for range 100 {
				if os.Remove(d) == nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
	return "/" + path
}

// TestWatch watches a real container that keeps a CPU busy and writes.
func TestWatch(t *testing.T) {
	path := start(t, "while :; do dd if=/dev/zero of="+filepath.Join(t.TempDir(), "file")+" bs=64k count=1 conv=fsync 2>/dev/null; done")
	w, err := containers.New()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for { // until it was seen to write
		points, _, err := w.Read()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(points, func(p containers.Point) bool { return p.ID == path })
		if i >= 0 && points[i].CPU > 0 && points[i].Written != 0 { // -1: nobody counts
			p := points[i]
			if p.Engine != "oci" || p.Name != filepath.Base(path) || p.CPU > 1.5 || p.Memory <= 0 || p.Received < 0 || p.Tasks < 1 {
				t.Errorf("%+v", p)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the container was not seen at work: %+v", points)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// A container that ends is no error, and is gone.
func TestEnds(t *testing.T) {
	end := filepath.Join(t.TempDir(), "end")
	path := start(t, "until [ -e "+end+" ]; do sleep 0.1; done")
	w, err := containers.New()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	seen := false
	for time.Now().Before(deadline) {
		points, _, err := w.Read()
		if err != nil {
			t.Fatal(err)
		}
		there := slices.ContainsFunc(points, func(p containers.Point) bool { return p.ID == path })
		switch {
		case there && !seen:
			seen = true
			if err := os.WriteFile(end, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		case seen && !there:
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("seen: %v, and not gone", seen)
}

// groupOf is the directory of a started container in the tree that limits memory.
func groupOf(t *testing.T, path string) (dir, limit string) {
	t.Helper()
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range trees.All {
		if slices.Contains(h.Controllers, "memory") {
			limit = "memory.max"
			if h.Version == 1 {
				limit = "memory.limit_in_bytes"
			}
			return filepath.Join(h.Path, path), limit
		}
	}
	t.Fatal("no tree has the memory controller")
	return "", ""
}

// events reads until a container has died, and gives its events.
func events(t *testing.T, w *containers.Watch, path string, meanwhile func(seen []containers.Event)) (seen []containers.Event) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		_, all, err := w.Read()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.ID == path {
				seen = append(seen, e)
			}
		}
		if n := len(seen); n > 0 && seen[n-1].Event == containers.Died {
			return seen
		}
		meanwhile(seen)
	}
	t.Fatalf("the container did not die: %+v", seen)
	return nil
}

// A container starts, runs out of memory and dies. With gone its group is removed before
// the watch looks again, as engines do: the kernel's log tells what its count cannot.
func TestEvents(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone=%v", gone), func(t *testing.T) {
			w, err := containers.New()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if _, first, err := w.Read(); err != nil || len(first) > 0 {
				t.Fatalf("what ran before the watch is an event: %+v %v", first, err)
			}
			file := t.TempDir()
			path := start(t, "until [ -e "+file+"/go ]; do sleep 0.1; done; tail /dev/zero; until [ -e "+file+"/end ]; do sleep 0.1; done")
			dir, limit := groupOf(t, path)
			touch := func(name string) {
				if err := os.WriteFile(filepath.Join(file, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			began, ended := false, false
			seen := events(t, w, path, func(seen []containers.Event) {
				switch {
				case len(seen) == 1 && !began:
					began = true
					if err := os.WriteFile(filepath.Join(dir, limit), []byte("24M"), 0); err != nil {
						t.Fatal(err)
					}
					touch("go")
					if gone {
						removed(t, dir, func() { touch("end") })
					}
				case len(seen) == 2 && !ended:
					ended = true
					touch("end")
				}
			})
			var kinds []containers.EventKind
			for _, e := range seen {
				kinds = append(kinds, e.Event)
			}
			if want := []containers.EventKind{containers.Started, containers.OutOfMemory, containers.Died}; !slices.Equal(kinds, want) || seen[1].Killed != 1 {
				t.Errorf("%+v, want %v with one process killed", seen, want)
			}
		})
	}
}

// removed waits until the group has counted a kill, ends the rest, and removes the group.
func removed(t *testing.T, dir string, end func()) {
	t.Helper()
	for range 600 {
		for _, name := range []string{"memory.oom_control", "memory.events"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && strings.Contains(string(text), "oom_kill 1") {
				end()
			}
		}
		if os.Remove(dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the group was not removed")
}
