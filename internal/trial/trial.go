// Package trial does the measuring: the one loop that prepares, arms the
// probes, starts, waits, ends the probes, closes and records. It alone stamps
// marks, and it alone decides what a failure or a time-out means.
package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/target"
)

// Probe reads something during a trial. Begin is called after Prepare and
// before the start; the returned function after the payloads' end and before
// Close.
type Probe interface {
	Begin(ctx context.Context, on []target.Watch) (end func() ([]sample.Value, error), err error)
}

// Sink keeps records. Append returns when the record is safe.
type Sink interface {
	Append(sample.Record) error
}

// Groups makes the cgroups that instances are put into.
type Groups interface {
	// Make makes the group of one instance, with one each for its payload and
	// its runtime below it, and returns its name relative to each hierarchy's
	// root, "" where cgroups cannot be used. Limits are the driver's to set.
	Make(id string) (string, error)
	// Remove ends what is left in the group and removes it.
	Remove(id string) error
}

// Job is one trial of the plan.
type Job struct {
	Seq, Block int
	Cell       string
	Driver     target.Driver
	Spec       target.Spec // without ID, Cgroup and Stdio, which each copy gets
	Copies     int         // instances started at once; at least 1
	// Prepare runs on the host before the trial, outside the clock; nil for none.
	Prepare func(ctx context.Context) error
	// Parse turns one copy's standard output into values; nil for none.
	Parse   func(stdout []byte) ([]sample.Value, error)
	Timeout time.Duration // of the trial, from the request to the last exit
}

// Runner carries out jobs.
type Runner struct {
	RunID  string // part of instances' ids
	Dir    string // instances' directories are made here
	Groups Groups
	Probes []Probe
	Sink   Sink
}

// drainGrace is how long a stream may stay open after the payload's end.
const drainGrace = 2 * time.Second

// Run does one job and appends its record. The error is not the trial's: it
// says that the record could not be kept, or that ctx was cancelled, in which
// case nothing is recorded and the trial can be done again.
func (r *Runner) Run(ctx context.Context, job Job) (sample.Record, error) {
	record := sample.Record{Seq: job.Seq, Block: job.Block, Cell: job.Cell, At: time.Now().UnixNano()}
	record.Values, record.Warnings, record.Failure = r.measure(ctx, job)
	if err := ctx.Err(); err != nil {
		return record, err
	}
	if record.Failure != nil {
		record.Values = nil // a failure is a record, never a sample
	}
	return record, r.Sink.Append(record)
}

func (r *Runner) measure(ctx context.Context, job Job) (map[string][]float64, []string, *sample.Failure) {
	if job.Prepare != nil {
		if err := job.Prepare(ctx); err != nil {
			return nil, nil, fail("prepare", target.Labf("the prepare command: %w", err))
		}
	}
	t := &running{job: job, runner: r}
	err := t.prepare(ctx)
	if err == nil {
		err = t.timed(ctx)
	}
	failure := t.failure(err)
	if err := t.close(); err != nil && failure == nil {
		failure = fail("close", err)
	}
	if failure != nil {
		return nil, t.warnings, failure
	}
	return t.values, t.warnings, nil
}

// running is one trial under way.
type running struct {
	job      Job
	runner   *Runner
	copies   []*replica
	values   map[string][]float64
	warnings []string
}

func (t *running) prepare(ctx context.Context) error {
	t.values = map[string][]float64{}
	for i := range max(1, t.job.Copies) {
		id := fmt.Sprintf("%s-%s-%d-%d", target.Label, t.runner.RunID, t.job.Seq, i)
		c, err := newReplica(ctx, t.runner, t.job, id)
		if c != nil {
			t.copies = append(t.copies, c)
		}
		if err != nil {
			return phased{"prepare", err}
		}
	}
	return nil
}

// timed is everything between the probes' begin and end.
func (t *running) timed(ctx context.Context) error {
	end, err := t.beginProbes(ctx)
	if err != nil {
		return phased{"prepare", target.Labf("probe: %w", err)}
	}
	bounded, cancel := context.WithTimeout(ctx, t.job.Timeout)
	defer cancel()
	errs := make([]error, len(t.copies))
	if len(t.copies) == 1 { // the common case needs no other thread in the timed path
		errs[0] = t.copies[0].run(bounded)
	} else {
		var all sync.WaitGroup
		for i, c := range t.copies {
			all.Go(func() { errs[i] = c.run(bounded) })
		}
		all.Wait()
	}
	probed, probeErr := end()
	for _, c := range t.copies {
		t.warnings = append(t.warnings, c.drain()...)
	}
	if err := errors.Join(errs...); err != nil {
		if ctx.Err() == nil && bounded.Err() != nil {
			return phased{"wait", fmt.Errorf("the payload had not ended after %v and was killed: give it more with --timeout or the study's timeout", t.job.Timeout)}
		}
		return err
	}
	if probeErr != nil {
		return phased{"wait", target.Labf("probe: %w", probeErr)}
	}
	return t.evaluate(probed)
}

// beginProbes arms the probes in order; the returned function ends them in the
// opposite order, the last armed being the nearest to the payload.
func (t *running) beginProbes(ctx context.Context) (func() ([]sample.Value, error), error) {
	var watches []target.Watch
	for _, c := range t.copies {
		watches = append(watches, c.instance.Watch()...)
	}
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
	for _, p := range t.runner.Probes {
		end, err := p.Begin(ctx, watches)
		if err != nil {
			_, endErr := endAll()
			return nil, errors.Join(err, endErr)
		}
		ends = append(ends, end)
	}
	return endAll, nil
}

// evaluate turns marks, usage, probes' readings and outputs into values.
func (t *running) evaluate(probed []sample.Value) error {
	for _, c := range t.copies {
		values, err := c.evaluate(t.job.Parse)
		if err != nil {
			return err
		}
		for _, v := range values {
			t.values[v.Metric] = append(t.values[v.Metric], v.Value)
		}
	}
	sums := map[string]float64{}
	for _, v := range probed {
		sums[v.Metric] += v.Value
	}
	for metric, sum := range sums { // a probe sees more than getrusage: it takes precedence
		t.values[metric] = []float64{sum}
	}
	return nil
}

func (t *running) failure(err error) *sample.Failure {
	if err == nil {
		return nil
	}
	phase := "wait"
	var p phased
	if errors.As(err, &p) {
		phase = p.phase
	}
	f := fail(phase, err)
	var ended *exitError
	if errors.As(err, &ended) {
		f.Signal = ended.exit.Signal
		if f.Signal == 0 {
			f.ExitCode = &ended.exit.Code
		}
	}
	for _, c := range t.copies {
		if tail := c.stderr.tail(2 << 10); tail != "" {
			f.Stderr = tail
			break
		}
	}
	return f
}

func (t *running) close() error {
	var errs []error
	for _, c := range t.copies {
		errs = append(errs, c.close())
	}
	if err := errors.Join(errs...); err != nil {
		return target.Labf("clean-up: %w", err)
	}
	return nil
}

// phased says in which phase an error arose.
type phased struct {
	phase string
	error
}

func (p phased) Unwrap() error { return p.error }

func fail(phase string, err error) *sample.Failure {
	fault := sample.FaultTarget
	if target.IsLab(err) {
		fault = sample.FaultLaboratory
	}
	return &sample.Failure{Fault: fault, Phase: phase, Message: err.Error()}
}

// makeDir makes an instance's own directory.
func makeDir(parent, id string) (string, error) {
	dir := filepath.Join(parent, id)
	return dir, os.MkdirAll(dir, 0o700)
}
