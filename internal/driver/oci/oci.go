// Package oci is the family of command-line OCI runtimes: runc, crun, youki and
// runsc behind one driver. What differs between them is data, one small file a
// runtime. Each instance has a bundle, a state directory and a rootfs overlay of
// its own, below the directory that it was given.
package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// Runtime is what tare knows of one runtime: its names and its quirks.
type Runtime struct {
	Name   string // the driver's
	Binary string
	Path   string // of the binary, absolute; "" where it is found by its name
	Remedy string // how it is installed

	Flags []string // global flags besides --root and --log
	// Platform is how it catches system calls, where it can choose: a fact of
	// the report; "" where it has none.
	Platform string
	// LogKind goes before a log's path with a colon in it, where the runtime takes
	// what is before the colon for the kind of log.
	LogKind string
	// Groupless are the flags that keep it from making cgroups of its own where
	// tare can make none: it would put them wherever the user may write, by
	// names that no sweep knows.
	Groupless []string
	// Lacks are namespaces that it does not have or refuses; the bundle asks for
	// all others.
	Lacks []specs.LinuxNamespaceType

	// HidesUnified: it refuses to work where cgroup v1 and v2 are mounted
	// together. There its mount namespace has the v2 tree covered.
	HidesUnified bool
	// LoopbackDown: it leaves the loopback of a new network namespace down. An
	// engine would hand it one that is up; here the launcher makes it, inside the
	// clock, so that the namespace's price stays in the start.
	LoopbackDown bool
	// NoStats: it has no "events --stats".
	NoStats bool
	// SignalAsCode: a payload that died of signal n ends as code 128+n.
	SignalAsCode bool
	// DemandsPath: it refuses an environment without PATH, and gets the usual one.
	DemandsPath bool
	// Footprint is what a container that is alive takes beside its payload, where
	// that is more than runc's.
	Footprint driver.Footprint
	// Calls are system calls that it does not start without (driver.Properties).
	Calls []string
	// Systemd: it has systemd make the payload's group, a scope.
	Systemd bool
	// Sandbox: a kernel of its own in user space runs the payload.
	Sandbox bool
	// Rootless: it works without root, in a user namespace.
	Rootless bool

	StartTime time.Duration // rough
	Order     int
}

func (r Runtime) boundary() driver.Boundary {
	if r.Sandbox {
		return driver.SandboxBoundary
	}
	return driver.ContainerBoundary
}

// Runtimes are those that tare knows, the usual one first.
func Runtimes() []Runtime {
	return append([]Runtime{runc(), runcSystemd(), crun(), youki()}, runsc()...)
}

// Drivers are the drivers of all runtimes.
func Drivers(lab driver.Lab) []driver.Driver {
	var all []driver.Driver
	for _, r := range Runtimes() {
		all = append(all, New(lab, r))
	}
	return all
}

// Driver runs payloads in one runtime.
type Driver struct {
	lab     driver.Lab
	runtime Runtime
}

// New is the driver of one runtime.
func New(lab driver.Lab, r Runtime) *Driver { return &Driver{lab: lab, runtime: r} }

// Name implements driver.Driver.
func (d *Driver) Name() string {
	if d.runtime.Path != "" {
		return d.runtime.Name + driver.ProgramSign + d.runtime.Path
	}
	return d.runtime.Name
}

// Named implements driver.Namer: runc=/PATH is the runtime with the binary of that
// path, which may be another version of it.
func (d *Driver) Named(_ context.Context, name string) driver.Driver {
	base, path, _ := strings.Cut(name, driver.ProgramSign)
	if base != d.runtime.Name || d.runtime.Path != "" || !filepath.IsAbs(path) {
		return nil
	}
	other := d.runtime
	other.Path = path
	return New(d.lab, other)
}

// Properties implements driver.Driver.
func (d *Driver) Properties() driver.Properties {
	return driver.Properties{
		Family: "oci", NeedsRoot: !d.runtime.Rootless, Isolated: true, Boundary: d.runtime.boundary(), Joins: launch.Joins(d.lab.Root), MaxParallel: 50, StreamBytes: 64 << 20,
		ExactSignal: !d.runtime.SignalAsCode, StartTime: d.runtime.StartTime, Order: d.runtime.Order,
		Footprint: d.runtime.Footprint, Calls: d.runtime.Calls,
	}
}

// cannot is a CannotError of this driver.
func (d *Driver) cannot(remedy, format string, args ...any) error {
	return &driver.CannotError{Target: d.Name(), Lacks: fmt.Sprintf(format, args...), Remedy: remedy}
}

