package engine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// handler is a runtime as containerd knows it: a shim by its name, and for the
// usual shim the runtime that it runs.
type handler struct {
	name   string // the driver's
	shim   string // containerd's name of the handler
	binary string // of the runtime that the shim runs; "" is the shim's own choice
	needs  string // a program without which there is no such handler
	remedy string
	hide   bool // it refuses hybrid cgroups
	start  time.Duration
	order  int
}

// runcShim is containerd's name of the shim for runtimes with runc's command line.
const runcShim = "io.containerd.runc.v2"

// kataShim is Kata's, which runs each container in a virtual machine.
const kataShim = "containerd-shim-kata-v2"

// handlers are the runtimes that lists show; any other is had by its name.
func handlers() []handler {
	return []handler{
		{name: "containerd", shim: runcShim, start: 80 * time.Millisecond, order: 300},
		{name: "containerd/crun", shim: runcShim, binary: "crun", needs: "crun", remedy: "tare setup installs it", hide: true, start: 70 * time.Millisecond, order: 305},
		{name: "containerd/runsc", shim: runcShim, binary: "runsc", needs: "runsc", remedy: "make tools", start: 250 * time.Millisecond, order: 310},
		{name: "containerd/kata", shim: "io.containerd.kata.v2", needs: kataShim, remedy: "install Kata Containers", start: 2 * time.Second, order: 315},
	}
}

// boundary is what a runtime puts around an engine's payload, by its program's name.
// Any other program counts as a container runtime.
func boundary(program string) driver.Boundary {
	switch program {
	case "runsc", runscShim:
		return driver.SandboxBoundary
	case kataShim:
		return driver.MachineBoundary
	}
	return driver.ContainerBoundary
}

// containerds are the drivers that one containerd serves, and another one where
// a runtime needs other surroundings.
func containerds(lab driver.Lab, f flavor) []driver.Driver {
	var all []driver.Driver
	for _, d := range handlersOf(lab, f, containerdNamespace(owner()), handlers()) {
		all = append(all, d)
	}
	return all
}

// handlersOf are the drivers of handlers in engines of that flavor, whose containers
// are in the namespace.
func handlersOf(lab driver.Lab, f flavor, namespace string, handlers []handler) []*containerdDriver {
	usual := &containerdEngine{engine: newEngine(lab, f, f.name), namespace: namespace, choose: snapshotterOf}
	covered := usual
	if hybrid() {
		covered = &containerdEngine{engine: newEngine(lab, f, f.name+"-crun"), namespace: namespace, choose: snapshotterOf}
		covered.hide = true
	}
	var all []*containerdDriver
	for _, h := range handlers {
		d := &containerdDriver{engine: usual, handler: h}
		if h.hide {
			d.engine = covered
		}
		all = append(all, d)
	}
	return all
}

// containerdDriver runs payloads through containerd's API.
type containerdDriver struct {
	engine  *containerdEngine
	handler handler
}

// Name implements driver.Driver.
func (d *containerdDriver) Name() string { return d.handler.name }

// Properties implements driver.Driver.
func (d *containerdDriver) Properties() driver.Properties {
	return driver.Properties{Family: "engine", Isolated: true, Boundary: boundary(cmp.Or(d.handler.needs, d.handler.binary)), Joins: driver.JoinsNamespace, MaxParallel: 16, StreamBytes: 16 << 20,
		StartTime: d.handler.start, Order: d.handler.order, CheckTime: 40 * time.Second,
		Footprint: driver.Footprint{Tasks: shimTasks, DaemonFiles: 6}}
}

// runtimeName is what the names of runtimes are made of, as they stand in targets'.
var runtimeName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// Rough start times of runtimes that nobody here knows: one with runc's command line,
// and one with a shim of its own, which may be a virtual machine's.
const (
	namedStart = 250 * time.Millisecond
	shimStart  = 2 * time.Second
)

// Named implements driver.Namer: containerd/NAME is the runtime of that binary, under
// the usual shim, or the handler of that name, whose last two parts name its shim's
// binary (containerd, docs/runtime-v2.md).
func (d *containerdDriver) Named(_ context.Context, name string) driver.Driver {
	runtime, ours := strings.CutPrefix(name, d.engine.flavor.name+"/")
	if !ours || d.Name() != d.engine.flavor.name || !runtimeName.MatchString(runtime) {
		return nil
	}
	h, ok := handlerNamed(d.engine.lab, name, runtime, 316)
	if !ok {
		return nil
	}
	return &containerdDriver{engine: d.engine, handler: h}
}

// handlerNamed is the handler of a runtime that is in no list, for the driver of that
// name.
func handlerNamed(lab driver.Lab, name, runtime string, order int) (handler, bool) {
	h := handler{name: name, shim: runcShim, binary: runtime, needs: runtime, start: namedStart, order: order}
	if _, err := sys.FindProgram(lab.ToolDirs, runtime); err == nil {
		return h, true
	}
	parts := strings.Split(runtime, ".")
	if len(parts) < 3 {
		return handler{}, false
	}
	h.shim, h.binary, h.start = runtime, "", shimStart
	h.needs = "containerd-shim-" + strings.Join(parts[len(parts)-2:], "-")
	return h, true
}

// Bind implements driver.Binder.
func (d *containerdDriver) Bind(cpus string) error { return d.engine.Bind(cpus) }

// Teardown implements driver.SessionDriver.
func (d *containerdDriver) Teardown() error { return d.engine.Close() }

