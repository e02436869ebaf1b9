package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// MarkPath is where the mark helper stands in every rootfs.
const MarkPath = "/.tare/mark"

// replica is one instance of a trial with its streams and stamps.
type replica struct {
	id             string
	dir            string
	groups         Groups
	grouped        bool
	instance       target.Instance
	stdout, stderr *stream
	exit           target.Exit

	mu    sync.Mutex // guards marks: drivers may mark from another goroutine
	marks map[target.Phase]Stamp
}

// newReplica makes all that one instance needs outside the clock. On error the
// replica holds what was made so far, for close to remove.
func newReplica(ctx context.Context, r *Runner, job Job, id string) (*replica, error) {
	c := &replica{id: id, groups: r.Groups, marks: map[target.Phase]Stamp{}}
	var err error
	if c.stdout, err = newStream(true); err != nil {
		return nil, target.Labf("pipe for the payload's output: %w", err)
	}
	if c.stderr, err = newStream(false); err != nil {
		c.stdout.write.Close()
		c.stdout.read.Close()
		return nil, target.Labf("pipe for the payload's errors: %w", err)
	}
	go c.stdout.collect()
	go c.stderr.collect()
	if c.dir, err = makeDir(r.Dir, id); err != nil {
		return c, target.Labf("directory of the instance: %w", err)
	}
	spec := job.Spec
	spec.ID = id
	spec.Args = append([]string{MarkPath, "--"}, job.Spec.Args...)
	if len(job.Spec.Args) == 0 {
		spec.Args = spec.Args[:1]
	}
	spec.Stdio = target.Stdio{Stdin: job.Spec.Stdio.Stdin, Stdout: c.stdout.write, Stderr: c.stderr.write}
	c.grouped = true
	if spec.Cgroup, err = r.Groups.Make(id); err != nil {
		return c, target.Labf("cgroup of the instance: %w", err)
	}
	c.instance, err = job.Driver.Prepare(ctx, spec, c.dir)
	return c, err
}

// run is the timed path of one instance: request, start, wait, exit.
func (c *replica) run(ctx context.Context) error {
	c.mark(target.PhaseRequest)
	if err := c.instance.Start(ctx, c.mark); err != nil {
		return phased{"start", err}
	}
	exit, err := c.instance.Wait(ctx)
	c.mark(target.PhaseExit)
	if err != nil {
		return phased{"wait", err}
	}
	c.exit = exit
	return nil
}

func (c *replica) mark(p target.Phase) {
	now := Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.marks[p]; !twice {
		c.marks[p] = now
	}
}

// ended is when the copy had ended, 0 where it never was started or seen to end.
func (c *replica) ended() Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks[target.PhaseExit]
}

// drain waits for the streams' ends; its warnings are for the record.
func (c *replica) drain() (warnings []string) {
	for name, s := range map[string]*stream{"standard output": c.stdout, "standard error": c.stderr} {
		if !s.drain(drainGrace) {
			warnings = append(warnings, fmt.Sprintf("a process that outlived the payload held its %s open and was cut off", name))
		}
	}
	if c.stdout.acted != 0 {
		c.mu.Lock()
		c.marks[target.PhaseActed] = c.stdout.acted
		c.mu.Unlock()
	}
	return warnings
}

// exitError is a payload that ended with a code or a signal.
type exitError struct{ exit target.Exit }

func (e *exitError) Error() string {
	if e.exit.Signal != 0 {
		return fmt.Sprintf("the payload was killed by signal %d (%s)", e.exit.Signal, unix.SignalName(unix.Signal(e.exit.Signal)))
	}
	return fmt.Sprintf("the payload ended with exit code %d", e.exit.Code)
}

// evaluate checks how the copy ended and gives its values.
func (c *replica) evaluate(parse func([]byte) ([]sample.Value, error)) ([]sample.Value, error) {
	if c.exit.Code != 0 || c.exit.Signal != 0 {
		return nil, phased{"wait", &exitError{c.exit}}
	}
	if err := errors.Join(c.stdout.err, c.stderr.err); err != nil {
		return nil, phased{"wait", target.Labf("reading the payload's output: %w", err)}
	}
	if c.marks[target.PhaseActed] == 0 {
		return nil, phased{"wait", fmt.Errorf("the payload ended with exit code 0 but never acted inside the target: its first output was not the mark of %s", MarkPath)}
	}
	values := c.general()
	if parse == nil {
		return values, nil
	}
	if c.stdout.total > keepBytes {
		return nil, phased{"parse", fmt.Errorf("the payload printed %d bytes, more than the %d that are kept for the parser", c.stdout.total, int64(keepBytes))}
	}
	parsed, err := parse(c.stdout.kept.Bytes())
	if err != nil {
		return nil, phased{"parse", err}
	}
	return append(values, parsed...), nil
}

// general gives the values that every trial has: those of the marks, and those
// of getrusage(2) where the target can tell.
func (c *replica) general() []sample.Value {
	request, acted, exit := c.marks[target.PhaseRequest], c.marks[target.PhaseActed], c.marks[target.PhaseExit]
	values := []sample.Value{
		{Metric: "ready", Value: acted.Sub(request).Seconds()},
		{Metric: "wall", Value: exit.Sub(request).Seconds()},
		{Metric: "run", Value: exit.Sub(acted).Seconds()},
	}
	if u := c.exit.Usage; u != nil {
		values = append(values,
			sample.Value{Metric: "cpu-user", Value: u.User.Seconds()},
			sample.Value{Metric: "cpu-system", Value: u.System.Seconds()},
			sample.Value{Metric: "peak-memory", Value: float64(u.MaxRSS)},
			sample.Value{Metric: "minor-faults", Value: float64(u.MinorFaults)},
			sample.Value{Metric: "major-faults", Value: float64(u.MajorFaults)},
			sample.Value{Metric: "voluntary-switches", Value: float64(u.VoluntarySwitches)},
			sample.Value{Metric: "involuntary-switches", Value: float64(u.InvoluntarySwitches)},
		)
	}
	return values
}

// close removes the instance, its group and its directory.
func (c *replica) close() error {
	var errs []error
	if c.instance != nil {
		errs = append(errs, c.instance.Close())
	}
	c.drain() // after a failed start nobody has; a second time it does nothing
	if c.grouped {
		errs = append(errs, c.groups.Remove(c.id))
	}
	if c.dir != "" {
		errs = append(errs, sys.RemoveTree(c.dir))
	}
	return errors.Join(errs...)
}
