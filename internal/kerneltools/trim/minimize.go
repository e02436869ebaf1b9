package trim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/steplog"
	"github.com/tarelab/tare/internal/sys"
)

// Minimize are the options of a search for a smaller kernel, beside those of the
// first one. What is not optional of its wants stays.
type Minimize struct {
	Budget time.Duration
	// Prove boots a kernel's file and puts it to the proof: what fails in it, "" for
	// nothing. An error that is a *RefusedError is the kernel's, as a panic.
	Prove  func(ctx context.Context, image string) (failed string, err error)
	Proof  string           // what the proof consists of, for the log
	Now    func() time.Time // for the log
	Tell   func(Step)       // is told of each candidate
	Object func(Progress)   // is told of each object
}

// SearchLog is the log of a search, in its output directory.
const SearchLog = "minimize.log"

// candidateName is the kernel that is tried, in the same.
const candidateName = "candidate"

// Search makes o's kernel and takes out of it, by bisection, what no need insists
// on and the proof does not miss. The smallest that was proven lies in o.Output,
// and the log of all candidates beside it: a search that was ended goes on there.
func (o Options) Search(ctx context.Context, m Minimize) (f Found, err error) {
	if err := errors.Join(o.Check(o.Base != nil), o.checkTools(ctx)); err != nil {
		return f, err
	}
	unlock, err := o.lock()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	base, candidates, err := o.candidates(ctx)
	if err != nil {
		return f, err
	}
	of, err := o.searchOf(base, m.Proof)
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(filepath.Join(o.Output, candidateName))
	log, err := steplog.Open[Step](filepath.Join(o.Output, SearchLog), of, "source, needs, machine, compression or proof")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	known, err := o.known(log.Steps)
	if err != nil {
		return f, err
	}
	s := bisection{Known: known, Now: m.Now, Budget: m.Budget,
		Keep: func(step Step) error {
			m.Tell(step)
			return log.Keep(step)
		},
		Try: func(ctx context.Context, without []string, most int64) (proven, error) {
			return o.without(base, without).try(ctx, m, candidates, most, o.Output)
		}}
	return s.Run(ctx, candidates)
}

// searchOf names all that a search depends on.
func (o *Options) searchOf(base *kconfig.Config, proof string) (string, error) {
	text, err := json.Marshal([]any{o.Source, o.Wants, o.Compression, base.Values, proof})
	if err != nil {
		return "", fmt.Errorf("log of the search: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// candidates are the configuration that o makes, and the symbols in it that people
// are asked for, that no want insists on, and that Kconfig leaves out when all of
// them are to go.
func (o Options) candidates(ctx context.Context) (*kconfig.Config, []string, error) {
	first, err := configure(ctx, &o)
	if err != nil {
		return nil, nil, err
	}
	var on []string
	for symbol, value := range first.Config.Values {
		if value == "y" && !slices.ContainsFunc(o.Wants, func(w kconfig.Want) bool {
			return !w.Optional && (w.Symbol == symbol || slices.Contains(w.Or, symbol))
		}) {
			on = append(on, symbol)
		}
	}
	slices.Sort(on)
	says, err := ask(ctx, &o, on)
	if err != nil {
		return nil, nil, err
	}
	on = slices.DeleteFunc(on, func(symbol string) bool { return !says[symbol].asked || symbol == "EXPERT" })
	bare := o.without(first.Config, on)
	left, err := askKconfig(ctx, &bare)
	if err != nil {
		return nil, nil, err
	}
	return first.Config, off(left, on), nil
}

// off are those symbols that are not in a configuration.
func off(c *kconfig.Config, symbols []string) []string {
	return slices.DeleteFunc(slices.Clone(symbols), func(s string) bool { return c.On(s) })
}

// without are the options of base's kernel without symbols.
func (o Options) without(base *kconfig.Config, symbols []string) Options {
	o.Way, o.Base = TopDown, base
	o.Wants = slices.DeleteFunc(slices.Clone(o.Wants), func(w kconfig.Want) bool { return w.Optional })
	for _, symbol := range symbols {
		o.Wants = append(o.Wants, kconfig.Want{Symbol: symbol, Value: "n", Optional: true, Why: "may a smaller kernel lack it?", Source: "tare trim build --minimize", Need: "minimize"})
	}
	return o
}

// try makes one candidate and puts it to the proof. One that passes is kept in output.
func (o Options) try(ctx context.Context, m Minimize, candidates []string, most int64, output string) (proven, error) {
	configured, err := configure(ctx, &o)
	if err != nil {
		return proven{}, refused(ctx, err)
	}
	keeps := map[string]string{}
	for _, l := range configured.GivenUp {
		if l.Value == "n" {
			keeps[l.Symbol] = l.reason()
		}
	}
	if len(keeps) > 0 {
		return proven{}, &RefusedError{Why: "Kconfig leaves some of them on", Keeps: keeps}
	}
	o.Output = filepath.Join(output, candidateName)
	r, err := o.build(ctx, m.Object)
	if err != nil {
		return proven{}, refused(ctx, err)
	}
	size := r.Sizes["image"]
	if most > 0 && size > most {
		return proven{}, &RefusedError{Why: fmt.Sprintf("the image grows from %d to %d bytes", most, size)}
	}
	failed, err := m.Prove(ctx, r.Image)
	if err != nil {
		return proven{}, err
	}
	if failed != "" {
		return proven{}, &RefusedError{Why: failed}
	}
	o.Output = output
	if r, err = o.build(ctx, m.Object); err != nil { // all of it is there: it is only copied
		return proven{}, err
	}
	digest, err := sys.FileDigest(r.Image)
	if err != nil {
		return proven{}, fmt.Errorf("search for a smaller kernel: %w", err)
	}
	return proven{Image: size, Digest: digest, Off: off(configured.Config, candidates)}, nil
}

// known are the steps of an earlier search that need not be tried again: all but the
// last that was accepted, where its kernel no longer lies in o.Output.
func (o *Options) known(steps []Step) ([]Step, error) {
	last := -1
	for i, s := range steps {
		if s.Accepted {
			last = i
		}
	}
	if last < 0 {
		return steps, nil
	}
	digest, err := sys.FileDigest(filepath.Join(o.Output, o.image()))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("search for a smaller kernel: %w", err)
	}
	if err == nil && digest == steps[last].Digest {
		return steps, nil
	}
	again := steps[last]
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.same(again.Without, again.Out) }), nil
}

// refused are errors of a build that are the candidate's fault.
func refused(ctx context.Context, err error) error {
	var lost *LostError
	var build *BuildError
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &lost):
		var names []string
		for _, l := range lost.Lost {
			names = append(names, fmt.Sprintf("%s (need %s: %s)", l.Symbol, l.Need, l.Why))
		}
		return &RefusedError{Why: "it loses " + strings.Join(names, ", ")}
	case errors.As(err, &build) && !build.full():
		return &RefusedError{Why: build.Error()}
	}
	return err
}
