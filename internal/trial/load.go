package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Load is what runs next to the instances that are measured: noisy neighbours, each
// of which takes one turn after another.
type Load struct {
	Driver  driver.Driver
	Spec    driver.Spec // without ID, Cgroup and Stdio
	Copies  int         // at least 1
	Turn    string      // as the payload knows it
	Timeout time.Duration
}

// loadTurn is the length of a turn of the load: short next to what is measured, so that
// it begins and ends with that.
const loadTurn = 5 * time.Millisecond

// loaded is a load under way: its instances are idle until it is opened, and work until it
// is shut. A nil one is none.
type loaded struct {
	load   Load
	copies []*replica
	turns  context.Context
	stop   context.CancelFunc
	over   sync.WaitGroup // of the goroutines that give turns

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	running bool  // turns are given
	since   []int // turns of each instance since it was opened
	busy    int   // turns under way
	counted Stamp // since when turns count; 0 where they do not
	did     did   // since it was last taken
	wrong   error // why an instance no longer takes turns
}

// did is what all instances of a load did while it was open.
type did struct {
	opened time.Duration
	count  float64
	cpu    time.Duration
}

func (d *did) add(more did) {
	d.opened, d.count, d.cpu = d.opened+more.opened, d.count+more.count, d.cpu+more.cpu
}

// values are none of a load that never was open.
func (d did) values() []sample.Value {
	if d.opened <= 0 {
		return nil
	}
	return []sample.Value{
		{Metric: sample.BesideRate, Value: d.count / d.opened.Seconds()},
		{Metric: sample.BesideCPUs, Value: d.cpu.Seconds() / d.opened.Seconds()},
	}
}

// begin makes a load and returns when each of its instances has taken a turn. part is of
// their names. What was made is returned also with an error, for close to remove.
func (r *Runner) begin(ctx context.Context, load Load, part string) (*loaded, error) {
	l := &loaded{load: load, since: make([]int, load.Copies)}
	l.changed = sync.NewCond(&l.mu)
	l.turns, l.stop = context.WithCancel(context.WithoutCancel(ctx)) // close ends them
	for i := range load.Copies {
		id := fmt.Sprintf("%s-%s-%s-%d", driver.Label, r.RunID, part, i)
		c, err := newReplica(ctx, r, Job{Driver: load.Driver, Spec: load.Spec, turns: true}, id, id)
		if c != nil {
			l.copies = append(l.copies, c)
		}
		if err == nil {
			err = l.first(ctx, c)
		}
		if err != nil {
			return l, loadError(err)
		}
	}
	for i, c := range l.copies {
		l.over.Go(func() { l.giveTurns(i, c) })
	}
	return l, nil
}

// loadError is a load's: that it does not work is the laboratory's fault, whatever
// runs it, for nothing of it is measured.
func loadError(err error) error {
	return phased{"load", driver.Labf("what runs next to the instances: %w", err)}
}

// first starts an instance and has it take its first turn, which sets things up.
func (l *loaded) first(ctx context.Context, c *replica) error {
	bounded, cancel := context.WithTimeout(ctx, l.load.Timeout)
	defer cancel()
	if err := c.hold(ctx, bounded); err != nil {
		return err
	}
	_, err := l.turn(bounded, c)
	return err
}

// turn gives an instance one turn and waits for its answer.
func (l *loaded) turn(ctx context.Context, c *replica) (answer, error) {
	from := Now()
	if _, err := fmt.Fprintf(c.input, "%s %d\n", l.load.Turn, loadTurn.Microseconds()); err != nil {
		return answer{}, cmp.Or(c.ends(), fmt.Errorf("it does not take its turn: %w", err))
	}
	a, err := c.answer(ctx, from)
	if err != nil {
		return a, fmt.Errorf("turn %q: %w", l.load.Turn, err)
	}
	return a, nil
}

// giveTurns gives one instance turns while the load is open, until it is closed.
func (l *loaded) giveTurns(i int, c *replica) {
	for l.mayTurn() {
		a, err := l.turn(l.turns, c)
		l.turned(i, a, err)
		if err != nil {
			return
		}
	}
}

// mayTurn waits until the load is open; false when it is closed for good.
func (l *loaded) mayTurn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.running && l.turns.Err() == nil {
		l.changed.Wait()
	}
	if l.turns.Err() != nil {
		return false
	}
	l.busy++
	return true
}

func (l *loaded) turned(i int, a answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.since[i]++
	if err != nil && l.turns.Err() == nil {
		l.wrong = errors.Join(l.wrong, err)
	}
	if err == nil && l.counted > 0 {
		l.did.add(did{count: a.count, cpu: a.cpu})
	}
	l.changed.Broadcast()
}

// until waits until done holds, an instance has failed, or the time of the load is over.
// The lock must be held.
func (l *loaded) until(ctx context.Context, done func() bool) error {
	bounded, cancel := context.WithTimeout(ctx, l.load.Timeout)
	defer cancel()
	wake := context.AfterFunc(bounded, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer wake()
	for !done() && l.wrong == nil && bounded.Err() == nil {
		l.changed.Wait()
	}
	switch {
	case l.wrong != nil:
		return loadError(l.wrong)
	case ctx.Err() != nil:
		return ctx.Err()
	case !done():
		return loadError(fmt.Errorf("turn %q was not answered after %v", l.load.Turn, l.load.Timeout))
	}
	return nil
}

// open lets the load work and returns when each instance has done a turn.
func (l *loaded) open(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.since = true, make([]int, l.load.Copies)
	l.changed.Broadcast()
	err := l.until(ctx, func() bool { return !slices.Contains(l.since, 0) })
	l.counted = Now()
	return err
}

// shut has the load rest and returns when no turn is under way.
func (l *loaded) shut(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	err := l.until(ctx, func() bool { return l.busy == 0 })
	if l.counted > 0 {
		l.did.add(did{opened: Now().Sub(l.counted)})
	}
	l.counted = 0
	return err
}

// take returns what the load did since it was last asked, which is of what was measured
// meanwhile: next to work of another kind it does more or less.
func (l *loaded) take() did {
	if l == nil {
		return did{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.did
	l.did = did{}
	return d
}

// close ends and removes all instances of the load. It may be called again.
func (l *loaded) close() error {
	if l == nil {
		return nil
	}
	l.stop()
	l.mu.Lock()
	l.changed.Broadcast()
	l.mu.Unlock()
	l.over.Wait()
	errs := make([]error, len(l.copies))
	inTurn(len(l.copies), 8, func(i int) bool {
		errs[i] = l.copies[i].close()
		return true
	})
	l.copies = nil
	return errors.Join(distinctErrors(errs)...)
}
