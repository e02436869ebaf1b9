package preflight

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/probe"
	"github.com/tarelab/tare/internal/sys"
)

// Machine is what requirements ask about a machine.
type Machine interface {
	// Arch is the architecture, in Go's words.
	Arch() string
	// CPUs are those that instances may use, ascending.
	CPUs() ([]int, error)
	// Limits reports whether cgroups with limits can be made.
	Limits() bool
	// Idles reports whether a cgroup can be made idle (cpu.idle).
	Idles() bool
	// Binds reports whether groups can be bound to CPUs.
	Binds() bool
	// KSMLacks says why equal pages cannot be merged; "" where they can.
	KSMLacks() string
	// HugePagesLack says why there is no pool of huge pages; "" where there is.
	HugePagesLack() string
	// UnusedRange is an error where the machine itself uses an address of the range.
	UnusedRange(addresses string) error
	// Watch proves a probe of study.Probes by use.
	Watch(probe string) error
	// Capacities are what instances meet first, each with what is in use.
	Capacities() ([]Capacity, error)
}

// Here is the machine that tare runs on.
type Here struct {
	Groups bool               // cgroups can be made
	Proof  func(string) error // proves a probe by use
}

// Arch implements Machine.
func (Here) Arch() string { return runtime.GOARCH }

// CPUs implements Machine.
func (Here) CPUs() ([]int, error) { return sys.AllowedCPUs() }

// Limits implements Machine.
func (h Here) Limits() bool { return h.Groups }

// Idles implements Machine.
func (Here) Idles() bool {
	groups, err := sys.Cgroups()
	return err == nil && groups.CanIdle()
}

// Binds implements Machine.
func (Here) Binds() bool {
	groups, err := sys.Cgroups()
	return err == nil && groups.CanBind()
}

// KSMLacks implements Machine.
func (Here) KSMLacks() string { return sys.KSMLacks() }

// HugePagesLack implements Machine.
func (Here) HugePagesLack() string { return sys.HugePagesLack() }

// UnusedRange implements Machine.
func (Here) UnusedRange(addresses string) error {
	_, err := net.Unused(addresses)
	return err
}

// Watch implements Machine.
func (h Here) Watch(probe string) error { return h.Proof(probe) }

// Capacities implements Machine.
func (Here) Capacities() ([]Capacity, error) {
	available, err := sys.AvailableMemory()
	if err != nil {
		return nil, err
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("limit of open files: %w", err)
	}
	counters, err := probe.ManyFiles()
	if err != nil {
		return nil, err
	}
	all := []Capacity{
		{Of: Memory, Name: "the memory that is available", Value: available},
		{Of: LabFiles, Name: "tare's limit of open files (ulimit -n)", Value: int64(min(files.Cur, noFileLimit)), InUse: labFiles + int64(counters)},
		{Of: DaemonFiles, Name: "the engine's limit of open files (ulimit -Hn)", Value: int64(min(files.Max, noFileLimit))},
	}
	for _, g := range sys.LimitsAbove(driver.Label, sys.MemoryController) {
		if left, ok := g.Left(); ok {
			all = append(all, Capacity{Of: Memory, Name: g.File() + ", less what is in use,", Value: left})
		}
	}
	tasks, err := taskCapacities()
	return append(all, tasks...), err
}

// noFileLimit is more open files than anything needs: RLIM_INFINITY is no int64.
const noFileLimit = 1 << 40

// taskCapacities are the machine's limits of processes and threads, and those of
// the groups above all that tare makes.
func taskCapacities() ([]Capacity, error) {
	running, err := sys.RunningTasks()
	if err != nil {
		return nil, err
	}
	files := []string{sys.PIDMax, sys.ThreadsMax}
	for _, g := range sys.LimitsAbove(driver.Label, sys.PidsController) {
		files = append(files, g.File())
	}
	var all []Capacity
	for _, file := range files {
		if value, ok := sys.LimitIn(file); ok {
			all = append(all, Capacity{Of: Tasks, Name: file, Value: value, InUse: sys.TasksUnder(file, running)})
		}
	}
	return all, nil
}
