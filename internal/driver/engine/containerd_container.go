package engine

import (
	"context"
	"errors"
	"sync/atomic"

	containerd "github.com/containerd/containerd/v2/client"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// contained is what tasks and pods have in common: a payload in a container of
// containerd's.
type contained struct {
	engine *containerdEngine
	spec   driver.Spec
	dir    string
	client *containerd.Client

	requests // its lock guards what follows
	started  bool
	died     atomic.Bool // seen to have ended
}

// contain makes the beginning of an instance, once the engine runs.
func (d *containerdDriver) contain(ctx context.Context, spec driver.Spec, dir string) (*contained, error) {
	c, err := d.ready(ctx)
	if err != nil {
		return nil, err
	}
	if d.engine.isElsewhere(d.Name()) {
		spec.Cgroup = ""
	}
	return &contained{engine: d.engine, spec: spec, dir: dir, client: c}, nil
}

// watch lists the engine, the group of the runtime, and the payload, whose process may be
// 0 for unknown.
func (c *contained) watch(pid int) []driver.Watch {
	watch, payload := c.engine.watch(), driver.Watch{Role: driver.RolePayload, PID: pid}
	if c.spec.Cgroup != "" {
		payload.Cgroup = c.spec.Group(driver.RolePayload)
		watch = append(watch, driver.Watch{Role: driver.RoleRuntime, Cgroup: c.spec.Group(driver.RoleRuntime)})
	}
	return append(watch, payload)
}

// kill ends the payload without asking the engine, which may be busy.
func (c *contained) kill() {
	if c.spec.Cgroup == "" || c.died.Load() {
		return // Close asks the engine
	}
	_ = sys.KillCgroup(c.spec.Group(driver.RolePayload))
}

func (c *contained) removeGroups() error {
	if c.spec.Cgroup == "" {
		return nil
	}
	var errs []error
	for _, r := range []driver.Role{driver.RolePayload, driver.RoleRuntime} {
		_, err := sys.RemoveCgroups(c.spec.Group(r))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
