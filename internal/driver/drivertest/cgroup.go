package drivertest

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// makeCgroup makes the instance's group, as the laboratory does: without its
// limits, which are the driver's to set. "" where this user may not.
func makeCgroup(id string) (string, error) {
	trees, err := sys.Cgroups()
	if err != nil || !trees.Usable() {
		return "", err
	}
	rel := driver.Label + "/" + id
	return rel, trees.Make(rel)
}

// removeCgroup removes the group after Close, which must have ended every
// process in it.
func (s *suite) removeCgroup(rel string) error {
	if rel == "" {
		return nil
	}
	trees, err := sys.Cgroups()
	if err != nil {
		return err
	}
	pids, err := trees.PIDs(rel)
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		err = fmt.Errorf("after Close, processes run in the instance's cgroup: %s", describe(pids[0]))
		if kerr := trees.Kill(rel); kerr != nil {
			return fmt.Errorf("%w, and: %w", err, kerr)
		}
	}
	if rerr := trees.Remove(rel); rerr != nil {
		return rerr
	}
	return err
}

func cgroupExists(rel string) error {
	trees, err := sys.Cgroups()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(trees.Dirs(rel), func(dir string) bool { _, err := os.Stat(dir); return err == nil }) {
		return fmt.Errorf("%s exists in no hierarchy", rel)
	}
	return nil
}

// cpuTime is what the instance's group has used.
func cpuTime(rel string) (time.Duration, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return 0, err
	}
	t, ok, err := trees.CPUTime(rel)
	if err == nil && !ok {
		err = lackf("no cgroup hierarchy counts CPU time")
	}
	return time.Duration(t.Total * float64(time.Second)), err
}
