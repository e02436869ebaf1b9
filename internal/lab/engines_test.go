package lab_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/target/all"
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
				killed <- killEngine(session, "docker", "dockerd")
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
	for _, dir := range trees.Dirs(path.Join(target.Label, session)) {
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
	pids, err := trees.PIDs(path.Join(target.Label, session, engine, "daemon"))
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
