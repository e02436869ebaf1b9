package launch

import (
	"context"
	"errors"
	"path"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Instance is a driver.Instance whose payload is tare's own child: what host
// and native have in common.
type Instance struct {
	Process *Process
	Cgroup  string  // the Spec's; "" for none
	Runtime bool    // the launcher has Cgroup/runtime for itself
	Rootfs  *Rootfs // cleaned by Close after all processes have ended

	stop func() bool // takes the kill on Start's context back
}

// Watch is the payload, and the launcher where it has a cgroup of its own.
func (i *Instance) Watch() []driver.Watch {
	payload := driver.Watch{Role: driver.RolePayload, PID: i.Process.PID()}
	if i.Cgroup != "" {
		payload.Cgroup = path.Join(i.Cgroup, string(driver.RolePayload))
	}
	watch := []driver.Watch{payload}
	if i.Runtime {
		watch = append(watch, driver.Watch{Role: driver.RoleRuntime, PID: i.Process.LauncherPID(),
			Cgroup: path.Join(i.Cgroup, string(driver.RoleRuntime))})
	}
	return watch
}

// Start is one write to the launcher's pipe.
func (i *Instance) Start(ctx context.Context, _ func(driver.Phase)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := i.Process.Go()
	i.stop = context.AfterFunc(ctx, func() { _ = i.Process.Kill() }) // Close reports what does not die
	return err
}

// Wait waits for the payload.
func (i *Instance) Wait(ctx context.Context) (driver.Exit, error) {
	r, err := i.Process.Wait(ctx)
	return r.Payload, err
}

// Close ends the payload, all that it has left in its cgroup, and the launcher.
func (i *Instance) Close() error {
	if i.stop != nil {
		i.stop()
	}
	errs := []error{i.Process.Close()}
	if i.Cgroup != "" {
		for _, group := range []string{"payload/box", "payload", "runtime"} { // those that are there
			_, err := sys.RemoveCgroups(path.Join(i.Cgroup, group))
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, i.Rootfs.Clean())...)
}

// Groups makes a Spec's group of each role in the trees that its instance must
// be in, or in every tree, and returns these trees.
func Groups(spec driver.Spec, everywhere bool, roles ...driver.Role) (sys.Hierarchies, error) {
	groups, err := sys.Cgroups()
	if err != nil || spec.Cgroup == "" {
		return groups, err
	}
	if !everywhere {
		groups = groups.For(Bounds(spec.Limits, 0))
	}
	for _, role := range roles {
		if err := groups.Make(spec.Group(role)); err != nil {
			return groups, err
		}
	}
	return groups, nil
}

// Bounds translates a Spec's limits; extra processes of the laboratory's own
// that live in the payload's group are not charged to its limit.
func Bounds(l driver.Limits, extra int64) sys.Bounds {
	b := sys.Bounds{CPUs: l.CPUs, CPUSet: l.CPUSet, Mems: l.Mems, Shares: l.Shares, Idle: l.Idle, Memory: l.Memory, Pids: l.Pids}
	if b.Pids > 0 {
		b.Pids += extra
	}
	return b
}
