// Package native is tare's own bare container: the floor of what isolation costs
// on a machine. One static launcher makes the namespaces, cgroup, mounts and
// privileges that an OCI runtime would, and nothing else. Each piece is also a
// driver of its own that has all pieces up to it: the ladder.
package native

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/bundle"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// Drivers returns native, the rungs of its ladder, in the ladder's order, and
// its arms: the floor with one thing done in another way.
// The rung for cgroups is there where this user may make groups; what another
// needs of this machine is said by its Check, so that a study may name it anywhere.
func Drivers(lab driver.Lab) []driver.Driver {
	groups, err := sys.Cgroups()
	var all []driver.Driver
	for l := spawn; l <= seccomp; l++ {
		// What is wrong with the cgroups is said by Check.
		if l == cgroup && (err != nil || !groups.Usable()) {
			continue
		}
		all = append(all, &native{lab: lab, level: l, order: int(l)})
	}
	for i, a := range arms {
		all = append(all, &native{lab: lab, level: full, arm: a, order: int(seccomp) + 1 + i})
	}
	return all
}

// New returns the floor itself: all pieces but those that only some runtimes
// or machines have.
func New(lab driver.Lab) driver.Driver { return &native{lab: lab, level: full, order: int(full)} }

// both reports a hybrid machine, in whose trees of both versions this user may
// make groups.
func both(groups sys.Hierarchies) bool {
	_, v2 := groups.Unified()
	return v2 && slices.ContainsFunc(groups.All, func(h sys.Hierarchy) bool { return h.Writable && h.Version == 1 })
}

// owns reports whether the payload gets a group of its own in tree, made inside
// the clock; else its launcher enters one before.
func (l level) owns(groups sys.Hierarchies, tree sys.Hierarchy) bool {
	_, v2 := groups.Unified()
	return l >= cgroupV1 || l >= cgroup && (tree.Version == 2 || !v2)
}

type native struct {
	lab   driver.Lab
	level level
	arm   arm
	order int
	v1    bool // device rules of cgroup version 1, also where eBPF could be had
}

// findGuard is what keeps the payload from devices here.
func (n *native) findGuard() (launch.DeviceGuard, bool) {
	groups, err := sys.Cgroups()
	if err != nil {
		return launch.DeviceGuard{}, false // Check says so
	}
	if n.v1 {
		return launch.V1DeviceGuard(groups)
	}
	return launch.FindDeviceGuard(groups)
}

func (n *native) Name() string {
	if n.arm.name != "" {
		return n.arm.name
	}
	return names[n.level]
}

func (n *native) Properties() driver.Properties {
	return driver.Properties{Family: "native", Isolated: n.level >= pid, Boundary: n.boundary(), Joins: launch.Joins(n.lab.Root && n.level >= net), MaxParallel: 50, StreamBytes: 64 << 20,
		ExactSignal: true, StartTime: 2 * time.Millisecond, Order: 10 + n.order}
}

// boundary: the rungs below the floor lack a part of one, and the network of the
// machine has sockets that take orders from any root.
func (n *native) boundary() driver.Boundary {
	if n.level < full || n.arm.hostNet {
		return driver.NoBoundary
	}
	return driver.ContainerBoundary
}

func (n *native) Check(ctx context.Context) (driver.Facts, error) {
	groups, err := sys.Cgroups()
	if err != nil {
		return driver.Facts{}, driver.Labf("%s: %w", n.Name(), err)
	}
	if lacks := n.lacks(groups); lacks != "" {
		return driver.Facts{}, &driver.CannotError{Target: n.Name(), Lacks: lacks, Remedy: "leave it out"}
	}
	facts := driver.Facts{Version: "1", Path: n.lab.LaunchPath, Notes: map[string]string{"cgroup": string(groups.Mode)}}
	if !groups.Usable() {
		facts.Notes["cgroup"] += ", not writable by this user"
	}
	launch.NoteOld(facts, sys.IntoCgroup, sys.CgroupNamespaces, sys.CallBPF)
	if !n.lab.Root {
		facts.Notes["user-namespace"] = "the launcher's, made before the clock (not root)"
	}
	err = launch.Prove(ctx, n, n.lab)
	var step *launch.Error
	if errors.As(err, &step) {
		return facts, &driver.CannotError{Target: n.Name(), Lacks: "the kernel refuses " + step.Error(),
			Remedy: "run as root, or look for this feature in the kernel's configuration"}
	}
	return facts, err
}

