package engine

import (
	"context"
	"path"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// systemdGroups is the cgroup driver that has systemd make a container's group:
// below slices alone, so that no place below tare's own can be asked for.
const systemdGroups = "systemd"

// prove runs a payload in a driver of the engine. In a user's own one it does so in
// a group of tare's and sees whether the payload was charged there: an engine without
// root, in a container or with another view of the cgroups takes the group's name, and
// means another place by it, or none. Then groups are not asked for any more.
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

// isElsewhere says that the containers of the driver of that name are in no groups
// of tare's.
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

// unread is what of the CPU time of a driver's containers and their engine has no
// watch, for driver.NoteUnread; "" for nothing.
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

// placing is a driver whose payloads are put into a group, and which notes whether
// they were charged there.
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
