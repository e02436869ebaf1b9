package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
)

// Verbs implements driver.Controller.
func (d *Driver) Verbs() []driver.Verb { return driver.Verbs() }

// Control implements driver.Controller: a launcher stands ready to become the runtime's
// command.
func (d *Driver) Control(ctx context.Context, of driver.Instance, verb driver.Verb, exec driver.Exec) (driver.Act, error) {
	i, ok := of.(*instance)
	if !ok {
		return nil, driver.Labf("%s: an instance of another driver", d.Name())
	}
	steps, err := d.surroundings()
	if err != nil {
		return nil, err
	}
	out, err := os.CreateTemp(i.home.volatile, "said-")
	if err != nil {
		return nil, driver.Labf("output of %s: %w", d.runtime.Binary, err)
	}
	a := &act{runtime: d.runtime.Binary, verb: verb, log: filepath.Join(i.home.volatile, "log-"+string(verb)), said: out}
	stdio := driver.Stdio{Stdout: out, Stderr: out}
	if verb == driver.VerbExec {
		stdio = exec.Stdio
	}
	a.process, err = launch.New(ctx, launch.Config{
		Launcher: d.lab.LaunchPath, Env: environment(), Stdio: stdio, Pre: steps,
		Args: d.arguments(i.binary, i.home.state(), a.log, commandOf(verb, i.spec.ID, exec.Args)...),
	})
	if err != nil {
		return nil, fmt.Errorf("surroundings of %s: %w", d.Name(), errors.Join(err, out.Close()))
	}
	return a, nil
}

// commandOf is a verb in the words of runc's command line, which the others share.
func commandOf(verb driver.Verb, id string, args []string) []string {
	switch verb {
	case driver.VerbExec:
		return append([]string{"exec", id}, args...)
	case driver.VerbPause:
		return []string{"pause", id}
	case driver.VerbUnpause:
		return []string{"resume", id}
	}
	return []string{"kill", id, "SIGTERM"}
}

// act is one command of the runtime.
type act struct {
	runtime string
	verb    driver.Verb
	log     string
	said    *os.File
	process *launch.Process
}

// Do implements driver.Act.
func (a *act) Do(ctx context.Context) error {
	if err := a.process.Go(); err != nil {
		return err
	}
	result, err := a.process.Wait(ctx)
	if err == nil && (result.Payload.Code != 0 || result.Payload.Signal != 0) {
		err = &launch.RuntimeError{Name: a.runtime, Exit: result.Payload}
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	message := lastError(a.log)
	if text, readErr := readSome(a.said.Name()); message == "" && readErr == nil {
		message = string(text)
	}
	return fmt.Errorf("%s %s: %w: %s", a.runtime, a.verb, err, message)
}

// Close implements driver.Act. Its files are in the instance's own directory.
func (a *act) Close() error {
	_ = a.said.Close() // nothing is written by this descriptor
	return a.process.Close()
}
