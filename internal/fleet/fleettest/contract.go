package fleettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// Options say what the contract suite cannot find out by itself.
type Options struct {
	// Machines are names of machines that take jobs; two at least. Checks run at the same
	// time, one on each. The engine's jobs must run sh, with yes, head and sleep.
	Machines []string
	// Faults are jobs that the engine cannot run.
	Faults []Fault
	// Requests is how many requests the engine has made so far, and PerStates how many
	// States takes for any number of jobs; 0 for one.
	Requests  func() int64
	PerStates int64
	// Left are the names of jobs that the engine still has, those of Ended in its memory
	// not counted.
	Left func(context.Context) ([]string, error)
	// Kill has a machine die, and the function that it returns brings it back. LostWithin
	// is how long the engine may take to notice.
	Kill       func(machine string) (revive func() error, err error)
	LostWithin time.Duration
	// OutputGoes is whether the output of a dead machine is gone with it.
	OutputGoes bool
	// Preempt has the engine take the machine away from a job.
	Preempt func(ctx context.Context, job string) error
	// Skip names checks that cannot hold for this engine, each with the missing fact.
	Skip map[string]string
}

// Fault is a job that an engine cannot run, and says so.
type Fault struct {
	Name string
	// Engine is one made so that it cannot, nil for the engine under test.
	Engine engine.Engine
	// Machine is where, "" for one of Options.Machines.
	Machine string
	// Words must stand in what the engine says: in the error of Submit, or in the state.
	Words string
	// Full is whether the error is of a queue that takes the job later.
	Full bool
}

// check is one clause of the contract.
type check struct {
	name string
	run  func(ctx context.Context, s *suite) error
}

func checks() []check {
	return []check{
		{"time limit", checkTimeLimit}, // the longest: begun first
		{"dead machine", checkDead},
		{"machines", checkMachines},
		{"show", checkShow},
		{"exit codes", checkExitCodes},
		{"signals", checkSignals},
		{"arguments", checkArguments},
		{"live output", checkLive},
		{"output from any byte", checkOffsets},
		{"much output", checkMuch},
		{"output of what waits", checkFollowWaiting},
		{"follow ends with its context", checkFollowCancelled},
		{"a name runs once", checkOnce},
		{"fifty with one request", checkFifty},
		{"not known", checkNotKnown},
		{"remove what waits", checkRemoveWaiting},
		{"remove what runs", checkRemoveRunning},
		{"remove what is over", checkRemoveOver},
		{"taken", checkTaken},
		{"faults", checkFaults},
	}
}

// A check that waits for the engine asks it every pause, and gives up after patience.
const (
	pause    = 200 * time.Millisecond
	patience = 4 * time.Minute
)

// RunContract checks that an engine keeps the contract of engine.Engine.
func RunContract(t *testing.T, e engine.Engine, opts Options) {
	t.Helper()
	if len(opts.Machines) < 2 {
		t.Fatal("the suite needs two machines")
	}
	free := make(chan string, len(opts.Machines))
	for _, m := range opts.Machines {
		free <- m
	}
	known := map[string]bool{}
	t.Run("checks", func(t *testing.T) {
		for _, c := range checks() {
			known[c.name] = true
			t.Run(c.name, func(t *testing.T) {
				if why := opts.Skip[c.name]; why != "" {
					t.Skip(why)
				}
				t.Parallel()
				machine := <-free
				defer func() { free <- machine }()
				if err := runCheck(t.Context(), e, opts, machine, c); err != nil {
					t.Errorf("on %s: %v", machine, err)
				}
			})
		}
	})
	for name := range opts.Skip {
		if !known[name] {
			t.Errorf("Options.Skip names %q, which is no check", name)
		}
	}
	if left, err := opts.Left(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("the engine still has %q (%v)", left, err)
	}
}

// runCheck makes a check and removes its jobs.
func runCheck(ctx context.Context, e engine.Engine, opts Options, machine string, c check) (err error) {
	s := &suite{Engine: e, opts: opts, machine: machine, token: token()}
	defer func() {
		slices.Reverse(s.made) // what waits goes before what it waits for
		for _, name := range s.made {
			err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), name))
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.run(bounded, s)
}

// suite is one check's view of the engine.
type suite struct {
	engine.Engine
	opts    Options
	machine string
	token   string
	count   atomic.Int64
	made    []string
}

func token() string { return fmt.Sprintf("%08x", rand.Uint32()) }

