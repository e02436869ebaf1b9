package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// usualPace is how often an engine is asked, about all jobs at once.
const usualPace = 3 * time.Second

// followTries is how often the output of a job that is over is asked for.
const followTries = 3

// Collector runs the jobs of a fleet and takes in what comes of them.
type Collector struct {
	Dir    string
	Engine engine.Engine
	// Tell is called with each change, from one goroutine; nil for nobody.
	Tell func(Status)
	// Note is called with what goes wrong and is tried again; nil for nobody.
	Note func(string)
	Pace time.Duration // 0 is usualPace

	root    *os.Root // of Dir
	plan    Plan
	journal *journal
	slots   []*slot
	notes   map[string]bool

	machines []engine.Machine // at the time asked
	asked    time.Time
}

// slot is one of the machines that are wanted.
type slot struct {
	Status
	since  time.Time // of the submission, for WaitAtMost
	runs   time.Time // since when it runs
	follow *following
	tries  int
	// submitted is whether the engine has the job, as far as this process knows: one that
	// was killed in between asks again.
	submitted bool
	others    []string // see Event
}

// ran is how long the job has run by now, as far as it was seen.
func (s *slot) ran() time.Duration {
	if s.runs.IsZero() {
		return 0
	}
	return time.Since(s.runs)
}

// open takes the fleet's lock and reads what happened so far. The fleet must be this
// user's: what its files say is done.
func (c *Collector) open() (err error) {
	if c.root, err = openOurs(c.Dir); err != nil {
		return err
	}
	var events []Event
	if c.plan, err = readPlan(c.root); err == nil {
		c.journal, events, err = openJournal(c.root, c.plan)
	}
	if err != nil {
		return errors.Join(err, c.root.Close())
	}
	c.Pace = cmp.Or(c.Pace, usualPace)
	c.notes = map[string]bool{}
	submitted, running := map[string]time.Time{}, map[string]time.Time{}
	for _, e := range events {
		switch e.What {
		case Submitted:
			submitted[e.Job] = e.At
		case What(engine.Running):
			if running[e.Job].IsZero() {
				running[e.Job] = e.At
			}
		}
	}
	for _, s := range statuses(c.plan, events) {
		at, ok := submitted[s.Job]
		c.slots = append(c.slots, &slot{Status: s, since: at, runs: running[s.Job], submitted: ok})
	}
	return nil
}

// Collect submits what was not submitted yet, and collects until each machine has come
// to an end. It goes on where an earlier process stopped. When ctx ends, the jobs go on,
// and the error is that of ctx. The error of a fleet that has come to an end is a Result.
func (c *Collector) Collect(ctx context.Context) error {
	return c.with(func() error {
		for {
			if err := c.step(ctx); err != nil {
				return err
			}
			if c.over() {
				return result(c.statuses())
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(c.Pace):
			}
		}
	})
}

// Submit submits as many jobs as the plan has at once, and returns.
func (c *Collector) Submit(ctx context.Context) error {
	return c.with(func() error { return c.submit(ctx) })
}

// Cancel ends the jobs that are in the engine, keeps what came of them, and submits no
// others.
func (c *Collector) Cancel(ctx context.Context) error {
	return c.with(func() error { return c.cancel(ctx) })
}

// with does something with the fleet's lock, and ends what follows jobs.
func (c *Collector) with(do func() error) error {
	if err := c.open(); err != nil {
		return err
	}
	err := do()
	for _, s := range c.slots {
		if s.follow != nil {
			s.follow.cancel()
			<-s.follow.done
		}
	}
	return errors.Join(err, c.journal.close(), c.root.Close())
}

func (c *Collector) statuses() []Status {
	var all []Status
	for _, s := range c.slots {
		all = append(all, s.Status)
	}
	return all
}

func (c *Collector) over() bool { return c.plan.Collected(c.statuses()) }

