package trial_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/trial"
)

// noGroups stands in where no cgroups are to be made.
type noGroups struct{ made, removed atomic.Int64 }

func (g *noGroups) Make(string, driver.Limits) (string, error) { g.made.Add(1); return "", nil }
func (g *noGroups) Remove(string) error                        { g.removed.Add(1); return nil }

// records is a sink in memory.
type records []sample.Record

func (r *records) Append(more ...sample.Record) error { *r = append(*r, more...); return nil }

// run does one job on a script and checks that nothing of it is left.
func run(t *testing.T, ctx context.Context, job trial.Job, script fake.Script, probes ...trial.Probe) (sample.Record, error) {
	t.Helper()
	dir := t.TempDir()
	groups, sink := &noGroups{}, &records{}
	job.Driver = fake.New("fake", func(int, driver.Spec) fake.Script { return script })
	if job.Timeout == 0 {
		job.Timeout = 10 * time.Second
	}
	r := trial.Runner{RunID: "test", Dir: dir, Groups: groups, Probes: probes, Sink: sink}
	record, err := r.Run(ctx, job)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if made, removed := groups.made.Load(), groups.removed.Load(); made != removed {
		t.Errorf("made %d groups, removed %d", made, removed)
	}
	if (err == nil) != (len(*sink) == 1) {
		t.Errorf("error %v, but %d records kept", err, len(*sink))
	}
	return record, err
}

func TestMarksBecomeTimes(t *testing.T) {
	script := fake.Script{Ready: 20 * time.Millisecond, Run: 30 * time.Millisecond, Exit: driver.Exit{Usage: &driver.Usage{User: time.Second, MaxRSS: 4096}}}
	record, err := run(t, t.Context(), trial.Job{Seq: 7, Block: 2, Cell: "a"}, script)
	if err != nil || record.Failure != nil {
		t.Fatalf("error %v, failure %+v", err, record.Failure)
	}
	v := func(name string) float64 { return record.Values[name][0] }
	// Sleeping may take longer, never shorter.
	if v("ready") < 0.020 || v("run") < 0.029 || v("wall") < v("ready")+v("run")-1e-9 {
		t.Errorf("ready %v, run %v, wall %v", v("ready"), v("run"), v("wall"))
	}
	if v("cpu-user") != 1 || v("peak-memory") != 4096 {
		t.Errorf("usage was not recorded: %v", record.Values)
	}
	if record.Seq != 7 || record.Block != 2 || record.Cell != "a" {
		t.Errorf("the record is of another trial: %+v", record)
	}
}

// A machine that runs no payload gives the steps that it came to, and no time to ready:
// its end after them is not a failure, one before them is.
func TestBootThatEndsInItsKernel(t *testing.T) {
	script := fake.Script{NoMark: true, Run: 20 * time.Millisecond, Marks: []fake.Mark{{Phase: "kernel", After: time.Millisecond}, {Phase: "init", After: 2 * time.Millisecond}}, WaitErr: errors.New("the kernel panicked")}
	record, err := run(t, t.Context(), trial.Job{Until: "init"}, script)
	if err != nil || record.Failure != nil || len(record.Values["kernel"]) != 1 || len(record.Values["init"]) != 1 || record.Values["ready"] != nil || record.Values["wall"] != nil {
		t.Errorf("error %v, %+v", err, record)
	}
	record, err = run(t, t.Context(), trial.Job{Until: "agent"}, script)
	if err != nil || record.Failure == nil || record.Failure.Fault != sample.FaultTarget || record.Failure.Reached["init"] == 0 {
		t.Errorf("it never came so far: %v, %+v", err, record.Failure)
	}
	counted := 0
	hold := &trial.Hold{Begin: func() (func([]driver.Watch) ([]sample.Value, error), error) {
		return func(on []driver.Watch) ([]sample.Value, error) {
			counted += len(on)
			return []sample.Value{{Metric: "watched", Value: 1}}, nil
		}, nil
	}}
	record, err = run(t, t.Context(), trial.Job{Until: "init", Hold: hold}, script)
	if err != nil || record.Failure != nil || counted != 1 || record.Values["watched"] == nil || record.Values["elapsed"] != nil || record.Values["ready"] != nil {
		t.Errorf("held: error %v, counted %d, %+v", err, counted, record)
	}
}