// sh is a job that runs a script.
func (s *suite) sh(script string, args ...string) engine.Job {
	name := fmt.Sprintf("tare-test-%s-%d", s.token, s.count.Add(1))
	s.made = append(s.made, name)
	return engine.Job{Name: name, Fleet: "test-" + s.token, Machine: s.machine, Args: append([]string{"-c", script, "sh"}, args...), Time: 30 * time.Minute}
}

// forever is a script that ends by a signal alone, after it has written a line.
const forever = "echo begun; while :; do sleep 0.1; done"

// until asks for a job's state until it is as wanted, and returns it.
func (s *suite) until(ctx context.Context, name string, wanted func(engine.State) bool) (engine.State, error) {
	var last engine.State
	for {
		all, err := s.States(ctx, []string{name})
		if err != nil {
			return last, err
		}
		state, ok := all[name]
		switch {
		case ok && wanted(state):
			return state, nil
		case !ok:
			return last, fmt.Errorf("the engine does not know the job %s, which was %+v", name, last)
		case state.Phase.Over():
			return state, fmt.Errorf("job %s is over: %+v", name, state)
		}
		last = state
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("job %s is still %+v: %w", name, last, ctx.Err())
		case <-time.After(pause):
		}
	}
}

func in(p engine.Phase) func(engine.State) bool {
	return func(s engine.State) bool { return s.Phase == p }
}

func over(s engine.State) bool { return s.Phase.Over() }

// output reads what a job writes until it is over.
func (s *suite) output(ctx context.Context, name string, from int64) ([]byte, error) {
	out, err := s.Follow(ctx, name, from)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(out)
	return text, errors.Join(err, out.Close())
}

// ran submits a job and waits for its end.
func (s *suite) ran(ctx context.Context, j engine.Job) (engine.State, []byte, error) {
	if err := s.Submit(ctx, j); err != nil {
		return engine.State{}, nil, err
	}
	out, err := s.output(ctx, j.Name, 0)
	if err != nil {
		return engine.State{}, nil, err
	}
	state, err := s.until(ctx, j.Name, over)
	return state, out, err
}

// begun submits a job, and waits until it has written its first line.
func (s *suite) begun(ctx context.Context, j engine.Job) error {
	if err := s.Submit(ctx, j); err != nil {
		return err
	}
	return s.firstLine(ctx, j.Name)
}

func (s *suite) firstLine(ctx context.Context, name string) error {
	out, err := s.Follow(ctx, name, 0)
	if err != nil {
		return err
	}
	line := make([]byte, len("begun\n"))
	_, err = io.ReadFull(out, line)
	if err == nil && string(line) != "begun\n" {
		err = fmt.Errorf("the first line is %q", line)
	}
	if err != nil {
		all, asked := s.States(ctx, []string{name})
		err = fmt.Errorf("%w; job %s is %+v (%v)", err, name, all[name], asked)
	}
	return errors.Join(err, out.Close())
}

func checkMachines(ctx context.Context, s *suite) error {
	all, err := s.Machines(ctx, nil)
	if err != nil {
		return err
	}
	if !slices.IsSortedFunc(all, func(a, b engine.Machine) int { return strings.Compare(a.Name, b.Name) }) {
		return fmt.Errorf("machines are not in the order of their names: %v", all)
	}
	for _, name := range s.opts.Machines {
		i := slices.IndexFunc(all, func(m engine.Machine) bool { return m.Name == name })
		if i < 0 {
			return fmt.Errorf("machine %s is not listed: %v", name, all)
		}
		if m := all[i]; m.State == "" || m.CPUs < 1 || m.Idle && !m.Up {
			return fmt.Errorf("machine %+v has no state or no CPUs, or is idle and not up", m)
		}
	}
	var selector *engine.SelectorError
	if _, err := s.Machines(ctx, engine.Selector{"no such key": "x"}); !errors.As(err, &selector) {
		return fmt.Errorf("a key that does not exist: %v, want a SelectorError", err)
	}
	return nil
}

func checkShow(ctx context.Context, s *suite) error {
	j := s.sh("echo ran")
	text, err := s.Show(ctx, j)
	if err != nil {
		return err
	}
	for _, part := range []string{j.Name, j.Machine, "echo ran"} {
		if !strings.Contains(text, part) {
			return fmt.Errorf("%q is not in %s", part, text)
		}
	}
	all, err := s.States(ctx, []string{j.Name})
	if err != nil || len(all) > 0 {
		return fmt.Errorf("a job that was only shown: %v, %v", all, err)
	}
	return nil
}

