package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// instance is one container, driven as "docker run" drives one: created,
// attached to, waited for, started.
type instance struct {
	driver *apiDriver
	spec   driver.Spec
	client *client.Client
	image  string

	requests        // its lock guards what follows
	created  bool   // a container of this name may be there, and is ours
	id       string // the engine's own of it
	started  bool
	streams  *streams
	ended    chan ending
	over     bool // the payload has ended by itself
}

// ending is what the engine reports of a container's end.
type ending struct {
	code int
	err  error
}

// Start implements driver.Instance. A start costs what it costs a user of
// "docker run": the container is made and started.
func (i *instance) Start(ctx context.Context, mark func(driver.Phase)) error {
	return i.start(ctx, i.driver.engine, i.kill, func(life context.Context) error { return i.begin(ctx, life, mark) })
}

// begin makes the requests of a start. Between them it checks whether ctx was
// cancelled.
func (i *instance) begin(ctx, life context.Context, mark func(driver.Phase)) error {
	options, err := i.options()
	if err != nil {
		return err
	}
	e := i.driver.engine
	made, err := i.client.ContainerCreate(life, options)
	if err != nil {
		return e.explain("create", err)
	}
	e.watchdog.beat()
	i.mu.Lock()
	i.created, i.id = true, made.ID
	i.mu.Unlock()
	mark(driver.PhaseCreated)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	attached, err := i.client.ContainerAttach(life, made.ID, client.ContainerAttachOptions{
		Stream: true, Stdin: i.spec.Stdio.Stdin != nil, Stdout: true, Stderr: true})
	if err != nil {
		// Podman readies the container for this already, and the client keeps its
		// words to itself here: a start is refused for the same reason, and says it.
		if _, reason := i.client.ContainerStart(life, made.ID, client.ContainerStartOptions{}); reason != nil {
			err = fmt.Errorf("%w: %w", err, reason)
		}
		return e.explain("attach to", err)
	}
	e.watchdog.beat()
	s, err := newStreams(attached.HijackedResponse, i.spec.Stdio)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.streams = s
	i.mu.Unlock()
	i.await(i.client.ContainerWait(life, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit}))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := i.client.ContainerStart(life, made.ID, client.ContainerStartOptions{}); err != nil {
		return e.explain("start", err)
	}
	i.mu.Lock()
	i.started = true
	i.mu.Unlock()
	mark(driver.PhaseStarted)
	return nil
}

// await receives the engine's report of the container's end.
func (i *instance) await(w client.ContainerWaitResult) {
	go func() {
		select {
		case r := <-w.Result:
			e := ending{code: int(r.StatusCode)}
			if r.Error != nil && r.Error.Message != "" {
				e.err = errors.New(r.Error.Message)
			}
			i.ended <- e
		case err := <-w.Error:
			i.ended <- ending{err: err}
		}
	}()
}

// Wait implements driver.Instance: the payload has ended and its output is all
// there.
func (i *instance) Wait(ctx context.Context) (driver.Exit, error) {
	select {
	case <-ctx.Done():
		i.kill()
		return driver.Exit{}, ctx.Err()
	case e := <-i.ended:
		if e.err == nil {
			e.err = i.streams.drained(ctx)
		}
		if ctx.Err() != nil {
			return driver.Exit{}, ctx.Err()
		}
		if e.err != nil {
			return driver.Exit{}, i.driver.engine.explain("wait for", e.err)
		}
		i.mu.Lock()
		streams := i.streams
		i.over, i.streams = true, nil
		i.mu.Unlock()
		streams.close() // a connection less for each of a trial's that have ended
		return driver.Exit{Code: e.code}, nil
	}
}

// kill ends the payload without the engine, which may be busy. Close reports what does
// not die.
func (i *instance) kill() {
	if i.spec.Cgroup == "" {
		return // Close asks the engine
	}
	_ = sys.KillCgroup(i.payloadGroup())
}

// tidyTime is how long an engine's own process in a container's cgroup may take to
// clean up after the payload has ended.
const tidyTime = 5 * time.Second

// settle waits until the payload's cgroup is empty. Podman's monitor runs in it and
// becomes the process that unmounts the container's root. If it is killed before it has
// finished, it leaves a mount that Podman never forgets, and every later container
// fails because of it.
func (i *instance) settle() {
	trees, err := sys.Cgroups()
	if err != nil || i.spec.Cgroup == "" {
		return
	}
	for until := time.Now().Add(tidyTime); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if pids, err := trees.PIDs(i.payloadGroup()); err != nil || len(pids) == 0 {
			return
		}
	}
}

func (i *instance) payloadGroup() string { return i.spec.Group(driver.RolePayload) }

// monitorGroup is the cgroup of the engine's own process for the container; "" for none.
func (i *instance) monitorGroup() string {
	if i.spec.Cgroup == "" || i.driver.engine.flavor.monitor == "" {
		return ""
	}
	return path.Join(i.payloadGroup(), i.driver.engine.flavor.monitor)
}

// Close implements driver.Instance.
func (i *instance) Close() error {
	first, begun := i.first()
	if !first {
		return nil
	}
	i.mu.Lock()
	over := i.over
	i.mu.Unlock()
	var errs []error
	if over {
		i.settle()
	}
	if begun {
		errs = append(errs, i.quiesce(i.driver.engine, i.kill), i.remove())
		i.cancel()
		if i.streams != nil {
			i.streams.close()
		}
	}
	return errors.Join(append(errs, i.sweep())...)
}

// remove makes the engine remove the container.
func (i *instance) remove() error {
	if !i.created {
		return nil
	}
	return i.driver.engine.remove(func(ctx context.Context) error {
		if err := i.removed(ctx); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
		if !i.over { // else the engine has told its end, and so knows of the shim
			i.driver.engine.private.endShim(i.id)
		}
		return nil
	})
}

// removalTries is how often a container's removal is asked for.
const removalTries = 50

// removed asks for the container's removal, again where the engine has failed at it: an
// engine that is busy comes in its own way. Of many at once dockerd finds files that came
// while it removed the others. podman finds the network of a container whose payload has
// ended already away, or its monitor.
func (i *instance) removed(ctx context.Context) (err error) {
	for range removalTries {
		_, err = i.client.ContainerRemove(ctx, i.spec.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || !errdefs.IsInternal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(emptyEvery):
		}
	}
	return err
}

// sweep kills and removes what an engine has left in the instance's cgroup.
func (i *instance) sweep() error {
	if i.spec.Cgroup == "" {
		return nil
	}
	_, err := sys.RemoveCgroups(i.payloadGroup())
	return err
}
