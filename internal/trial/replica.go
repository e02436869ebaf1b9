package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
)

// replica is one instance of a trial with its streams and stamps.
type replica struct {
	id             string
	group          string // its cgroup's name among the session's
	dir            string
	groups         Groups
	grouped        bool
	instance       driver.Instance
	stdout, stderr *stream
	exit           driver.Exit
	console        Console // of a machine; empty for others

	until driver.Phase  // Job.Until
	there chan struct{} // closed when it was marked

	mu    sync.Mutex // guards marks: drivers may mark from another goroutine
	marks map[driver.Phase]Stamp

	// Of a copy that takes turns:
	answers      *answers
	input, stdin *os.File // our end, and the payload's

	verbs map[string][]float64 // what each verb took that was done to it, in seconds, by metric

	// Of a copy that is held:
	release context.CancelFunc // lets it end
	over    chan struct{}      // closed when it has ended; exit and waitErr are valid then
	waitErr error
}

// watchesOf are the watches of copies, in their order.
func watchesOf(copies []*replica) []driver.Watch {
	var all []driver.Watch
	for _, c := range copies {
		all = append(all, c.instance.Watch()...)
	}
	return all
}

// newReplica makes all that one instance needs outside the clock. On error the
// replica holds what was made so far, for close to remove.
func newReplica(ctx context.Context, r *Runner, job Job, group, id string) (*replica, error) {
	c := &replica{id: id, group: group, groups: r.Groups, until: job.Until, there: make(chan struct{}), marks: map[driver.Phase]Stamp{}}
	var err error
	wanted := theMark
	if job.Unmarked {
		wanted = anyByte
	}
	if c.stdout, err = newStream(wanted); err != nil {
		return nil, driver.Labf("pipe for the payload's output: %w", err)
	}
	if c.stderr, err = newStream(nothing); err != nil {
		c.stdout.write.Close()
		c.stdout.read.Close()
		return nil, driver.Labf("pipe for the payload's errors: %w", err)
	}
	spec := job.Spec
	if job.turns || job.Lifecycle != nil {
		if c.stdin, c.input, err = os.Pipe(); err != nil {
			return c, driver.Labf("pipe for the payload's turns: %w", err)
		}
		c.answers = newAnswers()
		c.stdout.answers, spec.Stdio.Stdin = c.answers, c.stdin
	}
	if c.dir, err = makeDir(r.Dir, id); err != nil {
		return c, driver.Labf("directory of the instance: %w", err)
	}
	spec.ID = id
	switch {
	case job.Unmarked:
	case job.Hold != nil:
		spec.Args = append(slices.Clone(job.Spec.Args), driver.Mark, "-hold")
	case len(job.Spec.Args) == 0:
		spec.Args = []string{driver.Mark}
	default:
		spec.Args = append([]string{driver.Mark, "--"}, job.Spec.Args...)
	}
	if !job.Unmarked {
		spec.Opens = append([]string{driver.Mark}, job.Spec.Opens...)
	}
	spec.Stdio = driver.Stdio{Stdin: spec.Stdio.Stdin, Stdout: c.stdout.write, Stderr: c.stderr.write}
	c.grouped = true
	if spec.Cgroup, err = r.Groups.Make(group, spec.Limits); err != nil {
		return c, driver.Labf("cgroup of the instance: %w", err)
	}
	spec.Console = func(line string) { c.console.Add(line, c.at(driver.PhaseRequest)) }
	c.instance, err = job.Driver.Prepare(ctx, spec, c.dir)
	return c, err
}

// run is the timed path of one instance: request, start, wait, exit.
func (c *replica) run(ctx context.Context) error {
	c.request()
	if err := c.instance.Start(ctx, c.mark); err != nil {
		return phased{"start", err}
	}
	exit, err := c.instance.Wait(ctx)
	c.mark(driver.PhaseExit)
	c.stdout.write.Close() // the readers end now, not when all copies have
	c.stderr.write.Close()
	if err != nil && (!c.short() || ctx.Err() != nil) {
		return phased{"wait", err}
	}
	c.exit = exit
	return nil
}

// request begins the clock of the copy; its streams are read from before that.
func (c *replica) request() {
	c.stdout.begin()
	c.stderr.begin()
	c.mark(driver.PhaseRequest)
}

// short reports whether the copy came to the phase at which its start ends.
func (c *replica) short() bool { return c.until != "" && c.at(c.until) != 0 }

func (c *replica) mark(p driver.Phase) {
	now := Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.marks[p]; !twice {
		c.marks[p] = now
		if p == c.until {
			close(c.there)
		}
	}
}

// at is when a phase was marked, 0 where it never was.
func (c *replica) at(p driver.Phase) Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks[p]
}

// ended is when the copy had ended, 0 where it never was started or seen to end.
func (c *replica) ended() Stamp { return c.at(driver.PhaseExit) }

// drain waits for the streams' ends; its warnings are for the record.
func (c *replica) drain() (warnings []sample.Warning) {
	if !c.stdout.drain() {
		warnings = append(warnings, sample.Warning{Kind: sample.CutOff, Stream: "standard output"})
	}
	if !c.stderr.drain() {
		warnings = append(warnings, sample.Warning{Kind: sample.CutOff, Stream: "standard error"})
	}
	c.takeActed()
	return warnings
}

// takeActed is called when the stream has settled whether the payload acted. Its
// mark and its end wake two readers, on a busy machine in either order; but it
// acted before it ended, so its end is the latest that it can have acted.
func (c *replica) takeActed() {
	acted := c.stdout.acted
	if acted == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if exit, ended := c.marks[driver.PhaseExit]; ended {
		acted = min(acted, exit)
	}
	c.marks[driver.PhaseActed] = acted
}

