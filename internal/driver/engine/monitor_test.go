package engine

import (
	"context"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Podman's monitor is in the group by which it is watched as the runtime's, and the
// payload is not.
func TestPodmansMonitorIsWatchedApart(t *testing.T) {
	trees, err := sys.Cgroups()
	if err != nil {
		t.Fatal(err)
	}
	d := newTrouble(t, laboratory(t), "podman")
	inst := prepareIn(t, d, d.engine.lab, driver.Spec{ID: "tare-monitored", Args: []string{"/bin/busybox", "sleep", "600"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := inst.Start(ctx, func(driver.Phase) {}); err != nil {
		t.Fatal(err)
	}
	watches := inst.Watch()
	payload := watches[slices.IndexFunc(watches, func(w driver.Watch) bool { return w.Role == driver.RolePayload })]
	monitor := slices.IndexFunc(watches, func(w driver.Watch) bool {
		return w.Role == driver.RoleRuntime && path.Dir(w.Cgroup) == payload.Cgroup
	})
	if monitor < 0 {
		t.Fatalf("no monitor is watched inside %s: %+v", payload.Cgroup, watches)
	}
	in, err := trees.PIDs(watches[monitor].Cgroup)
	if err != nil {
		t.Fatal(err)
	}
	if len(in) == 0 || slices.ContainsFunc(in, func(pid int) bool { return comm(pid) != "conmon" }) || slices.Contains(in, payload.PID) {
		t.Errorf("in the monitor's group are %v, and the payload is %d", in, payload.PID)
	}
	if err := inst.Close(); err != nil {
		t.Error(err)
	}
}
