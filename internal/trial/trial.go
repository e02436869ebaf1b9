// Package trial does the measuring: the one loop that prepares, arms the
// probes, starts, waits, ends the probes, closes and records. It alone stamps
// marks, and it alone decides what a failure or a time-out means.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
)

// Probe reads something during a trial. Begin is called after Prepare and
// before the start; the returned function after the payloads' end and before
// Close.
type Probe interface {
	Begin(ctx context.Context, on []driver.Watch) (end func() ([]sample.Value, error), err error)
}

// Sink keeps records. Append returns when they are safe: all of them, or none.
type Sink interface {
	Append(...sample.Record) error
}

// Groups makes the cgroups that instances are put into.
type Groups interface {
	// Make makes the group of one instance and returns its name relative to each
	// hierarchy's root, "" where cgroups cannot be used. The groups below it, for
	// payload and runtime, and the limits are the driver's to make, but for the shares
	// and the idleness of CPU time, which count between instances, and the CPUs and
	// memory nodes, which are those of all that works for the instance.
	Make(id string, of driver.Limits) (string, error)
	// Remove ends what is left in the group and removes it.
	Remove(id string) error
}

// Job is one trial of the plan.
type Job struct {
	Seq, Block int
	Cell       string
	Driver     driver.Driver
	Spec       driver.Spec // without ID, Cgroup and Stdio, which each copy gets
	Copies     int         // instances of the trial; at least 1
	// Concurrency is at most how many copies are under way at one moment, from
	// their request to their exit (with Hold: to their act): one that ends makes
	// room for the next. 0 starts all at once.
	Concurrency int
	// Hold keeps each copy alive after its act until all have acted; nil lets
	// each end by itself.
	Hold *Hold
	// Lifecycle does verbs to each copy while it is alive, and ends it by one; nil for
	// none.
	Lifecycle *Lifecycle
	// Unmarked runs the payload as it is, without the mark before it: it acted at
	// its first byte of standard output or, where it prints none, at its end. The
	// value "silent" says which: 1 for a copy that printed nothing, else 0.
	Unmarked bool
	// Until is the phase at which the start of a copy ends on a target that runs no
	// payload, the last of a machine's boot that comes: what follows is its end. "" for
	// the payload's act.
	Until driver.Phase
	// Prepare runs on the host before the trial, outside the clock; nil for none.
	Prepare func(ctx context.Context) error
	// Parse turns one copy's standard output into values; nil for none.
	Parse   func(stdout []byte) ([]sample.Value, error)
	Timeout time.Duration // of the trial, from the request to the last exit
	// Probes watch this trial, armed after the runner's own.
	Probes []Probe
	// Shared is a file that all copies have in common; nil for none.
	Shared *Shared
	// Together says what only all copies together tell, one value a trial, and
	// what to warn of. values has one number per copy; from and to bound the
	// trial on the host's CLOCK_MONOTONIC, in seconds. Nil for none.
	Together func(from, to float64, values map[string][]float64) ([]sample.Value, []sample.Warning)

	// Load is what runs next to the copies, from before their start to the last exit;
	// nil for nothing.
	Load *Load

	turns bool // the payload takes turns, as with Lifecycle
}

// Shared is a file that is made afresh for a trial, mounted into each of its
// instances, and removed afterwards.
type Shared struct {
	Target  string // absolute path inside the instances
	Content []byte
	// Failed is called with the file's path on the host as soon as an instance
	// has failed, so that others that wait for it there need not; nil for none.
	Failed func(file string) error
}

// Runner carries out jobs.
type Runner struct {
	RunID  string // part of instances' ids
	Dir    string // instances' directories are made here
	Groups Groups
	Probes []Probe
	Sink   Sink
	// Limits notes what the machine has refused so far; what it returns says which
	// limit was reached since, by its name and value, "" for none. A failure is
	// told with it. Nil where nobody asks.
	Limits func() (reached func() string)
	// Judge says what a trial's values tell against the machine it ran on; these
	// are warnings of the record. Nil for none.
	Judge func(values map[string][]float64) []sample.Warning
	// Keep keeps the console of a trial's first copy, where it is a machine that
	// tells of it. Nil for nowhere.
	Keep func(seq int, console []byte) error
}

