package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// apiDriver runs payloads through Docker's API, which Docker and Podman speak.
type apiDriver struct {
	engine   *engine
	name     string
	runtime  string   // "" is the engine's own choice
	network  string   // of containers that join none; "" is the engine's own choice
	security []string // options as of "docker run --security-opt"; nil is the engine's own choice
	remedy   string   // how the runtime is installed
	adds     []string
	limits   []*container.Ulimit // where the engine's own cannot be had
	start    time.Duration
	order    int
	takes    driver.Footprint
}

// with is the driver of another runtime in the engine.
func (d *apiDriver) with(name string, e *engine, runtime, remedy string, order int) *apiDriver {
	other := *d
	other.engine, other.name, other.runtime, other.remedy, other.order = e, name, runtime, remedy, order
	e.more[runtime] = runtime
	return &other
}

// Named implements driver.Namer. docker/NAME is the runtime that the user's own engine
// knows by that name, or the binary of that name, which a private engine is given.
func (d *apiDriver) Named(ctx context.Context, name string) driver.Driver {
	runtime, ours := strings.CutPrefix(name, d.engine.flavor.name+"/")
	if !ours || d.name != d.engine.flavor.name || !d.engine.flavor.runtimes || !runtimeName.MatchString(runtime) {
		return nil
	}
	if _, err := d.engine.find(runtime); err != nil && !d.engine.userEngineKnows(ctx, runtime) {
		return nil
	}
	return d.with(name, d.engine, runtime, "", 345)
}

// Name implements driver.Driver.
func (d *apiDriver) Name() string { return d.name }

// bridgePorts is how many ports a Linux bridge takes (BR_MAX_PORTS less port 0,
// net/bridge/br_private.h): one for each container of a network.
const bridgePorts = 1023

// noNetwork is a container's network without a bridge.
const noNetwork = "none"

// Properties implements driver.Driver. An engine reports a signal as 128+n.
func (d *apiDriver) Properties() driver.Properties {
	ports := bridgePorts
	if d.network == noNetwork {
		ports = 0
	}
	return driver.Properties{Family: "engine", Isolated: true, Boundary: boundary(d.runtime), Joins: driver.JoinsOwn, MaxParallel: 16, StreamBytes: 16 << 20, Ports: ports,
		StartTime: d.start, Order: d.order, CheckTime: 40 * time.Second, AddsEnv: d.adds, Footprint: d.takes,
		Networks: &driver.Networks{Host: d.networkHost, Make: d.makeNetwork, Attach: d.attachNetwork, Detach: d.detachNetwork, Proxy: d.engine.flavor.proxy}}
}

// Bind implements driver.Binder.
func (d *apiDriver) Bind(cpus string) error { return d.engine.Bind(cpus) }

// Teardown implements driver.SessionDriver.
func (d *apiDriver) Teardown() error { return d.engine.Close() }

// Sweep implements driver.Sweeper.
func (d *apiDriver) Sweep(ctx context.Context, runDir string) ([]string, error) {
	return d.engine.sweepNoted(ctx, runDir)
}

// Locate implements driver.Located: the daemon's binary.
func (d *apiDriver) Locate() (string, error) {
	return d.engine.find(d.engine.flavor.program)
}

// Stale implements driver.Staler: what a check found may be of another engine.
func (d *apiDriver) Stale(found driver.Facts) bool { return d.engine.stale(found) }

// Check implements driver.Driver.
func (d *apiDriver) Check(ctx context.Context) (driver.Facts, error) { return d.check(ctx, d) }

