package fleettest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/fleet/fake"
)

// options are those of a fake engine with three machines.
func options(e *fake.Engine) Options {
	return Options{
		Machines: []string{"node1", "node2", "node3"},
		Faults: []Fault{
			{Name: "a machine that does not exist", Machine: "node99", Words: "no machine is called node99"},
		},
		Requests: e.Requests,
		Left:     e.Left,
		Kill: func(machine string) (func() error, error) {
			e.Down(machine)
			return func() error { e.Up(machine); return nil }, nil
		},
		LostWithin: 10 * time.Second,
		Preempt: func(_ context.Context, name string) error {
			e.End(name, engine.Taken)
			return nil
		},
	}
}

func TestContractOfFake(t *testing.T) {
	e := fake.New(fake.Shell, "node1", "node2", "node3")
	RunContract(t, e, options(e))
}

// A queue that is full is named as one.
func TestContractOfFullFake(t *testing.T) {
	e := fake.New(fake.Shell, "node1", "node2")
	e.Full = 1
	if err := e.Submit(t.Context(), engine.Job{Name: "first", Machine: "node2", Args: []string{"-c", "exec sleep 1000"}, Time: time.Minute}); err != nil {
		t.Fatal(err)
	}
	opts := options(e)
	opts.Faults = []Fault{{Name: "a full queue", Words: "the queue is full", Full: true}}
	run := func() error { return runCheck(t.Context(), e, opts, "node1", check{"faults", checkFaults}) }
	if err := run(); err != nil {
		t.Error(err)
	}
	opts.Faults[0].Full = false
	if err := run(); err == nil {
		t.Error("a full queue that is told as a refusal for good passes")
	}
	if err := e.Remove(t.Context(), "first"); err != nil {
		t.Error(err)
	}
}

// broken is an engine that is wrong in one way.
type broken struct {
	engine.Engine
	machines func([]engine.Machine, error) ([]engine.Machine, error)
	show     func(engine.Job) (string, error)
	submit   func(context.Context, engine.Job) error
	states   func(map[string]engine.State) map[string]engine.State
	each     bool // asks for one job at a time
	follow   func(ctx context.Context, name string, from int64) (io.ReadCloser, error)
	remove   func(ctx context.Context, name string) error
}

func (b *broken) Machines(ctx context.Context, where engine.Selector) ([]engine.Machine, error) {
	if b.machines == nil {
		return b.Engine.Machines(ctx, where)
	}
	return b.machines(b.Engine.Machines(ctx, where))
}

func (b *broken) Show(ctx context.Context, j engine.Job) (string, error) {
	if b.show == nil {
		return b.Engine.Show(ctx, j)
	}
	return b.show(j)
}

func (b *broken) Submit(ctx context.Context, j engine.Job) error {
	if b.submit == nil {
		return b.Engine.Submit(ctx, j)
	}
	return b.submit(ctx, j)
}

func (b *broken) States(ctx context.Context, names []string) (map[string]engine.State, error) {
	all, err := b.Engine.States(ctx, names)
	for i := 0; b.each && i+1 < len(names); i++ {
		_, err = b.Engine.States(ctx, names[i:i+1])
	}
	if err == nil && b.states != nil {
		all = b.states(all)
	}
	return all, err
}

func (b *broken) Follow(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
	if b.follow == nil {
		return b.Engine.Follow(ctx, name, from)
	}
	return b.follow(ctx, name, from)
}

func (b *broken) Remove(ctx context.Context, name string) error {
	if b.remove == nil {
		return b.Engine.Remove(ctx, name)
	}
	return b.remove(ctx, name)
}

// withState changes each state.
func withState(change func(*engine.State)) func(map[string]engine.State) map[string]engine.State {
	return func(all map[string]engine.State) map[string]engine.State {
		for name, s := range all {
			change(&s)
			all[name] = s
		}
		return all
	}
}

// spoil is the output of a job, changed.
func spoil(e engine.Engine, change func(string) string) func(context.Context, string, int64) (io.ReadCloser, error) {
	return func(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
		out, err := e.Follow(ctx, name, from)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(out)
		return io.NopCloser(strings.NewReader(change(string(text)))), err
	}
}

// withPhase is an engine that takes one phase for another.
func withPhase(from, to engine.Phase) func(*broken, *fake.Engine) {
	return func(b *broken, _ *fake.Engine) {
		b.states = withState(func(s *engine.State) {
			if s.Phase == from {
				s.Phase = to
			}
		})
	}
}

