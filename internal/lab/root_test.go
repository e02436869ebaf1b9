package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// A run names its commands as from everywhere, but for those that are looked up, or
// that are a root's own.
func TestCommandsAreNamedFromEverywhere(t *testing.T) {
	for _, c := range []struct {
		kind, typed string
		o           Options
		want        string
	}{
		{workload.KindCommand, "./a.out", Options{}, "/work/here/a.out"},
		{workload.KindCommand, "../b/a.out", Options{}, "/work/b/a.out"},
		{workload.KindCommand, "/bin/true", Options{}, "/bin/true"},
		{workload.KindCommand, "true", Options{}, "true"},
		{workload.KindCommand, "./a.out", Options{Rootfs: "r"}, "./a.out"},
		{workload.KindCommand, "./a.out", Options{Image: "x.tar"}, "./a.out"},
	} {
		typed := []study.Workload{{Kind: c.kind, Args: []string{c.typed, "./x"}}, {Kind: workload.KindStart}}
		p := &Plan{Manifest: store.Manifest{Dir: "/work/here", Study: study.Study{Workloads: typed}}}
		p.settlePaths(c.o)
		if got := p.Manifest.Study.Workloads[0].Args; !slices.Equal(got, []string{c.want, "./x"}) || typed[0].Args[0] != c.typed {
			t.Errorf("%s (%+v) became %q, want %s", c.typed, c.o, got, c.want)
		}
	}
	for path, want := range map[string]string{"": "", "r": "/work/here/r", "/r": "/r", "x.tar:tag": "/work/here/x.tar:tag"} {
		if got := within("/work/here", path); got != want {
			t.Errorf("%q became %q, want %q", path, got, want)
		}
	}
}

// A prepare command runs where tare was called; where that is gone the run does not go
// on.
func TestPrepareRunsWhereTareWasCalled(t *testing.T) {
	dir := t.TempDir()
	if err := hostCommand([]string{"touch", "here"}, dir, "", time.Minute)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "here")); err != nil {
		t.Error(err)
	}
	prepares := study.Study{Workloads: []study.Workload{{Prepare: []string{"touch", "here"}}}}
	for name, c := range map[string]struct {
		m    store.Manifest
		well bool
	}{
		"there":       {store.Manifest{Dir: dir, Study: prepares}, true},
		"gone":        {store.Manifest{Dir: filepath.Join(dir, "gone"), Study: prepares}, false},
		"not needed":  {store.Manifest{Dir: filepath.Join(dir, "gone")}, true},
		"older a run": {store.Manifest{Study: prepares}, true},
	} {
		if err := canPrepare(c.m); (err == nil) != c.well {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A disk that is too small for an image is no bad input.
func TestRootWithoutRoom(t *testing.T) {
	for err, input := range map[error]bool{
		fmt.Errorf("layer 1 of 2: %w", syscall.ENOSPC): false, fmt.Errorf("copy: %w", syscall.EDQUOT): false, errors.New("no such image"): true,
	} {
		got := rootError(err)
		if bad := errors.As(got, new(*InputError)); bad != input || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// A tool that comes only where it is asked for comes with a command that names it, also in
// a script, but not with a path or a word that holds its name.
func TestCommandsNameTheirTools(t *testing.T) {
	bench := image.Root{Tools: []image.Tool{{Name: "fio", Path: "/usr/bin/fio", Apart: true}, {Name: "sysbench", Apart: true}}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sh", "-c", "cd /tmp;fio --version|grep -q fio && sysbench"}, "fio sh"},
		{[]string{"timeout", "5", "fio", "job"}, "fio timeout"},
		{[]string{"ls", "/usr/share/fio", "fio-3.33"}, "ls"},
	} {
		job := workload.Job{Kind: workload.KindCommand}
		job.Args = c.args
		p := &Plan{jobs: map[jobKey]workload.Job{{}: job}}
		if got := strings.Join(p.commands(bench), " "); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
}
