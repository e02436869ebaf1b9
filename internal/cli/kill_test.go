package cli_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/sys"
)

// TestKilledCheckLeavesNothing kills tare check in the midst of its proofs: of what it
// had made on the machine nothing is there after a sweep.
func TestKilledCheckLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("tare check makes cgroups and containers: run this as root")
	}
	state, temporary := t.TempDir(), t.TempDir()
	tare := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), "tare", args...)
		c.Env = append(os.Environ(), "TARE_STATE="+state, "TMPDIR="+temporary)
		return c
	}
	check := []string{"check", "--fresh", "--on", "host,native,runc,crun"}
	if out, err := tare("check", "--on", "host").CombinedOutput(); err != nil { // makes the image
		t.Fatalf("%v: %s", err, out)
	}
	began := time.Now()
	if out, err := tare(check...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := time.Since(began)
	before := loose(t)
	for range 12 {
		c := tare(check...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		at := time.Duration(rand.Int64N(int64(took)))
		time.Sleep(at)
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
		names := []string{"-" + strconv.Itoa(c.Process.Pid)}
		sessions, err := os.ReadDir(filepath.Join(state, "sessions"))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sessions {
			names = append(names, s.Name())
		}
		if out, err := tare("sweep").CombinedOutput(); err != nil {
			t.Errorf("killed after %v: sweep: %v: %s", at, err, out)
		}
		for _, left := range leavings(t, names, state, temporary) {
			t.Errorf("killed after %v: left is %s", at, left)
		}
	}
	for _, group := range loose(t) {
		if !slices.Contains(before, group) {
			t.Errorf("left is cgroup %s, of no session", group)
		}
	}
}

// loose are the groups of test containers that lie in no session's group, where a
// sweep would find them.
func loose(t *testing.T) []string {
	t.Helper()
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, pattern := range trees.Dirs("tare/tare-check-*") {
		groups, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, groups...)
	}
	return all
}

// leavings are the cgroups whose names end with one of names, the mounts and
// processes that name state, and the files in temporary and of sessions.
func leavings(t *testing.T, names []string, state, temporary string) []string {
	t.Helper()
	var left []string
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees.All {
		// Other groups come and go meanwhile: what cannot be read is gone.
		_ = filepath.WalkDir(tree.Path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil
			}
			for _, name := range names {
				if strings.HasSuffix(path, name) {
					left = append(left, "cgroup "+path)
				}
			}
			return nil
		})
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, state) {
			left = append(left, "mount "+line)
		}
	}
	for _, pattern := range []string{temporary + "/*", state + "/sessions/*", "/proc/[0-9]*/cmdline"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if !strings.HasPrefix(file, "/proc/") || err == nil && strings.Contains(string(text), state) {
				left = append(left, file+" "+string(text))
			}
		}
	}
	return left
}
