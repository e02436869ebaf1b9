package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// criFlavor is containerd as a node of Kubernetes uses it, by its Container Runtime
// Interface. The machine's own is used only where the user names it: the kubelet of a
// node removes pods that it does not know.
func criFlavor() flavor {
	return flavor{name: "cri", program: containerdProgram, daemons: []string{containerdProgram}, remedy: "tare setup installs it",
		variable: "CONTAINER_RUNTIME_ENDPOINT", own: &userEngine{}, daemon: criDaemon{}}
}

// podHandlers are the runtimes of pods that lists show; any other is had by its name.
func podHandlers() []handler {
	return []handler{
		{name: "cri/runc", shim: runcShim, binary: "runc", needs: "runc", remedy: "tare setup installs it", start: 400 * time.Millisecond, order: 317},
		{name: "cri/crun", shim: runcShim, binary: "crun", needs: "crun", remedy: "tare setup installs it", hide: true, start: 400 * time.Millisecond, order: 318},
		{name: "cri/youki", shim: runcShim, binary: "youki", needs: "youki", remedy: "make tools", start: 400 * time.Millisecond, order: 318},
		{name: "cri/runsc", shim: "io.containerd.runsc.v1", needs: runscShim, remedy: "make tools", start: 800 * time.Millisecond, order: 319},
		{name: "cri/kata", shim: "io.containerd.kata.v2", needs: kataShim, remedy: "install Kata Containers", start: 3 * time.Second, order: 319},
	}
}

// runscShim is gVisor's, which puts all containers of a pod into one sandbox.
const runscShim = "containerd-shim-runsc-v1"

// podDriver runs payloads as pods of one container. A RuntimeClass's handler is the
// part of the driver's name after the slash.
type podDriver struct{ containerdDriver }

// pods are the drivers that one containerd serves by its CRI, and another one where a
// runtime needs other surroundings.
func pods(lab driver.Lab, f flavor) []driver.Driver {
	var all []driver.Driver
	for _, d := range handlersOf(lab, f, criNamespace, podHandlers()) {
		d.engine.choose, d.engine.loaded = criSnapshotter, d.engine.knownToCRI
		p := &podDriver{*d}
		p.register()
		all = append(all, p)
	}
	return all
}

// register makes a private engine know the handler.
func (d *podDriver) register() {
	runtime := d.handler.binary
	if runtime == "" {
		runtime = d.handler.shim
	}
	d.engine.more[d.class()] = runtime
}

// class is the RuntimeClass's handler.
func (d *podDriver) class() string { return path.Base(d.handler.name) }

// Properties implements driver.Driver. A pod's network is made by the node's own
// plugins, so it joins no other.
func (d *podDriver) Properties() driver.Properties {
	p := d.containerdDriver.Properties()
	p.Joins, p.AddsEnv, p.StreamBytes = "", []string{"HOSTNAME"}, 8<<20
	p.Footprint = driver.Footprint{Tasks: shimTasks + 2, DaemonFiles: 16, LabFiles: 2}
	return p
}

// Named implements driver.Namer: cri/NAME is the runtime of that binary, or the handler
// of that name, as containerd/NAME is.
func (d *podDriver) Named(_ context.Context, name string) driver.Driver {
	runtime, ours := strings.CutPrefix(name, d.engine.flavor.name+"/")
	if !ours || d.class() != stockRuntime || !runtimeName.MatchString(runtime) {
		return nil
	}
	h, ok := handlerNamed(d.engine.lab, name, runtime, 319)
	if !ok {
		return nil
	}
	p := &podDriver{containerdDriver{engine: d.engine, handler: h}}
	p.register()
	return p
}

// Check implements driver.Driver.
func (d *podDriver) Check(ctx context.Context) (driver.Facts, error) {
	c, err := d.ready(ctx)
	if err != nil {
		return driver.Facts{}, err
	}
	if d.engine.private == nil {
		config, err := criConfigOf(ctx, c)
		if err != nil {
			return driver.Facts{}, err
		}
		if err := config.knows(d.class()); err != nil {
			return driver.Facts{}, &driver.CannotError{Target: d.Name(), Lacks: err.Error(), Remedy: "configure the handler there, or use --private-engines"}
		}
		if config.systemd(d.class()) {
			d.engine.setElsewhere(d.Name())
		}
	}
	facts, err := d.check(ctx, d)
	if facts.Notes != nil {
		facts.Notes["network"] = "the engine's own CNI configuration"
		if d.engine.private != nil {
			facts.Notes["network"] = "CNI, a veth pair for each pod (ptp)"
		}
	}
	return facts, err
}

