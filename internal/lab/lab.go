// Package lab composes the laboratory: it opens a session on the machine,
// makes the workbench image, proves the targets, turns a study into a plan,
// carries the plan out, and turns a run into a report's input. It decides
// nothing that a room of its own decides; it wires the rooms together.
package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/helpers"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/peer"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// Config is what the laboratory needs of the outside world.
type Config struct {
	StateDir string   // runs, images and sessions are kept here
	ToolDirs []string // searched for runtimes before PATH
	CacheDir string   // kernels and guests' files are kept here; "" for nowhere
	Guest    driver.Guest
	Version  string   // of tare
	Tool     string   // tare's own program, which payloads may call; "" for none
	Command  []string // argv, for the record
	Drivers  func(driver.Lab) []driver.Driver
	Foreign  map[string][]string // names of targets that other architectures have, each with these
	// PrivateEngines: engines that run already are left alone.
	PrivateEngines bool
	// AllowSysctl: levels may change settings of the whole machine.
	AllowSysctl bool
	// Workbench is a saved workbench, FILE@sha256:DIGEST; "": one of this machine's programs.
	Workbench string
	// Peer is the other machine of paths between two, as peer.Where explains; "" for none.
	Peer string
	Tell func(string) // told what takes minutes before the first trial; may be nil
}

// GuestRoot is a root file system that machines boot: the unpacked root of an image,
// which goes with the laboratory, and anything else as it is. The error of an image that
// cannot be read is an *InputError.
func (l *Lab) GuestRoot(ctx context.Context, ref string) (string, error) {
	if ref == "" || !image.IsImage(ref) {
		return ref, nil
	}
	root, err := l.images.Import(ctx, ref, l.bench)
	if err != nil {
		return "", rootError(err)
	}
	l.roots, l.notes = append(l.roots, root), append(l.notes, root.Notes...)
	return root.Rootfs, nil
}

// Say passes on what takes minutes before the first trial.
func (c Config) Say(what string) {
	if c.Tell != nil {
		c.Tell(what)
	}
}

// Lab is an open laboratory: one session on this machine.
type Lab struct {
	config  Config
	place   driver.Lab // what drivers were given
	session *session
	groups  *groups
	images  *image.Store
	bench   image.Root   // the workbench
	roots   []image.Root // closed at the end
	drivers []driver.Driver
	notes   []string     // what the user should know
	peer    *peer.Client // the other machine; nil for none
}

