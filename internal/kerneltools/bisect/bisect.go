package bisect

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/steplog"
	"github.com/tarelab/tare/internal/store"
)

// LogName is the log of a bisection, in its directory.
const LogName = "bisect.log"

// Step is one run of a bisection, as its log has it. One that has no answer was ended
// before its run was complete.
type Step struct {
	Kernels []string `json:"kernels"` // good, candidate, bad; or two that were compared
	Run     string   `json:"run,omitempty"`
	Metric  string   `json:"metric,omitempty"` // that was compared
	Seconds float64  `json:"seconds,omitempty"`
	Reading
}

// Bench measures; the command line's laboratory is one.
type Bench interface {
	// Measure runs the question's workload on the machine with each of the kernels, in one
	// interleaved run: the first and the last must work, one between them is left out where
	// it does not. earlier is the id of a run of the same kernels that was broken off, "" for
	// none; begun is called with the id of the run before its first trial. A run that would
	// take longer than left is a *BudgetError, a candidate that is known not to run a *SkipError.
	Measure(ctx context.Context, kernels []string, earlier string, left time.Duration, begun func(id string) error) (*store.Run, error)
	// Tell reports that a step begins: its number, and about how many there are. Told reports its result.
	Tell(at, of int, kernels []string)
	Told(Step)
}

// BudgetError says that a step would take longer than what is left of the budget.
type BudgetError struct{ Needs, Left time.Duration }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the next run takes about %v, and %v of the budget are left", e.Needs.Round(time.Second), max(0, e.Left).Round(time.Second))
}

// A Chain is a list of kernels that leads from the good end to the bad one.
type Chain struct {
	Names []string
	// Kernel gives a kernel as a target names it, a release or a file, made where it has to
	// be. A *SkipError is the kernel's fault. nil where the names are the kernels.
	Kernel func(ctx context.Context, at int) (string, error)
	// With are further options that change along with each; nil where the names say all.
	With [][]string
}

// A SkipError says why a kernel cannot be had or measured.
type SkipError struct{ Why string }

func (e *SkipError) Error() string { return e.Why }

func (c Chain) kernel(ctx context.Context, at int) (string, error) {
	if c.Kernel == nil {
		return c.Names[at], nil
	}
	return c.Kernel(ctx, at)
}

// Found is what a bisection ends with.
type Found struct {
	Question
	Good  string           `json:"good"`           // the last that resembles the good end
	Bad   string           `json:"bad"`            // the first that resembles the bad end
	With  []string         `json:"with,omitempty"` // options that change along with Bad
	Whole *analysis.Effect `json:"whole,omitempty"`
	// Change is Bad against Good; nil before they are known.
	Change *analysis.Effect `json:"change,omitempty"`
	// Between are kernels between Good and Bad that cannot be told.
	Between  []string `json:"between,omitempty"`
	Steps    []Step   `json:"steps"`
	Emulated bool     `json:"emulated,omitempty"` // the guests' CPU was: these are figures to compare with emulated ones
	// Ended is why the search ended before its end, "" where it did not.
	Ended string `json:"ended,omitempty"`
}

// Bisection narrows the difference between the ends of a chain.
type Bisection struct {
	Question
	Chain  Chain
	Bench  Bench
	Log    *steplog.Log[Step]
	Budget time.Duration
	Now    func() time.Time

	began time.Time
	found Found
	rises bool
}

// Looks is how many runs a bisection of n kernels may rest its answer on.
func Looks(n int) int { return 1 + halvings(n) }

// Run measures the ends, then halves what lies between them. Ends that do not differ
// certainly end it, with Ended saying so. What was done is in the result, also next to an
// error.
func (b *Bisection) Run(ctx context.Context) (Found, error) {
	b.began = b.Now()
	last := len(b.Chain.Names) - 1
	b.found = Found{Question: b.Question, Good: b.Chain.Names[0], Bad: b.Chain.Names[last]}
	ends, err := b.step(ctx, 0, last)
	if err != nil {
		return b.ended(err)
	}
	b.found.Whole, b.found.Emulated = ends.Change, ends.Emulated
	if ends.Answer != Bad {
		b.found.Ended = ends.Why
		return b.found, nil
	}
	b.rises = ends.Change.Ratio > 1
	known, err := search(len(b.Chain.Names), func(at int) (Answer, error) {
		s, err := b.step(ctx, 0, at, last)
		return s.Answer, err
	})
	b.found.Good, b.found.Bad, b.found.Between = b.Chain.Names[known.good], b.Chain.Names[known.bad], b.Chain.Names[known.good+1:known.bad]
	if b.Chain.With != nil {
		b.found.With = b.Chain.With[known.bad]
	}
	if err != nil {
		return b.ended(err)
	}
	if b.found.Change = b.together(known.good, known.bad, last); b.found.Change == nil {
		s, err := b.step(ctx, known.good, known.bad)
		if err != nil {
			return b.ended(err)
		}
		b.found.Change = s.Change
	}
	return b.found, nil
}

