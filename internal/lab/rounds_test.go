package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/study"
)

// Every target takes the turns of three programs, alone and as two instances at once,
// on one CPU; a turn that its program does not know fails by itself.
func TestRoundsOnRealTargets(t *testing.T) {
	no, loop := false, "while read -r name us; do i=0; while [ $i -lt 50 ]; do i=$((i+1)); done; echo $i; done"
	st := study.Study{
		ID: "rounds", Targets: []string{"native", "runc"}, Blocks: 1, Rounds: 3, Slice: time.Millisecond, Cold: &no, Timeout: time.Minute,
		Copies: []int{1, 2}, Environments: []study.Environment{{CPUSet: "first"}},
		Workloads: []study.Workload{
			{Name: "calls", Kind: "unix-syscall"},
			{Name: "reads", Kind: "slice-read-cached"},
			{Name: "shell", Kind: "turns", Args: []string{"sh", "-c", loop}},
			{Name: "unknown", Kind: "turns", Args: []string{"sh", "-c", "while read -r name us; do echo error: $name is unknown; done"}, Params: map[string]string{"turn": "nothing"}},
		},
	}
	began := map[string]bool{}
	records := measure(t, st, func(_ string, e lab.Event) {
		if e.Record == nil {
			began[e.Cell.Set] = true
		}
	})
	const cells = 4 * 2 * 4 // targets with the twin, copies, workloads
	if len(records) != cells || len(began) != 2 {
		t.Errorf("%d records, want %d; sets %v, want one for each number of instances", len(records), cells, began)
	}
	for _, r := range records {
		if strings.Contains(r.Cell, "/unknown") {
			if r.Failure == nil || !strings.Contains(r.Failure.Message, "error: nothing is unknown") {
				t.Errorf("%s: %+v", r.Cell, r.Failure)
			}
			continue
		}
		if r.Failure != nil {
			t.Errorf("%s: %s %s", r.Cell, r.Failure.Message, r.Failure.Stderr)
			continue
		}
		s := r.Slices
		if !slices.Equal(s.Round, []int{0, 1, 2}) || slices.Min(s.Count) <= 0 {
			t.Errorf("%s: %+v", r.Cell, s)
		}
		if copies := strings.HasSuffix(r.Cell, "+x2"); strings.Contains(r.Cell, "/shell") && (s.Count[0] == 100) != copies {
			t.Errorf("%s: a count of %v", r.Cell, s.Count[0])
		}
		if reads := strings.Contains(r.Cell, "/reads"); reads != (s.Bytes > 0) || reads && s.Device == nil {
			t.Errorf("%s: %v bytes, of devices %v", r.Cell, s.Bytes, s.Device)
		}
	}
}

// The program of docs/slices.md in C, built as its reader would, takes turns in an
// engine's container and in a machine.
func TestSliceInC(t *testing.T) {
	page, err := os.ReadFile("../../docs/slices.md")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile("(?s)```c\n(.*?)```").FindSubmatch(page)
	if source == nil {
		t.Fatal("docs/slices.md has no program in C")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "sort")
	if err := os.WriteFile(program+".c", source[1], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-Wall", "-Werror", "-o", program, program+".c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	no := false
	st := study.Study{
		ID: "own", Targets: []string{"docker", "qemu/microvm"}, Blocks: 1, Rounds: 3, Slice: time.Millisecond, Cold: &no, Timeout: 3 * time.Minute,
		Workloads: []study.Workload{{Name: "sort", Kind: "turns", Args: []string{program}, Params: map[string]string{"turn": "sort"}}},
	}
	cache, err := os.UserCacheDir() // its kernel, which takes a download
	if err != nil {
		t.Fatal(err)
	}
	config := lab.Config{StateDir: t.TempDir(), CacheDir: filepath.Join(cache, "tare"), Version: "test", Drivers: all.Drivers}
	records := measureWith(t, config, st, func(string, lab.Event) {})
	if len(records) != 4 { // with the host and its twin
		t.Errorf("%d records, want 4", len(records))
	}
	for _, r := range records {
		switch s := r.Slices; {
		case r.Failure != nil:
			t.Errorf("%s: %s %s", r.Cell, r.Failure.Message, r.Failure.Stderr)
		case len(s.Round) != 3 || slices.Min(s.Count) < 1 || slices.Min(s.CPU) < 1:
			t.Errorf("%s: %+v", r.Cell, s)
		}
	}
}