// Open sweeps what dead sessions left, and opens one. Close ends it. A kernel of
// the user's that is none for this machine is an *InputError.
func Open(ctx context.Context, config Config) (*Lab, error) {
	if file := config.Guest.Kernel; file != "" {
		k, err := vmm.Inspect(file)
		if err == nil {
			err = k.Fits()
		}
		if err != nil {
			return nil, &InputError{fmt.Errorf("--kernel: %w", err)}
		}
	}
	_, unswept := Sweep(ctx, config.StateDir, config.Drivers)
	s, err := newSession(config.StateDir)
	if err != nil {
		return nil, err
	}
	l := &Lab{config: config, session: s}
	if unswept != nil {
		l.notes = append(l.notes, fmt.Sprintf("what an earlier run left could not be swept: %v", unswept))
	}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if _, err := PruneImages(ctx, config.StateDir); err != nil {
		l.notes = append(l.notes, fmt.Sprintf("old images could not be removed: %v", err))
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context) error {
	bin := filepath.Join(l.session.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if err := helpers.Extract(bin); err != nil {
		return fmt.Errorf("helpers: %w", err)
	}
	binaries, err := inRootfs(runtime.GOARCH)
	if err != nil {
		return fmt.Errorf("helpers: %w", err)
	}
	l.images = image.NewStore(l.config.StateDir)
	if l.config.Workbench != "" {
		if l.bench, err = l.images.Saved(ctx, l.config.Workbench, binaries); err != nil {
			return rootError(err)
		}
	} else if l.bench, err = l.images.Workbench(ctx, binaries); err != nil {
		return fmt.Errorf("workbench image: %w", err)
	}
	l.roots = append(l.roots, l.bench)
	if l.groups, err = newGroups(l.session.name); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	l.place = driver.Lab{
		LaunchPath:     filepath.Join(bin, "launch"),
		MarkPath:       filepath.Join(bin, "mark"),
		InitPath:       filepath.Join(bin, "init"),
		TestRootfs:     l.bench.Rootfs,
		TestImage:      l.bench.Layout,
		RunDir:         l.session.runDir(),
		VolatileDir:    l.session.volatileDir(),
		ToolDirs:       l.config.ToolDirs,
		Root:           os.Geteuid() == 0,
		CacheDir:       l.config.CacheDir,
		Guest:          l.config.Guest,
		PrivateEngines: l.config.PrivateEngines,
	}
	if l.place.Guest.Rootfs, err = l.GuestRoot(ctx, l.config.Guest.Rootfs); err != nil {
		return err
	}
	if hostinfo.Gather().Emulated != "" {
		l.place.Slow = emulatedSlowness
	}
	if l.config.AllowSysctl {
		l.place.Sysctl = sys.Settings{File: l.session.settings()}.Set
	}
	if l.groups.trees.Usable() {
		l.place.Cgroup = l.groups.session
	}
	if err := l.session.makeDirs(); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if err := l.settleRights(); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	l.drivers = l.config.Drivers(l.place)
	return l.connect(ctx)
}

// settleRights proves by use that root may do what root may: that of an unprivileged
// container may not, and is then a user as others are, with a namespace of its own.
func (l *Lab) settleRights() error {
	if !l.place.Root {
		return nil
	}
	lacks, err := "CAP_SYS_ADMIN", mountVolatile(l.place.VolatileDir)
	if err == nil {
		lacks, err = "right to make devices", makeDevice(l.place.VolatileDir)
	}
	if errors.Is(err, unix.EPERM) {
		l.place.Root = false
		l.notes = append(l.notes, fmt.Sprintf("this root has no %s, as in an unprivileged container, and can do what a user can: %v", lacks, err))
		return nil
	}
	return err
}

// makeDevice makes a device in a directory in memory, and removes it; where it may not,
// it gives the memory up. The root of a user namespace has CAP_SYS_ADMIN there, and may
// make no device, nor mount the proc and sysfs of namespaces that are not its own.
func makeDevice(dir string) error {
	null := filepath.Join(dir, "null")
	if err := unix.Mknod(null, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		return errors.Join(fmt.Errorf("make a device at %s: %w", null, err), unix.Unmount(dir, unix.MNT_DETACH))
	}
	return os.Remove(null)
}

// Drivers are the targets of these names, or all that this build of tare knows,
// nearest to the host first. A name that is none of theirs, nor of what one of them
// finds by its name, is an *InputError, one of another architecture a
// *driver.CannotError.
func (l *Lab) Drivers(ctx context.Context, names ...string) ([]driver.Driver, error) {
	names = slices.Clone(names)
	for i, name := range names {
		var err error
		if names[i], err = l.withProgram(name); err != nil {
			return nil, &InputError{err}
		}
	}
	l.name(ctx, names)
	known := l.known()
	for _, name := range names {
		if problem := known.Problem(name); problem != "" {
			return nil, &InputError{errors.New(problem)}
		}
	}
	if err := preflight.Foreign(names, l.config.Foreign, runtime.GOARCH); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return l.drivers, nil
	}
	return slices.DeleteFunc(slices.Clone(l.drivers), func(d driver.Driver) bool { return !slices.Contains(names, d.Name()) }), nil
}

// withProgram is a target's name in which the path of the program or kernel that it is
// to use is absolute: "runc=./runc" as "runc=/opt/new/runc". Other names stay as they
// are, as does a kernel's release. What no file has as its path is an error, as is a
// program that cannot be executed.
func (l *Lab) withProgram(name string) (string, error) {
	target, program, ok := strings.Cut(name, driver.ProgramSign)
	if !ok {
		return name, nil
	}
	program, on, placed := strings.Cut(program, study.PathSign)
	if driver.IsRelease(program) {
		return name, nil
	}
	path, err := filepath.Abs(program)
	if err != nil {
		return "", fmt.Errorf("target %s: %w", name, err)
	}
	info, err := os.Stat(path)
	switch {
	case program == "" || noPath.MatchString(path):
		return "", fmt.Errorf("target %q: the path of a program or kernel has no blank and none of , : ~ and @", name)
	case err != nil:
		return "", fmt.Errorf("target %s: %w", name, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("target %s: %s is not a regular file", name, path)
	case !l.bootsKernels(target) && unix.Access(path, unix.X_OK) != nil:
		return "", fmt.Errorf("target %s: %s is not an executable file", name, path)
	}
	if placed {
		path += study.PathSign + on
	}
	return target + driver.ProgramSign + path, nil
}

// bootsKernels reports whether a target is a machine, which takes a kernel and no program.
func (l *Lab) bootsKernels(target string) bool {
	return slices.ContainsFunc(l.drivers, func(d driver.Driver) bool { return d.Name() == target && d.Properties().Machine != nil })
}

// noPath is what other names of a study part by.
var noPath = regexp.MustCompile(`[\s\pC,:~@]`)

// name adds the drivers of names that no list holds, where one of the drivers finds
// what they mean.
func (l *Lab) name(ctx context.Context, names []string) {
	for _, name := range names {
		name, _, _ = strings.Cut(name, study.PathSign)
		if slices.ContainsFunc(l.drivers, func(d driver.Driver) bool { return d.Name() == name }) {
			continue
		}
		for _, d := range l.drivers {
			namer, ok := driver.As[driver.Namer](d)
			if !ok {
				continue
			}
			if named := namer.Named(ctx, name); named != nil {
				l.drivers = append(l.drivers, named)
				break
			}
		}
	}
	slices.SortStableFunc(l.drivers, func(a, b driver.Driver) int { return cmp.Compare(a.Properties().Order, b.Properties().Order) })
}

// Config is what the laboratory was opened with.
func (l *Lab) Config() Config { return l.config }

// Place is what drivers were given.
func (l *Lab) Place() driver.Lab { return l.place }

// Notes are what the user should know of the laboratory itself.
func (l *Lab) Notes() []string { return l.notes }

// Close removes all that the session made on the machine. Runs and images stay, and
// where something could not be removed, what a sweep finds it by.
func (l *Lab) Close() error {
	var errs []error
	var lost error // the peer: this machine's session can be removed all the same
	if l.peer != nil {
		lost = l.peer.Close()
	}
	for _, d := range l.drivers {
		if s, ok := driver.As[driver.SessionDriver](d); ok {
			errs = append(errs, s.Teardown())
		}
	}
	for _, r := range l.roots {
		errs = append(errs, r.Close())
	}
	if l.groups != nil {
		errs = append(errs, l.groups.close())
	}
	_, err := sys.RestoreSettings(l.session.settings()) // those that could not be put back before
	if err := errors.Join(append(errs, err)...); err != nil {
		return errors.Join(lost, err, l.session.leave())
	}
	return errors.Join(lost, l.session.remove())
}

// inRootfs are the helper programs of every root file system of an architecture, by their
// paths.
func inRootfs(goarch string) (map[string][]byte, error) {
	programs := map[string][]byte{}
	for _, name := range []string{helpers.Mark, helpers.Unix, helpers.UnixGNU, helpers.WhetstoneGNU, helpers.UnixBench, helpers.Slice, helpers.Churn, helpers.Net} {
		data, err := helpers.ReadFor(goarch, name)
		if err != nil {
			return nil, err
		}
		programs["/.tare/"+name] = data
	}
	return programs, nil
}
