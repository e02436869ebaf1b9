package pair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// proveWith runs a client against its server once. dir is where the proof's
// directory is made.
func proveWith(ctx context.Context, d *Driver, peer, args []string) (err error) {
	dir, err := os.MkdirTemp(d.lab.RunDir, target.Label+"-check-")
	if err != nil {
		return target.Labf("check %s: %w", d.Name(), err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	out, in, err := os.Pipe()
	if err != nil {
		return target.Labf("check %s: %w", d.Name(), err)
	}
	defer out.Close()
	exit, err := run(ctx, d, dir, target.Spec{
		ID: fmt.Sprintf("%s-check-%d-%s", target.Label, os.Getpid(), d.path), Rootfs: d.lab.TestRootfs, Args: args, Peer: peer,
		Env: []string{"PATH=/bin"}, Stdio: target.Stdio{Stdout: in, Stderr: in},
	})
	in.Close()
	said, readErr := io.ReadAll(out)
	switch {
	case err != nil:
		return err
	case readErr != nil:
		return target.Labf("read what the check said: %w", readErr)
	case exit.Code != 0 || exit.Signal != 0:
		return fmt.Errorf("a check's client ended with code %d, signal %d (it said %q)", exit.Code, exit.Signal, said)
	}
	return nil
}

func run(ctx context.Context, d *Driver, dir string, spec target.Spec) (exit target.Exit, err error) {
	inst, err := d.Prepare(ctx, spec, dir)
	if err != nil {
		return exit, err
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	if err := inst.Start(ctx, func(target.Phase) {}); err != nil {
		return exit, err
	}
	return inst.Wait(ctx)
}
