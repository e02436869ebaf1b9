package engine

import (
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Bind implements driver.Binder.
func (e *engine) Bind(cpus string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cpus = cpus
	return e.bindPrivate()
}

// bindPrivate binds a private engine that runs, with its shims and its runtimes. The
// caller holds the lock.
func (e *engine) bindPrivate() error {
	if e.private == nil || e.private.cpus == e.cpus {
		return nil
	}
	cpus := e.cpus
	if cpus == "" {
		allowed, err := sys.AllowedCPUs()
		if err != nil {
			return driver.Labf("%w", err)
		}
		cpus = sys.FormatCPUs(allowed)
	}
	trees, err := sys.Cgroups()
	if err == nil {
		err = trees.Apply(e.private.cgroup, sys.Bounds{CPUSet: cpus})
	}
	if err != nil {
		return driver.Labf("CPUs of the engine: %w", err)
	}
	e.private.cpus = e.cpus
	return nil
}