func TestMarkIsStrippedAndOutputParsed(t *testing.T) {
	var seen []byte
	job := trial.Job{Parse: func(out []byte) ([]sample.Value, error) {
		seen = bytes.Clone(out)
		return []sample.Value{{Metric: "score", Value: 42}}, nil
	}}
	record, err := run(t, t.Context(), job, fake.Script{Stdout: []byte("\x00tare:acted\x00 again\n")})
	if err != nil || record.Failure != nil {
		t.Fatalf("error %v, failure %+v", err, record.Failure)
	}
	if string(seen) != "\x00tare:acted\x00 again\n" {
		t.Errorf("the parser saw %q: only the first mark is the laboratory's", seen)
	}
	if record.Values["score"][0] != 42 {
		t.Errorf("values: %v", record.Values)
	}
}

// Another's payload has no mark: its first byte says that it acted, or its end.
func TestOwnPayloadActsByItsFirstByte(t *testing.T) {
	for name, c := range map[string]struct {
		stdout string
		ready  float64 // at least, in seconds
		silent float64
	}{
		"prints": {"hello", 0.020, 0},
		"silent": {"", 0.050, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var args []string
			script := fake.Script{NoMark: true, Stdout: []byte(c.stdout), Ready: 20 * time.Millisecond, Run: 30 * time.Millisecond}
			job := trial.Job{Unmarked: true, Spec: driver.Spec{Args: []string{"/hello"}}, Parse: func(out []byte) ([]sample.Value, error) {
				args = append(args, string(out))
				return nil, nil
			}}
			record, err := run(t, t.Context(), job, script)
			if err != nil || record.Failure != nil {
				t.Fatalf("error %v, failure %+v", err, record.Failure)
			}
			v := func(name string) float64 { return record.Values[name][0] }
			if v("ready") < c.ready || v("silent") != c.silent || v("ready") > v("wall") {
				t.Errorf("%v", record.Values)
			}
			if !slices.Equal(args, []string{c.stdout}) {
				t.Errorf("the parser saw %q", args)
			}
		})
	}
}

// A full disk is nobody's failure and no record: the run ends, and the trial is done
// again. A target's own disk, and what has no room elsewhere, is a failure as any.
func TestFullDiskEndsTheRun(t *testing.T) {
	at := func(path string, errno syscall.Errno) error {
		return &fs.PathError{Op: "mkdir", Path: path, Err: errno}
	}
	for name, c := range map[string]struct {
		script fake.Script
		ends   bool
	}{
		"full":               {fake.Script{PrepareErr: driver.Labf("overlay: %w", at("/var/x", syscall.ENOSPC))}, true},
		"quota":              {fake.Script{StartErr: driver.Labf("bundle: %w", at("/var/x", syscall.EDQUOT))}, true},
		"full at the end":    {fake.Script{CloseErr: at("/var/x", syscall.ENOSPC)}, true},
		"the target's disk":  {fake.Script{PrepareErr: at("/var/x", syscall.ENOSPC)}, false},
		"too many groups":    {fake.Script{PrepareErr: driver.Labf("group: %w", at("/sys/fs/cgroup/x", syscall.ENOSPC))}, false},
		"another laboratory": {fake.Script{PrepareErr: driver.Labf("overlay: %w", at("/var/x", syscall.EACCES))}, false},
	} {
		record, err := run(t, t.Context(), trial.Job{Cell: "a"}, c.script)
		if (err != nil) != c.ends || record.Failure == nil {
			t.Errorf("%s: %v, record %+v", name, err, record)
		}
		if c.ends && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			t.Errorf("%s: %v does not say that the disk is full", name, err)
		}
	}
}