// Sweep implements driver.Sweeper.
func (d *containerdDriver) Sweep(ctx context.Context, runDir string) ([]string, error) {
	return d.engine.sweepNoted(ctx, runDir)
}

// Locate implements driver.Located: the daemon's binary.
func (d *containerdDriver) Locate() (string, error) {
	return d.engine.find(d.engine.flavor.program)
}

// ready sees that the engine is there, and the handler's programs, and returns the
// engine's client.
func (d *containerdDriver) ready(ctx context.Context) (*containerd.Client, error) {
	if needs := d.handler.needs; needs != "" {
		if _, err := d.engine.find(needs); err != nil {
			return nil, &driver.CannotError{Target: d.Name(), Lacks: needs + " is not installed", Remedy: d.handler.remedy}
		}
	}
	if err := d.engine.up(ctx); err != nil {
		return nil, err
	}
	if d.engine.hide && d.engine.private == nil {
		return nil, &driver.CannotError{Target: d.Name(), Lacks: d.handler.binary + " refuses hybrid cgroups, which the containerd that runs has", Remedy: "use --private-engines"}
	}
	return d.engine.connection()
}

// Stale implements driver.Staler: what a check found may be of another engine.
func (d *containerdDriver) Stale(found driver.Facts) bool { return d.engine.stale(found) }

// Check implements driver.Driver.
func (d *containerdDriver) Check(ctx context.Context) (driver.Facts, error) { return d.check(ctx, d) }

// check proves this driver, or proven, which is built on it.
func (d *containerdDriver) check(ctx context.Context, proven driver.Driver) (driver.Facts, error) {
	c, err := d.ready(ctx)
	if err != nil {
		return driver.Facts{}, err
	}
	version, err := c.Version(ctx)
	if err != nil {
		return driver.Facts{}, fmt.Errorf("ask containerd for its version: %w", err)
	}
	facts := driver.Facts{Version: version.Version, Notes: map[string]string{"handler": d.handler.shim}}
	if d.handler.binary != "" {
		facts.Notes["runtime"] = d.handler.binary
	}
	if facts.Notes["storage"], err = d.engine.snapshotter(ctx, c); err != nil {
		return facts, err
	}
	if err := d.engine.describe(&facts); err != nil {
		return facts, err
	}
	if _, err := d.imageOf(ctx, c, driver.Spec{Rootfs: d.engine.lab.TestRootfs, Image: d.engine.lab.TestImage}); err != nil {
		return facts, unable(ctx, d.Name(), notLoaded, err)
	}
	return facts, d.engine.check(ctx, proven, facts.Notes)
}

// Setup implements driver.SessionDriver.
func (d *containerdDriver) Setup(ctx context.Context, spec driver.Spec) error {
	c, err := d.ready(ctx)
	if err != nil {
		return err
	}
	_, err = d.imageOf(ctx, c, spec)
	return err
}

// imageOf loads and unpacks the image and sees that it has the same bits.
func (d *containerdDriver) imageOf(ctx context.Context, c *containerd.Client, spec driver.Spec) (string, error) {
	keeper, err := d.engine.snapshotter(ctx, c)
	if err != nil {
		return "", err
	}
	return d.engine.image(ctx, spec, func(ctx context.Context, s source) (string, error) {
		if err := containerdLoad(ctx, c, s, keeper); err != nil || d.engine.loaded == nil {
			return s.tag.Name(), err
		}
		return s.tag.Name(), d.engine.loaded(ctx, c, keeper, s.tag.Name())
	})
}

// containerdLoad loads and unpacks an image and sees that it has the same bits.
func containerdLoad(ctx context.Context, c *containerd.Client, s source, keeper string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(s.archive(w)) }()
	defer r.Close()
	if _, err := c.Import(ctx, r); err != nil {
		return fmt.Errorf("load the image into containerd: %w", err)
	}
	image, err := c.GetImage(ctx, s.tag.Name())
	if err != nil {
		return fmt.Errorf("find the image that was loaded into containerd: %w", err)
	}
	config, err := image.Config(ctx)
	if err == nil && config.Digest.String() != s.config.String() {
		err = fmt.Errorf("its configuration has the digest %s, and what was given %s", config.Digest, s.config)
	}
	if err == nil {
		err = image.Unpack(ctx, keeper)
	}
	if err != nil {
		return fmt.Errorf("image in containerd: %w", err)
	}
	return nil
}

// Prepare implements driver.Driver: the engine runs and has the image.
func (d *containerdDriver) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	c, err := d.contain(ctx, spec, dir)
	if err != nil {
		return nil, err
	}
	i := &task{contained: c, driver: d}
	name, err := d.imageOf(ctx, c.client, spec)
	if err == nil {
		i.keeper, err = d.engine.snapshotter(ctx, c.client)
	}
	if err == nil {
		err = d.engine.bounded(ctx, queueTime, func(ctx context.Context) (err error) {
			i.image, err = c.client.GetImage(ctx, name)
			return err
		})
	}
	if err == nil && c.spec.Cgroup != "" {
		err = sys.MakeCgroup(i.spec.Group(driver.RoleRuntime))
	}
	if err != nil {
		return nil, err
	}
	return i, nil
}

// options are those of the handler; nil leaves them to the shim.
func (d *containerdDriver) options() (any, error) {
	if d.handler.binary == "" {
		return nil, nil
	}
	binary, err := d.engine.find(d.handler.binary)
	if err != nil {
		return nil, &driver.CannotError{Target: d.Name(), Lacks: d.handler.binary + " is not installed", Remedy: d.handler.remedy}
	}
	return &options.Options{BinaryName: binary}, nil
}
