package trial

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Hold makes a trial one of density: the payload acts and then only waits, so
// that all copies are alive at once. They are ended after they were counted.
type Hold struct {
	// Begin is called before anything of the trial is made, and census while all
	// copies are held, with their processes' ids. Its values are the trial's. Nil
	// for none.
	Begin func() (census func(on []driver.Watch) ([]sample.Value, error), err error)
	// Settle is called when all copies are held, before they are counted, and
	// returns when they have come to rest, or ctx has ended. Nil for at once.
	Settle func(ctx context.Context) error
}

// many says that the job's copies are measured as one: they come under a cgroup
// of their own together, and what each of them used alone is not recorded.
func (j Job) many() bool { return j.Concurrency > 0 || j.Hold != nil }

// atOnce is how many copies are under way at one moment.
func (t *running) atOnce() int { return cmp.Or(t.job.Concurrency, len(t.copies)) }

// aside is how many copies are prepared, or closed, at one moment: outside the
// clock, and as many as keep the CPUs at work while some wait for the kernel.
func (t *running) aside() int { return cmp.Or(t.job.Concurrency, 2*runtime.NumCPU()) }

// inTurn calls f for 0..n-1 in order, at most width at a time, and begins no
// more once one of them has returned false.
func inTurn(n, width int, f func(i int) bool) {
	if n == 0 {
		return
	}
	if n == 1 { // the common case needs no other thread in the timed path
		f(0)
		return
	}
	var next atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for range min(n, width) {
		all.Go(func() {
			for !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if !f(i) {
					stop.Store(true)
				}
			}
		})
	}
	all.Wait()
}

// beginMany makes the group of many copies with that of their clients, and notes
// what the census compares with.
func (t *running) beginMany() (err error) {
	if !t.job.many() {
		return nil
	}
	t.group = fmt.Sprintf("%s-%s-%d", driver.Label, t.runner.RunID, t.job.Seq)
	if t.job.Spec.ClientCgroup, err = t.runner.Groups.Make(path.Join(t.group, string(driver.RoleClient)), driver.Limits{CPUSet: t.job.Spec.Limits.CPUSet, Mems: t.job.Spec.Limits.Mems}); err != nil {
		return fmt.Errorf("cgroup of all instances: %w", err)
	}
	if t.job.Hold != nil && t.job.Hold.Begin != nil {
		if t.census, err = t.job.Hold.Begin(); err != nil {
			return fmt.Errorf("census: %w", err)
		}
	}
	return nil
}

// hold is the timed path of a copy that is held: it returns when the payload has
// acted, or cannot any more. The payload lives until letGo, or ctx's end; bounded
// ends with the trial's time.
func (c *replica) hold(ctx, bounded context.Context) error {
	if err := bounded.Err(); err != nil {
		return phased{"start", err} // the time was over before its turn came
	}
	held, release := context.WithCancel(ctx)
	c.release = release
	untimely := context.AfterFunc(bounded, release) // until it has acted
	defer untimely()
	c.request()
	if err := c.instance.Start(held, c.mark); err != nil {
		if bounded.Err() != nil {
			err = bounded.Err()
		}
		return phased{"start", err}
	}
	c.over = make(chan struct{})
	go func() {
		defer close(c.over)
		c.exit, c.waitErr = c.instance.Wait(held)
		c.mark(driver.PhaseExit)
	}()
	select {
	case <-c.stdout.seen:
	case <-c.there:
		return nil
	case <-c.over:
		return c.ends()
	case <-bounded.Done():
		return phased{"wait", bounded.Err()}
	}
	c.takeActed()
	if c.stdout.acted == 0 {
		return phased{"wait", fmt.Errorf("the payload never acted inside the target: its first output was not the mark of %s", driver.Mark)}
	}
	return nil
}

// ends says why a copy that was to be held has ended; nil while it lives.
func (c *replica) ends() error {
	select {
	case <-c.over:
	default:
		return nil
	}
	if c.short() { // the instance gave it up, and is still there
		return nil
	}
	if c.waitErr != nil {
		return phased{"wait", c.waitErr}
	}
	return phased{"wait", fmt.Errorf("it ended while it was to be held: %w", &exitError{c.exit})}
}

// letGo ends a copy that is held and waits until it has ended. One that has ended by
// itself is left alone: its engine may still be clearing up.
func (c *replica) letGo() {
	select {
	case <-c.over:
		return
	default:
	}
	if c.release != nil {
		c.release()
	}
	if c.over != nil {
		<-c.over
	}
}

// allHeld notes which copies have ended, and says whether none has.
func (t *running) allHeld(errs []error) bool {
	all := true
	for i, c := range t.copies {
		if errs[i] == nil {
			errs[i] = c.ends()
		}
		all = all && errs[i] == nil
	}
	return all
}

// count takes the census of the copies that are held. One that has ended by now
// has failed, and then there is nothing to count.
func (t *running) count(ctx context.Context, errs []error) ([]sample.Value, error) {
	if !t.allHeld(errs) || t.census == nil {
		return nil, nil
	}
	if settle := t.job.Hold.Settle; settle != nil {
		if err := settle(ctx); err != nil {
			return nil, err
		}
		if !t.allHeld(errs) {
			return nil, nil
		}
	}
	values, err := t.census(watchesOf(t.copies))
	for i, c := range t.copies { // what ended meanwhile was counted with the others
		errs[i] = c.ends()
	}
	return values, err
}

// span adds how long many copies took, from the first request to the last exit
// or, where they are held, act.
func (t *running) span() {
	if !t.job.many() {
		return
	}
	last := driver.PhaseExit
	if t.job.Hold != nil {
		last = driver.PhaseActed
	}
	from, to := t.copies[0].at(driver.PhaseRequest), Stamp(0)
	for _, c := range t.copies {
		if c.short() {
			return
		}
		from, to = min(from, c.at(driver.PhaseRequest)), max(to, c.at(last))
	}
	t.values[sample.Elapsed] = []float64{to.Sub(from).Seconds()}
}

// removed adds how long it took to end and remove all of many copies.
func (t *running) removed(took time.Duration) {
	if t.job.many() && len(t.values) > 0 {
		t.values[sample.Removal] = []float64{took.Seconds()}
	}
}

// copiesError is that some copies of several have failed.
type copiesError struct {
	copies int
	failed []int // the first to end first
	errs   []error
	ids    []string
}

func (e *copiesError) Error() string {
	if len(e.failed) == 1 {
		return fmt.Sprintf("copy %d of %d failed: %v", e.failed[0]+1, e.copies, e.errs[0])
	}
	return fmt.Sprintf("%d of %d copies failed, copy %d first: %v", len(e.failed), e.copies, e.failed[0]+1, e.errs[0])
}

func (e *copiesError) Unwrap() []error { return e.errs }

// mostKinds bounds how many different failures of one trial are told.
const mostKinds = 64

// each puts the copies that failed alike together.
func (e *copiesError) each() []sample.CopiesFailure {
	var kinds []sample.CopiesFailure
	for n, err := range e.errs {
		f := Fail(phaseOf(err), err)
		message := strings.ReplaceAll(f.Message, e.ids[n], "ID")
		i := slices.IndexFunc(kinds, func(k sample.CopiesFailure) bool {
			return k.Message == message && k.Phase == f.Phase && k.Fault == f.Fault
		})
		if i < 0 {
			if i = len(kinds); i == mostKinds {
				continue
			}
			kinds = append(kinds, sample.CopiesFailure{Fault: f.Fault, Phase: f.Phase, Message: message})
		}
		kinds[i].Copies = append(kinds[i].Copies, e.failed[n])
	}
	return kinds
}