func TestFailuresAreRecordsWithAFault(t *testing.T) {
	broken := errors.New("the cable is out")
	for name, c := range map[string]struct {
		script fake.Script
		job    trial.Job
		fault  sample.Fault
		phase  string
		says   string
	}{
		"prepare":    {script: fake.Script{PrepareErr: broken}, fault: sample.FaultTarget, phase: "prepare", says: "cable"},
		"laboratory": {script: fake.Script{PrepareErr: driver.Labf("no disk: %w", broken)}, fault: sample.FaultLaboratory, phase: "prepare", says: "no disk"},
		"start":      {script: fake.Script{StartErr: broken}, fault: sample.FaultTarget, phase: "start", says: "cable"},
		"wait":       {script: fake.Script{WaitErr: broken}, fault: sample.FaultTarget, phase: "wait", says: "cable"},
		"close":      {script: fake.Script{CloseErr: broken}, fault: sample.FaultLaboratory, phase: "close", says: "cable"},
		"removal":    {script: fake.Script{CloseErr: &driver.RemovalError{Err: broken}}, fault: sample.FaultTarget, phase: "close", says: "cable"},
		"exit code":  {script: fake.Script{Exit: driver.Exit{Code: 3}, Stderr: []byte("no such thing\n")}, fault: sample.FaultTarget, phase: "wait", says: "exit code 3"},
		"signal":     {script: fake.Script{Exit: driver.Exit{Signal: 9}}, fault: sample.FaultTarget, phase: "wait", says: "SIGKILL"},
		"no mark":    {script: fake.Script{NoMark: true}, fault: sample.FaultTarget, phase: "wait", says: "never acted"},
		"time-out":   {script: fake.Script{Hang: true}, job: trial.Job{Timeout: 50 * time.Millisecond}, fault: sample.FaultTarget, phase: "wait", says: "50ms"},
		"parse": {job: trial.Job{Parse: func([]byte) ([]sample.Value, error) { return nil, broken }},
			fault: sample.FaultTarget, phase: "parse", says: "cable"},
		"prepare command": {job: trial.Job{Prepare: func(context.Context) error { return broken }},
			fault: sample.FaultLaboratory, phase: "prepare", says: "prepare command"},
	} {
		t.Run(name, func(t *testing.T) {
			record, err := run(t, t.Context(), c.job, c.script)
			if err != nil {
				t.Fatal(err)
			}
			f := record.Failure
			if f == nil || len(record.Values) > 0 {
				t.Fatalf("failure %+v, values %v: a failure is never a sample", f, record.Values)
			}
			if f.Fault != c.fault || f.Phase != c.phase || !strings.Contains(f.Message, c.says) {
				t.Errorf("got %+v", f)
			}
			if name == "exit code" && (f.ExitCode == nil || *f.ExitCode != 3 || f.Stderr != "no such thing") {
				t.Errorf("the exit code or the last words are missing: %+v", f)
			}
		})
	}
}

func TestCancelledTrialIsNoRecord(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := run(t, ctx, trial.Job{}, fake.Script{Hang: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestCopiesRunTogether(t *testing.T) {
	began := trial.Now()
	record, err := run(t, t.Context(), trial.Job{Copies: 8}, fake.Script{Run: 500 * time.Millisecond})
	if err != nil || record.Failure != nil {
		t.Fatalf("error %v, failure %+v", err, record.Failure)
	}
	if n := len(record.Values["wall"]); n != 8 {
		t.Errorf("%d values for 8 copies", n)
	}
	if took := trial.Now().Sub(began); took > 3*time.Second { // one after the other: 4 s
		t.Errorf("8 copies of 500 ms took %v: they did not run at once", took)
	}
}

// counter is a probe that tells when it was armed and ended.
type counter struct {
	name   string
	events *[]string
	fail   error
}

func (c counter) Begin(context.Context, []driver.Watch) (func() ([]sample.Value, error), error) {
	if c.fail != nil {
		return nil, c.fail
	}
	*c.events = append(*c.events, "begin "+c.name)
	return func() ([]sample.Value, error) {
		*c.events = append(*c.events, "end "+c.name)
		return []sample.Value{{Metric: "cpu-user", Value: 2}}, nil
	}, nil
}

func TestProbesNest(t *testing.T) {
	var events []string
	usage := fake.Script{Exit: driver.Exit{Usage: &driver.Usage{User: time.Second}}}
	record, err := run(t, t.Context(), trial.Job{}, usage, counter{name: "a", events: &events}, counter{name: "b", events: &events})
	if err != nil || record.Failure != nil {
		t.Fatalf("error %v, failure %+v", err, record.Failure)
	}
	if got := strings.Join(events, ", "); got != "begin a, begin b, end b, end a" {
		t.Error(got)
	}
	if got := record.Values["cpu-user"]; len(got) != 1 || got[0] != 4 {
		t.Errorf("cpu-user %v: probes' readings add up and take precedence over getrusage", got)
	}
}

func TestBrokenProbeEndsTheOthers(t *testing.T) {
	var events []string
	record, err := run(t, t.Context(), trial.Job{}, fake.Script{}, counter{name: "a", events: &events}, counter{fail: errors.New("no counter")})
	if err != nil || record.Failure == nil || record.Failure.Fault != sample.FaultLaboratory {
		t.Fatalf("error %v, failure %+v", err, record.Failure)
	}
	if got := strings.Join(events, ", "); got != "begin a, end a" {
		t.Error(got)
	}
}
