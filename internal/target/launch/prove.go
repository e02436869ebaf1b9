package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// startsPerProof is how many times its usual length a start may take in a proof:
// the machine may be busy with others.
const startsPerProof = 20

// proofCode is an exit code that no failing tool gives by accident.
const proofCode = 113

// Prove runs a payload in driver and checks that its mark and its exit code come
// back.
func Prove(ctx context.Context, driver target.Driver, lab target.Lab) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second+startsPerProof*driver.Properties().StartTime)
	defer cancel()
	dir, err := os.MkdirTemp(lab.RunDir, target.Label+"-check-")
	if err != nil {
		return target.Labf("check %s: %w", driver.Name(), err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	out, in, err := os.Pipe()
	if err != nil {
		return target.Labf("check %s: %w", driver.Name(), err)
	}
	defer out.Close()
	exit, err := prove(ctx, driver, dir, target.Spec{
		ID: filepath.Base(dir), Rootfs: lab.TestRootfs, Image: lab.TestImage,
		Args:  []string{target.Mark, "--", "/bin/busybox", "sh", "-c", fmt.Sprintf("exit %d", proofCode)},
		Env:   []string{"PATH=/bin"},
		Stdio: target.Stdio{Stdout: in, Stderr: in},
	})
	in.Close()
	said, readErr := io.ReadAll(out)
	switch {
	case err != nil:
		return fmt.Errorf("%w%s", err, quoted(said))
	case readErr != nil:
		return target.Labf("read what the check said: %w", readErr)
	case exit.Code != proofCode || exit.Signal != 0:
		return fmt.Errorf("exit code %d of a check's payload came back as code %d, signal %d%s", proofCode, exit.Code, exit.Signal, quoted(said))
	case !bytes.Contains(said, []byte("\x00tare:acted\x00")):
		return fmt.Errorf("the mark of a check's payload did not come back%s", quoted(said))
	}
	return nil
}

func quoted(said []byte) string {
	if len(said) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it said %q)", said)
}

func prove(ctx context.Context, driver target.Driver, dir string, spec target.Spec) (exit target.Exit, err error) {
	inst, err := driver.Prepare(ctx, spec, dir)
	if err != nil {
		return exit, err
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	if err := inst.Start(ctx, func(target.Phase) {}); err != nil {
		return exit, err
	}
	return inst.Wait(ctx)
}