func (s *suite) exits(ctx context.Context, script string, want int) error {
	state, _, err := s.ran(ctx, s.sh(script))
	if err != nil {
		return err
	}
	if state.Phase != engine.Ended || state.Exit == nil || *state.Exit != want {
		return fmt.Errorf("%s: %+v (exit %s), want ended with %d", script, state, code(state), want)
	}
	if state.ID == "" || state.Machine != s.machine {
		return fmt.Errorf("%s: %+v, want an id and the machine %s", script, state, s.machine)
	}
	return nil
}

func code(s engine.State) string {
	if s.Exit == nil {
		return "unknown"
	}
	return strconv.Itoa(*s.Exit)
}

func checkExitCodes(ctx context.Context, s *suite) error {
	for _, want := range []int{0, 1, 3, 4, 130, 255} {
		if err := s.exits(ctx, fmt.Sprintf("exit %d", want), want); err != nil {
			return err
		}
	}
	return nil
}

func checkSignals(ctx context.Context, s *suite) error {
	return errors.Join(s.exits(ctx, "kill -KILL $$", 137), s.exits(ctx, "kill -SEGV $$", 139))
}

func checkArguments(ctx context.Context, s *suite) error {
	args := []string{"plain", "two words", `it's "quoted" \n`, "$HOME `id` $(id)", "a\nb", "", "%n %j * ~ # ; & |", "Ä–日本", "--nodes=9", "$(HOME)", "{}"}
	_, out, err := s.ran(ctx, s.sh(`printf '<%s>\n' "$@"`, args...))
	if err != nil {
		return err
	}
	want := "<" + strings.Join(args, ">\n<") + ">\n"
	if string(out) != want {
		return fmt.Errorf("arguments arrive as %q, want %q", out, want)
	}
	return nil
}

// The job ends only when it is removed, so that what was read was read while it ran.
func checkLive(ctx context.Context, s *suite) error {
	j := s.sh(forever)
	if err := s.begun(ctx, j); err != nil {
		return err
	}
	_, err := s.until(ctx, j.Name, in(engine.Running))
	return err
}

func checkOffsets(ctx context.Context, s *suite) error {
	const text = "0123456789\nabcdefghij\n"
	j := s.sh("printf '0123456789\\nabcdefghij\\n'")
	if _, out, err := s.ran(ctx, j); err != nil || string(out) != text {
		return fmt.Errorf("output %q, want %q (%v)", out, text, err)
	}
	for _, from := range []int{0, 1, 11, len(text) - 1, len(text)} {
		if out, err := s.output(ctx, j.Name, int64(from)); err != nil || string(out) != text[from:] {
			return fmt.Errorf("output from byte %d is %q, want %q (%v)", from, out, text[from:], err)
		}
	}
	return nil
}

// muchOutput is more than engines keep in one file.
const muchOutput = 20_000_000

func checkMuch(ctx context.Context, s *suite) error {
	const line = "0123456789abcdefghijklmnopqrstuvwxyz, for ever and ever and ever\n"
	_, out, err := s.ran(ctx, s.sh(fmt.Sprintf("yes '%s' | head -c %d", strings.TrimSpace(line), muchOutput)))
	if err != nil {
		return err
	}
	want := bytes.Repeat([]byte(line), muchOutput/len(line)+1)[:muchOutput]
	if sha256.Sum256(out) != sha256.Sum256(want) {
		at := 0
		for at < min(len(out), len(want)) && out[at] == want[at] {
			at++
		}
		return fmt.Errorf("%d bytes of output, want %d; the first difference is at %d", len(out), len(want), at)
	}
	return nil
}

func checkFollowWaiting(ctx context.Context, s *suite) error {
	first, second := s.sh(forever), s.sh("echo second")
	if err := s.begun(ctx, first); err != nil {
		return err
	}
	if err := s.Submit(ctx, second); err != nil {
		return err
	}
	if state, err := s.until(ctx, second.Name, in(engine.Waiting)); err != nil {
		return fmt.Errorf("a second job on a machine that is in use: %+v: %w", state, err)
	}
	type result struct {
		out []byte
		err error
	}
	read := make(chan result, 1)
	go func() {
		out, err := s.output(ctx, second.Name, 0)
		read <- result{out, err}
	}()
	if err := s.Remove(ctx, first.Name); err != nil {
		return err
	}
	if r := <-read; r.err != nil || string(r.out) != "second\n" {
		return fmt.Errorf("output of a job that waited is %q (%v)", r.out, r.err)
	}
	return nil
}

