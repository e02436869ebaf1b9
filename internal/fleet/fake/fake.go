// Package fake is an engine for tests. Its machines and jobs live in this process, and
// it fails on demand in ways that real engines do not.
package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// Program is what jobs run. It writes to out, ends soon after ctx ends, and returns an
// exit code.
type Program func(ctx context.Context, job engine.Job, out io.Writer) int

// Shell runs a job's arguments as those of sh.
func Shell(ctx context.Context, job engine.Job, out io.Writer) int {
	cmd := exec.CommandContext(ctx, "/bin/sh", job.Args...)
	cmd.Stdout, cmd.WaitDelay = out, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	if cmd.ProcessState == nil {
		_, _ = fmt.Fprintln(out, err)
		return 127
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// Engine is a fake of one.
type Engine struct {
	// Program is what jobs run.
	Program Program
	// Edit changes what States reports, and Fail is the error of a call, named as the
	// method; nil for neither.
	Edit func(name string, s engine.State) engine.State
	Fail func(method string) error
	// Full is how many jobs it takes at a time, 0 for any number.
	Full int

	requests atomic.Int64
	mu       sync.Mutex
	changed  *sync.Cond
	machines []engine.Machine
	jobs     map[string]*job
	order    []string // of submission
}

// job is guarded by the engine's lock.
type job struct {
	engine.Job
	state engine.State
	out   []byte
	end   context.CancelFunc // nil while it waits
	why   engine.Phase       // of an end that the engine brought
	alive bool               // the program has not returned
}

// New makes an engine with machines of these names.
func New(program Program, machines ...string) *Engine {
	e := &Engine{Program: program, jobs: map[string]*job{}}
	e.changed = sync.NewCond(&e.mu)
	for _, name := range machines {
		e.machines = append(e.machines, engine.Machine{Name: name, Arch: "amd64", CPUs: 2, State: "idle", Up: true, Idle: true})
	}
	return e
}

// Requests is how many calls there were.
func (e *Engine) Requests() int64 { return e.requests.Load() }

// call counts a call, and is the error that it is to have.
func (e *Engine) call(ctx context.Context, method string) error {
	e.requests.Add(1)
	if e.Fail != nil {
		if err := e.Fail(method); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Machines implements engine.Engine.
func (e *Engine) Machines(ctx context.Context, where engine.Selector) ([]engine.Machine, error) {
	if err := e.call(ctx, "Machines"); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all := slices.Clone(e.machines)
	for key, value := range where {
		if key != "name" {
			return nil, &engine.SelectorError{Why: fmt.Sprintf("machines have no %q: select by name", key)}
		}
		all = slices.DeleteFunc(all, func(m engine.Machine) bool { return m.Name != value })
	}
	return all, nil
}

// Show implements engine.Engine.
func (e *Engine) Show(ctx context.Context, job engine.Job) (string, error) {
	return fmt.Sprintf("%s on %s: %q\n", job.Name, job.Machine, job.Args), e.call(ctx, "Show")
}

// Submit implements engine.Engine.
func (e *Engine) Submit(ctx context.Context, j engine.Job) error {
	if err := e.call(ctx, "Submit"); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.jobs[j.Name] != nil {
		return nil
	}
	if e.machine(j.Machine) == nil {
		return &engine.RefusedError{Job: j.Name, Words: "no machine is called " + j.Machine}
	}
	if e.Full > 0 && e.pending() >= e.Full {
		return &engine.RefusedError{Job: j.Name, Words: "the queue is full", Full: true}
	}
	e.jobs[j.Name] = &job{Job: j, state: engine.State{Phase: engine.Waiting, Reason: "Resources", ID: fmt.Sprint(len(e.order) + 1)}}
	e.order = append(e.order, j.Name)
	e.schedule()
	return nil
}

func (e *Engine) pending() (n int) {
	for _, j := range e.jobs {
		if !j.state.Phase.Over() {
			n++
		}
	}
	return n
}

func (e *Engine) machine(name string) *engine.Machine {
	if i := slices.IndexFunc(e.machines, func(m engine.Machine) bool { return m.Name == name }); i >= 0 {
		return &e.machines[i]
	}
	return nil
}

// schedule begins what waits for machines that are idle.
func (e *Engine) schedule() {
	for _, name := range e.order {
		j := e.jobs[name]
		if j == nil || j.state.Phase != engine.Waiting {
			continue
		}
		m := e.machine(j.Machine)
		if !m.Up {
			j.state.Reason = "ReqNodeNotAvail"
			continue
		}
		if j.state.Reason = "Resources"; !m.Idle {
			continue
		}
		m.Idle, m.State = false, "busy"
		ctx, end := context.WithCancel(context.Background())
		j.end, j.alive = end, true
		j.state = engine.State{Phase: engine.Running, ID: j.state.ID, Machine: j.Machine}
		go e.run(ctx, j)
	}
	e.changed.Broadcast()
}

func (e *Engine) run(ctx context.Context, j *job) {
	limit := time.AfterFunc(j.Time, func() { e.finish(j, engine.TooLong) })
	code := e.Program(ctx, j.Job, writer{e, j})
	limit.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	j.end()
	j.alive = false
	if j.state.Phase == engine.Running {
		j.state.Phase, j.state.Exit = engine.Ended, &code
		if j.why != "" {
			j.state.Phase, j.state.Reason, j.state.Exit = j.why, string(j.why), nil
		}
	}
	if m := e.machine(j.Machine); m.Up {
		m.Idle, m.State = true, "idle"
	}
	e.schedule()
}

// writer takes what a job says while its machine is up.
type writer struct {
	e *Engine
	j *job
}

func (w writer) Write(p []byte) (int, error) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if w.j.state.Phase == engine.Running {
		w.j.out = append(w.j.out, p...)
		w.e.changed.Broadcast()
	}
	return len(p), nil
}

// finish has the engine end a job.
func (e *Engine) finish(j *job, why engine.Phase) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case j.state.Phase == engine.Waiting:
		j.state.Phase, j.state.Reason = why, string(why)
	case j.alive && j.why == "":
		j.why = why
		j.end()
	}
	e.changed.Broadcast()
}

// End has the engine end a job, which is then in the phase why.
func (e *Engine) End(name string, why engine.Phase) {
	e.mu.Lock()
	j := e.jobs[name]
	e.mu.Unlock()
	if j != nil {
		e.finish(j, why)
	}
}

// Forget takes a job that is over out of the engine's memory: its output stays.
func (e *Engine) Forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.jobs[name]; j != nil {
		j.state.ID = forgotten
	}
}

