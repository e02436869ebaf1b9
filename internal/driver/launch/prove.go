package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// startsPerProof is how many times its usual length a start may take in a proof:
// the machine may be busy with others.
const startsPerProof = 20

// proofCode is an exit code that no failing tool gives by accident.
const proofCode = 113

// Prove runs a payload in driver and checks that its mark and its exit code come
// back.
func Prove(ctx context.Context, d driver.Driver, lab driver.Lab) error {
	p := d.Properties()
	ctx, cancel := context.WithTimeout(ctx, lab.AtMost(10*time.Second+startsPerProof*p.StartTime+p.CheckTime))
	defer cancel()
	exit, said, err := Try(ctx, d, lab, driver.Spec{
		Args: []string{driver.Mark, "-exit", strconv.Itoa(proofCode)},
	})
	switch {
	case err != nil:
		return err
	case exit.Code != proofCode || exit.Signal != 0:
		return fmt.Errorf("exit code %d of a check's payload came back as code %d, signal %d%s", proofCode, exit.Code, exit.Signal, quoted(said))
	case !bytes.Contains(said, []byte(driver.Acted)):
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

// Try runs a payload of the test root file system once. said is all that it wrote.
func Try(ctx context.Context, d driver.Driver, lab driver.Lab, spec driver.Spec) (exit driver.Exit, said []byte, err error) {
	dir, err := os.MkdirTemp(lab.RunDir, driver.Label+"-check-")
	if err != nil {
		return exit, nil, driver.Labf("check %s: %w", d.Name(), err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	out, in, err := os.Pipe()
	if err != nil {
		return exit, nil, driver.Labf("check %s: %w", d.Name(), err)
	}
	defer out.Close()
	spec.ID, spec.Rootfs, spec.Image, spec.Env = filepath.Base(dir), lab.TestRootfs, lab.TestImage, []string{"PATH=/bin"}
	spec.Stdio = driver.Stdio{Stdout: in, Stderr: in}
	exit, err = Run(ctx, d, dir, spec)
	in.Close()
	said, readErr := io.ReadAll(out)
	if readErr != nil {
		readErr = driver.Labf("read what the check said: %w", readErr)
	}
	if err != nil {
		err = fmt.Errorf("%w%s", err, quoted(said))
	}
	return exit, said, errors.Join(err, readErr)
}

// Run prepares, starts, awaits and closes one instance.
func Run(ctx context.Context, d driver.Driver, dir string, spec driver.Spec) (exit driver.Exit, err error) {
	inst, err := d.Prepare(ctx, spec, dir)
	if err != nil {
		return exit, err
	}
	defer func() { err = errors.Join(err, inst.Close()) }()
	if err := inst.Start(ctx, func(driver.Phase) {}); err != nil {
		return exit, err
	}
	return inst.Wait(ctx)
}
