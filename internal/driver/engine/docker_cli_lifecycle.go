package engine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/limit"
)

// Control implements driver.Controller by the client: a launcher stands ready to become
// it.
func (d clientDriver) Control(ctx context.Context, of driver.Instance, verb driver.Verb, exec driver.Exec) (driver.Act, error) {
	i, ok := of.(*command)
	if !ok {
		return nil, driver.Labf("%s: an instance of another driver", d.Name())
	}
	program, err := d.Locate()
	if err != nil {
		return nil, d.lacks()
	}
	args := append([]string{program, "--host", "unix://" + d.engine.socket, string(verb), i.spec.ID}, exec.Args...)
	said, err := os.CreateTemp(i.dir, "said-")
	if err != nil {
		return nil, driver.Labf("output of docker: %w", err)
	}
	stdio := driver.Stdio{Stdout: said, Stderr: said}
	if verb == driver.VerbExec {
		stdio = exec.Stdio
	}
	process, err := launch.New(ctx, launch.Config{Launcher: d.engine.lab.LaunchPath, Stdio: stdio, Args: args, Env: i.env})
	if err != nil {
		return nil, errors.Join(err, said.Close())
	}
	return &clientAct{verb: verb, process: process, said: said}, nil
}

// clientAct is one command of the client.
type clientAct struct {
	verb    driver.Verb
	process *launch.Process
	said    *os.File
}

// Do implements driver.Act.
func (a *clientAct) Do(ctx context.Context) error {
	if err := a.process.Go(); err != nil {
		return err
	}
	r, err := a.process.Wait(ctx)
	if err == nil && (r.Payload.Code != 0 || r.Payload.Signal != 0) {
		text := make([]byte, limit.DaemonError.Bytes)
		n, _ := a.said.ReadAt(text, 0) // what it said is only words
		err = fmt.Errorf("docker %s ended with code %d, signal %d: %s", a.verb, r.Payload.Code, r.Payload.Signal, text[:n])
	}
	return err
}

// Close implements driver.Act.
func (a *clientAct) Close() error {
	_ = a.said.Close() // nothing is written by this descriptor
	return a.process.Close()
}