// forgotten marks a job that the engine knows no more.
const forgotten = "forgotten"

// Down has a machine fail: what it runs is lost. Up brings it back.
func (e *Engine) Down(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.machine(name)
	m.Up, m.Idle, m.State = false, false, "down"
	for _, j := range e.jobs {
		if j.Machine == name && j.state.Phase == engine.Running {
			j.state.Phase, j.state.Reason = engine.Lost, "NodeDown"
			j.end()
		}
	}
	e.schedule()
}

// Up brings a machine back that was down.
func (e *Engine) Up(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.machine(name)
	m.Up, m.Idle, m.State = true, true, "idle"
	e.schedule()
}

// States implements engine.Engine.
func (e *Engine) States(ctx context.Context, names []string) (map[string]engine.State, error) {
	if err := e.call(ctx, "States"); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]engine.State{}
	for _, name := range names {
		j := e.jobs[name]
		if j == nil || j.state.ID == forgotten {
			continue
		}
		if all[name] = j.state; e.Edit != nil {
			all[name] = e.Edit(name, j.state)
		}
	}
	return all, nil
}

// Follow implements engine.Engine.
func (e *Engine) Follow(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
	if err := e.call(ctx, "Follow"); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	j := e.jobs[name]
	if j == nil {
		return nil, fmt.Errorf("the engine has no job %s", name)
	}
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.changed.Broadcast()
	})
	return &follower{e: e, j: j, ctx: ctx, at: from, stop: stop}, nil
}

type follower struct {
	e    *Engine
	j    *job
	ctx  context.Context
	at   int64
	stop func() bool
}

func (f *follower) Read(p []byte) (int, error) {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	for int64(len(f.j.out)) <= f.at {
		if f.ctx.Err() != nil {
			return 0, f.ctx.Err()
		}
		if f.j.state.Phase.Over() {
			return 0, io.EOF
		}
		f.e.changed.Wait()
	}
	n := copy(p, f.j.out[f.at:])
	f.at += int64(n)
	return n, nil
}

func (f *follower) Close() error {
	f.stop()
	return nil
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, name string) error {
	if err := e.call(ctx, "Remove"); err != nil {
		return err
	}
	e.End(name, engine.Cancelled)
	e.mu.Lock()
	defer e.mu.Unlock()
	for j := e.jobs[name]; j != nil && j.alive; {
		e.changed.Wait()
	}
	delete(e.jobs, name)
	return nil
}

// Left are the names of jobs that the engine has.
func (e *Engine) Left(context.Context) ([]string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for name := range e.jobs {
		names = append(names, name)
	}
	return names, nil
}

// ErrAway is what a call says of an engine that cannot be reached.
var ErrAway = errors.New("the engine cannot be reached")
