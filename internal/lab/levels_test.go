package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// Neighbours run in groups of the session next to host and native, in rounds and next to
// whole starts, and are gone with the measurement.
func TestNeighboursOnRealTargets(t *testing.T) {
	no := false
	st := study.Study{
		ID: "neighbours", Targets: []string{"host", "native"}, Blocks: 1, Rounds: 3, Slice: time.Millisecond, Cold: &no, AA: &no, Timeout: time.Minute,
		Environments: []study.Environment{
			{Name: "alone"},
			{Name: "busy", Shares: 4096, Load: &study.Load{Kind: "unix-dhrystone2", Instances: study.PerCPU, Idle: true}},
		},
		OptionalEnvironments: []study.Environment{{Name: "many", CPUSet: "first-4096"}},
		Workloads: []study.Workload{
			{Name: "calls", Kind: "unix-syscall"}, {Name: "start", Kind: "start"},
			{Name: "elsewhere", Kind: "unix-syscall", Environments: []string{"many"}},
		},
	}
	sets := map[string]bool{}
	records := measure(t, st, func(_ string, e lab.Event) { sets[e.Cell.Set] = true })
	if len(records) != 12 {
		t.Errorf("%d records, want 12: the level of 4096 CPUs is skipped, and its workload measured in the others", len(records))
	}
	if len(sets) != 2 { // "" of the starts, and one of both levels
		t.Errorf("sets %v: the load rests while others are measured", sets)
	}
	for _, r := range records {
		busy := strings.Contains(r.Cell, "+busy")
		if r.Failure != nil {
			t.Errorf("%s: %+v", r.Cell, r.Failure)
		} else if (len(r.Values[sample.BesideRate]) == 1) != busy {
			t.Errorf("%s: load-rate %v", r.Cell, r.Values[sample.BesideRate])
		}
	}
}

// Levels with images of their own run on these, with one program; copies of a program
// share its turns; a cold page cache is for starts.
func TestImagesOfLevels(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("cp", "/bin/busybox", filepath.Join(dir, "busybox")).CombinedOutput(); err != nil {
		t.Fatalf("a root file system: %v %s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	no := false
	st := study.Study{
		ID: "images", Targets: []string{"host", "native"}, Blocks: 1, Rounds: 2, Slice: time.Millisecond, Cold: &no, AA: &no, Timeout: time.Minute,
		Environments: []study.Environment{
			{Name: "slim", Image: study.ImageWorkbench}, {Name: "own", Image: dir}, {Name: "host", Image: study.ImageHost},
			{Name: "cold", Image: study.ImageHost, PageCache: study.PageCacheCold},
		},
		Workloads: []study.Workload{
			{Name: "calls", Kind: "unix-syscall", Params: map[string]string{"copies": "2", "files": "shared"}, Environments: []string{"slim", "own", "host"}},
			{Name: "start", Kind: "start"},
		},
	}
	sets := map[string]bool{}
	records := measure(t, st, func(_ string, e lab.Event) { sets[e.Cell.Set] = true })
	if len(records) != 14 || len(sets) != 2 {
		t.Errorf("%d records, want 14; sets %v, want one of all levels and the starts", len(records), sets)
	}
	for _, r := range records {
		if r.Failure != nil {
			t.Errorf("%s: %+v", r.Cell, r.Failure)
		}
	}
}
