package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/kernel/trim"
	"github.com/tarelab/tare/internal/target"
)

// Minimize searches for a kernel smaller than o's that still passes the proof of
// prover. told is told of each candidate, made of each object of a build.
func (l *Lab) Minimize(ctx context.Context, prover target.Prover, o trim.Options, budget time.Duration, told func(trim.Step), made func(trim.Progress)) (trim.Found, error) {
	return o.Search(ctx, trim.Minimize{Budget: budget, Proof: prover.Proof(), Now: time.Now, Tell: told, Object: made,
		Prove: func(ctx context.Context, image string) (string, error) {
			failed, err := prover.Prove(ctx, image, l.config.tell)
			var cannot *target.CannotError
			if err != nil && ctx.Err() == nil && !target.IsLab(err) && !errors.As(err, &cannot) {
				err = &trim.RefusedError{Why: err.Error()}
			}
			return failed, err
		}})
}

// Prover is the target that proves kernels on a virtual machine. Where none does,
// the error is an *InputError, and where none can a *target.CannotError.
func (l *Lab) Prover(vm string) (target.Prover, error) {
	var on []string
	for _, d := range l.drivers {
		p, ok := d.(target.Prover)
		switch {
		case !ok:
		case p.ProvesOn() != vm:
			on = append(on, p.ProvesOn())
		case p.Properties().NeedsRoot && !l.Target.Root:
			return nil, &target.CannotError{Target: d.Name(), Lacks: "the proof needs root", Remedy: "run it as root"}
		default:
			return p, nil
		}
	}
	if len(on) == 0 {
		return nil, &target.CannotError{Target: vm, Lacks: "kernels are put to the proof on x86-64 alone"}
	}
	slices.Sort(on)
	return nil, &InputError{fmt.Errorf("kernels are put to the proof on %s, and not on %s: name one of them with --vm", strings.Join(slices.Compact(on), " and "), vm)}
}
