package engine

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/errdefs"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/bundle"
)

// pod is a sandbox with one container, made as the kubelet makes them.
type pod struct {
	*contained
	driver *podDriver
	cri    cri.RuntimeServiceClient
	image  string
	netns  string // where the daemon's streaming server listens, see networkOf
	log    *podLog
	ended  chan ending

	// Its lock guards what follows, too:
	container string
	attached  *attachment
}

// marked reports whether the payload is preceded by the laboratory's mark.
func (p *pod) marked() bool { return p.spec.Args[0] == driver.Mark }

// Watch implements driver.Instance: the sandbox's own process has a group of its own.
func (p *pod) Watch() []driver.Watch {
	pid := 0
	p.mu.Lock()
	running := p.started && !p.closed
	p.mu.Unlock()
	if running {
		ctx, cancel := context.WithTimeout(context.Background(), watchGrace)
		defer cancel()
		if r, err := p.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: p.container}); err == nil {
			pid = int(r.GetProcess().GetPid()) // 0 where the engine cannot tell in time
		}
	}
	return p.watch(pid)
}

// Start implements driver.Instance. A start costs what it costs a node: the sandbox is
// run, with its network, and the container is made and started in it.
func (p *pod) Start(ctx context.Context, mark func(driver.Phase)) error {
	return p.start(ctx, p.engine.engine, p.kill, func(life context.Context) error { return p.begin(ctx, life, mark) })
}

// begin makes the requests of a start. Between them it checks whether ctx was
// cancelled.
func (p *pod) begin(ctx, life context.Context, mark func(driver.Phase)) error {
	e := p.engine
	sandbox, err := p.cri.RunPodSandbox(life, &cri.RunPodSandboxRequest{Config: p.sandboxConfig(driver.RoleRuntime), RuntimeHandler: p.driver.class()})
	if err != nil {
		return e.explain("run the sandbox of", err)
	}
	e.watchdog.beat()
	mark(driver.PhaseSandboxed)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	made, err := p.cri.CreateContainer(life, &cri.CreateContainerRequest{PodSandboxId: sandbox.GetPodSandboxId(),
		Config: p.containerConfig(), SandboxConfig: p.sandboxConfig(driver.RolePayload)})
	if err != nil {
		return e.explain("create", err)
	}
	e.watchdog.beat()
	mark(driver.PhaseCreated)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, err := p.cri.StartContainer(life, &cri.StartContainerRequest{ContainerId: made.GetContainerId()}); err != nil {
		return e.explain("start", err)
	}
	e.watchdog.beat()
	p.mu.Lock()
	p.container, p.started = made.GetContainerId(), true
	p.mu.Unlock()
	mark(driver.PhaseStarted)
	go p.await(life, made.GetContainerId())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := p.attach(life); err != nil {
		return e.explain("attach to", err)
	}
	return nil
}

// attach connects the payload's streams and lets it begin.
func (p *pod) attach(life context.Context) error {
	a, err := attachTo(life, p.cri, p.container, p.netns, p.spec.Stdio)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.attached = a
	p.mu.Unlock()
	return a.open(life, p.log.marked)
}

// await receives the end of the container. CRI itself has no request for it.
func (p *pod) await(life context.Context, id string) {
	r, err := p.client.TaskService().Wait(life, &tasks.WaitRequest{ContainerID: id})
	if err == nil {
		p.ended <- ending{code: int(r.GetExitStatus())}
		return
	}
	if !errdefs.IsNotFound(errdefs.Resolve(err)) && !strings.Contains(err.Error(), "not found") {
		p.ended <- ending{err: err}
		return
	}
	code, err := p.exited(life, id) // it ended before it was waited for
	p.ended <- ending{code, err}
}

// exited asks for the exit code of a container that has ended.
func (p *pod) exited(life context.Context, id string) (int, error) {
	for {
		r, err := p.cri.ContainerStatus(life, &cri.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return 0, err
		}
		if r.GetStatus().GetState() == cri.ContainerState_CONTAINER_EXITED {
			return int(r.GetStatus().GetExitCode()), nil
		}
		select {
		case <-life.Done():
			return 0, life.Err()
		case <-time.After(knownPause):
		}
	}
}

// Wait implements driver.Instance: the payload has ended and its output is all there.
func (p *pod) Wait(ctx context.Context) (driver.Exit, error) {
	select {
	case <-ctx.Done():
		p.kill()
		return driver.Exit{}, ctx.Err()
	case e := <-p.ended:
		if e.err == nil {
			p.died.Store(true)
			if e.err = p.attached.drained(ctx); e.err == nil {
				e.err = p.engine.private.complete(p.container)
			}
		}
		if ctx.Err() != nil {
			return driver.Exit{}, ctx.Err()
		}
		if e.err != nil {
			return driver.Exit{}, p.engine.explain("wait for", e.err)
		}
		return driver.Exit{Code: e.code}, nil
	}
}