// lacks says what of this machine a rung or an arm needs and has not; "" for
// nothing.
func (n *native) lacks(groups sys.Hierarchies) string {
	switch {
	case n.level == cgroupV1 && !both(groups):
		return "cgroups of both versions in which this user may make groups"
	case n.arm == (arm{}):
		return ""
	case !n.lab.Root:
		return "root's rights, without which it is not comparable with the floor"
	case !groups.Usable():
		return "cgroups in which this user may make groups"
	}
	return n.arm.lacks(groups)
}

func (n *native) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	if spec.Limits != (driver.Limits{}) && spec.Cgroup == "" {
		return nil, &driver.CannotError{Target: n.Name(), Lacks: "a cgroup for the limits", Remedy: "run as root"}
	}
	p := plan{level: n.level, findGuard: n.findGuard, arm: n.arm, root: n.lab.Root, spec: spec, dir: dir,
		cfg: launch.Config{Launcher: n.lab.LaunchPath, Args: spec.Args, Env: spec.Env, Stdio: spec.Stdio, Clone: n.level.cloneFlags(), Warm: n.arm.warm}}
	if err := p.make(); err != nil {
		return nil, err
	}
	process, err := launch.New(ctx, p.cfg)
	if err != nil {
		return nil, errors.Join(err, p.fs.Clean())
	}
	return &launch.Instance{Process: process, Cgroup: spec.Cgroup, Runtime: p.apart, Rootfs: p.fs}, nil
}

// plan collects the steps of one instance.
type plan struct {
	level level
	arm   arm
	root  bool

	findGuard func() (launch.DeviceGuard, bool)
	spec      driver.Spec
	dir       string
	fs        *launch.Rootfs
	cfg       launch.Config
	apart     bool // no process of tare's is in the payload's group of any tree
	guard     bool // a device group keeps the payload from devices
}

func (p *plan) pre(steps ...launch.Step)   { p.cfg.Pre = append(p.cfg.Pre, steps...) }
func (p *plan) child(steps ...launch.Step) { p.cfg.Child = append(p.cfg.Child, steps...) }

func (p *plan) make() error {
	var err error
	if p.fs, err = launch.NewRootfs(p.spec, p.dir, !p.root); err != nil {
		return err
	}
	if err := p.groups(); err != nil {
		return err
	}
	if p.spec.Join.Namespace != "" {
		p.cfg.Clone &^= unix.CLONE_NEWNET
		p.pre(launch.Network(p.spec.Join.Namespace))
	}
	if !p.root {
		p.pre(launch.UserNamespace(p.spec.User)...)
	}
	if p.level < rootfs {
		if err := p.rootBefore(); err != nil {
			return err
		}
	}
	return p.inside()
}

// groups puts the launcher into Cgroup/payload, where its child is born, or from
// the rungs of cgroups on into Cgroup/runtime, from where the child goes into a
// group of its own that is made inside the clock.
func (p *plan) groups() error {
	if p.spec.Cgroup == "" {
		return nil
	}
	groups, err := launch.Groups(p.spec, p.level >= cgroupV1, driver.RolePayload, driver.RoleRuntime)
	if err != nil {
		return driver.Labf("cgroup: %w", err)
	}
	if err := p.devices(&groups); err != nil {
		return err
	}
	payload, runtime := p.spec.Group(driver.RolePayload), p.spec.Group(driver.RoleRuntime)
	p.apart = true
	limits := launch.Bounds(p.spec.Limits, 0)
	for _, tree := range groups.All {
		if !tree.Writable {
			continue
		}
		if !p.level.owns(groups, tree) && !tree.Has(p.arm.controller) {
			p.pre(launch.Join(tree.Dir(payload)))
			p.apart = false
			if tree.Has("pids") {
				limits = launch.Bounds(p.spec.Limits, 1) // the launcher is one of them
			}
			continue
		}
		p.pre(launch.Join(tree.Dir(runtime)))
		if err := p.box(tree, path.Join(payload, "box")); err != nil {
			return driver.Labf("cgroup: %w", err)
		}
	}
	return groups.Apply(payload, limits)
}