// check proves this driver, or proven, which decorates it.
func (d *apiDriver) check(ctx context.Context, proven driver.Driver) (driver.Facts, error) {
	if err := d.ready(ctx); err != nil {
		return driver.Facts{}, err
	}
	version, info, err := d.engine.version(ctx)
	if err != nil {
		return driver.Facts{}, err
	}
	facts := driver.Facts{Version: version.Version, Notes: map[string]string{
		"api": version.APIVersion, "storage": info.Info.Driver, "cgroups": info.Info.CgroupDriver, "runtime": d.runtime,
	}}
	if d.runtime == "" {
		facts.Notes["runtime"] = info.Info.DefaultRuntime
	}
	if err := d.engine.describe(&facts); err != nil {
		return facts, err
	}
	err = d.load(ctx, driver.Spec{Rootfs: d.engine.lab.TestRootfs, Image: d.engine.lab.TestImage}) // outside of the proof's time
	if err != nil {
		return facts, unable(ctx, d.name, notLoaded, err)
	}
	if info.Info.CgroupDriver == systemdGroups {
		d.engine.setElsewhere(d.name)
	}
	return facts, d.engine.check(ctx, proven, facts.Notes)
}

// Setup implements driver.SessionDriver.
func (d *apiDriver) Setup(ctx context.Context, spec driver.Spec) error {
	if err := d.ready(ctx); err != nil {
		return err
	}
	return d.load(ctx, spec)
}

// load gives the engine the image of a Spec.
func (d *apiDriver) load(ctx context.Context, spec driver.Spec) error {
	c, err := clientOf(d.engine, connect)
	if err != nil {
		return err
	}
	_, err = d.imageOf(ctx, c, spec)
	return err
}

func (d *apiDriver) imageOf(ctx context.Context, c *client.Client, spec driver.Spec) (string, error) {
	return d.engine.image(ctx, spec, func(ctx context.Context, s source) (string, error) { return d.engine.loadAPI(ctx, c, s) })
}

// ready makes sure that the engine runs and has the runtime.
func (d *apiDriver) ready(ctx context.Context) error {
	if d.runtime != "" {
		if _, err := d.engine.find(d.runtime); err != nil && !d.engine.userEngineKnows(ctx, d.runtime) {
			return &driver.CannotError{Target: d.name, Lacks: d.runtime + " is not installed", Remedy: d.remedy}
		}
	}
	if err := d.engine.up(ctx); err != nil {
		return err
	}
	if d.runtime == "" || d.engine.private != nil {
		return nil
	}
	if d.engine.hide {
		return &driver.CannotError{Target: d.name, Lacks: d.runtime + " refuses hybrid cgroups, which the engine that runs has", Remedy: "use --private-engines"}
	}
	var info client.SystemInfoResult
	err := d.engine.bounded(ctx, queueTime, func(ctx context.Context) (err error) {
		_, info, err = d.engine.version(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if names := slices.Sorted(maps.Keys(info.Info.Runtimes)); !slices.Contains(names, d.runtime) {
		return &driver.CannotError{Target: d.name, Lacks: fmt.Sprintf("the engine that runs knows no runtime %s (it knows %s)", d.runtime, strings.Join(names, ", ")), Remedy: "use --private-engines"}
	}
	return nil
}

// Prepare implements driver.Driver: the engine runs, answers, and has the image. Where
// the containers' cgroups are not below the instance's, probes do not read them.
func (d *apiDriver) Prepare(ctx context.Context, spec driver.Spec, _ string) (driver.Instance, error) {
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	c, err := clientOf(d.engine, connect)
	if err != nil {
		return nil, err
	}
	i := &instance{driver: d, spec: spec, client: c, ended: make(chan ending, 1)}
	err = d.engine.bounded(ctx, queueTime, func(ctx context.Context) error {
		_, err := c.Ping(ctx, client.PingOptions{})
		return err
	})
	if err == nil {
		i.image, err = d.imageOf(ctx, c, spec)
	}
	if d.engine.isElsewhere(d.name) {
		i.spec.Cgroup = ""
	}
	// Before the clock, so that probes can be armed on it before the start. An engine's usual
	// parent of all containers has had it since the first container.
	if group := i.monitorGroup(); err == nil && group != "" {
		if err = sys.MakeCgroup(group); err != nil {
			err = driver.Labf("group of the engine's monitor: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, i.sweep())
	}
	return i, nil
}
