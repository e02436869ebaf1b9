// Package host is the control of every experiment: the payload runs on the host
// itself, by chroot into the same root file system. What the other targets need
// (cgroup, overlay, launcher) it has too, all of it made before the clock starts.
// The mounts are in a mount namespace of the launcher's, which is no boundary for
// the payload: it keeps an image's links from mounting over the host.
package host

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
)

// New returns the driver.
func New(lab driver.Lab) driver.Driver { return &host{lab} }

type host struct{ lab driver.Lab }

func (h *host) Name() string { return "host" }

func (h *host) Properties() driver.Properties {
	return driver.Properties{Family: "host", Boundary: driver.NoBoundary, Joins: launch.Joins(h.lab.Root), MaxParallel: 50, StreamBytes: 64 << 20, ExactSignal: true,
		StartTime: 500 * time.Microsecond, Order: 0}
}

func (h *host) Check(ctx context.Context) (driver.Facts, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return driver.Facts{}, driver.Labf("uname: %w", err)
	}
	facts := driver.Facts{Version: unix.ByteSliceToString(name.Release[:]), Path: "/", Notes: map[string]string{"root": "chroot"}}
	launch.NoteOld(facts)
	if !h.lab.Root {
		facts.Notes["root"] = "chroot in a user and mount namespace (not root)"
	}
	err := launch.Prove(ctx, h, h.lab)
	var step *launch.Error
	if errors.As(err, &step) && !h.lab.Root {
		return facts, &driver.CannotError{Target: h.Name(), Lacks: "user namespaces: " + err.Error(),
			Remedy: "run as root, or allow unprivileged user namespaces"}
	}
	return facts, err
}

func (h *host) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	cfg := launch.Config{Launcher: h.lab.LaunchPath, Args: spec.Args, Env: spec.Env, Stdio: spec.Stdio,
		Child: []launch.Step{launch.Setsid()}} // a session of its own, as every container has
	if err := h.enter(spec, &cfg); err != nil {
		return nil, err
	}
	fs, err := h.root(spec, dir, &cfg)
	if err != nil {
		return nil, err
	}
	process, err := launch.New(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, fs.Clean())
	}
	return &launch.Instance{Process: process, Cgroup: spec.Cgroup, Rootfs: fs}, nil
}

// enter puts the launcher into the payload's cgroup, where its child is born.
func (h *host) enter(spec driver.Spec, cfg *launch.Config) error {
	groups, err := launch.Groups(spec, false, driver.RolePayload)
	if err != nil {
		return driver.Labf("cgroup: %w", err)
	}
	if spec.Limits != (driver.Limits{}) && spec.Cgroup == "" {
		return &driver.CannotError{Target: h.Name(), Lacks: "a cgroup for the limits", Remedy: "run as root"}
	}
	if spec.Cgroup == "" {
		return nil
	}
	cfg.Cgroup = spec.Group(driver.RolePayload)
	return groups.Apply(cfg.Cgroup, launch.Bounds(spec.Limits, 1)) // the launcher is one of them
}

// root makes the launcher's root, in a mount namespace of the launcher's own: what
// the root file system makes of the mounts reaches no other process, and all of them
// end with the launcher.
func (h *host) root(spec driver.Spec, dir string, cfg *launch.Config) (*launch.Rootfs, error) {
	fs, err := launch.NewRootfs(spec, dir, !h.lab.Root)
	if err != nil {
		return nil, err
	}
	var system []launch.Step
	if h.lab.Root {
		cfg.Pre, system = launch.PrivateMounts(), fs.Own()
	} else { // a user namespace may mount no sysfs of its own
		cfg.Pre, system = launch.UserNamespace(spec.User), fs.Shared()
	}
	if spec.Join.Namespace != "" {
		cfg.Pre = append(cfg.Pre, launch.Network(spec.Join.Namespace))
	}
	mounts, err := fs.Mounts()
	if err != nil {
		return nil, err
	}
	cfg.Pre = append(cfg.Pre, fs.Overlay(0)...)
	cfg.Pre = append(cfg.Pre, system...)
	cfg.Pre = append(cfg.Pre, mounts...)
	cfg.Pre = append(cfg.Pre, launch.Chroot(fs.Dir))
	if spec.Cwd != "" {
		cfg.Pre = append(cfg.Pre, launch.Chdir(spec.Cwd))
	}
	if h.lab.Root {
		cfg.Pre = append(cfg.Pre, launch.IDs(spec.User.UID, spec.User.GID))
	}
	cfg.Pre = append(cfg.Pre, launch.Rehearsal(spec)...)
	return fs, nil
}
