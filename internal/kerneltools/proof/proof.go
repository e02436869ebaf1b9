// Package proof puts kernels to the proof that containers run in them, and searches
// by it for the smallest kernel that passes.
package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/vmm"
)

// Bench is what a proof needs of a laboratory; a *lab.Lab is one.
type Bench interface {
	Config() lab.Config
	Place() driver.Lab
	Drivers(ctx context.Context, names ...string) ([]driver.Driver, error)
}

// Minimize searches for a kernel smaller than o's that still passes the proof of
// prover. told is told of each candidate, made of each object of a build.
func Minimize(ctx context.Context, l Bench, prover *driver.ContainerHost, o trim.Options, budget time.Duration, told func(trim.Step), made func(trim.Progress)) (trim.Found, error) {
	return o.Search(ctx, trim.Minimize{Budget: budget, Proof: prover.Proof, Now: time.Now, Tell: told, Object: made,
		Prove: func(ctx context.Context, image string) (string, error) {
			checks, err := prover.Prove(ctx, driver.ProofOptions{Kernel: image, UntilFailed: true}, l.Config().Say)
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // the proof's own time: a check that hangs is the candidate's
				return err.Error(), nil
			}
			return firstFailed(checks), err
		}})
}

// firstFailed is the first check that failed, with why and with those before it;
// "" where all passed.
func firstFailed(checks []driver.ProofCheck) string {
	var passed []string
	for _, c := range checks {
		if !c.Passed() {
			return fmt.Sprintf("%s: %s; checks passed before: %s", c.Name, c.Result, cmp.Or(strings.Join(passed, ", "), "none"))
		}
		passed = append(passed, c.Name)
	}
	return ""
}

// Prove puts a kernel to the proof: that of a file on a virtual machine, or that of
// a container host, such as vm/trimmed, on the host's own, for which vm is "". A
// file that is no kernel is an *lab.InputError.
func Prove(ctx context.Context, l Bench, kernel, vm string, quick bool) ([]driver.ProofCheck, error) {
	o := driver.ProofOptions{Kernel: kernel, Quick: quick}
	prover, err := proverOf(ctx, l, &o, vm)
	if err != nil {
		return nil, err
	}
	return prover.Prove(ctx, o, l.Config().Say)
}

// defaultProver is the machine that proves where none is named.
const defaultProver = vmm.QEMUQ35

// proverOf finds who proves what o names.
func proverOf(ctx context.Context, l Bench, o *driver.ProofOptions, vm string) (*driver.ContainerHost, error) {
	all, err := l.Drivers(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if p := d.Properties().ContainerHost(); p != nil && d.Name() == o.Kernel {
			if vm != "" && vm != p.ProvesOn {
				return nil, &lab.InputError{Err: fmt.Errorf("%s is a machine of %s, and not of %s: leave --vm out", d.Name(), p.ProvesOn, vm)}
			}
			o.Kernel = ""
			return p, mayProve(l, d)
		}
	}
	k, err := vmm.Inspect(o.Kernel)
	if err == nil {
		err = k.Fits()
	}
	if err != nil {
		return nil, &lab.InputError{Err: err}
	}
	// A virtual machine monitor runs in a directory of its own.
	if o.Kernel, err = filepath.Abs(o.Kernel); err != nil {
		return nil, err
	}
	return Prover(ctx, l, cmp.Or(vm, defaultProver))
}

// Host is the container host of a name. Where there is none, or it takes root that is
// missing, the error is a *driver.CannotError.
func Host(ctx context.Context, l Bench, name string) (*driver.ContainerHost, error) {
	all, err := l.Drivers(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if p := d.Properties().ContainerHost(); p != nil && d.Name() == name {
			return p, mayProve(l, d)
		}
	}
	return nil, &driver.CannotError{Target: name, Lacks: "container hosts are made for x86-64 alone"}
}

// mayProve refuses a prover that lacks the right to.
func mayProve(l Bench, d driver.Driver) error {
	if d.Properties().NeedsRoot && !l.Place().Root {
		return &driver.CannotError{Target: d.Name(), Lacks: "the proof needs root", Remedy: "run it as root"}
	}
	return nil
}

// Prover is the target that proves kernels on a virtual machine. Where none does,
// the error is an *lab.InputError, and where none can a *driver.CannotError.
func Prover(ctx context.Context, l Bench, vm string) (*driver.ContainerHost, error) {
	all, err := l.Drivers(ctx)
	if err != nil {
		return nil, err
	}
	var on []string
	for _, d := range all {
		p := d.Properties().ContainerHost()
		switch {
		case p == nil:
		case p.ProvesOn != vm:
			on = append(on, p.ProvesOn)
		default:
			return p, mayProve(l, d)
		}
	}
	if len(on) == 0 {
		return nil, &driver.CannotError{Target: vm, Lacks: "kernels are put to the proof on x86-64 alone"}
	}
	slices.Sort(on)
	return nil, &lab.InputError{Err: fmt.Errorf("kernels are put to the proof on %s, and not on %s: name one of them with --vm", strings.Join(slices.Compact(on), " and "), vm)}
}