func checkFollowCancelled(ctx context.Context, s *suite) error {
	j := s.sh(forever)
	if err := s.begun(ctx, j); err != nil {
		return err
	}
	short, cancel := context.WithCancel(ctx)
	time.AfterFunc(2*pause, cancel)
	if out, err := s.output(short, j.Name, 0); err == nil || short.Err() == nil {
		return fmt.Errorf("followed to an end, %q, though the job runs", out)
	}
	for range 5 { // an engine that ends it needs a moment
		if _, err := s.until(ctx, j.Name, in(engine.Running)); err != nil {
			return fmt.Errorf("a job that nobody follows any more: %w", err)
		}
		time.Sleep(pause)
	}
	return nil
}

func checkOnce(ctx context.Context, s *suite) error {
	j := s.sh(`echo "$$ ran"`)
	if err := s.Submit(ctx, j); err != nil {
		return err
	}
	if err := s.Submit(ctx, j); err != nil {
		return fmt.Errorf("submitted again: %w", err)
	}
	before, err := s.output(ctx, j.Name, 0)
	if err != nil {
		return err
	}
	first, err := s.until(ctx, j.Name, over)
	if err != nil {
		return err
	}
	if err := s.Submit(ctx, j); err != nil {
		return fmt.Errorf("submitted again after its end: %w", err)
	}
	again, err := s.until(ctx, j.Name, over)
	if err != nil || again.ID != first.ID {
		return fmt.Errorf("submitted again after its end, it is %+v and was %+v (%v)", again, first, err)
	}
	after, err := s.output(ctx, j.Name, 0)
	if err != nil || !bytes.Equal(before, after) || bytes.Count(after, []byte("ran")) != 1 {
		return fmt.Errorf("submitted again, its output is %q and was %q (%v)", after, before, err)
	}
	return nil
}

func checkFifty(ctx context.Context, s *suite) error {
	var names []string
	for range 50 {
		j := s.sh("sleep 1000")
		if err := s.Submit(ctx, j); err != nil {
			return err
		}
		names = append(names, j.Name)
	}
	// Others make requests at the same time: one of several tries must have been alone.
	least := int64(1 << 62)
	for range 20 {
		before := s.opts.Requests()
		all, err := s.States(ctx, names)
		if err != nil {
			return err
		}
		if least = min(least, s.opts.Requests()-before); len(all) != len(names) {
			return fmt.Errorf("asked for %d jobs, %d came back", len(names), len(all))
		}
		for name, state := range all {
			if state.Phase != engine.Waiting && state.Phase != engine.Running {
				return fmt.Errorf("job %s of fifty is %+v", name, state)
			}
		}
		if least <= max(1, s.opts.PerStates) {
			return nil
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("fifty jobs took %d requests, want %d", least, max(1, s.opts.PerStates))
}

func checkNotKnown(ctx context.Context, s *suite) error {
	j := s.sh("exit 0")
	if all, err := s.States(ctx, []string{j.Name}); err != nil || len(all) > 0 {
		return fmt.Errorf("the state of a job that was never submitted: %v, %v", all, err)
	}
	if all, err := s.States(ctx, nil); err != nil || len(all) > 0 {
		return fmt.Errorf("the states of no jobs: %v, %v", all, err)
	}
	if err := s.Remove(ctx, j.Name); err != nil {
		return fmt.Errorf("a job that was never submitted is removed: %w", err)
	}
	return nil
}

// gone checks that a job that was removed does not run, and will not.
func (s *suite) gone(ctx context.Context, name string) error {
	for range 2 {
		if err := s.Remove(ctx, name); err != nil {
			return err
		}
	}
	all, err := s.States(ctx, []string{name})
	if state, known := all[name]; err != nil || known && !state.Phase.Over() {
		return fmt.Errorf("after Remove, job %s is %+v (%v)", name, state, err)
	}
	left, err := s.opts.Left(ctx)
	if err != nil || slices.Contains(left, name) {
		return fmt.Errorf("after Remove, the engine has %q (%v)", left, err)
	}
	return nil
}

func checkRemoveWaiting(ctx context.Context, s *suite) error {
	first, second := s.sh(forever), s.sh("echo second")
	if err := s.begun(ctx, first); err != nil {
		return err
	}
	if err := s.Submit(ctx, second); err != nil {
		return err
	}
	return errors.Join(s.gone(ctx, second.Name), s.gone(ctx, first.Name))
}

// What runs gets SIGTERM, and time to end tidily: who follows it reads that.
func checkRemoveRunning(ctx context.Context, s *suite) error {
	j := s.sh("trap 'echo tidy; exit 130' TERM; " + forever)
	if err := s.begun(ctx, j); err != nil {
		return err
	}
	out, err := s.Follow(ctx, j.Name, 0)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // only read
	read := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(out) // it may end with an error: the output is removed, too
		read <- string(text)
	}()
	if err := s.gone(ctx, j.Name); err != nil {
		return err
	}
	if text := <-read; !strings.HasPrefix(text, "begun\n") || !strings.Contains(text, "tidy\n") { // the engine may add a line
		return fmt.Errorf("output of a job that was removed while it ran: %q, want that it got SIGTERM", text)
	}
	return s.exits(ctx, "exit 0", 0) // the machine is free
}

func checkRemoveOver(ctx context.Context, s *suite) error {
	j := s.sh("exit 0")
	if _, _, err := s.ran(ctx, j); err != nil {
		return err
	}
	return s.gone(ctx, j.Name)
}

// A job that heeds SIGTERM ends by itself or by the limit; one that does not, by the limit.
func checkTimeLimit(ctx context.Context, s *suite) error {
	j := s.sh("trap 'echo heard' TERM; " + forever)
	j.Time = time.Second
	state, out, err := s.ran(ctx, j)
	if err != nil {
		return err
	}
	if state.Phase != engine.TooLong || state.Reason == "" || !strings.HasPrefix(string(out), "begun\n") {
		return fmt.Errorf("a job that does not end in its time is %+v, with the output %q", state, out)
	}
	return nil
}

func checkDead(ctx context.Context, s *suite) error {
	if s.opts.Kill == nil {
		return errors.New("Options.Kill is missing")
	}
	j := s.sh(forever)
	if err := s.begun(ctx, j); err != nil {
		return err
	}
	revive, err := s.opts.Kill(s.machine)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.opts.LostWithin)
	defer cancel()
	state, err := s.until(bounded, j.Name, over)
	if err == nil && (state.Phase != engine.Lost || state.Words() == "") {
		err = fmt.Errorf("the job of a dead machine is %+v", state)
	}
	var out []byte
	if err == nil {
		out, err = s.output(bounded, j.Name, 0)
		gone := s.opts.OutputGoes && len(out) == 0
		if err == nil && !gone && !strings.HasPrefix(string(out), "begun\n") {
			err = fmt.Errorf("the output of a dead machine is %q", out)
		}
	}
	err = errors.Join(err, revive())
	if err != nil {
		return err
	}
	if err := s.Remove(ctx, j.Name); err != nil {
		return err
	}
	return s.exits(ctx, "exit 0", 0) // it takes jobs again
}

