package engine

import (
	"context"
	"path"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// systemdGroups is the cgroup driver with which systemd makes the containers' cgroups.
// It makes them only below slices, so a cgroup below tare's cannot be requested.
const systemdGroups = "systemd"

// hybrid reports whether the machine has cgroups of both versions, which crun refuses.
func hybrid() bool {
	trees, err := sys.Cgroups()
	return err == nil && trees.Mode == sys.Hybrid
}

// prove runs a payload in a driver of the engine. In the user's own engine it runs it in
// a cgroup of tare's and looks whether the payload's CPU time was charged there. An
// engine without root, in a container or with another view of the cgroups accepts the
// cgroup's name and means another place, or none. Such an engine is not asked for
// cgroups any more.
func (e *engine) prove(ctx context.Context, d driver.Driver) error {
	if e.private != nil || e.lab.Cgroup == "" || e.isElsewhere(d.Name()) {
		return launch.Prove(ctx, d, e.lab)
	}
	trees, err := sys.Cgroups()
	if err != nil {
		return driver.Labf("find the cgroup hierarchies: %w", err)
	}
	in := &placing{Driver: d, trees: trees, group: path.Join(e.lab.Cgroup, "proof-"+strings.ReplaceAll(d.Name(), "/", "-"))}
	if err := trees.Make(in.group); err != nil {
		return driver.Labf("group of a proof: %w", err)
	}
	err = launch.Prove(ctx, in, e.lab)
	if _, unremoved := sys.RemoveCgroups(in.group); unremoved != nil {
		return driver.Labf("group of a proof: %w", unremoved)
	}
	if err != nil && (driver.IsLab(err) || ctx.Err() != nil) || in.charged {
		return err
	}
	e.setElsewhere(d.Name())
	if err == nil {
		return nil
	}
	return launch.Prove(ctx, d, e.lab) // it may have refused the group alone
}

// isElsewhere reports whether the containers of the driver of that name are in no
// cgroups of tare's.
func (e *engine) isElsewhere(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.elsewhere[name]
}

func (e *engine) setElsewhere(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.elsewhere[name] = true
}

// unread lists the processes of a driver's containers and their engine whose CPU time
// cannot be read, for driver.NoteUnread; "" for none.
func (e *engine) unread(name string) string {
	const own = "daemons, shims and runtimes of the engine, which is the user's own"
	switch {
	case e.private != nil:
		return ""
	case e.isElsewhere(name):
		return "containers, " + own
	}
	return own
}

// placing is a decorator that puts payloads into a cgroup and records whether their CPU
// time was charged there.
type placing struct {
	driver.Driver
	trees   sys.Hierarchies
	group   string
	charged bool
}

// Unwrap implements driver.Decorator.
func (p *placing) Unwrap() driver.Driver { return p.Driver }

// Prepare implements driver.Driver.
func (p *placing) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	spec.Cgroup = p.group
	inst, err := p.Driver.Prepare(ctx, spec, dir)
	if err != nil {
		return nil, err
	}
	return &placed{inst, p}, nil
}

type placed struct {
	driver.Instance
	by *placing
}

// Wait implements driver.Instance. The payload's group has what was charged to the
// container's below it until Close.
func (i *placed) Wait(ctx context.Context) (driver.Exit, error) {
	exit, err := i.Instance.Wait(ctx)
	if err != nil {
		return exit, err
	}
	used, _, err := i.by.trees.CPUTime(path.Join(i.by.group, string(driver.RolePayload)))
	if err != nil {
		return exit, driver.Labf("CPU time of a proof: %w", err)
	}
	i.by.charged = used.Total > 0
	return exit, nil
}
