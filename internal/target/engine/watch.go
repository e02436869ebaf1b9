package engine

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/target"
)

// watchGrace bounds how long Watch asks an engine for a container's pid.
const watchGrace = 2 * time.Second

// Watch implements target.Instance.
func (i *instance) Watch() []target.Watch {
	payload := target.Watch{Role: target.RolePayload}
	if i.spec.Cgroup != "" {
		payload.Cgroup = i.payloadGroup()
	}
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
	return append(i.driver.engine.watch(), payload)
}

// unread is what of a user's own engine has no watch.
const unread = "daemons, shims and runtimes of the engine, which is the user's own"

// watch is the engine itself: each of its daemons alone, and in the role of the
// runtime all else in the daemon's group, which are shims and the runtime's
// commands. A user's own engine shows none of this.
func (e *engine) watch() []target.Watch {
	if e.private == nil || !e.private.alive() {
		return nil
	}
	return e.private.watch()
}

func (p *private) watch() []target.Watch {
	watch := []target.Watch{
		{Role: target.RoleRuntime, Cgroup: p.cgroup},
		{Role: target.RoleDaemon, PID: p.pid, Cgroup: p.cgroup, Alone: true},
	}
	for _, pid := range children(p.pid) {
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(comm)) == "containerd" {
			watch = append(watch, target.Watch{Role: target.RoleDaemon, PID: pid, Cgroup: p.cgroup, Alone: true})
		}
	}
	return watch
}

// children are the processes that pid has started (proc(5); every thread has a
// list of its own).
func children(pid int) []int {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	var all []int
	for _, t := range threads {
		list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue // a thread that has ended
		}
		for _, text := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(text); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
