package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// The three containers of the published load, in a Docker of tare's own.
func TestLoadOfThreeContainers(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "tare")
	build := exec.Command("go", "build", "-o", tool, "../../cmd/tare")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tare, which watches: %v\n%s", err, out)
	}
	dir, err := os.MkdirTemp("", "tare-load-") // shorter than a test's own: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	no := false
	st := study.Study{
		ID: "load", Targets: []string{"host"}, Control: "host", Blocks: 1, AA: &no, Cold: &no,
		Workloads: []study.Workload{{Name: "load", Kind: workload.KindLoad, Params: map[string]string{"time": "30s"}}},
	}
	config := lab.Config{StateDir: dir, Version: "test", Tool: tool, Drivers: all.Drivers, PrivateEngines: true}
	for _, r := range measureWith(t, config, st, func(string, lab.Event) {}) {
		if r.Failure != nil {
			t.Errorf("%s: %+v", r.Cell, r.Failure)
			continue
		}
		for _, metric := range []string{sample.LoadTask, "package-cpu", "disk-written", "net-received"} {
			if v := r.Values[metric]; len(v) != 1 || v[0] <= 0 {
				t.Errorf("%s: %s %v", r.Cell, metric, v)
			}
		}
	}
}
