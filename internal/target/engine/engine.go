// Package engine is the family of container engines: Docker and Podman behind
// their common API, Docker's own command line client, and containerd. Where the
// user runs no engine, or wants it left alone, tare starts a private one for the
// session: see private.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/target"
)

// Drivers are the drivers of all engines.
func Drivers(lab target.Lab) []target.Driver {
	return slices.Concat(dockers(lab, docker()), podmans(lab, podman()))
}

// flavor is what tare knows of one engine that speaks Docker's API.
type flavor struct {
	name     string
	program  string // the daemon's
	remedy   string
	variable string   // of the environment: where the user's own listens
	sockets  []string // where the user's own listens otherwise
	// daemon is how a private one is started, listening at socket.
	daemon func(e *engine, program, socket string) (daemon, error)
}

// engine is one engine of a session: the user's own or, started when it is
// needed first, a private one. All of its methods may be called at once.
type engine struct {
	lab    target.Lab
	flavor flavor
	name   string            // of its directory and its group
	hide   bool              // see daemon.hideUnified
	more   map[string]string // runtimes beside the engine's own: name -> binary

	mu      sync.Mutex
	err     error // of the first attempt: there is no second one
	socket  string
	private *private          // nil: the user's own
	images  map[string]string // ids of the loaded images, by the root file system
	tags    []string          // of what was loaded
}

func newEngine(lab target.Lab, f flavor, name string) *engine {
	return &engine{lab: lab, flavor: f, name: name, images: map[string]string{}, more: map[string]string{}}
}

// cannot is a CannotError of this engine.
func (e *engine) cannot(remedy, format string, args ...any) error {
	return &target.CannotError{Target: e.flavor.name, Lacks: fmt.Sprintf(format, args...), Remedy: remedy}
}

// up sees that there is an engine to talk to.
func (e *engine) up(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.socket == "" && e.err == nil {
		err := e.start(ctx)
		if err != nil && ctx.Err() != nil {
			return err // of the caller's time, not of the engine
		}
		e.err = err
	}
	if e.err != nil {
		return e.err
	}
	return e.dead()
}

// dead is the error of a private engine that has ended.
func (e *engine) dead() error {
	if e.private == nil || e.private.alive() {
		return nil
	}
	return fmt.Errorf("the %s that tare has started has ended%s", e.flavor.program, e.private.said())
}

// start finds the user's own engine, or starts a private one.
func (e *engine) start(ctx context.Context) error {
	if !e.lab.PrivateEngines {
		socket, err := e.own(ctx)
		if err != nil || socket != "" {
			e.socket = socket
			return err
		}
	}
	program, err := find(e.lab, e.flavor.program)
	if err != nil {
		return e.cannot(e.flavor.remedy, "%s is not installed", e.flavor.program)
	}
	if !e.lab.Root || e.lab.Cgroup == "" {
		return e.cannot("run tare as root, or start an engine that you may use", "a private %s needs root and cgroups", e.flavor.program)
	}
	dir := filepath.Join(e.lab.RunDir, e.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return target.Labf("directory of the engine: %w", err)
	}
	socket := filepath.Join(dir, "api.sock")
	d, err := e.flavor.daemon(e, program, socket)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	d.hideUnified = e.hide
	p, err := startPrivate(ctx, e.lab, dir, d)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.await(ctx, func(ctx context.Context) error { return answers(ctx, socket) }); err != nil {
		return errors.Join(fmt.Errorf("a private %s: %w", e.flavor.program, err), p.Close())
	}
	e.private, e.socket = p, socket
	return nil
}

// ownTime bounds how long the user's own engine may take to answer.
const ownTime = 3 * time.Second

// own is the socket of the user's own engine, "" where none answers. One that
// the user has named must answer.
func (e *engine) own(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, ownTime)
	defer cancel()
	if host := os.Getenv(e.flavor.variable); host != "" {
		socket, local := strings.CutPrefix(host, "unix://")
		if !local {
			return "", e.cannot("unset it, or use --private-engines", "%s=%s is no unix:// socket, and an engine elsewhere cannot be weighed here", e.flavor.variable, host)
		}
		if err := answers(ctx, socket); err != nil {
			return "", e.cannot("unset it, or use --private-engines", "at %s=%s: %v", e.flavor.variable, host, err)
		}
		return socket, nil
	}
	for _, socket := range e.flavor.sockets {
		if info, err := os.Stat(socket); err == nil && info.Mode()&os.ModeSocket != 0 && answers(ctx, socket) == nil {
			return socket, nil
		}
	}
	return "", nil
}

// connect is a client of its own at the socket.
func connect(socket string) (*client.Client, error) {
	c, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		return nil, target.Labf("client of the engine: %w", err)
	}
	return c, nil
}

// answers sees that an engine listens at the socket whose API this client
// speaks.
func answers(ctx context.Context, socket string) error {
	c, err := connect(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	ping, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err != nil {
		return fmt.Errorf("no engine that can be used answers at %s: %w", socket, err)
	}
	if ping.APIVersion == "" {
		return fmt.Errorf("what answers at %s is no container engine: it names no API version", socket)
	}
	return nil
}

// image is the id of the image that holds a Spec's root file system; it is
// loaded once.
func (e *engine) image(ctx context.Context, c *client.Client, spec target.Spec) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id := e.images[spec.Rootfs]; id != "" {
		return id, nil
	}
	s, err := openSource(ctx, spec, e.lab.Session, filepath.Join(e.lab.RunDir, e.name+"-image"))
	if err != nil {
		return "", errors.Join(err, s.remove())
	}
	id, err := e.load(ctx, c, s)
	if err = errors.Join(err, s.remove()); err != nil {
		return "", err
	}
	e.images[spec.Rootfs] = id
	return id, nil
}

// version asks the engine what it is and what it can do.
func (e *engine) version(ctx context.Context) (client.ServerVersionResult, client.SystemInfoResult, error) {
	c, err := connect(e.socket)
	if err != nil {
		return client.ServerVersionResult{}, client.SystemInfoResult{}, err
	}
	defer c.Close()
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return v, client.SystemInfoResult{}, fmt.Errorf("ask %s for its version: %w", e.flavor.name, err)
	}
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return v, info, fmt.Errorf("ask %s for what it can do: %w", e.flavor.name, err)
	}
	return v, info, nil
}

// closeTime bounds what is asked of an engine when it is let go.
const closeTime = 20 * time.Second

// Close takes a private engine away, and from a user's own what was loaded.
func (e *engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.private != nil {
		p := e.private
		e.private, e.socket, e.images, e.tags = nil, "", map[string]string{}, nil
		return p.Close()
	}
	if len(e.tags) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	c, err := connect(e.socket)
	if err != nil {
		return err
	}
	defer c.Close()
	var errs []error
	for _, tag := range e.tags {
		_, err := c.ImageRemove(ctx, tag, client.ImageRemoveOptions{PruneChildren: true})
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, target.Labf("remove the image %s: %w", tag, err))
		}
	}
	e.tags, e.images = nil, map[string]string{}
	return errors.Join(errs...)
}