func checkTaken(ctx context.Context, s *suite) error {
	if s.opts.Preempt == nil {
		return errors.New("Options.Preempt is missing")
	}
	j := s.sh(forever)
	if err := s.begun(ctx, j); err != nil {
		return err
	}
	if err := s.opts.Preempt(ctx, j.Name); err != nil {
		return err
	}
	state, err := s.until(ctx, j.Name, over)
	if err != nil || state.Phase != engine.Taken || state.Words() == "" {
		return fmt.Errorf("a job that was preempted is %+v (%v)", state, err)
	}
	return nil
}

func checkFaults(ctx context.Context, s *suite) error {
	if len(s.opts.Faults) == 0 {
		return errors.New("Options.Faults is missing")
	}
	var errs []error
	for _, f := range s.opts.Faults {
		if err := s.fault(ctx, f); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *suite) fault(ctx context.Context, f Fault) (err error) {
	e, j := s.Engine, s.sh("echo ran")
	if f.Engine != nil {
		e = f.Engine
	}
	if f.Machine != "" {
		j.Machine = f.Machine
	}
	defer func() { err = errors.Join(err, e.Remove(context.WithoutCancel(ctx), j.Name)) }()
	err = e.Submit(ctx, j)
	var refused *engine.RefusedError
	switch {
	case errors.As(err, &refused):
		if !strings.Contains(refused.Words, f.Words) || refused.Full != f.Full || refused.Job != j.Name {
			return fmt.Errorf("refused with %+v, want %q", refused, f.Words)
		}
		return nil
	case err != nil:
		return err
	}
	_, err = (&suite{Engine: e}).until(ctx, j.Name, func(state engine.State) bool {
		return strings.Contains(state.Words(), f.Words) && state.Phase != engine.Running && state.Phase != engine.Ended
	})
	return err
}
