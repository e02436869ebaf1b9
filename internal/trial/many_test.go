package trial_test

import (
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

// Forty copies, four at a time: never more, and four as long as there are any.
func TestConcurrencyBoundsWhatIsUnderWay(t *testing.T) {
	var now, most atomic.Int64
	payload := func(_ context.Context, spec driver.Spec) (driver.Exit, error) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		_, err := spec.Stdio.Stdout.WriteString(driver.Acted)
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		return driver.Exit{Usage: &driver.Usage{}}, err
	}
	r := several(t, trial.Job{Copies: 40, Concurrency: 4}, func(int, driver.Spec) fake.Script {
		return fake.Script{Payload: payload}
	}, nil)
	if r.Failure != nil {
		t.Fatalf("%+v", r.Failure)
	}
	if most.Load() != 4 {
		t.Errorf("%d at once", most.Load())
	}
	v := r.Values
	if len(v["ready"]) != 40 || len(v["wall"]) != 40 || len(v["elapsed"]) != 1 || len(v["removal"]) != 1 || v["cpu-user"] != nil {
		t.Errorf("values %v", v)
	}
	// Ten rounds of 5 ms, and no copy takes longer than all of them.
	if v["elapsed"][0] < 0.050 || v["elapsed"][0] < slices.Max(v["wall"]) || v["removal"][0] <= 0 {
		t.Errorf("elapsed %v, removal %v", v["elapsed"], v["removal"])
	}
}

func TestHoldKeepsAllAlive(t *testing.T) {
	var alive, counted atomic.Int64
	hold := &trial.Hold{Begin: func() (func([]driver.Watch) ([]sample.Value, error), error) {
		return func(on []driver.Watch) ([]sample.Value, error) {
			counted.Store(alive.Load())
			return []sample.Value{{Metric: "watched", Value: float64(len(on))}}, nil
		}, nil
	}}
	payload := func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
		if !slices.Equal(spec.Args, []string{driver.Mark, "-hold"}) {
			t.Errorf("payload %q", spec.Args)
		}
		alive.Add(1)
		defer alive.Add(-1)
		_, err := spec.Stdio.Stdout.WriteString(driver.Acted)
		<-ctx.Done()
		return driver.Exit{}, errors.Join(err, ctx.Err())
	}
	r := several(t, trial.Job{Copies: 25, Concurrency: 3, Hold: hold}, func(int, driver.Spec) fake.Script {
		return fake.Script{Payload: payload}
	}, nil)
	if r.Failure != nil {
		t.Fatalf("%+v", r.Failure)
	}
	if counted.Load() != 25 || alive.Load() != 0 || r.Values["watched"][0] != 25 || len(r.Values["ready"]) != 25 || r.Values["wall"] != nil {
		t.Errorf("counted %d, alive %d, values %v", counted.Load(), alive.Load(), r.Values)
	}
}

// What is held has done its work and come to rest before it is counted; one that ends
// meanwhile is a failure, and so is a trial whose time ends.
func TestHoldRestsBeforeTheCount(t *testing.T) {
	for name, c := range map[string]struct {
		hang bool
		rest func(ctx context.Context) error
		want string // of the failure
	}{
		"rests":      {true, func(context.Context) error { return nil }, ""},
		"too long":   {true, func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("no rest: %w", ctx.Err()) }, "no rest: context deadline exceeded"},
		"ends early": {false, func(context.Context) error { time.Sleep(300 * time.Millisecond); return nil }, "it ended while it was to be held"},
	} {
		t.Run(name, func(t *testing.T) {
			var order []string
			hold := &trial.Hold{
				Begin: func() (func([]driver.Watch) ([]sample.Value, error), error) {
					return func([]driver.Watch) ([]sample.Value, error) { order = append(order, "count"); return nil, nil }, nil
				},
				Settle: func(ctx context.Context) error { order = append(order, "rest"); return c.rest(ctx) },
			}
			job := trial.Job{Copies: 2, Concurrency: 1, Hold: hold, Timeout: time.Second}
			job.Spec.Args = []string{"/bin/work", "64"}
			r := several(t, job, func(_ int, spec driver.Spec) fake.Script {
				return fake.Script{Payload: func(ctx context.Context, spec driver.Spec) (driver.Exit, error) {
					if !slices.Equal(spec.Args, []string{"/bin/work", "64", driver.Mark, "-hold"}) {
						t.Errorf("payload %q", spec.Args)
					}
					_, err := spec.Stdio.Stdout.WriteString(driver.Acted)
					if !c.hang {
						time.Sleep(100 * time.Millisecond)
						return driver.Exit{}, err
					}
					<-ctx.Done()
					return driver.Exit{}, errors.Join(err, ctx.Err())
				}}
			}, nil)
			switch {
			case c.want == "" && (r.Failure != nil || !slices.Equal(order, []string{"rest", "count"})):
				t.Errorf("failure %+v, order %q", r.Failure, order)
			case c.want != "" && (r.Failure == nil || !strings.Contains(r.Failure.Message, c.want) || slices.Contains(order, "count")):
				t.Errorf("failure %+v, order %q; want %q", r.Failure, order, c.want)
			}
		})
	}
}

