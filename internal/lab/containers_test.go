package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver/all"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// measure carries a study out on the real targets of this machine. watch is told
// the session, in whose cgroups all that it starts runs.
func measure(t *testing.T, st study.Study, watch func(session string, e lab.Event)) []sample.Record {
	t.Helper()
	return measureWith(t, lab.Config{StateDir: t.TempDir(), Version: "test", Drivers: all.Drivers}, st, watch)
}

func measureWith(t *testing.T, config lab.Config, st study.Study, watch func(session string, e lab.Event)) []sample.Record {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("containers are started: run this as root")
	}
	l, err := lab.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	plan, err := l.Plan(t.Context(), st, lab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	session := filepath.Base(filepath.Dir(l.Place().RunDir))
	if err := l.Measure(t.Context(), plan, func(e lab.Event) { watch(session, e) }); err != nil {
		t.Fatal(err)
	}
	// Neither instances nor the pages they shared outlive their trials.
	left, err := os.ReadDir(filepath.Join(l.Place().RunDir, "..", "instances"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	var records []sample.Record
	for r, err := range plan.Run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// containers is a study of three instances with two copies inside each.
func containers(targets []string, time string) study.Study {
	no := false
	return study.Study{
		ID: "containers", Targets: targets, Control: targets[0], Blocks: 1, AA: &no, Cold: &no, Copies: []int{3},
		Params:       map[string]string{"time": time, "barrier": "shared"},
		Environments: []study.Environment{{Name: "1cpu-2copies", CPUSet: "first", Params: map[string]string{"copies": "2"}}},
		Workloads:    []study.Workload{{Name: "syscall", Kind: "unix-syscall"}},
	}
}

func TestContainersBeginTogether(t *testing.T) {
	for _, r := range measure(t, containers([]string{"native", "runc", "host"}, "600ms"), func(string, lab.Event) {}) {
		if r.Failure != nil {
			t.Errorf("%s: %+v", r.Cell, r.Failure)
			continue
		}
		if len(r.Values[sample.UnixScore]) != 3 || len(r.Values[sample.UnixContainersOverlap]) != 1 {
			t.Errorf("%s: %v", r.Cell, r.Values)
			continue
		}
		// All six copies came to the same page, or they would have waited for
		// the others until the time-out. Six copies that wait for their turn on
		// one CPU, on a machine that may be busy, overlap less than they should.
		overlap := r.Values[sample.UnixContainersOverlap][0]
		if overlap < 0.5 || overlap > 1 {
			t.Errorf("%s: overlap %v", r.Cell, overlap)
		}
		warned := slices.ContainsFunc(r.Warnings, func(w sample.Warning) bool { return w.Kind == sample.Overlapped })
		if warned != (overlap < 0.98) {
			t.Errorf("%s: overlap %v, warnings %q", r.Cell, overlap, r.Warnings)
		}
		if !strings.HasSuffix(r.Cell, "/syscall+1cpu-2copies+x3") {
			t.Errorf("cell %s", r.Cell)
		}
	}
}

// One container of three is killed in the middle: its own end is a failure, and
// the others' values stay.
func TestContainerThatDiesInTheMiddle(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	killed := make(chan error, 1)
	records := measure(t, containers([]string{"runc"}, "3s"), func(session string, e lab.Event) {
		if e.Record == nil {
			go func() { killed <- killOne(ctx, session, fmt.Sprintf("-%d-1/", e.Trial.Seq), 6) }()
		}
	})
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	f := records[0].Failure
	if f == nil || f.Fault != sample.FaultTarget || !slices.Equal(f.Copies, []int{1}) || !strings.Contains(f.Message, "copy 2 of 3 failed") {
		t.Fatalf("failure %+v", f)
	}
	if s := records[0].Survivors; records[0].Values != nil || len(s[sample.UnixScore]) != 2 || s[sample.UnixScore][0] <= 0 {
		t.Errorf("values %v, survivors %v", records[0].Values, s)
	}
}

// killOne kills all processes of the session's instance whose cgroup's name
// holds part, once all copies of all instances are at work.
func killOne(ctx context.Context, session, part string, copies int) error {
	for ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		working := atWork(session)
		var victims []int
		for pid, group := range working {
			if strings.Contains(group, part) {
				victims = append(victims, pid)
			}
		}
		if len(working) < copies+3 || len(victims) == 0 { // each instance's crew has a parent
			continue
		}
		time.Sleep(500 * time.Millisecond)
		for _, pid := range victims {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill %d: %w", pid, err)
			}
		}
		return nil
	}
	return ctx.Err()
}

// atWork are the processes in a session's cgroups that run the Unix tests, with
// their cgroups.
func atWork(session string) map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is right
	for _, file := range files {
		dir := filepath.Dir(file)
		cmdline, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(cmdline), workload.UnixPath) {
			continue // ended in between, or something else
		}
		group, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !strings.Contains(string(group), "/tare/"+session+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			found[pid] = string(group)
		}
	}
	return found
}
