package engine

import (
	"context"
	"errors"
	"path"
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

func (c *contained) group(r driver.Role) string { return path.Join(c.spec.Cgroup, string(r)) }

// watch lists the engine, the group of the runtime, and the payload, whose process may be
// 0 for unknown.
func (c *contained) watch(pid int) []driver.Watch {
	watch, payload := c.engine.watch(), driver.Watch{Role: driver.RolePayload, PID: pid}
	if c.spec.Cgroup != "" {
		payload.Cgroup = c.group(driver.RolePayload)
		watch = append(watch, driver.Watch{Role: driver.RoleRuntime, Cgroup: c.group(driver.RoleRuntime)})
	}
	return append(watch, payload)
}

// kill ends the payload without asking the engine, which may be busy.
func (c *contained) kill() {
	if c.spec.Cgroup == "" || c.died.Load() {
		return // Close asks the engine
	}
	if trees, err := sys.Cgroups(); err == nil {
		_ = trees.Kill(c.group(driver.RolePayload))
	}
}

func (c *contained) removeGroups() error {
	if c.spec.Cgroup == "" {
		return nil
	}
	var errs []error
	for _, r := range []driver.Role{driver.RolePayload, driver.RoleRuntime} {
		_, err := sys.RemoveCgroups(c.group(r))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
