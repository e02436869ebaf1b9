package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/bundle"
	"github.com/tarelab/tare/internal/sys"
)

// task is one container of containerd's, driven as "ctr run" drives one.
type task struct {
	*contained
	driver *containerdDriver
	image  containerd.Image
	keeper string // the snapshotter

	// Its lock guards what follows, too:
	container containerd.Container
	task      containerd.Task
	stdin     *os.File
	ended     <-chan containerd.ExitStatus
	execs     int // processes that were made ready besides the payload
}

// Watch implements driver.Instance: the shim has a group of its own.
func (i *task) Watch() []driver.Watch {
	pid := 0
	i.mu.Lock()
	if i.started && !i.closed {
		pid = int(i.task.Pid())
	}
	i.mu.Unlock()
	return i.watch(pid)
}

// Start implements driver.Instance. A start costs what it costs a user of "ctr
// run": container and task are made, and the task is started.
func (i *task) Start(ctx context.Context, mark func(driver.Phase)) error {
	return i.start(ctx, i.engine.engine, i.kill, func(life context.Context) error { return i.begin(ctx, life, mark) })
}

func (i *task) begin(ctx, life context.Context, mark func(driver.Phase)) error {
	opts, err := i.driver.options()
	if err != nil {
		return err
	}
	c, err := i.client.NewContainer(life, i.spec.ID, containerd.WithSnapshotter(i.keeper), containerd.WithImage(i.image),
		containerd.WithNewSnapshot(i.spec.ID, i.image), containerd.WithRuntime(i.driver.handler.shim, opts),
		containerd.WithContainerLabels(map[string]string{labelKey: owner()}), containerd.WithNewSpec(i.specOpts()...))
	if err != nil {
		return i.engine.explain("create", err)
	}
	i.mu.Lock()
	i.container = c
	i.mu.Unlock()
	i.engine.watchdog.beat()
	mark(driver.PhaseCreated)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	streams, err := i.streams(life)
	if err != nil {
		return err
	}
	var taskOpts []containerd.NewTaskOpts
	if i.spec.Cgroup != "" {
		taskOpts = append(taskOpts, containerd.WithShimCgroup(path.Join("/", i.spec.Group(driver.RoleRuntime))))
	}
	t, err := c.NewTask(life, cio.NewCreator(streams, cio.WithFIFODir(i.dir)), taskOpts...)
	if err != nil {
		return i.engine.explain("create a task of", err)
	}
	i.mu.Lock()
	i.task = t
	i.mu.Unlock()
	i.engine.watchdog.beat()
	if i.ended, err = t.Wait(life); err != nil {
		return i.engine.explain("wait for", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := t.Start(life); err != nil {
		return i.engine.explain("start", err)
	}
	i.mu.Lock()
	i.started = true
	i.mu.Unlock()
	mark(driver.PhaseStarted)
	return nil
}

// streams are the payload's, read and written by the client through fifos.
func (i *task) streams(life context.Context) (cio.Opt, error) {
	own, err := sys.Duplicate(i.spec.Stdio.Stdin)
	if err != nil {
		return nil, driver.Labf("standard input: %w", err)
	}
	var stdin io.Reader
	if own != nil {
		i.mu.Lock()
		i.stdin = own
		i.mu.Unlock()
		stdin = &closing{own, func() { i.endStdin(life) }}
	}
	return cio.WithStreams(stdin, orDiscard(i.spec.Stdio.Stdout), orDiscard(i.spec.Stdio.Stderr)), nil
}

// closing tells the end of a stream once.
type closing struct {
	from *os.File
	end  func()
}

func (c *closing) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if errors.Is(err, io.EOF) {
		go c.end() // after this read has returned, and the copying with it
	}
	return n, err
}

// endStdin lets the payload see the end of its input: the shim, too, holds it
// open for writing.
func (i *task) endStdin(life context.Context) {
	i.mu.Lock()
	begun := i.begun
	i.mu.Unlock()
	<-begun
	i.mu.Lock()
	t := i.task
	i.mu.Unlock()
	if t != nil {
		_ = t.CloseIO(life, containerd.WithStdinCloser) // a payload that has ended needs no end of input
	}
}

// Wait implements driver.Instance.
func (i *task) Wait(ctx context.Context) (driver.Exit, error) {
	select {
	case <-ctx.Done():
		i.kill()
		return driver.Exit{}, ctx.Err()
	case status := <-i.ended:
		code, _, err := status.Result()
		if ctx.Err() != nil {
			return driver.Exit{}, ctx.Err()
		}
		if err != nil {
			return driver.Exit{}, i.engine.explain("wait for", err)
		}
		i.died.Store(true)
		copied := make(chan struct{})
		go func() { i.task.IO().Wait(); close(copied) }()
		select {
		case <-copied:
			return driver.Exit{Code: int(code)}, nil
		case <-time.After(streamGrace):
			return driver.Exit{}, fmt.Errorf("containerd: its output has not ended %v after the payload", streamGrace)
		case <-ctx.Done():
			return driver.Exit{}, ctx.Err()
		}
	}
}

// Close implements driver.Instance.
func (i *task) Close() error {
	first, begun := i.first()
	if !first {
		return nil
	}
	var errs []error
	if begun {
		errs = append(errs, i.quiesce(i.engine.engine, i.kill))
		i.kill() // what came to be after it was cancelled
		if i.stdin != nil {
			_ = i.stdin.SetReadDeadline(time.Now()) // a file that knows no deadlines does not block
		}
		errs = append(errs, i.remove())
		i.cancel()
		if i.task != nil {
			i.task.IO().Cancel()
			errs = append(errs, i.task.IO().Close())
		}
		if i.stdin != nil {
			i.stdin.Close()
		}
	}
	return errors.Join(append(errs, i.removeGroups())...)
}

// remove has containerd forget the container.
func (i *task) remove() error {
	if i.container == nil {
		return nil
	}
	return i.engine.remove(func(ctx context.Context) error { return containerdRemove(ctx, i.container) })
}

// containerdRemove ends a container's task and removes both.
func containerdRemove(ctx context.Context, c containerd.Container) error {
	t, err := c.Task(ctx, nil)
	if err == nil {
		if _, err = t.Delete(ctx); errdefs.IsFailedPrecondition(err) { // it has not ended
			err = containerdKill(ctx, t)
		}
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	if err := c.Delete(ctx, containerd.WithSnapshotCleanup); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}

// containerdKill ends a task and removes it. That it cannot be killed matters only
// where it does not end: some runtimes fail to kill what has died meanwhile.
func containerdKill(ctx context.Context, t containerd.Task) error {
	ended, err := t.Wait(ctx)
	if err != nil {
		return err
	}
	killed := t.Kill(ctx, unix.SIGKILL, containerd.WithKillAll)
	select {
	case <-ended:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), killed)
	}
	_, err = t.Delete(ctx)
	return err
}

