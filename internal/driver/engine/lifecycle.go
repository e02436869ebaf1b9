package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
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