// TestChecksCanFail breaks an engine in one way at a time. The check that guards against
// it must fail.
func TestChecksCanFail(t *testing.T) {
	guarded := map[string]bool{}
	for _, c := range []struct {
		broken string
		check  string
		how    func(b *broken, e *fake.Engine)
	}{
		{"lists no machine", "machines", func(b *broken, _ *fake.Engine) {
			b.machines = func([]engine.Machine, error) ([]engine.Machine, error) { return nil, nil }
		}},
		{"lists machines in any order", "machines", func(b *broken, _ *fake.Engine) {
			b.machines = func(all []engine.Machine, err error) ([]engine.Machine, error) {
				slices.Reverse(all)
				return all, err
			}
		}},
		{"passes over keys that it does not know", "machines", func(b *broken, e *fake.Engine) {
			b.machines = func([]engine.Machine, error) ([]engine.Machine, error) { return e.Machines(context.Background(), nil) }
		}},
		{"shows nothing", "show", func(b *broken, _ *fake.Engine) {
			b.show = func(engine.Job) (string, error) { return "", nil }
		}},
		{"submits what it shows", "show", func(b *broken, e *fake.Engine) {
			b.show = func(j engine.Job) (string, error) {
				text, _ := e.Show(context.Background(), j)
				return text, e.Submit(context.Background(), j)
			}
		}},
		{"says 0 whatever happens", "exit codes", func(b *broken, _ *fake.Engine) {
			b.states = withState(func(s *engine.State) {
				if s.Exit != nil {
					s.Exit = new(int)
				}
			})
		}},
		{"loses the machine", "exit codes", func(b *broken, _ *fake.Engine) { b.states = withState(func(s *engine.State) { s.Machine = "" }) }},
		{"takes a signal for its number", "signals", func(b *broken, _ *fake.Engine) {
			b.states = withState(func(s *engine.State) {
				if s.Exit != nil && *s.Exit > 128 {
					signal := *s.Exit - 128
					s.Exit = &signal
				}
			})
		}},
		{"splits arguments at blanks", "arguments", func(b *broken, e *fake.Engine) {
			b.submit = func(ctx context.Context, j engine.Job) error {
				j.Args = append(j.Args[:2:2], strings.Fields(strings.Join(j.Args[2:], " "))...)
				return e.Submit(ctx, j)
			}
		}},
		{"gives output when the job is over", "live output", func(b *broken, e *fake.Engine) { b.follow = spoil(e, func(s string) string { return s }) }},
		{"says ended of what runs", "live output", withPhase(engine.Running, engine.Ended)},
		{"gives output from the beginning", "output from any byte", func(b *broken, e *fake.Engine) {
			b.follow = func(ctx context.Context, name string, _ int64) (io.ReadCloser, error) { return e.Follow(ctx, name, 0) }
		}},
		{"keeps the last 10 MiB", "much output", func(b *broken, e *fake.Engine) {
			b.follow = spoil(e, func(s string) string { return s[max(0, len(s)-10<<20):] })
		}},
		{"gives no output of what waits", "output of what waits", func(b *broken, e *fake.Engine) {
			b.follow = func(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
				if all, err := e.States(ctx, []string{name}); err != nil || all[name].Phase == engine.Waiting {
					return io.NopCloser(bytes.NewReader(nil)), err
				}
				return e.Follow(ctx, name, from)
			}
		}},
		{"runs two jobs at once", "output of what waits", withPhase(engine.Waiting, engine.Running)},
		{"takes the end of the context for that of the job", "follow ends with its context", func(b *broken, e *fake.Engine) {
			b.follow = func(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
				out, err := e.Follow(ctx, name, from)
				return quiet{out}, err
			}
		}},
		{"ends what is not followed", "follow ends with its context", func(b *broken, e *fake.Engine) {
			b.follow = func(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
				context.AfterFunc(ctx, func() { e.End(name, engine.Cancelled) })
				return e.Follow(ctx, name, from)
			}
		}},
		{"runs a name again", "a name runs once", func(b *broken, e *fake.Engine) {
			b.submit = func(ctx context.Context, j engine.Job) error {
				if err := e.Remove(ctx, j.Name); err != nil {
					return err
				}
				return e.Submit(ctx, j)
			}
		}},
		{"refuses a name that it has", "a name runs once", func(b *broken, e *fake.Engine) {
			var seen sync.Map
			b.submit = func(ctx context.Context, j engine.Job) error {
				if _, twice := seen.LoadOrStore(j.Name, true); twice {
					return errors.New("it is there")
				}
				return e.Submit(ctx, j)
			}
		}},
		{"asks for each job", "fifty with one request", func(b *broken, _ *fake.Engine) { b.each = true }},
		{"forgets what waits", "fifty with one request", func(b *broken, _ *fake.Engine) {
			b.states = func(all map[string]engine.State) map[string]engine.State {
				for name, s := range all {
					if s.Phase == engine.Waiting {
						delete(all, name)
					}
				}
				return all
			}
		}},
		{"says unknown of what was never there", "not known", func(b *broken, _ *fake.Engine) {
			b.states = func(map[string]engine.State) map[string]engine.State {
				return map[string]engine.State{"x": {Phase: engine.Unknown}}
			}
		}},
		{"refuses to remove what is not there", "not known", func(b *broken, e *fake.Engine) {
			b.remove = func(ctx context.Context, name string) error {
				if all, err := e.States(ctx, []string{name}); err != nil || len(all) == 0 {
					return errors.New("no such job")
				}
				return e.Remove(ctx, name)
			}
		}},
		{"removes nothing", "remove what waits", func(b *broken, _ *fake.Engine) {
			b.remove = func(context.Context, string) error { return nil }
		}},
		{"removes without a signal", "remove what runs", func(b *broken, e *fake.Engine) {
			b.submit = func(ctx context.Context, j engine.Job) error {
				j.Args = slices.Clone(j.Args)
				j.Args[1] = strings.Replace(j.Args[1], "echo tidy; ", "", 1)
				return e.Submit(ctx, j)
			}
		}},
		{"removes nothing", "remove what runs", func(b *broken, _ *fake.Engine) {
			b.remove = func(context.Context, string) error { return nil }
		}},
		{"keeps what is over", "remove what is over", func(b *broken, e *fake.Engine) {
			b.remove = func(ctx context.Context, name string) error {
				all, err := e.States(ctx, []string{name})
				if err != nil || all[name].Phase.Over() {
					return err
				}
				return e.Remove(ctx, name)
			}
		}},
		{"calls a limit an end", "time limit", withPhase(engine.TooLong, engine.Ended)},
		{"takes a dead machine's job for running", "dead machine", withPhase(engine.Lost, engine.Running)},
		{"calls a dead machine's job ended", "dead machine", withPhase(engine.Lost, engine.Ended)},
		{"takes a preempted job for cancelled", "taken", withPhase(engine.Taken, engine.Cancelled)},
		{"takes any machine", "faults", func(b *broken, e *fake.Engine) {
			b.submit = func(ctx context.Context, j engine.Job) error {
				j.Machine = "node1"
				return e.Submit(ctx, j)
			}
		}},
		{"has words of its own", "faults", func(b *broken, e *fake.Engine) {
			b.submit = func(ctx context.Context, j engine.Job) error {
				if err := e.Submit(ctx, j); err != nil {
					return &engine.RefusedError{Job: j.Name, Words: "bad job"}
				}
				return nil
			}
		}},
	} {
		guarded[c.check] = true
		t.Run(c.check+"/"+c.broken, func(t *testing.T) {
			t.Parallel()
			e := fake.New(fake.Shell, "node1", "node2", "node3")
			b := &broken{Engine: e}
			c.how(b, e)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			opts := options(e)
			opts.LostWithin = time.Second
			all := checks()
			i := slices.IndexFunc(all, func(known check) bool { return known.name == c.check })
			if err := runCheck(ctx, b, opts, "node1", all[i]); err == nil {
				t.Error("the check passes")
			}
			left, _ := e.Left(t.Context()) // never fails
			for _, name := range left {
				_ = e.Remove(t.Context(), name) // never fails
			}
		})
	}
	for _, c := range checks() {
		if !guarded[c.name] {
			t.Errorf("no broken engine proves that the check %q can fail", c.name)
		}
	}
}

// quiet is a reader that hides why it ended.
type quiet struct{ io.ReadCloser }

func (q quiet) Read(p []byte) (int, error) {
	n, err := q.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}