// exitError is a payload that ended with a code or a signal.
type exitError struct{ exit driver.Exit }

func (e *exitError) Error() string {
	if e.exit.Signal != 0 {
		return fmt.Sprintf("the payload was killed by signal %d (%s)", e.exit.Signal, unix.SignalName(unix.Signal(e.exit.Signal)))
	}
	return fmt.Sprintf("the payload ended with exit code %d", e.exit.Code)
}

// evaluate checks how the copy ended and gives its values.
func (c *replica) evaluate(job Job) ([]sample.Value, error) {
	if c.short() {
		return c.stepped(), nil
	}
	if job.Hold != nil { // it has not ended, and hold saw it act
		return []sample.Value{{Metric: sample.Ready, Value: c.ready().Seconds()}}, nil
	}
	if c.exit.Code != 0 || c.exit.Signal != 0 {
		return nil, phased{"wait", &exitError{c.exit}}
	}
	if err := errors.Join(c.stdout.err, c.stderr.err); err != nil {
		return nil, phased{"wait", driver.Labf("reading the payload's output: %w", err)}
	}
	silent := c.at(driver.PhaseActed) == 0
	if silent && job.Unmarked {
		c.mu.Lock()
		c.marks[driver.PhaseActed] = c.marks[driver.PhaseExit]
		c.mu.Unlock()
	} else if silent {
		return nil, phased{"wait", fmt.Errorf("the payload ended with exit code 0 but never acted inside the target: its first output was not the mark of %s", driver.Mark)}
	}
	values := c.general()
	for metric, d := range c.exit.Clock {
		values = append(values, sample.Value{Metric: metric, Value: d.Seconds()})
	}
	if job.Unmarked {
		values = append(values, sample.Value{Metric: sample.Silent, Value: btof(silent)})
	}
	if !job.many() {
		values = append(values, c.used()...)
	}
	if job.Lifecycle != nil {
		return append(values, c.done()...), nil
	}
	if job.Parse == nil {
		return values, nil
	}
	if c.stdout.total > keepBytes {
		return nil, phased{"parse", fmt.Errorf("the payload printed %d bytes, more than the %d that are kept for the parser", c.stdout.total, int64(keepBytes))}
	}
	parsed, err := job.Parse(c.stdout.kept.Bytes())
	if err != nil {
		return nil, phased{"parse", err}
	}
	return append(values, parsed...), nil
}

func btof(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *replica) ready() time.Duration {
	return c.at(driver.PhaseActed).Sub(c.at(driver.PhaseRequest))
}

// stepped gives the values of the steps.
func (c *replica) stepped() []sample.Value {
	var values []sample.Value
	for step, at := range c.steps() {
		values = append(values, sample.Value{Metric: step, Value: at})
	}
	return values
}

// general gives the values of the marks, which every trial has.
func (c *replica) general() []sample.Value {
	request, acted, exit := c.at(driver.PhaseRequest), c.at(driver.PhaseActed), c.at(driver.PhaseExit)
	return append(c.stepped(),
		sample.Value{Metric: sample.Ready, Value: acted.Sub(request).Seconds()},
		sample.Value{Metric: sample.Wall, Value: exit.Sub(request).Seconds()},
		sample.Value{Metric: sample.Run, Value: exit.Sub(acted).Seconds()})
}

// steps are the marks that the target's family adds, in seconds since the request; nil
// for none.
func (c *replica) steps() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var steps map[string]float64
	for phase, at := range c.marks {
		if phase != driver.PhaseRequest && phase != driver.PhaseActed && phase != driver.PhaseExit {
			if steps == nil {
				steps = map[string]float64{}
			}
			steps[string(phase)] = at.Sub(c.marks[driver.PhaseRequest]).Seconds()
		}
	}
	return steps
}

// used gives the values of getrusage(2) where the target can tell.
func (c *replica) used() []sample.Value {
	u := c.exit.Usage
	if u == nil {
		return nil
	}
	values := []sample.Value{
		{Metric: sample.CPUUser, Value: u.User.Seconds()},
		{Metric: sample.CPUSystem, Value: u.System.Seconds()},
		{Metric: sample.MinorFaults, Value: float64(u.MinorFaults)},
		{Metric: sample.MajorFaults, Value: float64(u.MajorFaults)},
		{Metric: sample.VoluntarySwitches, Value: float64(u.VoluntarySwitches)},
		{Metric: sample.InvoluntarySwitches, Value: float64(u.InvoluntarySwitches)},
	}
	if u.MaxRSS > 0 { // Linux counts pages in batches: a small process may have none
		values = append(values, sample.Value{Metric: sample.PeakMemory, Value: float64(u.MaxRSS)})
	}
	return values
}

// close removes the instance, its group and its directory.
func (c *replica) close() error {
	var errs []error
	c.letGo()
	if c.instance != nil {
		errs = append(errs, c.instance.Close())
	}
	if c.release != nil {
		c.release()
	}
	if c.input != nil {
		c.input.Close() // finish may have closed it
		c.stdin.Close()
	}
	c.drain() // after a failed start nobody has; a second time it does nothing
	if c.grouped {
		errs = append(errs, c.groups.Remove(c.group))
	}
	if c.dir != "" {
		errs = append(errs, sys.RemoveTree(c.dir))
	}
	return errors.Join(errs...)
}
