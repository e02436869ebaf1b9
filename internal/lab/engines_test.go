package lab_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
)

// shortDir is a directory with a shorter name than a test's own: engines' sockets
// lie in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tare-lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// An engine is killed in the second block, while it starts containers: what was
// measured is kept, the rest of its trials fail by its own fault, the other targets
// go on, and nothing of it is left.
func TestEngineDiesInTheMiddle(t *testing.T) {
	no := false
	st := study.Study{
		ID: "dies", Targets: []string{"native", "docker", "containerd"}, Control: "native", Blocks: 3, AA: &no, Cold: &no,
		Copies: []int{20}, Concurrency: []int{4}, Workloads: []study.Workload{{Name: "start", Kind: "start"}},
	}
	config := lab.Config{StateDir: shortDir(t), Version: "test", Drivers: all.Drivers, PrivateEngines: true}
	killed, session := make(chan error, 1), ""
	records := measureWith(t, config, st, func(of string, e lab.Event) {
		session = of
		if e.Record == nil && e.Trial.Block == 1 && e.Cell.Target == "docker" {
			go func() {
				time.Sleep(300 * time.Millisecond)
				killed <- killEngine(of, "docker", "dockerd")
			}()
		}
	})
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	if len(records) != 9 {
		t.Errorf("%d trials were recorded, not 9", len(records))
	}
	for _, r := range records {
		dead := strings.HasPrefix(r.Cell, "docker/") && r.Block > 0
		switch {
		case !dead && r.Failure != nil:
			t.Errorf("%s, block %d: %+v", r.Cell, r.Block, r.Failure)
		case dead && (r.Failure == nil || r.Failure.Fault != sample.FaultTarget || !strings.Contains(r.Failure.Message, "the dockerd that tare has started has ended (killed by signal 9)")):
			t.Errorf("%s, block %d: %+v; want that its engine was killed", r.Cell, r.Block, r.Failure)
		}
	}
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range trees.Dirs(path.Join(driver.Label, session)) {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// killEngine kills the daemon of a session's private engine, by the name of its
// process.
func killEngine(session, engine, daemon string) error {
	trees, err := sys.Cgroups()
	if err != nil {
		return err
	}
	pids, err := trees.PIDs(path.Join(driver.Label, session, engine, "daemon"))
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == daemon {
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("no %s among the processes %v of the session %s", daemon, pids, session)
}

// limitSession sets a limit of a session's group, before its first trial.
func limitSession(trees sys.Hierarchies, tree sys.Hierarchy, session, file, limit string) error {
	group := path.Join(driver.Label, session)
	return errors.Join(trees.Make(group), os.WriteFile(filepath.Join(tree.Dir(group), file), []byte(limit), 0))
}

// A limit of processes above all instances is told with its name and value when starts
// fail of it.
func TestLimitOfProcessesIsNamed(t *testing.T) {
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	tree, ok := trees.With("pids")
	if !ok {
		t.Skip("no cgroup tree with the controller pids that this user may write")
	}
	no := false
	st := study.Study{
		ID: "limit", Targets: []string{"runc"}, Control: "runc", Blocks: 1, AA: &no, Cold: &no,
		Copies: []int{40}, Concurrency: []int{40}, Workloads: []study.Workload{{Name: "hold", Kind: "hold"}},
	}
	limited := error(nil)
	records := measure(t, st, func(session string, e lab.Event) {
		if e.Record == nil {
			limited = limitSession(trees, tree, session, "pids.max", "20")
		}
	})
	if limited != nil {
		t.Fatal(limited)
	}
	for _, r := range records {
		if r.Failure == nil || !strings.Contains(r.Failure.Message, "pids.max, which is 20, was reached") {
			t.Errorf("%s: %+v; want the limit of processes by its name and value", r.Cell, r.Failure)
		}
	}
}

// So is a limit of memory.
func TestLimitOfMemoryIsNamed(t *testing.T) {
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	tree, ok := trees.With("memory")
	if !ok {
		t.Skip("no cgroup tree with the controller memory that this user may write")
	}
	file := map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[tree.Version]
	no := false
	st := study.Study{
		ID: "limit", Targets: []string{"native"}, Control: "native", Blocks: 1, AA: &no, Cold: &no, Copies: []int{2},
		Workloads: []study.Workload{{Name: "hold", Kind: "hold", Params: map[string]string{"load": "64MiB"}}},
	}
	limited := error(nil)
	records := measure(t, st, func(session string, e lab.Event) {
		if e.Record == nil {
			limited = limitSession(trees, tree, session, file, "33554432")
		}
	})
	if limited != nil {
		t.Fatal(limited)
	}
	for _, r := range records {
		if r.Failure == nil || !strings.Contains(r.Failure.Message, file+", which is 33554432, was reached") {
			t.Errorf("%s: %+v; want the limit of memory by its name and value", r.Cell, r.Failure)
		}
	}
}