// devices puts the payload's group under device rules, from the rung of the floor
// on: inside the clock, before anything of the payload is born there. Without root
// the kernel itself gives a user namespace no device.
func (p *plan) devices(groups *sys.Hierarchies) error {
	if p.level < full || !p.root {
		return nil
	}
	guard, ok := p.findGuard()
	if !ok {
		return nil
	}
	if tree := guard.Tree(); !slices.ContainsFunc(groups.All, func(h sys.Hierarchy) bool { return h.Path == tree.Path }) {
		groups.All = append(groups.All, tree)
		alone := sys.Hierarchies{Mode: groups.Mode, All: []sys.Hierarchy{tree}}
		for _, role := range []driver.Role{driver.RolePayload, driver.RoleRuntime} {
			if err := alone.Make(p.spec.Group(role)); err != nil {
				return driver.Labf("cgroup: %w", err)
			}
		}
	}
	steps, err := guard.Steps(p.spec.Group(driver.RolePayload), p.dir)
	p.cfg.Go = append(p.cfg.Go, steps...)
	p.guard = err == nil
	return err
}

// rootBefore makes the payload's root before the clock, in a mount namespace of
// the launcher's: for the rungs below that of the root file system.
func (p *plan) rootBefore() error {
	if p.root {
		p.pre(launch.PrivateMounts()...)
	}
	p.pre(p.fs.Overlay(0)...)
	if p.level < proc { // the kernel refuses to stack a file system on itself
		p.pre(p.fs.Shared()...)
	}
	mounts, err := p.fs.Mounts()
	if err != nil {
		return err
	}
	p.pre(mounts...)
	p.pre(launch.Chroot(p.fs.Dir))
	p.pre(launch.Rehearsal(p.spec)...)
	return nil
}

// inside are the steps of the new process, in the order in which runc does them.
func (p *plan) inside() error {
	if p.level >= cgroup && p.spec.Cgroup != "" && sys.HasCall(sys.CgroupNamespaces) {
		p.child(launch.Unshare(unix.CLONE_NEWCGROUP))
	}
	p.child(launch.Setsid())
	p.network()
	if p.level >= mount {
		if err := p.mounts(); err != nil {
			return err
		}
	}
	if p.level >= uts {
		p.child(launch.Hostname(hostname(p.spec.ID)))
	}
	if p.spec.Cwd != "" {
		p.child(launch.Chdir(p.spec.Cwd))
	}
	return p.privileges()
}

// hostname is the id, cut to what the kernel takes.
func hostname(id string) string { return id[:min(len(id), 64)] }

func (p *plan) mounts() error {
	p.child(launch.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if p.level < proc {
		return nil
	}
	if p.level < rootfs {
		p.child(launch.Root("/"))
		p.child(p.fs.Own()...)
		p.child(launch.Chdir("/"))
		return nil
	}
	mounts, err := p.fs.Mounts()
	if err != nil {
		return err
	}
	p.child(p.fs.Overlay(p.nodev())...)
	p.child(p.fs.Own()...)
	p.child(mounts...)
	p.moreMounts()
	p.child(launch.Pivot(p.fs.Dir), launch.OwnNull())
	if p.level >= masked {
		for _, name := range bundle.MaskedPaths {
			p.child(launch.Mask(name))
		}
		for _, name := range bundle.ReadonlyPaths {
			p.child(launch.ReadOnly(name))
		}
	}
	return nil
}

// nodev shuts the device nodes that a root file system may hold, where the floor has
// no device group to do so.
func (p *plan) nodev() uintptr {
	if p.level >= full && !p.guard {
		return unix.MS_NODEV
	}
	return 0
}

// privileges come last: what came before needs them. A user namespace of this
// user's has one identity, which the payload has already.
func (p *plan) privileges() error {
	user := p.spec.User
	keep, held := uint64(capabilities), bundle.Capabilities
	if p.guard {
		keep |= 1 << unix.CAP_MKNOD
	} else {
		held = slices.DeleteFunc(slices.Clone(held), func(name string) bool { return name == "CAP_MKNOD" })
	}
	if p.level >= privileges {
		p.child(launch.Keyring(), launch.BoundingSet(keep))
	}
	if p.root {
		p.child(launch.IDs(user.UID, user.GID))
	}
	if p.level < privileges {
		return nil
	}
	if user.UID != 0 {
		keep = 0 // the kernel has cleared them with the change of identity
	}
	p.child(launch.Capabilities(keep), launch.NoNewPrivs())
	if p.level < seccomp {
		return nil
	}
	file := filepath.Join(p.dir, "seccomp.bpf")
	if err := writeProfile(file, held); err != nil {
		return &driver.CannotError{Target: names[seccomp], Lacks: "a seccomp profile for this machine: " + err.Error()}
	}
	p.child(launch.Seccomp(file))
	return nil
}