// ready finds the runtime's binary, and says what the machine lacks for it.
func (d *Driver) ready() (path string, err error) {
	path, err = d.Locate()
	if err != nil {
		return "", err
	}
	if !d.lab.Root && !d.runtime.Rootless {
		return "", d.cannot("run tare as root", "%s needs root", d.runtime.Binary)
	}
	if d.runtime.Systemd && !booted() {
		return "", d.cannot("run tare where it is", "systemd, which is to make the groups, is not this machine's first process")
	}
	return path, nil
}

// Locate is the absolute path of the binary that Prepare would run now. It runs
// nothing, so that a caller can tell by the file whether what an earlier Check
// found still holds. Where there is none, the error is a driver.CannotError.
func (d *Driver) Locate() (path string, err error) {
	if d.runtime.Path != "" {
		if !sys.Executable(d.runtime.Path) {
			return "", d.cannot("name the binary of a runtime", "%s is not an executable file", d.runtime.Path)
		}
		return d.runtime.Path, nil
	}
	path, err = sys.FindProgram(d.lab.ToolDirs, d.runtime.Binary)
	if err != nil {
		return "", d.cannot(d.runtime.Remedy, "%s is not installed", d.runtime.Binary)
	}
	return path, nil
}

// usualPath is the PATH of a Docker container.
const usualPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is what runtimes get: a fixed PATH for the helpers that some of
// them run, and nothing of the user's.
func environment() []string {
	return []string{usualPath}
}

// home are the places of one instance.
type home struct {
	dir      string // on a disk, where engines have what containers write
	volatile string // where engines have bundles and runtimes their state: /run, mostly in memory
}

// home is where the instance id lives, whose directory is dir.
func (d *Driver) home(id, dir string) home {
	if d.lab.VolatileDir == "" {
		return home{dir, filepath.Join(dir, "run")}
	}
	return home{dir, filepath.Join(d.lab.VolatileDir, id)}
}

func (h home) upper() string   { return filepath.Join(h.dir, "upper") }
func (h home) work() string    { return filepath.Join(h.dir, "work") }
func (h home) bundle() string  { return h.volatile }
func (h home) rootfs() string  { return filepath.Join(h.volatile, "rootfs") }
func (h home) log() string     { return filepath.Join(h.volatile, "log.json") }
func (h home) pidFile() string { return filepath.Join(h.volatile, "pid") }

// state is the runtime's --root.
func (h home) state() string { return filepath.Join(h.volatile, "state") }

// remove deletes what is volatile; dir is the caller's. Nothing is mounted there:
// all mounts of an instance are in its launcher's own namespace.
func (h home) remove() error { return os.RemoveAll(h.volatile) }

// surroundings are the steps that put the launcher where the runtime can work:
// a private mount namespace, and in it no v2 cgroups for one that refuses them.
func (d *Driver) surroundings() ([]launch.Step, error) {
	var steps []launch.Step
	if !d.lab.Root {
		steps = append(steps, launch.Unshare(unix.CLONE_NEWUSER),
			launch.Maps(fmt.Sprintf("0 %d 1", os.Geteuid()), fmt.Sprintf("0 %d 1", os.Getegid())))
	}
	steps = append(steps, launch.PrivateMounts()...)
	if !d.runtime.HidesUnified {
		return steps, nil
	}
	hidden, err := launch.HideUnified()
	return append(steps, hidden...), err
}

// arguments are the runtime's global flags for one instance, and a command.
func (d *Driver) arguments(binary, state, log string, command ...string) []string {
	if strings.Contains(log, ":") {
		log = d.runtime.LogKind + log
	}
	args := append([]string{binary, "--root", state, "--log", log, "--log-format", "json"}, d.runtime.Flags...)
	if trees, err := sys.Cgroups(); err == nil && !trees.Usable() {
		args = append(args, d.runtime.Groupless...)
	}
	return append(args, command...)
}

// Prepare makes the bundle and starts the launcher, which mounts the rootfs and
// waits.
func (d *Driver) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	binary, err := d.ready()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.refuse(spec), launch.Ordinary(spec.Rootfs)); err != nil {
		return nil, err
	}
	i := &instance{driver: d, binary: binary, spec: spec, home: d.home(spec.ID, dir)}
	if err := i.prepare(ctx); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// refuse names what a spec asks for and cannot be had without root: runtimes
// would drop it silently, or fail in words of their own.
func (d *Driver) refuse(spec driver.Spec) error {
	switch {
	case spec.Cgroup == "" && spec.Limits != driver.Limits{}:
		return d.cannot("run tare as root", "%s can limit a payload only in a cgroup, and this user may make none", d.runtime.Binary)
	case !d.lab.Root && spec.User != driver.User{}:
		return d.cannot("run tare as root", "without root, %s can run a payload only as the container's root", d.runtime.Binary)
	}
	return nil
}
