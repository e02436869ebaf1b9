package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// instance is one container.
type instance struct {
	driver  *Driver
	binary  string
	spec    driver.Spec
	home    home
	process *launch.Process

	mu       sync.Mutex // guards what follows
	started  bool
	reported bool // the runtime's command ended well and left a container
	unhook   func() bool
	closed   sync.Once
	closeErr error
}

// systemSlice is where systemd keeps what is no user's.
const systemSlice = "system.slice"

// payloadGroup is the container's own group. systemd makes it by its own rules: a
// scope, in a slice.
func (d *Driver) payloadGroup(spec driver.Spec) string {
	if d.runtime.Systemd {
		return filepath.Join(systemSlice, driver.Label+"-"+spec.ID+".scope")
	}
	return spec.Group(driver.RolePayload)
}

// prepare makes directories, groups and bundle, and starts the launcher. What it
// made before an error is Close's to remove.
func (i *instance) prepare(ctx context.Context) error {
	h, d := i.home, i.driver
	for _, dir := range []string{h.rootfs(), h.upper(), h.work(), h.state()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return driver.Labf("prepare %s: %w", d.Name(), err)
		}
	}
	if err := d.writeBundle(i.spec, h); err != nil {
		return driver.Labf("write the bundle: %w", err)
	}
	group := i.spec.Group(driver.RoleRuntime)
	if group != "" {
		if _, err := launch.Groups(i.spec, false, driver.RoleRuntime); err != nil {
			return driver.Labf("group of the runtime: %w", err)
		}
	}
	steps, err := d.surroundings()
	if err != nil {
		return err
	}
	overlay := sys.Overlay{Lower: i.spec.Rootfs, Upper: h.upper(), Work: h.work()}
	if err := launch.CopyLower(overlay); err != nil {
		return err
	}
	steps = append(steps, launch.Writable(driver.Label, h.rootfs(), overlay, 0, !d.lab.Root)...)
	steps = append(steps, launch.Warm(h.rootfs(), i.spec)...)
	i.process, err = launch.New(ctx, launch.Config{
		Launcher: d.lab.LaunchPath, Env: environment(), Stdio: i.spec.Stdio, Cgroup: group, Pre: steps, Go: d.network(i.spec),
		Args: d.arguments(i.binary, h.state(), h.log(),
			"run", "--detach", "--pid-file", h.pidFile(), "--bundle", h.bundle(), i.spec.ID),
		Reap: true, PidFile: h.pidFile(),
	})
	if err != nil {
		return fmt.Errorf("surroundings of %s: %w", d.Name(), err)
	}
	return nil
}

// network makes the network namespace where the runtime does not finish it.
func (d *Driver) network(spec driver.Spec) []launch.Step {
	if !d.runtime.LoopbackDown || spec.Join.Namespace != "" {
		return nil
	}
	return []launch.Step{launch.Unshare(unix.CLONE_NEWNET), launch.Loopback()}
}

// watchGrace bounds how long Watch waits for a pid that the runtime is about to
// report.
const watchGrace = time.Second

// Watch implements driver.Instance. The payload of runsc is the sandbox.
func (i *instance) Watch() []driver.Watch {
	payload := driver.Watch{Role: driver.RolePayload}
	runtime := driver.Watch{Role: driver.RoleRuntime, PID: i.process.LauncherPID()}
	if i.spec.Cgroup != "" {
		payload.Cgroup, runtime.Cgroup = i.driver.payloadGroup(i.spec), i.spec.Group(driver.RoleRuntime)
	}
	i.mu.Lock()
	started := i.started
	i.mu.Unlock()
	if started {
		pid := make(chan int, 1)
		go func() { pid <- i.process.PID() }()
		select {
		case payload.PID = <-pid:
		case <-time.After(watchGrace): // a runtime that hangs has no payload to watch
		}
	}
	return []driver.Watch{payload, runtime}
}

// Start implements driver.Instance.
func (i *instance) Start(ctx context.Context, _ func(driver.Phase)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	i.started = true
	i.unhook = context.AfterFunc(ctx, func() {
		_ = i.process.Kill() // Wait reports what came of it
	})
	i.mu.Unlock()
	return i.process.Go()
}

// Wait implements driver.Instance.
func (i *instance) Wait(ctx context.Context) (driver.Exit, error) {
	result, err := i.process.Wait(ctx)
	if err == nil {
		i.mu.Lock()
		i.reported = true
		i.mu.Unlock()
		return result.Payload, nil
	}
	if ctx.Err() != nil {
		return driver.Exit{}, ctx.Err()
	}
	return driver.Exit{}, i.explain(err)
}

// explain adds to a runtime's failure what the runtime itself said.
func (i *instance) explain(err error) error {
	var failed *launch.RuntimeError
	if !errors.As(err, &failed) {
		return err
	}
	said := lastError(i.home.log())
	if said == "" {
		return fmt.Errorf("%w, and said nothing in its log", err)
	}
	return fmt.Errorf("%w: %s", err, said)
}

// deleteTimeout bounds "delete --force" of a runtime: milliseconds, but some
// seconds under emulation or in a crowd.
const deleteTimeout = 20 * time.Second

// Close implements driver.Instance.
func (i *instance) Close() error {
	i.closed.Do(func() { i.closeErr = i.close() })
	return i.closeErr
}

func (i *instance) close() error {
	var errs []error
	i.mu.Lock()
	started, reported, unhook := i.started, i.reported, i.unhook
	i.mu.Unlock()
	if unhook != nil {
		unhook()
	}
	if i.process != nil {
		errs = append(errs, i.process.Close())
	}
	if started {
		// A container that never came to be has nothing to delete, and runtimes
		// differ in what they make of that. What it left is found by its group.
		if err := i.delete(); err != nil && (reported || errors.Is(err, context.DeadlineExceeded)) {
			errs = append(errs, err)
		}
	}
	if i.spec.Cgroup != "" {
		errs = append(errs, i.removeGroups())
	}
	return errors.Join(append(errs, i.home.remove())...)
}

// delete asks the runtime to forget the container, if it knows one.
func (i *instance) delete() error {
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	return i.driver.forget(ctx, i.binary, i.home, i.spec.ID)
}

// removeGroups kills what still runs in the instance's groups and removes those
// that the runtime and prepare have made; Spec.Cgroup itself is the caller's.
func (i *instance) removeGroups() error {
	_, err := sys.RemoveCgroups(i.driver.payloadGroup(i.spec))
	_, other := sys.RemoveCgroups(i.spec.Group(driver.RoleRuntime))
	return errors.Join(err, other)
}
