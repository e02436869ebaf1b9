package ebpf

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/profile"
)

// quarrel makes threads contend for a directory until the time is over.
func quarrel(t *testing.T, long time.Duration) {
	t.Helper()
	dir, end := t.TempDir(), time.Now().Add(long)
	var threads sync.WaitGroup
	for i := range 8 {
		threads.Go(func() {
			name := filepath.Join(dir, strconv.Itoa(i))
			for time.Now().Before(end) {
				if err := errors.Join(os.Mkdir(name, 0o700), os.Remove(name)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	threads.Wait()
}

// recorded is what the probe sees of the selection while it happens.
func recorded(t *testing.T, own Selection, happens func()) profile.Profile {
	t.Helper()
	return recordedBy(t, RecordLocks, own, happens)
}

func recordedBy(t *testing.T, record Recorder, own Selection, happens func()) profile.Profile {
	t.Helper()
	stop, err := record(own)
	if err != nil {
		t.Fatal(err)
	}
	happens()
	p, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// own are the rows of a profile that are not kernel threads', by name.
func own(p profile.Profile) map[string]profile.Row {
	rows := map[string]profile.Row{}
	for _, r := range p.Table() {
		if !r.Kernel {
			rows[r.Name] = r
		}
	}
	return rows
}

// TestLocksOfTheRealKernel names a lock that threads of this process quarrel
// over, and the sleep of a parent until its child executes.
func TestLocksOfTheRealKernel(t *testing.T) {
	needsKernel(t)
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const children = 5
	deadline := time.Now().Add(30 * time.Second)
	for {
		p := recorded(t, self, func() {
			quarrel(t, 200*time.Millisecond)
			for range children {
				if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
					t.Fatal(err)
				}
			}
		})
		rows := own(p)
		if n := rows["vfork: until the child executes"].Waits; n < children {
			t.Fatalf("%d waits for %d children: %+v", n, children, p.Table())
		}
		if r := rows[profile.Directory]; r.Waits > 0 {
			if r.Kind != profile.RWSem || r.Total <= 0 || r.Total > 8*p.Elapsed.Seconds() || r.Most > p.Elapsed.Seconds() || p.Cost <= 0 {
				t.Errorf("%+v, elapsed %v, cost %v", r, p.Elapsed, p.Cost)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads that contend for a directory never waited for it: %+v", p.Table())
		}
	}
}

// TestEstimateOfTheRealKernel finds the same lock without its tracepoints.
func TestEstimateOfTheRealKernel(t *testing.T) {
	needsKernel(t)
	self, err := SelectProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		p := recordedBy(t, estimateLocks, self, func() { quarrel(t, 200*time.Millisecond) })
		if len(p.Notes) == 0 || len(p.Samples) > 0 {
			t.Fatalf("notes %q, %d samples", p.Notes, len(p.Samples))
		}
		if r := own(p)[profile.Directory]; r.Total > 0 && r.Kind == profile.RWSem && r.Inferred {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads that contend for a directory never waited for it: %+v", p.Table())
		}
	}
}

// TestOthersDoNotCount watches a process that does nothing, beside threads that
// quarrel.
func TestOthersDoNotCount(t *testing.T) {
	needsKernel(t)
	idle := exec.CommandContext(t.Context(), "sleep", "60")
	if err := idle.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := idle.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = idle.Wait() // it says that it was killed
	}()
	other, err := SelectProcess(idle.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // its own start is over
	if rows := own(recorded(t, other, func() { quarrel(t, 200*time.Millisecond) })); len(rows) > 0 {
		t.Errorf("%+v", rows)
	}
}

func TestSelectionsThatCannotBe(t *testing.T) {
	if _, err := SelectProcess(1 << 30); err == nil {
		t.Error("a process that is not there is watched")
	}
	if _, err := SelectCgroup("no/such/group"); err == nil || !strings.Contains(err.Error(), "cgroup") {
		t.Errorf("a cgroup that is not there: %v", err)
	}
	if _, err := SelectCgroup("/"); err == nil {
		t.Error("the root of all cgroups is watched as one")
	}
}

func TestLockdown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockdown")
	for text, want := range map[string]string{"[none] integrity confidentiality\n": "", "none [integrity] confidentiality\n": "integrity", "none integrity [confidentiality]\n": "confidentiality", "": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lockdown(file); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := lockdown(file + "?"); got != "" {
		t.Errorf("no such file: %q", got)
	}
}

func TestSymbols(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kallsyms")
	write := func(text string) *symbols {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := readSymbols(file)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := write("00001000 T first\n00002000 t second\t[module]\n00003000 T _etext\nnonsense\n00009000 D cgroup_mutex\n0000b000 d __per_cpu\n")
	for address, want := range map[uint64]string{0x1004: "first", 0x1fff: "first", 0x2000: "second", 0x3010: "0x3010", 0x10: "0x10"} {
		if got := s.function(address); got != want {
			t.Errorf("function at %#x: %q, want %q", address, got, want)
		}
	}
	for address, want := range map[uint64]string{0x9000: "cgroup_mutex", 0x9010: "cgroup_mutex+0x10", 0xa001: "", 0xb000: "", 0x8000: ""} {
		if got := s.variable(address); got != want {
			t.Errorf("variable at %#x: %q, want %q", address, got, want)
		}
	}
	if hidden := write("0000000000000000 T first\n0000000000000000 D cgroup_mutex\n"); !hidden.hidden || hidden.function(0x1004) != "0x1004" || s.hidden {
		t.Errorf("%+v", hidden)
	}
	if _, err := readSymbols(file + "?"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
