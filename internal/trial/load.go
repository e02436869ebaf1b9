package trial

import (
	"context"
	"errors"
	"fmt"
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

// loadTurn is the length of a turn of the load: long next to the moment between two.
const loadTurn = 50 * time.Millisecond

// loaded is a load under way. A nil one is none.
type loaded struct {
	load   Load
	copies []*turner
	stop   context.CancelFunc
	over   sync.WaitGroup // of the goroutines that give turns

	mu    sync.Mutex // guards what follows
	work  []loadWork // of each instance
	wrong error      // why an instance no longer takes turns
}

// loadWork is what one instance of a load has done since it was counted from.
type loadWork struct {
	from, to Stamp
	count    float64
	cpu      time.Duration
}

// begin starts a load and returns when each of its instances has taken a turn. seq is
// the trial's. What was made is returned also with an error, for close to remove.
func (r *Runner) begin(ctx context.Context, load Load, seq int) (*loaded, error) {
	l := &loaded{load: load, work: make([]loadWork, load.Copies)}
	for i := range load.Copies {
		c, err := newTurner(ctx, r, load.Driver, load.Spec, fmt.Sprintf("%s-%s-%d-load-%d", driver.Label, r.RunID, seq, i))
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
	turns, stop := context.WithCancel(context.WithoutCancel(ctx)) // close ends them
	l.stop = stop
	l.count()
	for i, c := range l.copies {
		l.over.Go(func() { l.giveTurns(turns, i, c) })
	}
	return l, nil
}

// loadError is a load's: that it does not work is the laboratory's fault, whatever
// runs it, for nothing of it is measured.
func loadError(err error) error {
	return phased{"load", driver.Labf("what runs next to the instances: %w", err)}
}

// first starts an instance and has it take its first turn, which sets things up.
func (l *loaded) first(ctx context.Context, c *turner) error {
	bounded, cancel := context.WithTimeout(ctx, l.load.Timeout)
	defer cancel()
	if err := c.hold(ctx, bounded); err != nil {
		return err
	}
	_, err := l.turn(bounded, c)
	return err
}

// turn gives an instance one turn and waits for its answer.
func (l *loaded) turn(ctx context.Context, c *turner) (answer, error) {
	from := Now()
	if _, err := fmt.Fprintf(c.input, "%s %d\n", l.load.Turn, loadTurn.Microseconds()); err != nil {
		return answer{}, cmpErr(c.ends(), fmt.Errorf("it does not take its turn: %w", err))
	}
	a, err := c.answer(ctx, from)
	if err != nil {
		return a, fmt.Errorf("turn %q: %w", l.load.Turn, err)
	}
	return a, nil
}

// giveTurns gives one instance turns until ctx ends.
func (l *loaded) giveTurns(ctx context.Context, i int, c *turner) {
	for ctx.Err() == nil {
		a, err := l.turn(ctx, c)
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		if err != nil {
			l.wrong = errors.Join(l.wrong, err)
			l.mu.Unlock()
			return
		}
		w := &l.work[i]
		w.to, w.count, w.cpu = a.at, w.count+a.count, w.cpu+a.cpu
		l.mu.Unlock()
	}
}

// count begins the count anew: what follows is next to what is measured.
func (l *loaded) count() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := Now()
	for i := range l.work {
		l.work[i] = loadWork{from: now, to: now}
	}
}

// values are what the load did: each instance by the time of its own turns.
func (l *loaded) values() []sample.Value {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var rate, cpus float64
	for _, w := range l.work {
		if took := w.to.Sub(w.from).Seconds(); took > 0 {
			rate, cpus = rate+w.count/took, cpus+w.cpu.Seconds()/took
		}
	}
	return []sample.Value{{Metric: sample.BesideRate, Value: rate}, {Metric: sample.BesideCPUs, Value: cpus}}
}

// failure is why the load did not run all the time; nil where it did.
func (l *loaded) failure() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wrong != nil {
		return loadError(l.wrong)
	}
	return nil
}

// close ends and removes all instances of the load. It may be called again.
func (l *loaded) close() error {
	if l == nil {
		return nil
	}
	if l.stop != nil {
		l.stop()
	}
	errs := make([]error, len(l.copies))
	inTurn(len(l.copies), 8, func(i int) bool {
		c := l.copies[i]
		errs[i] = errors.Join(c.replica.close(), c.input.Close(), c.stdin.Close())
		return true
	})
	l.over.Wait()
	l.copies = nil
	return errors.Join(distinctErrors(errs)...)
}
