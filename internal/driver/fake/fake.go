// Package fake is a scripted target: it starts, acts, prints, ends, fails and
// hangs as a test tells it to. It serves the tests of the loop and of the command
// line; it never ships in a list of targets.
package fake

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// Script says how one instance goes. The zero value acts at once and ends well.
type Script struct {
	PrepareErr, StartErr, WaitErr, CloseErr error // what the phase returns, when not nil

	Ready  time.Duration // from the request to the mark
	Run    time.Duration // from the mark to the exit
	NoMark bool          // the payload never acts
	Hang   bool          // Wait returns only when cancelled or closed
	Stuck  bool          // Start returns only when cancelled, with the context's error
	Deaf   bool          // with Hang: not even then, for Stubborn
	Marks  []Mark        // phases that the driver itself reports

	Stdout, Stderr []byte // printed between the mark and the exit
	Exit           driver.Exit

	// Payload, when set, runs in place of all between Prepare and the exit: it
	// does what it likes with the spec's streams.
	Payload func(ctx context.Context, spec driver.Spec) (driver.Exit, error)
}

// Stubborn is how long a deaf instance holds Wait and Close up.
const Stubborn = 5 * time.Second

// Mark is a phase that the driver reports some time after the request.
type Mark struct {
	Phase driver.Phase
	After time.Duration
}

// Driver is a scripted driver. Its fields may be changed before it is used.
type Driver struct {
	Props driver.Properties
	Found driver.Facts // what Check returns
	Err   error        // what Check fails with, when not nil

	name   string
	script func(n int, spec driver.Spec) Script
	count  atomic.Int64
}

// New gives a driver whose nth instance (from 0, counted by Prepare) goes as
// script says. script must be safe for concurrent use; nil is the zero Script.
func New(name string, script func(n int, spec driver.Spec) Script) *Driver {
	if script == nil {
		script = func(int, driver.Spec) Script { return Script{} }
	}
	return &Driver{
		name: name, script: script,
		Props: driver.Properties{Family: "fake", Boundary: driver.NoBoundary, MaxParallel: 50, StreamBytes: 64 << 20, ExactSignal: true, StartTime: time.Millisecond},
		Found: driver.Facts{Version: "1"},
	}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.name }

// Properties implements driver.Driver.
func (d *Driver) Properties() driver.Properties { return d.Props }

// Check gives what the test has set.
func (d *Driver) Check(ctx context.Context) (driver.Facts, error) {
	if err := errors.Join(d.Err, ctx.Err()); err != nil {
		return driver.Facts{}, err
	}
	return d.Found, nil
}

// Prepare implements driver.Driver.
func (d *Driver) Prepare(ctx context.Context, spec driver.Spec, _ string) (driver.Instance, error) {
	script := d.script(int(d.count.Add(1)-1), spec)
	if err := errors.Join(script.PrepareErr, ctx.Err()); err != nil {
		return nil, err
	}
	return &instance{script: script, spec: spec, done: make(chan struct{}), stop: func() {}}, nil
}

// instance is one scripted run.
type instance struct {
	script Script
	spec   driver.Spec
	done   chan struct{} // closed when the payload has ended
	exit   driver.Exit   // valid once done is closed
	err    error         // likewise

	mu      sync.Mutex // guards what follows
	started bool
	stop    context.CancelFunc
}

// Watch names the payload by a cgroup when the caller has given one.
func (i *instance) Watch() []driver.Watch {
	w := driver.Watch{Role: driver.RolePayload}
	if i.spec.Cgroup != "" {
		w.Cgroup = i.spec.Cgroup
	}
	return []driver.Watch{w}
}

// Start implements driver.Instance.
func (i *instance) Start(ctx context.Context, mark func(driver.Phase)) error {
	if err := errors.Join(i.script.StartErr, ctx.Err()); err != nil {
		return err
	}
	if i.script.Stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, stop := context.WithCancel(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.started, i.stop = true, stop
	go func() {
		defer close(i.done)
		defer stop()
		i.exit, i.err = i.play(ctx, mark)
	}()
	return nil
}

// play carries the script out, and is cut short when ctx ends.
func (i *instance) play(ctx context.Context, report func(driver.Phase)) (driver.Exit, error) {
	s := i.script
	if s.Payload != nil {
		return s.Payload(ctx, i.spec)
	}
	var passed time.Duration
	for _, m := range s.Marks {
		if !pause(ctx, m.After-passed) {
			return driver.Exit{}, ctx.Err()
		}
		passed = m.After
		report(m.Phase)
	}
	if !pause(ctx, s.Ready-passed) {
		return driver.Exit{}, ctx.Err()
	}
	if err := i.print(); err != nil {
		return driver.Exit{}, driver.Labf("write the payload's output: %w", err)
	}
	if s.Hang {
		<-ctx.Done()
		if s.Deaf {
			time.Sleep(Stubborn)
		}
		return driver.Exit{}, ctx.Err()
	}
	if !pause(ctx, s.Run) {
		return driver.Exit{}, ctx.Err()
	}
	return s.Exit, nil
}

func (i *instance) print() error {
	var errs []error
	if out := i.spec.Stdio.Stdout; out != nil {
		if !i.script.NoMark {
			_, err := out.WriteString(driver.Acted)
			errs = append(errs, err)
		}
		_, err := out.Write(i.script.Stdout)
		errs = append(errs, err)
	}
	if out := i.spec.Stdio.Stderr; out != nil {
		_, err := out.Write(i.script.Stderr)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Wait implements driver.Instance.
func (i *instance) Wait(ctx context.Context) (driver.Exit, error) {
	i.mu.Lock()
	started, stop := i.started, i.stop
	i.mu.Unlock()
	if !started {
		return driver.Exit{}, errors.New("fake: Wait without Start")
	}
	cancel := context.AfterFunc(ctx, stop)
	<-i.done
	cancel()
	if err := errors.Join(ctx.Err(), i.script.WaitErr, i.err); err != nil {
		return driver.Exit{}, err
	}
	return i.exit, nil
}

// Close implements driver.Instance.
func (i *instance) Close() error {
	i.mu.Lock()
	started, stop := i.started, i.stop
	i.mu.Unlock()
	stop()
	if started {
		<-i.done
	}
	return i.script.CloseErr
}