// Prepare implements driver.Driver: the engine runs, answers, and has the image.
func (d *podDriver) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	c, err := d.contain(ctx, spec, dir)
	if err != nil {
		return nil, err
	}
	p := &pod{contained: c, driver: d, cri: criRuntime(c.client), ended: make(chan ending, 1)}
	if p.image, err = d.imageOf(ctx, c.client, spec); err != nil {
		return nil, err
	}
	err = d.engine.bounded(ctx, queueTime, func(ctx context.Context) error {
		_, err := p.cri.Version(ctx, &cri.VersionRequest{})
		return err
	})
	if err == nil {
		p.netns, err = networkOf(d.engine.socket)
	}
	if err == nil {
		err = p.makeGroups()
	}
	if err == nil {
		p.log, err = newPodLog(filepath.Join(dir, podLogName), spec.Stdio.Stdout, p.marked())
	}
	if err != nil {
		return nil, errors.Join(err, p.removeGroups())
	}
	return p, nil
}

// criConfig is what tare reads of the configuration that containerd's CRI plugin
// reports.
type criConfig struct {
	SandboxImage string `json:"sandboxImage"`
	Containerd   struct {
		Snapshotter string `json:"snapshotter"`
		Runtimes    map[string]struct {
			Options map[string]any `json:"options"`
		} `json:"runtimes"`
	} `json:"containerd"`
}

// criConfigOf asks for the plugin's configuration. What a version does not report is
// empty.
func criConfigOf(ctx context.Context, c *containerd.Client) (config criConfig, err error) {
	status, err := criRuntime(c).Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return config, fmt.Errorf("ask containerd for the status of its CRI plugin: %w", err)
	}
	if text := status.GetInfo()["config"]; text != "" {
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			return config, fmt.Errorf("configuration of containerd's CRI plugin: %w", err)
		}
	}
	return config, nil
}

// knows returns an error where no handler of that name is configured.
func (c criConfig) knows(class string) error {
	if _, ok := c.Containerd.Runtimes[class]; ok || len(c.Containerd.Runtimes) == 0 {
		return nil
	}
	return fmt.Errorf("the containerd that runs has no RuntimeClass handler %q", class)
}

// systemd reports whether systemd makes the cgroups of that handler's containers.
func (c criConfig) systemd(class string) bool {
	on, ok := c.Containerd.Runtimes[class].Options["SystemdCgroup"].(bool)
	return ok && on
}

// criSnapshotter is the snapshotter that the CRI plugin uses.
func criSnapshotter(ctx context.Context, c *containerd.Client) (string, error) {
	config, err := criConfigOf(ctx, c)
	if err != nil {
		return "", err
	}
	if config.Containerd.Snapshotter == "" {
		return snapshotters[0], nil
	}
	return config.Containerd.Snapshotter, nil
}

// knownPause is how long tare waits between two looks for an image.
const knownPause = 10 * time.Millisecond

// knownToCRI waits until the CRI plugin knows an image that was loaded through
// containerd's own API. It gives a private engine the sandbox's image, too. A user's own
// engine must have its one: tare pulls nothing.
func (e *containerdEngine) knownToCRI(ctx context.Context, c *containerd.Client, keeper, image string) error {
	images := cri.NewImageServiceClient(criConn(c))
	has := func(name string) (bool, error) {
		r, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
		if err != nil {
			return false, fmt.Errorf("ask containerd's CRI plugin for the image %s: %w", name, err)
		}
		return r.GetImage() != nil, nil
	}
	wanted := []string{image}
	if e.private == nil {
		config, err := criConfigOf(ctx, c)
		if err != nil {
			return err
		}
		if there, err := has(config.SandboxImage); config.SandboxImage != "" && (err != nil || !there) {
			return errors.Join(err, &driver.CannotError{Target: e.flavor.name, Lacks: fmt.Sprintf("the containerd that runs has not got its sandbox image %s, and tare pulls nothing", config.SandboxImage),
				Remedy: "crictl pull " + config.SandboxImage + ", or use --private-engines"})
		}
	} else {
		pause, err := pauseSource(e.lab.MarkPath)
		if err == nil {
			err = containerdLoad(ctx, c, pause, keeper)
		}
		if err != nil {
			return fmt.Errorf("image of the sandbox: %w", err)
		}
		wanted = append(wanted, pause.tag.Name())
	}
	for len(wanted) > 0 {
		there, err := has(wanted[0])
		if err != nil {
			return err
		}
		if there {
			wanted = wanted[1:]
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd's CRI plugin does not know the image %s: %w", wanted[0], ctx.Err())
		case <-time.After(knownPause):
		}
	}
	return nil
}

// makeGroups makes the cgroups of the sandbox and of the container, so that probes can
// be armed on them before the start. CRI has no limit of processes for a container: it
// is the group's, as it is the pod's group's on a node.
func (p *pod) makeGroups() error {
	if p.spec.Cgroup == "" {
		return nil
	}
	trees, err := sys.Cgroups()
	if err == nil {
		err = errors.Join(trees.Make(p.spec.Group(driver.RoleRuntime)), trees.Make(p.spec.Group(driver.RolePayload)))
	}
	if err == nil && p.spec.Limits.Pids > 0 {
		err = trees.Apply(p.spec.Group(driver.RolePayload), sys.Bounds{Pids: p.spec.Limits.Pids})
	}
	if err != nil {
		return driver.Labf("groups of a pod: %w", err)
	}
	return nil
}
