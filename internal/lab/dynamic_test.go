package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// Where the root has no C library that tare's dynamic programs run with, as on a
// distribution with musl, the static ones are measured: the run says so, and its study
// records what was measured.
func TestStaticTestsWhereDynamicOnesDoNotStart(t *testing.T) {
	bare := t.TempDir()
	if err := os.Mkdir(filepath.Join(bare, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), Config{StateDir: t.TempDir(), Version: "test", Drivers: all.Drivers})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	no := false
	st := study.Study{
		ID: "x", Title: "x", Question: "x?", Targets: []string{"host"}, Control: "host", Blocks: 1, AA: &no, Cold: &no,
		Params:       map[string]string{"time": "100ms"},
		Environments: []study.Environment{{Name: "a"}, {Name: "b", Params: map[string]string{workload.ParamUnixBuild: workload.UnixDynamic}}},
		Workloads:    []study.Workload{{Name: "syscall", Kind: "unix-syscall", Params: map[string]string{workload.ParamUnixBuild: workload.UnixDynamic}}},
	}
	for name, c := range map[string]struct {
		o      Options
		build  string
		noted  bool
		runner string
	}{
		"workbench": {Options{}, workload.UnixDynamic, false, "/.tare/unix-gnu"},
		"bare root": {Options{Rootfs: bare}, workload.UnixStatic, true, workload.UnixPath},
	} {
		p, err := l.Plan(t.Context(), st, c.o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := p.Manifest
		if got := m.Study.Workloads[0].Params[workload.ParamUnixBuild]; got != c.build {
			t.Errorf("%s: the study records %q", name, got)
		}
		if got := m.Study.Environments[1].Params[workload.ParamUnixBuild]; got != c.build {
			t.Errorf("%s: the environment records %q", name, got)
		}
		for key, job := range p.jobs {
			if job.Args[0] != c.runner {
				t.Errorf("%s: %v runs %q", name, key, job.Args)
			}
		}
		if noted := strings.Contains(strings.Join(p.Notes, "\n"), "measured with build=static instead"); noted != c.noted {
			t.Errorf("%s: notes %q", name, p.Notes)
		}
		if (m.CLibrary == "") != c.noted || (m.LoaderDigests["libc.so.6"] == "") != c.noted || m.CompilerFlags == "" {
			t.Errorf("%s: C library %q %v, flags %q", name, m.CLibrary, m.LoaderDigests, m.CompilerFlags)
		}
		if err := p.Run.Close(); err != nil {
			t.Error(err)
		}
	}
}