// drainGrace is how long a stream may stay open after the payload's end.
const drainGrace = 2 * time.Second

// Run does one job and appends its record. The error is not the trial's: it
// says that the record could not be kept, that ctx was cancelled, or that the
// laboratory's disk is full (ENOSPC, EDQUOT), in which cases nothing is recorded
// and the trial can be done again.
func (r *Runner) Run(ctx context.Context, job Job) (sample.Record, error) {
	record := sample.Record{Seq: job.Seq, Block: job.Block, Cell: job.Cell, At: time.Now().UnixNano()}
	cause, untidy := r.measure(ctx, job, &record)
	if err := ctx.Err(); err != nil {
		return record, errors.Join(err, untidy)
	}
	if diskFull(cause) || diskFull(untidy) {
		return record, fmt.Errorf("trial of %s: %w", job.Cell, errors.Join(cause, untidy))
	}
	return record, r.Sink.Append(record)
}

// diskFull reports whether the laboratory failed for want of room in its files. What
// has no room in /sys is a group of which there are too many.
func diskFull(err error) bool {
	var file *fs.PathError
	if errors.As(err, &file) && strings.HasPrefix(file.Path, "/sys/") {
		return false
	}
	return driver.IsLab(err) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// measure fills in what came of the trial: values or, since a failure is never
// a sample, a failure. The errors are the failure's cause and the clean-up's, which
// the record holds too.
func (r *Runner) measure(ctx context.Context, job Job, record *sample.Record) (cause, untidy error) {
	if job.Prepare != nil {
		if err := job.Prepare(ctx); err != nil {
			record.Failure = Fail("prepare", driver.Labf("the prepare command: %w", err))
			return err, nil
		}
	}
	reached := func() string { return "" }
	if r.Limits != nil {
		reached = r.Limits()
	}
	t := &running{job: job, runner: r}
	cause = t.prepare(ctx)
	if cause == nil {
		cause = t.timed(ctx)
	}
	record.Failure = t.failure(cause)
	if record.Failure != nil {
		if limit := reached(); limit != "" { // what was made is still there
			record.Failure.Message += "; " + limit
		}
	}
	unkept := t.keepConsole()
	closing := Now()
	untidy = t.close()
	t.removed(Now().Sub(closing))
	untidy = errors.Join(unkept, untidy)
	switch {
	case untidy == nil:
	case record.Failure == nil:
		record.Failure = Fail("close", untidy)
	default:
		t.warnings = append(t.warnings, sample.Warning{Kind: sample.Untidy, Text: untidy.Error()})
	}
	record.Warnings = t.warnings
	switch {
	case record.Failure == nil:
		record.Values = t.values
	case len(t.values) > 0:
		record.Survivors = t.values
	}
	return cause, untidy
}

// keepConsole hands over the console of the first copy, where it has one.
func (t *running) keepConsole() error {
	if t.runner.Keep == nil || len(t.copies) == 0 {
		return nil
	}
	said := t.copies[0].console.Kept()
	if len(said) == 0 {
		return nil
	}
	if err := t.runner.Keep(t.job.Seq, said); err != nil {
		return driver.Labf("the machine's console: %w", err)
	}
	return nil
}

// running is one trial under way.
type running struct {
	job      Job
	runner   *Runner
	copies   []*replica
	group    string  // of all copies' cgroups where there are many, else ""
	beside   *loaded // the load; nil for none
	shared   string  // path of the shared file, "" where there is none
	census   func([]driver.Watch) ([]sample.Value, error)
	values   map[string][]float64
	warnings []sample.Warning
}

func (t *running) prepare(ctx context.Context) error {
	t.values = map[string][]float64{}
	if err := t.share(); err != nil {
		return phased{"prepare", driver.Labf("shared file: %w", err)}
	}
	if err := t.beginMany(); err != nil {
		return phased{"prepare", driver.Labf("many instances: %w", err)}
	}
	made := make([]*replica, max(1, t.job.Copies))
	errs := make([]error, len(made))
	prepareCopy := func(i int) bool {
		id := fmt.Sprintf("%s-%s-%d-%d", driver.Label, t.runner.RunID, t.job.Seq, i)
		made[i], errs[i] = newReplica(ctx, t.runner, t.job, path.Join(t.group, id), id)
		return errs[i] == nil
	}
	if prepareCopy(0) { // the first alone: with it comes what they share, such as the groups above theirs
		inTurn(len(made)-1, t.aside(), func(i int) bool { return prepareCopy(i + 1) })
	}
	t.copies = slices.DeleteFunc(made, func(c *replica) bool { return c == nil })
	for _, err := range errs {
		if err != nil {
			return phased{"prepare", err} // of the first copy: the others' may be its consequence
		}
	}
	return nil
}

// timed is everything between the probes' begin and end.
func (t *running) timed(ctx context.Context) error {
	if t.job.Load != nil {
		var err error
		if t.beside, err = t.runner.begin(ctx, *t.job.Load, fmt.Sprintf("%d-load", t.job.Seq)); err != nil {
			return err
		}
		if err := t.beside.open(ctx); err != nil {
			return err
		}
	}
	end, err := t.beginProbes(ctx)
	if err != nil {
		return phased{"prepare", driver.Labf("probe: %w", err)}
	}
	bounded, cancel := context.WithTimeout(ctx, t.job.Timeout)
	defer cancel()
	from := Now()
	errs := make([]error, len(t.copies))
	inTurn(len(t.copies), t.atOnce(), func(i int) bool {
		errs[i] = t.run(ctx, bounded, i)
		return true
	})
	to := Now()
	probed, probeErr := end()
	if t.job.Hold == nil {
		for _, c := range t.copies {
			t.warn(c.drain()...)
		}
	} else {
		counted, err := t.count(bounded, errs)
		probed, probeErr = append(probed, counted...), errors.Join(probeErr, err)
	}
	if ctx.Err() == nil && bounded.Err() != nil {
		t.blameTimeout(errs)
	}
	if err := t.evaluate(errs); err != nil {
		return err
	}
	if probeErr != nil {
		return phased{"wait", driver.Labf("probe: %w", probeErr)}
	}
	if err := t.beside.shut(ctx); err != nil {
		return err
	}
	t.sum(append(probed, t.beside.take().values()...))
	t.span()
	t.together(from, to)
	return nil
}

// run is the timed path of one copy; bounded ends with the trial's time. One
// that fails lets the others, which may wait for it at the shared file, know.
func (t *running) run(ctx, bounded context.Context, i int) error {
	switch {
	case t.job.Hold != nil:
		return t.copies[i].hold(ctx, bounded)
	case t.job.Lifecycle != nil:
		return t.copies[i].live(ctx, bounded, *t.job.Lifecycle)
	}
	err := t.copies[i].run(bounded)
	well := err == nil && t.copies[i].exit.Code == 0 && t.copies[i].exit.Signal == 0
	if well || t.job.Shared == nil || t.job.Shared.Failed == nil {
		return err
	}
	if told := t.job.Shared.Failed(t.shared); told != nil {
		return errors.Join(err, phased{"wait", driver.Labf("shared file: %w", told)})
	}
	return err
}

// blameTimeout words what ended the copies that were still running.
func (t *running) blameTimeout(errs []error) {
	for i, err := range errs {
		if errors.Is(err, context.DeadlineExceeded) {
			// A guest tells how far it came.
			more := strings.TrimPrefix(err.Error(), context.DeadlineExceeded.Error())
			errs[i] = phased{"wait", fmt.Errorf("the payload had not ended after %v and was killed: give it more with --timeout or the study's timeout%s", t.job.Timeout, more)}
		}
	}
}

// beginProbes arms the probes in order; the returned function ends them in the
// opposite order, the last armed being the nearest to the payload.
func (t *running) beginProbes(ctx context.Context) (func() ([]sample.Value, error), error) {
	watches := watchesOf(t.copies)
	var ends []func() ([]sample.Value, error)
	endAll := func() ([]sample.Value, error) {
		var values []sample.Value
		var errs []error
		for i := len(ends) - 1; i >= 0; i-- {
			v, err := ends[i]()
			values, errs = append(values, v...), append(errs, err)
		}
		return values, errors.Join(errs...)
	}
	for _, p := range slices.Concat(t.runner.Probes, t.job.Probes) {
		end, err := p.Begin(ctx, watches)
		if err != nil {
			_, endErr := endAll()
			return nil, errors.Join(err, endErr)
		}
		ends = append(ends, end)
	}
	return endAll, nil
}

// evaluate turns the copies' marks, usage and outputs into values; errs is how
// each of them ended. The values of those that ended well are there even when
// others failed.
func (t *running) evaluate(errs []error) error {
	var failed []int
	for i, c := range t.copies {
		var values []sample.Value
		if errs[i] == nil {
			values, errs[i] = c.evaluate(t.job)
		}
		if errs[i] != nil {
			failed = append(failed, i)
			continue
		}
		for _, v := range values {
			t.values[v.Metric] = append(t.values[v.Metric], v.Value)
		}
	}
	switch {
	case len(failed) == 0:
		return nil
	case len(t.copies) == 1:
		return errs[0]
	}
	// The first to end is the likeliest cause of what became of the others.
	slices.SortStableFunc(failed, func(a, b int) int { return cmp.Compare(t.copies[a].ended(), t.copies[b].ended()) })
	e := &copiesError{copies: len(t.copies), failed: failed}
	for _, i := range failed {
		e.errs, e.ids = append(e.errs, errs[i]), append(e.ids, t.copies[i].id)
	}
	return e
}

// sum adds the probes' readings to the values, and says how they were measured where that
// is not the usual way.
func (t *running) sum(probed []sample.Value) {
	sums := map[string]float64{}
	for _, v := range probed {
		sums[v.Metric] += v.Value
		if v.Way != "" {
			t.warn(sample.Warning{Kind: sample.OtherWay, Text: v.Way})
		}
	}
	for metric, sum := range sums { // a probe sees more than getrusage: it takes precedence
		t.values[metric] = []float64{sum}
	}
}

// warn adds warnings to the record, each once: instances often have the same.
func (t *running) warn(all ...sample.Warning) {
	for _, w := range all {
		if !slices.Contains(t.warnings, w) {
			t.warnings = append(t.warnings, w)
		}
	}
}

// together adds what only the whole trial tells.
func (t *running) together(from, to Stamp) {
	if t.job.Together != nil {
		values, warnings := t.job.Together(from.seconds(), to.seconds(), t.values)
		for _, v := range values {
			t.values[v.Metric] = []float64{v.Value}
		}
		t.warnings = append(t.warnings, warnings...)
	}
	if t.runner.Judge != nil {
		t.warnings = append(t.warnings, t.runner.Judge(t.values)...)
	}
}

func (t *running) failure(err error) *sample.Failure {
	if err == nil {
		return nil
	}
	f := failOf(err)
	var several *copiesError
	if errors.As(err, &several) {
		f.Copies, f.Each = several.failed, several.each()
	}
	of := t.inOrder(f.Copies)
	f.Stderr = firstTail(of)
	if len(of) > 0 {
		f.Reached = of[0].steps()
	}
	return f
}

// inOrder are the copies that failed, in that order, or all.
func (t *running) inOrder(failed []int) []*replica {
	if len(failed) == 0 {
		return t.copies
	}
	var copies []*replica
	for _, i := range failed {
		copies = append(copies, t.copies[i])
	}
	return copies
}

// share makes the file that the copies have in common.
func (t *running) share() error {
	if t.job.Shared == nil {
		return nil
	}
	dir, err := makeDir(t.runner.Dir, fmt.Sprintf("%s-%s-%d-shared", driver.Label, t.runner.RunID, t.job.Seq))
	if err != nil {
		return err
	}
	t.shared = filepath.Join(dir, "page")
	if err := os.WriteFile(t.shared, t.job.Shared.Content, 0o600); err != nil {
		return err
	}
	// A payload need not be root; the umask has no say in this.
	if err := os.Chmod(t.shared, 0o666); err != nil {
		return err
	}
	mounts := slices.Clone(t.job.Spec.Mounts)
	t.job.Spec.Mounts = append(mounts, driver.Mount{Source: t.shared, Target: t.job.Shared.Target})
	return nil
}

func (t *running) close() error {
	besides := t.beside.close()
	errs := make([]error, len(t.copies), len(t.copies)+3)
	inTurn(len(t.copies), t.aside(), func(i int) bool {
		errs[i] = t.copies[i].close()
		return true
	})
	errs = append(errs, besides)
	if t.group != "" {
		errs = append(errs, t.runner.Groups.Remove(t.group))
	}
	if t.shared != "" {
		errs = append(errs, os.RemoveAll(filepath.Dir(t.shared)))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool {
		restarts := driver.IsRestart(err)
		if restarts {
			t.warnings = append(t.warnings, sample.Warning{Kind: sample.Untidy, Text: err.Error()})
		}
		return restarts
	})
	err := errors.Join(distinctErrors(errs)...)
	if err != nil && !errors.As(err, new(*driver.RemovalError)) {
		return driver.Labf("clean-up: %w", err)
	}
	return err
}

// mostErrors is how many different errors of one clean-up are told.
const mostErrors = 16

// distinctErrors drops those that say the same as one before.
func distinctErrors(errs []error) []error {
	said := map[string]bool{}
	var out []error
	for _, err := range errs {
		if err != nil && !said[err.Error()] && len(out) < mostErrors {
			said[err.Error()] = true
			out = append(out, err)
		}
	}
	return out
}

// phased says in which phase an error arose.
type phased struct {
	phase string
	error
}

func (p phased) Unwrap() error { return p.error }

// phaseOf is the phase of an error that says none: the payload's.
func phaseOf(err error) string {
	var p phased
	if errors.As(err, &p) {
		return p.phase
	}
	return "wait"
}

// failOf is what a record holds of an error of a trial: Fail in the phase in which it
// arose, with the end of the payload where that is the error.
func failOf(err error) *sample.Failure {
	f := Fail(phaseOf(err), err)
	var ended *exitError
	if errors.As(err, &ended) {
		f.Signal = ended.exit.Signal
		if f.Signal == 0 {
			f.ExitCode = &ended.exit.Code
		}
	}
	return f
}

// firstTail is the end of the first standard error that is not empty; "" for none.
func firstTail(copies []*replica) string {
	for _, c := range copies {
		if tail := c.stderr.tail(); tail != "" {
			return tail
		}
	}
	return ""
}

// Fail is what a record holds of an error of a phase of its trial: a laboratory's
// (driver.IsLab), else the target's.
func Fail(phase string, err error) *sample.Failure {
	fault := sample.FaultTarget
	if driver.IsLab(err) {
		fault = sample.FaultLaboratory
	}
	return &sample.Failure{Fault: fault, Phase: phase, Message: err.Error()}
}

// makeDir makes an instance's own directory.
func makeDir(parent, id string) (string, error) {
	dir := filepath.Join(parent, id)
	return dir, os.MkdirAll(dir, 0o700)
}
