package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
	"github.com/prometheus/procfs"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// watchGrace bounds how long Watch asks an engine for a container's pid.
const watchGrace = 2 * time.Second

// Watch implements driver.Instance.
func (i *instance) Watch() []driver.Watch {
	payload := driver.Watch{Role: driver.RolePayload, Cgroup: i.payloadGroup()}
	i.mu.Lock()
	started := i.started && !i.closed
	i.mu.Unlock()
	if started {
		ctx, cancel := context.WithTimeout(context.Background(), watchGrace)
		defer cancel()
		if r, err := i.client.ContainerInspect(ctx, i.spec.ID, client.ContainerInspectOptions{}); err == nil && r.Container.State != nil {
			payload.PID = r.Container.State.Pid // 0 where the engine cannot tell in time
		}
	}
	watches := append(i.driver.engine.watch(), payload)
	if group := i.monitorGroup(); group != "" {
		watches = append(watches, driver.Watch{Role: driver.RoleRuntime, Cgroup: group})
	}
	return watches
}

// watch is the engine itself: each of its daemons alone, and in the role of the
// runtime all else in the daemon's group, which are shims and the runtime's
// commands. Of a user's own engine only its daemons are known, which may work for
// others too.
func (e *engine) watch() []driver.Watch {
	switch {
	case e.private == nil:
		var watch []driver.Watch
		for _, pid := range e.daemons.find(e.flavor.daemons, allProcesses) {
			watch = append(watch, driver.Watch{Role: driver.RoleShared, PID: pid})
		}
		return watch
	case !e.private.alive():
		return nil
	}
	return e.private.watch()
}

// daemonPIDs are the daemons of an engine. Each instance asks for them, so they are
// looked for again only when one has ended.
type daemonPIDs struct {
	mu   sync.Mutex
	pids []int
}

// find gives the processes of these names. It looks among those that among returns.
func (d *daemonPIDs) find(names []string, among func() []int) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	named := func(pid int) bool { return slices.Contains(names, comm(pid)) }
	if len(d.pids) > 0 && !slices.ContainsFunc(d.pids, func(pid int) bool { return !named(pid) }) {
		return d.pids
	}
	d.pids = nil
	if len(names) > 0 {
		d.pids = slices.DeleteFunc(among(), func(pid int) bool { return !named(pid) })
	}
	return d.pids
}

// allProcesses are those of the machine.
func allProcesses() (pids []int) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil // nobody's processes can be read
	}
	for _, p := range all {
		pids = append(pids, p.PID)
	}
	return pids
}

// comm is the name of a process; "" of one that has ended.
func comm(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (p *private) watch() []driver.Watch {
	watch := []driver.Watch{
		{Role: driver.RoleRuntime, Cgroup: p.cgroup},
		{Role: driver.RoleDaemon, PID: p.pid, Cgroup: p.cgroup, Alone: true},
	}
	children := func() []int {
		pids, err := sys.Children(p.pid)
		if err != nil {
			return nil // the daemon has ended
		}
		return pids
	}
	for _, pid := range p.daemons.find(p.starts, children) {
		watch = append(watch, driver.Watch{Role: driver.RoleDaemon, PID: pid, Cgroup: p.cgroup, Alone: true})
	}
	return watch
}