// step is one look at everything.
func (c *Collector) step(ctx context.Context) error {
	if err := c.submit(ctx); err != nil {
		return err
	}
	var names []string
	for _, s := range c.slots {
		if s.submitted && !s.Over() {
			names = append(names, s.Job)
		}
	}
	states, err := c.Engine.States(ctx, names)
	if err != nil {
		return c.trouble(ctx, "the engine was asked for the states of jobs", err)
	}
	for _, s := range c.slots {
		if s.submitted && !s.Over() {
			state, known := states[s.Job]
			if err := c.look(ctx, s, state, known); err != nil {
				return err
			}
		}
		if err := c.tidy(ctx, s); err != nil {
			return err
		}
		if c.plan.unfinished(s.Status) {
			if err := c.another(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// trouble passes on what ends the collecting, and notes what is tried again: nothing is
// concluded from an engine that does not answer.
func (c *Collector) trouble(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var cannot *engine.CannotError
	if errors.As(err, &cannot) {
		return err
	}
	text := what + ": " + err.Error()
	if c.Note != nil && !c.notes[text] {
		c.Note(text + " (tried again)")
	}
	c.notes[text] = true
	return nil
}

// record writes an event of a slot, and shows it.
func (c *Collector) record(s *slot, what What, state *engine.State, run, words string) error {
	e := Event{At: time.Now().UTC(), Slot: s.Slot, Machine: s.Machine, Attempt: s.Attempt, Job: s.Job, What: what, State: state, Run: run, Words: words}
	if what == What(engine.Running) || e.Over() {
		e.Others = s.others
	}
	if err := c.journal.write(e); err != nil {
		return err
	}
	s.Event = e
	if what == What(engine.Running) && s.runs.IsZero() {
		s.runs = e.At
	}
	if c.Tell != nil && what != Submitting {
		s.Records = records(c.root, e)
		c.Tell(s.Status)
	}
	return nil
}

// submit hands jobs to the engine, as long as it has fewer than AtOnce.
func (c *Collector) submit(ctx context.Context) error {
	busy := 0
	for _, s := range c.slots {
		if s.submitted && !s.Over() {
			busy++
		}
	}
	for _, s := range c.slots {
		if s.submitted || s.Over() || busy >= c.plan.AtOnce {
			continue
		}
		full, err := c.submitOne(ctx, s)
		if err != nil || full {
			return err
		}
		busy++
	}
	return nil
}

// submitOne hands a job to the engine; full is whether the engine takes no more now.
func (c *Collector) submitOne(ctx context.Context, s *slot) (full bool, err error) {
	job := c.plan.jobOf(s.Slot, s.Machine, s.Attempt)
	if s.Job != job.Name {
		s.Job = job.Name
		if err := c.record(s, Submitting, nil, "", ""); err != nil {
			return false, err
		}
		s.Kept = append(s.Kept, s.Job)
	}
	err = c.Engine.Submit(ctx, job)
	var refused *engine.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Full:
		return true, c.trouble(ctx, "job "+job.Name, err)
	case errors.As(err, &refused):
		return false, c.record(s, Refused, nil, "", refused.Words)
	case err != nil:
		return true, c.trouble(ctx, "job "+job.Name+" was submitted", err)
	}
	s.submitted, s.since = true, time.Now()
	return false, c.record(s, Submitted, nil, "", "")
}

// look is what one slot makes of the state of its job. One that the engine does not know
// any more may have ended long ago: its output counts.
func (c *Collector) look(ctx context.Context, s *slot, state engine.State, known bool) error {
	if known && (s.State == nil || changed(*s.State, state)) && !state.Phase.Over() {
		if err := c.lookAround(ctx, s, state); err != nil {
			return err
		}
		if err := c.record(s, What(state.Phase), &state, "", state.Words()); err != nil {
			return err
		}
	}
	if known && state.Phase == engine.Waiting {
		if most := c.plan.WaitAtMost; most > 0 && time.Since(s.since) > most {
			return c.record(s, NotPlaced, &state, "", fmt.Sprintf("waited for more than %v: %s", most, state.Words()))
		}
		return nil
	}
	if s.follow == nil {
		s.follow = c.begin(ctx, s.Job)
	}
	if known && !state.Phase.Over() {
		return nil
	}
	select {
	case <-s.follow.done:
	default:
		return nil // the rest of the output is on its way
	}
	err := s.follow.err
	s.follow = nil
	if err != nil {
		if s.tries++; s.tries < followTries {
			return c.trouble(ctx, "the output of job "+s.Job, err)
		}
		state.Message = strings.TrimSpace(state.Message + " output: " + err.Error())
	}
	return c.end(ctx, s, state)
}

// changed reports whether a state is news.
func changed(before, now engine.State) bool {
	return before.Phase != now.Phase || before.Words() != now.Words() || before.Machine != now.Machine
}

// end takes in what came of a job that is over.
func (c *Collector) end(ctx context.Context, s *slot, state engine.State) error {
	got, err := c.take(s.Job)
	if err != nil {
		return err
	}
	if err := c.lookAround(ctx, s, state); err != nil {
		return err
	}
	what, words := judge(state, got)
	if what == Interrupted && s.ran() >= c.plan.Time-2*engine.Grace { // an engine may be so much early
		what = TooLong
	}
	if err := c.record(s, what, &state, got.run, words); err != nil {
		return err
	}
	if got.run != "" || !got.view.Begun {
		if err := c.root.Remove(streamOf(s.Job)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("fleet: %w", err)
		}
	}
	return nil
}

// lookEvery is how long what an engine says of its machines is taken for what it is now:
// the jobs of a fleet often begin together.
const lookEvery = 5 * time.Second

// lookAround notes what else runs on a slot's machine. Jobs that wait have none.
func (c *Collector) lookAround(ctx context.Context, s *slot, state engine.State) error {
	if state.Machine == "" || state.Phase == engine.Waiting {
		return nil
	}
	if time.Since(c.asked) > lookEvery {
		machines, err := c.Engine.Machines(ctx, c.plan.Where)
		if err != nil {
			return c.trouble(ctx, "the engine was asked for what else runs", err)
		}
		c.machines, c.asked = machines, time.Now()
	}
	i := slices.IndexFunc(c.machines, func(m engine.Machine) bool { return m.Name == state.Machine })
	if s.others = nil; i >= 0 {
		s.others = c.machines[i].Others[:min(len(c.machines[i].Others), mostOthers)]
	}
	return nil
}

// mostOthers is how many names a record holds.
const mostOthers = 50
