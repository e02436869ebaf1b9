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
		points, err := w.Read()
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
		points, err := w.Read()
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
