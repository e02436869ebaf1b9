package trim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A RefusedError says why a candidate of a search is no kernel to go on with: a need
// lost, a build that failed, a check that did not pass. It is the candidate's fault, and
// the search goes on.
type RefusedError struct {
	Why   string
	Keeps map[string]string // symbols that Kconfig leaves on, and why; nothing was built
}

func (e *RefusedError) Error() string { return e.Why }

// A Step is one candidate of a search: symbols that were taken out beside those
// that were out already, and what came of it. The first takes nothing out.
type Step struct {
	Without  []string          `json:"without,omitempty"` // tried now
	Out      []string          `json:"out,omitempty"`     // out before
	Accepted bool              `json:"accepted"`
	Along    []string          `json:"along,omitempty"`  // accepted: candidates that went with them
	Image    int64             `json:"image,omitempty"`  // accepted: bytes
	Digest   string            `json:"digest,omitempty"` // accepted: the image's sha256
	Why      string            `json:"why,omitempty"`    // it was refused
	Keeps    map[string]string `json:"keeps,omitempty"`  // it was refused because Kconfig leaves these on, and why
	Seconds  float64           `json:"seconds"`          // that it took
}

// same says whether a step is of the same candidate.
func (s Step) same(without, out []string) bool {
	return slices.Equal(s.Without, without) && slices.Equal(s.Out, out)
}

// A proven kernel has passed the proof.
type proven struct {
	Image  int64    // bytes
	Digest string   // sha256
	Off    []string // candidates that are out of it: those asked for, and what depends on them
}

// A bisection removes symbols from a kernel by bisection.
type bisection struct {
	// Try makes the kernel without symbols, puts it to the proof and keeps it. Its
	// image may have so many bytes, 0 for any. A *RefusedError is the candidate's
	// fault; every other error ends the search.
	Try    func(ctx context.Context, without []string, most int64) (proven, error)
	Known  []Step           // of an earlier search for the same, which are not tried again
	Keep   func(Step) error // keeps each step before the next
	Now    func() time.Time // for the log
	Budget time.Duration    // a candidate that is not done then counts as not tried
}

// A Found kernel is what a search ends with.
type Found struct {
	First   int64      `json:"first"` // bytes of the image, before
	Image   int64      `json:"image"` // and after
	Out     []string   `json:"out"`
	Refused []Step     `json:"refused"`           // symbols that stay, each by itself, with the reason
	Untried [][]string `json:"untried,omitempty"` // groups that the budget left
}

// hung is how many times as long as the first kernel a candidate may take, with
// leeway for a first build from nothing: what takes longer will not come.
const (
	hung   = 3
	leeway = 10 * time.Minute
)

// Run tries to take out the candidates, all at first, then the halves of what is
// refused. Symbols that Kconfig leaves on are tried once more when others are out.
// Where the first kernel, from which nothing is out, is refused, that is an error.
func (s *bisection) Run(ctx context.Context, candidates []string) (Found, error) {
	within, cancel := context.WithTimeout(ctx, s.Budget)
	defer cancel()
	over := func() bool { return ctx.Err() == nil && within.Err() != nil }
	first, err := s.step(within, nil, Found{}, s.Budget)
	switch {
	case over():
		return Found{Untried: [][]string{candidates}}, nil
	case err != nil:
		return Found{}, err
	case !first.Accepted:
		return Found{}, fmt.Errorf("the kernel from which nothing is taken out is refused: %s", first.Why)
	}
	f := Found{First: first.Image, Image: first.Image}
	patience := time.Duration(hung*first.Seconds*float64(time.Second)) + leeway
	queue, later, progress := [][]string{union(candidates)}, map[string]string{}, false
	for len(queue) > 0 || progress && len(later) > 0 {
		if len(queue) == 0 { // others are out since: what Kconfig left on may go now
			queue, later, progress = [][]string{slices.Sorted(maps.Keys(later))}, map[string]string{}, false
		}
		group := minus(queue[0], f.Out)
		if len(group) == 0 {
			queue = queue[1:]
			continue
		}
		step, err := s.step(within, group, f, patience)
		if over() {
			f.Untried = queue
			break
		}
		if err != nil {
			return f, err
		}
		queue = queue[1:]
		switch {
		case step.Accepted:
			f.Out, f.Image, progress = union(f.Out, group, step.Along), step.Image, true
		case len(step.Keeps) > 0:
			maps.Copy(later, step.Keeps)
			queue = slices.Concat([][]string{minus(group, slices.Collect(maps.Keys(step.Keeps)))}, queue)
		case len(group) > 1:
			half := len(group) / 2
			queue = slices.Concat([][]string{group[:half], group[half:]}, queue)
		default:
			f.Refused = append(f.Refused, step)
		}
	}
	for _, symbol := range minus(slices.Sorted(maps.Keys(later)), f.Out) {
		f.Refused = append(f.Refused, Step{Without: []string{symbol}, Why: later[symbol]})
	}
	return f, nil
}

// step tries one candidate, or takes what is known of it, and keeps what came of
// it. One that takes longer than patience hangs.
func (s *bisection) step(ctx context.Context, group []string, f Found, patience time.Duration) (Step, error) {
	if i := slices.IndexFunc(s.Known, func(k Step) bool { return k.same(group, f.Out) }); i >= 0 {
		return s.Known[i], nil
	}
	own, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := s.Now()
	step := Step{Without: group, Out: f.Out}
	made, err := s.Try(own, union(f.Out, group), f.Image)
	var refused *RefusedError
	switch {
	case ctx.Err() != nil:
		return step, ctx.Err()
	case err == nil:
		step.Accepted, step.Image, step.Digest, step.Along = true, made.Image, made.Digest, minus(made.Off, union(f.Out, group))
	case errors.As(err, &refused):
		step.Why, step.Keeps = refused.Why, refused.Keeps
	case own.Err() != nil:
		step.Why = fmt.Sprintf("it hangs: nothing came of it in %v: %v", patience.Round(time.Second), err)
	default:
		return step, err
	}
	step.Seconds = s.Now().Sub(began).Seconds()
	return step, s.Keep(step)
}

// union is the sorted union of sets of symbols.
func union(sets ...[]string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(sets...))))
}

// minus is what a has and b has not.
func minus(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(symbol string) bool { return slices.Contains(b, symbol) })
}