// ended is the result of a search that an error ended. The end of the budget is none.
func (b *Bisection) ended(err error) (Found, error) {
	if spent := new(BudgetError); errors.As(err, &spent) {
		b.found.Ended = spent.Error()
		return b.found, nil
	}
	return b.found, err
}

// together is the change between two kernels as a step has it in which both were; nil
// where there is none.
func (b *Bisection) together(good, bad, last int) *analysis.Effect {
	for _, s := range b.found.Steps {
		switch {
		case len(s.Kernels) == 2 && s.Kernels[0] == b.Chain.Names[good] && s.Kernels[1] == b.Chain.Names[bad]:
			return s.Change
		case good == 0 && len(s.Kernels) == 3 && s.Kernels[1] == b.Chain.Names[bad]:
			return s.Candidate
		case bad == last && len(s.Kernels) == 3 && s.Kernels[1] == b.Chain.Names[good]:
			return s.Rest
		}
	}
	return nil
}

// step measures some kernels together and judges them, or takes what the log has of that.
func (b *Bisection) step(ctx context.Context, at ...int) (Step, error) {
	step := Step{}
	for _, i := range at {
		step.Kernels = append(step.Kernels, b.Chain.Names[i])
	}
	for _, known := range slices.Backward(b.Log.Steps) {
		if !slices.Equal(known.Kernels, step.Kernels) {
			continue
		}
		if known.Answer != "" {
			return b.keep(known), nil
		}
		step.Run = known.Run
		break
	}
	b.Bench.Tell(len(b.found.Steps)+1, Looks(len(b.Chain.Names)), step.Kernels)
	began := b.Now()
	var err error
	if step.Reading, err = b.measure(ctx, &step, at); err != nil {
		return step, err
	}
	step.Seconds = b.Now().Sub(began).Seconds()
	step.Metric = b.Metric
	b.Bench.Told(step)
	return b.keep(step), b.Log.Keep(step)
}

// keep takes a step into what was found.
func (b *Bisection) keep(s Step) Step {
	if s.Metric != "" {
		b.Metric = s.Metric
	}
	b.found.Question, b.found.Steps = b.Question, append(b.found.Steps, s)
	return s
}

// measure makes the kernels of a step, measures and judges them.
func (b *Bisection) measure(ctx context.Context, step *Step, at []int) (Reading, error) {
	var kernels []string
	for _, i := range at {
		k, err := b.Chain.kernel(ctx, i)
		if skip := new(SkipError); errors.As(err, &skip) {
			return Reading{Answer: Skipped, Why: skip.Why}, nil
		}
		if err != nil {
			return Reading{}, err
		}
		kernels = append(kernels, k)
	}
	left := b.Budget - b.Now().Sub(b.began)
	run, err := b.Bench.Measure(ctx, kernels, step.Run, left, func(id string) error {
		step.Run = id
		return b.Log.Keep(*step)
	})
	if skip := new(SkipError); errors.As(err, &skip) {
		return Reading{Answer: Skipped, Why: skip.Why}, nil
	}
	if err != nil {
		return Reading{}, err
	}
	if len(kernels) == 2 {
		return b.Ends(run, kernels[0], kernels[1])
	}
	return b.Candidate(run, kernels[0], kernels[1], kernels[2], b.rises)
}

// Shown is a kernel as people read it: a release, or the last two names of a file's path.
func Shown(kernel string) string {
	if driver.IsRelease(kernel) {
		return kernel
	}
	return path.Join(path.Base(path.Dir(kernel)), path.Base(kernel))
}