// specOpts are the Spec; what it does not say is containerd's default.
func (i *task) specOpts() []oci.SpecOpts {
	s := i.spec
	cwd := s.Cwd
	if cwd == "" {
		cwd = "/"
	}
	opts := []oci.SpecOpts{oci.WithoutRunMount, oci.WithProcessArgs(s.Args...), oci.WithProcessCwd(cwd), exactEnv(s.Env), oci.WithHostname(s.ID),
		oci.WithUIDGID(s.User.UID, s.User.GID), oci.WithMounts(bundle.BindMounts(s.Mounts)), ociVersion}
	if s.Cgroup != "" {
		opts = append(opts, oci.WithCgroup(path.Join("/", i.spec.Group(driver.RolePayload))))
	} else if p := i.engine.private; p != nil {
		opts = append(opts, oci.WithCgroup(path.Join("/", path.Dir(p.cgroup), "containers", s.ID)))
	}
	if s.Join.Namespace != "" { // as a CNI plugin's caller does: made before, and joined
		opts = append(opts, oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: s.Join.Namespace}))
	}
	if s.Limits.CPUs > 0 {
		opts = append(opts, oci.WithCPUCFS(int64(s.Limits.CPUs*bundle.CFSPeriod), bundle.CFSPeriod))
	}
	if s.Limits.CPUSet != "" {
		opts = append(opts, oci.WithCPUs(s.Limits.CPUSet))
	}
	if s.Limits.Mems != "" {
		opts = append(opts, oci.WithCPUsMems(s.Limits.Mems))
	}
	if s.Limits.Shares > 0 {
		opts = append(opts, oci.WithCPUShares(uint64(s.Limits.Shares)))
	}
	if s.Limits.Memory > 0 {
		opts = append(opts, oci.WithMemoryLimit(uint64(s.Limits.Memory)))
	}
	if s.Limits.Pids > 0 {
		opts = append(opts, oci.WithPidsLimit(s.Limits.Pids))
	}
	return opts
}

// exactEnv replaces the environment, containerd's own PATH too.
func exactEnv(env []string) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Process.Env = env
		return nil
	}
}

// ociVersion asks of the runtime no more than what is used here: the client
// library names the newest version, which runtimes that are older refuse.
func ociVersion(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Version = "1.0.2"
	return nil
}
