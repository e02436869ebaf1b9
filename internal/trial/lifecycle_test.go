package trial_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/trial"
)

// verbed is a fake whose instances verbs can be done to.
type verbed struct {
	*fake.Driver
	done     []driver.Verb
	pausing  bool // pause has its effect
	execs    bool // exec has its effect
	stopping bool // stop has its effect
	exit     int  // code after stop
	fails    driver.Verb

	paused atomic.Bool
	woken  chan struct{}
	acted  atomic.Int64
	stop   chan struct{}
}

func newVerbed() *verbed {
	v := &verbed{pausing: true, execs: true, stopping: true, woken: make(chan struct{}, 1), stop: make(chan struct{})}
	v.Driver = fake.New("verbed", nil)
	return v
}

// payload answers turns, as the workload's script does.
func (v *verbed) payload(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
	if _, err := spec.Stdio.Stdout.WriteString(driver.Acted); err != nil {
		return driver.Exit{}, err
	}
	go func() {
		for turns := bufio.NewScanner(spec.Stdio.Stdin); turns.Scan(); {
			for v.paused.Load() {
				<-v.woken
			}
			count := int64(1)
			if strings.HasPrefix(turns.Text(), "acted-") {
				count = v.acted.Swap(0)
			}
			fmt.Fprintln(spec.Stdio.Stdout, count)
		}
	}()
	select {
	case <-v.stop:
		return driver.Exit{Code: v.exit}, nil
	case <-ctx.Done():
		return driver.Exit{}, ctx.Err()
	}
}

func (v *verbed) Verbs() []driver.Verb { return driver.Verbs() }

func (v *verbed) Control(_ context.Context, _ driver.Instance, verb driver.Verb, exec driver.Exec) (driver.Act, error) {
	return fakeAct(func() error {
		v.done = append(v.done, verb)
		if verb == v.fails {
			return errors.New("the runtime is out of order")
		}
		switch verb {
		case driver.VerbExec:
			if v.execs {
				v.acted.Store(1)
			}
			_, err := exec.Stdio.Stdout.WriteString(driver.Acted)
			return err
		case driver.VerbPause:
			v.paused.Store(v.pausing)
		case driver.VerbUnpause:
			if v.paused.Swap(false) {
				v.woken <- struct{}{}
			}
		case driver.VerbStop:
			if v.stopping {
				close(v.stop)
			}
		}
		return nil
	}), nil
}

type fakeAct func() error

func (a fakeAct) Do(context.Context) error { return a() }
func (fakeAct) Close() error               { return nil }

func lifecycleOf(v *verbed) trial.Job {
	return trial.Job{Lifecycle: &trial.Lifecycle{
		Control: v, Verbs: driver.Verbs(), Repeat: 2, Quiet: 20 * time.Millisecond, Alive: "alive",
		Exec:  func(int) []string { return []string{"/bin/true"} },
		Acted: func(n int) string { return fmt.Sprint("acted-", n) },
	}}
}

func live(t *testing.T, v *verbed, job trial.Job) sample.Record {
	t.Helper()
	r, err := run(t, t.Context(), job, fake.Script{Payload: v.payload})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLifecycleTimesEachVerb(t *testing.T) {
	v := newVerbed()
	r := live(t, v, lifecycleOf(v))
	if r.Failure != nil {
		t.Fatalf("%+v", r.Failure)
	}
	for _, metric := range []string{sample.VerbExec, sample.VerbExecEnd, sample.VerbPause, sample.VerbUnpause, sample.VerbStop, sample.Ready, sample.Wall} {
		if got := r.Values[metric]; len(got) != 1 || got[0] < 0 {
			t.Errorf("%s is %v", metric, got)
		}
	}
	want := []driver.Verb{driver.VerbExec, driver.VerbPause, driver.VerbUnpause, driver.VerbExec, driver.VerbPause, driver.VerbUnpause, driver.VerbStop}
	if !slices.Equal(v.done, want) {
		t.Errorf("verbs %v, want %v", v.done, want)
	}
}

// A verb without its effect is a failure, however well its command ended.
func TestLifecycleProvesEffects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*verbed)
		says   string
	}{
		"exec elsewhere":     {func(v *verbed) { v.execs = false }, "it acted elsewhere"},
		"pause in name":      {func(v *verbed) { v.pausing = false }, "after it was paused"},
		"ended by force":     {func(v *verbed) { v.exit = 137 }, "did not end by itself"},
		"exec that fails":    {func(v *verbed) { v.fails = driver.VerbExec }, "exec: the runtime is out of order"},
		"unpause that fails": {func(v *verbed) { v.fails = driver.VerbUnpause }, "unpause: the runtime is out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerbed()
			c.change(v)
			r := live(t, v, lifecycleOf(v))
			if r.Failure == nil || r.Failure.Fault != sample.FaultTarget || !strings.Contains(r.Failure.Message, c.says) {
				t.Errorf("%+v, want one with %q", r.Failure, c.says)
			}
		})
	}
}

func TestLifecycleThatDoesNotEnd(t *testing.T) {
	v := newVerbed()
	v.stopping = false
	job := lifecycleOf(v)
	job.Timeout = time.Second
	r := live(t, v, job)
	if r.Failure == nil || !strings.Contains(r.Failure.Message, "in the verb stop") || !strings.HasPrefix(r.Failure.Message, "the payload had not ended after 1s") {
		t.Errorf("%+v", r.Failure)
	}
}