// Close implements driver.Instance.
func (p *pod) Close() error {
	first, begun := p.first()
	if !first {
		return nil
	}
	var errs []error
	if begun {
		errs = append(errs, p.quiesce(p.engine.engine, p.kill))
		p.kill() // what came to be after it was cancelled
		errs = append(errs, p.remove())
		p.cancel()
		if p.attached != nil {
			p.attached.close()
		}
	}
	p.log.close()
	return errors.Join(append(errs, p.removeGroups())...)
}

// remove has the engine remove the pod, also one whose making it has given up.
func (p *pod) remove() error {
	return p.engine.remove(func(ctx context.Context) error { return removePods(ctx, p.cri, p.labels()) })
}

func (p *pod) labels() map[string]string {
	return map[string]string{labelKey: owner(), podKey: p.spec.ID}
}

// parent is the cgroup in which the engine makes a group for each container.
func (p *pod) parent(r driver.Role) string {
	switch private := p.engine.private; {
	case p.spec.Cgroup != "":
		return path.Join("/", p.spec.Group(r))
	case private != nil:
		return path.Join("/", path.Dir(private.cgroup), "containers")
	}
	return systemSlice
}

// systemSlice is a group that every systemd has. Another cgroup driver takes the name
// as any other.
const systemSlice = "/system.slice"

// sandboxConfig is the pod, for its sandbox or, in the other's group, its container.
func (p *pod) sandboxConfig(r driver.Role) *cri.PodSandboxConfig {
	return &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: p.spec.ID, Uid: p.spec.ID, Namespace: driver.Label},
		Hostname:     p.spec.ID,
		LogDirectory: p.dir,
		Labels:       p.labels(),
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: p.parent(r),
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: podNamespaces()}},
	}
}

// podNamespaces are those of a pod that asks for nothing: network and IPC are the
// sandbox's, and each container has process ids of its own.
func podNamespaces() *cri.NamespaceOption {
	return &cri.NamespaceOption{Network: cri.NamespaceMode_POD, Ipc: cri.NamespaceMode_POD, Pid: cri.NamespaceMode_CONTAINER}
}

// containerConfig is the Spec; what it does not say is as the kubelet asks for a pod
// that says nothing: no seccomp profile, and privileges may be gained.
func (p *pod) containerConfig() *cri.ContainerConfig {
	s := p.spec
	c := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "payload"}, Image: &cri.ImageSpec{Image: p.image}, Labels: p.labels(),
		Command: gated(s.Args), WorkingDir: cmp.Or(s.Cwd, "/"), LogPath: podLogName, Stdin: true, StdinOnce: true,
		Linux: &cri.LinuxContainerConfig{
			Resources: podResources(s.Limits),
			SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: podNamespaces(),
				RunAsUser: &cri.Int64Value{Value: int64(s.User.UID)}, RunAsGroup: &cri.Int64Value{Value: int64(s.User.GID)},
				MaskedPaths: bundle.MaskedPaths, ReadonlyPaths: bundle.ReadonlyPaths},
		},
	}
	for _, pair := range s.Env {
		key, value, _ := strings.Cut(pair, "=")
		c.Envs = append(c.Envs, &cri.KeyValue{Key: key, Value: []byte(value)})
	}
	for _, m := range s.Mounts {
		c.Mounts = append(c.Mounts, &cri.Mount{ContainerPath: m.Target, HostPath: m.Source, Readonly: m.ReadOnly})
	}
	return c
}

// gated is the payload behind the mark helper, which writes a line that the log passes
// on at once and waits until tare is attached. A payload without the laboratory's mark
// is preceded by it, too; that mark is dropped.
func gated(args []string) []string {
	command := []string{driver.Mark, "-line", "-gate"}
	if args[0] == driver.Mark {
		return append(command, args[1:]...)
	}
	return slices.Concat(command, []string{"--"}, args)
}

func podResources(l driver.Limits) *cri.LinuxContainerResources {
	r := &cri.LinuxContainerResources{CpusetCpus: l.CPUSet, CpusetMems: l.Mems, CpuShares: l.Shares, MemoryLimitInBytes: l.Memory}
	if l.CPUs > 0 {
		r.CpuPeriod, r.CpuQuota = bundle.CFSPeriod, int64(l.CPUs*bundle.CFSPeriod)
	}
	return r
}