func TestHoldFailures(t *testing.T) {
	tests := map[string]struct {
		second fake.Script
		want   string
	}{
		"ends early":   {fake.Script{Exit: driver.Exit{Code: 3}}, "copy 2 of 3 failed: it ended while it was to be held: the payload ended with exit code 3"},
		"never acts":   {fake.Script{NoMark: true, Hang: true, Stdout: []byte("hello, no mark here")}, "the payload never acted inside the target"},
		"cannot":       {fake.Script{StartErr: errors.New("no room")}, "copy 2 of 3 failed: no room"},
		"dies unsaid":  {fake.Script{NoMark: true, WaitErr: errors.New("it broke")}, "copy 2 of 3 failed: it broke"},
		"says nothing": {fake.Script{NoMark: true, Hang: true}, "the payload had not ended after"},
		"hangs":        {fake.Script{Stuck: true}, "the payload had not ended after"},
	}
	// A census that takes its time sees who ends meanwhile.
	hold := &trial.Hold{Begin: func() (func([]driver.Watch) ([]sample.Value, error), error) {
		return func([]driver.Watch) ([]sample.Value, error) { time.Sleep(50 * time.Millisecond); return nil, nil }, nil
	}}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := several(t, trial.Job{Copies: 3, Concurrency: 3, Hold: hold, Timeout: 2 * time.Second}, func(n int, _ driver.Spec) fake.Script {
				if n == 1 {
					return test.second
				}
				return fake.Script{Hang: true}
			}, nil)
			if r.Failure == nil || !strings.Contains(r.Failure.Message, test.want) || !slices.Equal(r.Failure.Copies, []int{1}) {
				t.Fatalf("failure %+v", r.Failure)
			}
			if len(r.Survivors["ready"]) != 2 {
				t.Errorf("survivors %v", r.Survivors)
			}
		})
	}
}

// Each copy's failure is told, with whose fault it is; those that fail alike
// together.
func TestEachFailureIsTold(t *testing.T) {
	r := several(t, trial.Job{Copies: 6, Concurrency: 1}, func(n int, spec driver.Spec) fake.Script {
		switch {
		case n == 5:
			return fake.Script{StartErr: driver.Labf("no pipe")}
		case n%2 == 1:
			return fake.Script{StartErr: errors.New(spec.ID + ": no room")}
		}
		return fake.Script{}
	}, nil)
	if r.Failure == nil || len(r.Failure.Each) != 2 {
		t.Fatalf("%+v", r.Failure)
	}
	a, b := r.Failure.Each[0], r.Failure.Each[1]
	if a.Fault == sample.FaultLaboratory {
		a, b = b, a
	}
	if a.Message != "ID: no room" || a.Fault != sample.FaultTarget || a.Phase != "start" || len(a.Copies) != 2 ||
		b.Fault != sample.FaultLaboratory || !slices.Equal(b.Copies, []int{5}) {
		t.Errorf("%+v", r.Failure.Each)
	}
	if len(r.Survivors["ready"]) != 3 {
		t.Errorf("survivors %v", r.Survivors)
	}
}

// A failure is told with the limit that was reached while all was still there.
func TestFailureNamesTheLimit(t *testing.T) {
	sink := &records{}
	refused := 0
	r := trial.Runner{RunID: "test", Dir: t.TempDir(), Groups: &noGroups{}, Sink: sink, Limits: func() func() string {
		before := refused
		return func() string {
			if refused > before {
				return "the limit pids.max, which is 7, was reached"
			}
			return ""
		}
	}}
	for _, fails := range []bool{true, false} {
		job := trial.Job{Timeout: time.Second, Driver: fake.New("fake", func(int, driver.Spec) fake.Script {
			if !fails {
				return fake.Script{StartErr: errors.New("another reason")}
			}
			refused++
			return fake.Script{StartErr: errors.New("fork: no")}
		})}
		record, err := r.Run(t.Context(), job)
		if err != nil || record.Failure == nil || strings.Contains(record.Failure.Message, "pids.max, which is 7") != fails {
			t.Errorf("%v %+v", err, record.Failure)
		}
	}
}
