package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Lifecycle makes a trial one of verbs: the payload acts and takes turns, and verbs are
// done to its instance meanwhile. Each is proven by its effect on the payload.
type Lifecycle struct {
	Control driver.Controller
	Verbs   []driver.Verb // in this order: exec, pause, unpause; stop comes last, once
	Repeat  int           // of all but stop; at least 1
	Quiet   time.Duration // how long a paused payload must not answer a turn
	// Exec is what exec runs in the n-th turn of it, without the mark; afterwards the
	// payload's answer to the turn Acted(n) counts 1, and 0 before.
	Exec  func(n int) []string
	Acted func(n int) string
	Alive string // turn that a payload that runs always answers
}

// live is the timed path of a copy that verbs are done to. ctx and bounded are as of hold.
func (c *replica) live(ctx, bounded context.Context, l Lifecycle) error {
	if err := c.hold(ctx, bounded); err != nil {
		return err
	}
	c.verbs = map[string][]float64{}
	for n := range l.Repeat {
		for _, verb := range l.Verbs {
			var err error
			switch verb {
			case driver.VerbExec:
				err = c.exec(bounded, l, n)
			case driver.VerbPause:
				err = c.pause(bounded, l)
			case driver.VerbUnpause:
				err = c.unpause(bounded, l)
			}
			if err != nil {
				return phased{"wait", errors.Join(during(bounded, verb, err), c.wake(ctx, l, verb))}
			}
		}
	}
	if err := c.stop(bounded, l); err != nil {
		return phased{"wait", during(bounded, driver.VerbStop, err)}
	}
	return nil
}

// during says which verb failed. A timeout keeps its words at the beginning.
func during(ctx context.Context, verb driver.Verb, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w, in the verb %s", ctx.Err(), verb)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// wakeTime is how long a payload may take to run again whose trial has failed.
const wakeTime = 10 * time.Second

// wake lets a payload run again that may be paused: one that is cannot be ended
// everywhere.
func (c *replica) wake(ctx context.Context, l Lifecycle, failed driver.Verb) error {
	if failed == driver.VerbExec {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeTime)
	defer cancel()
	a, err := l.Control.Control(ctx, c.instance, driver.VerbUnpause, driver.Exec{})
	if err != nil {
		return err
	}
	_ = a.Do(ctx) // it may run already
	return a.Close()
}

// act does a verb and returns when it was asked for and when its command had returned.
func (c *replica) act(ctx context.Context, l Lifecycle, verb driver.Verb, exec driver.Exec) (from, to Stamp, err error) {
	a, err := l.Control.Control(ctx, c.instance, verb, exec)
	if err != nil {
		return 0, 0, err
	}
	from = Now()
	err = a.Do(ctx)
	to = Now()
	if err == nil && verb != driver.VerbStop {
		err = c.ends() // what has ended is neither paused nor does it run
	}
	return from, to, errors.Join(err, a.Close())
}

func (c *replica) took(metric string, from, to Stamp) {
	c.verbs[metric] = append(c.verbs[metric], to.Sub(from).Seconds())
}

// exec runs a process in the instance. It has acted when its mark arrives, and the payload
// must see what it did.
func (c *replica) exec(ctx context.Context, l Lifecycle, n int) error {
	out, err := newStream(theMark)
	if err != nil {
		return driver.Labf("pipe for the output of a process: %w", err)
	}
	out.begin()
	exec := driver.Exec{Args: append([]string{driver.Mark, "--"}, l.Exec(n)...), Stdio: driver.Stdio{Stdout: out.write, Stderr: c.stderr.write}}
	from, to, err := c.act(ctx, l, driver.VerbExec, exec)
	drained := out.drain()
	switch {
	case err != nil:
		return err
	case !drained:
		return fmt.Errorf("a process that outlived it held its standard output open")
	case out.acted == 0:
		return fmt.Errorf("it ended well, and its process never wrote the mark of %s", driver.Mark)
	}
	seen, err := c.ask(ctx, l.Acted(n))
	if err == nil && seen.count != 1 {
		err = errors.New("its process left no trace that the payload could see: it acted elsewhere")
	}
	c.took(sample.VerbExec, from, min(out.acted, to))
	c.took(sample.VerbExecEnd, from, to)
	return err
}

// pause stops the payload, which must not answer then.
func (c *replica) pause(ctx context.Context, l Lifecycle) error {
	if _, err := c.ask(ctx, l.Alive); err != nil {
		return err
	}
	from, to, err := c.act(ctx, l, driver.VerbPause, driver.Exec{})
	if err != nil {
		return err
	}
	c.took(sample.VerbPause, from, to)
	if err := c.give(l.Alive); err != nil {
		return err
	}
	timer := time.NewTimer(l.Quiet)
	defer timer.Stop()
	select {
	case <-c.answers.lines:
		return fmt.Errorf("the payload answered a turn within %v after it was paused", l.Quiet)
	case <-c.answers.wrong:
		return c.answers.err()
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// unpause lets the payload run, which then answers the turn that it was given while it was
// paused.
func (c *replica) unpause(ctx context.Context, l Lifecycle) error {
	from, _, err := c.act(ctx, l, driver.VerbUnpause, driver.Exec{})
	if err != nil {
		return err
	}
	a, err := c.answer(ctx, from)
	if err != nil {
		return err
	}
	c.took(sample.VerbUnpause, from, a.at)
	return nil
}

// stop asks the payload to end, and waits until it has.
func (c *replica) stop(ctx context.Context, l Lifecycle) error {
	// Who answers is ready for the signal, which the first process of a container may
	// otherwise ignore.
	if _, err := c.ask(ctx, l.Alive); err != nil {
		return err
	}
	from, _, err := c.act(ctx, l, driver.VerbStop, driver.Exec{})
	if err != nil {
		return err
	}
	select {
	case <-c.over:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.waitErr != nil {
		return c.waitErr
	}
	if c.exit.Code != 0 || c.exit.Signal != 0 {
		return fmt.Errorf("the payload did not end by itself when it was asked to: %w", &exitError{c.exit})
	}
	c.took(sample.VerbStop, from, c.at(driver.PhaseExit))
	return nil
}

// give gives the payload a turn.
func (c *replica) give(turn string) error {
	if err := c.answers.ready(); err != nil {
		return err
	}
	_, err := c.input.WriteString(turn + " 0\n")
	return err
}

// ask gives the payload a turn and waits for its answer.
func (c *replica) ask(ctx context.Context, turn string) (answer, error) {
	from := Now()
	if err := c.give(turn); err != nil {
		return answer{}, err
	}
	return c.answer(ctx, from)
}

// done are the values of the verbs: the median of each.
func (c *replica) done() []sample.Value {
	var values []sample.Value
	for metric, took := range c.verbs {
		values = append(values, sample.Value{Metric: metric, Value: middle(len(took), func(i int) float64 { return took[i] })})
	}
	return values
}
