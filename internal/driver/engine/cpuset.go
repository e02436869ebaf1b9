package engine

import (
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// confine has a private engine, its shims and its runtimes use the CPUs of an instance
// alone, or again all that tare may use: what it does for a container counts as that
// container's. A trial's instances are of one level, so no other is under way. The
// user's own engine keeps the CPUs that it has.
func (e *engine) confine(l driver.Limits) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.private == nil || e.private.cpus == "" && l.CPUSet == "" {
		return nil
	}
	cpus := l.CPUSet
	if cpus == "" {
		allowed, err := sys.AllowedCPUs()
		if err != nil {
			return driver.Labf("%w", err)
		}
		cpus = sys.FormatCPUs(allowed)
	}
	if cpus == e.private.cpus {
		return nil
	}
	trees, err := sys.Cgroups()
	if err == nil {
		err = trees.Apply(e.private.cgroup, sys.Bounds{CPUSet: cpus})
	}
	if err != nil {
		return driver.Labf("CPUs of the engine: %w", err)
	}
	e.private.cpus = cpus
	return nil
}
