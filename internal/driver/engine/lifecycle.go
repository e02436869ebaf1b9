package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
)

// request is a verb that needs nothing beforehand.
type request func(ctx context.Context) error

// Do implements driver.Act.
func (r request) Do(ctx context.Context) error { return r(ctx) }

// Close implements driver.Act.
func (request) Close() error { return nil }

// stopSeconds is how long an engine waits after SIGTERM before it kills, its usual time.
const stopSeconds = 10

// Verbs implements driver.Controller.
func (d *apiDriver) Verbs() []driver.Verb { return driver.Verbs() }

// Control implements driver.Controller by Docker's API.
func (d *apiDriver) Control(_ context.Context, of driver.Instance, verb driver.Verb, exec driver.Exec) (driver.Act, error) {
	i, ok := of.(*instance)
	if !ok {
		return nil, driver.Labf("%s: an instance of another driver", d.Name())
	}
	if verb == driver.VerbExec && d.engine.flavor.monitor != "" && d.engine.private == nil {
		return nil, &driver.CannotError{Target: d.name, Lacks: "the monitor of an exec stays for minutes in the container's group", Remedy: "use --private-engines"}
	}
	id, c := i.spec.ID, i.client
	return request(func(ctx context.Context) (err error) {
		switch verb {
		case driver.VerbExec:
			err = execute(ctx, c, id, exec)
		case driver.VerbPause:
			_, err = c.ContainerPause(ctx, id, client.ContainerPauseOptions{})
		case driver.VerbUnpause:
			_, err = c.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		case driver.VerbStop:
			seconds := stopSeconds
			_, err = c.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		}
		if err != nil {
			return d.engine.explain(string(verb), err)
		}
		return nil
	}), nil
}

// execute runs a process in a container, as "docker exec" does.
func execute(ctx context.Context, c *client.Client, id string, exec driver.Exec) error {
	made, err := c.ExecCreate(ctx, id, client.ExecCreateOptions{Cmd: exec.Args, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err
	}
	attached, err := c.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer attached.Close()
	defer context.AfterFunc(ctx, attached.Close)()
	if err := frames(attached.Reader, orDiscard(exec.Stdio.Stdout), orDiscard(exec.Stdio.Stderr)); !errors.Is(err, io.EOF) {
		return errors.Join(ctx.Err(), err)
	}
	ended, err := c.ExecInspect(ctx, made.ID, client.ExecInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil // Podman has forgotten it already; what it did proves it
	}
	if err == nil && ended.ExitCode != 0 {
		err = fmt.Errorf("the process ended with code %d", ended.ExitCode)
	}
	return err
}

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
	process, err := launch.New(ctx, launch.Config{Launcher: d.lab.LaunchPath, Stdio: stdio, Args: args, Env: i.env})
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
		text := make([]byte, toldBytes)
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

// Verbs implements driver.Controller.
func (d *containerdDriver) Verbs() []driver.Verb { return driver.Verbs() }

// Control implements driver.Controller by containerd's API.
func (d *containerdDriver) Control(_ context.Context, of driver.Instance, verb driver.Verb, exec driver.Exec) (driver.Act, error) {
	i, ok := of.(*task)
	if !ok {
		return nil, driver.Labf("%s: an instance of another driver", d.Name())
	}
	i.mu.Lock()
	t := i.task
	i.execs++
	name := fmt.Sprintf("exec-%d", i.execs)
	i.mu.Unlock()
	return request(func(ctx context.Context) (err error) {
		switch verb {
		case driver.VerbExec:
			err = i.execute(ctx, t, name, exec)
		case driver.VerbPause:
			err = t.Pause(ctx)
		case driver.VerbUnpause:
			err = t.Resume(ctx)
		case driver.VerbStop:
			err = t.Kill(ctx, unix.SIGTERM)
		}
		if err != nil {
			return d.engine.explain(string(verb), err)
		}
		return nil
	}), nil
}

// execute runs a process in a task, as "ctr task exec" does.
func (i *task) execute(ctx context.Context, t containerd.Task, name string, exec driver.Exec) (err error) {
	spec, err := i.container.Spec(ctx)
	if err != nil {
		return err
	}
	process := *spec.Process
	process.Args, process.Terminal = exec.Args, false
	p, err := t.Exec(ctx, name, &process, cio.NewCreator(cio.WithStreams(nil, orDiscard(exec.Stdio.Stdout), orDiscard(exec.Stdio.Stderr)), cio.WithFIFODir(i.dir)))
	if err != nil {
		return err
	}
	defer func() {
		_, deleted := p.Delete(context.WithoutCancel(ctx), containerd.WithProcessKill)
		err = errors.Join(err, deleted)
	}()
	ended, err := p.Wait(ctx)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	select {
	case status := <-ended:
		p.IO().Wait()
		code, _, err := status.Result()
		if err == nil && code != 0 {
			err = fmt.Errorf("the process ended with code %d", code)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
