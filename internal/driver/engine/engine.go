// Package engine is the family of container engines. One driver (apiDriver) serves
// all engines that speak Docker's API, another one containerd. Where the user runs no
// engine, or wants it left alone, tare starts a private one for the session: see
// private. What is peculiar to one engine is in the files with its name: its flavor,
// its daemon, its targets.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// kind is one engine: what tare knows of it, and its drivers.
type kind struct {
	flavor  flavor
	drivers func(lab driver.Lab, f flavor) []driver.Driver
}

// kinds are all engines. A new one is a file and a line.
func kinds() []kind {
	return []kind{
		{containerdFlavor(), containerds},
		{criFlavor(), pods},
		{docker(), dockers},
		{podman(), podmans},
	}
}

// Drivers are the drivers of all engines.
func Drivers(lab driver.Lab) []driver.Driver {
	var all []driver.Driver
	for _, k := range kinds() {
		all = append(all, k.drivers(lab, k.flavor)...)
	}
	return all
}

// engine is one engine of a session: the user's own, or a private one, which is
// started when it is first needed. All methods are safe for concurrent use.
type engine struct {
	lab    driver.Lab
	flavor flavor
	name   string            // of its directory and its group
	hide   bool              // see daemonCommand.hideUnified
	more   map[string]string // runtimes beside the engine's own: name -> binary

	watchdog watchdog

	mu      sync.Mutex
	err     error      // of the attempt to start it, which is made once
	serving            // reset when the engine is started again
	daemons daemonPIDs // of the user's own
	cpus    string     // that a private one is bound to, "" for all
	// elsewhere are the names of drivers whose containers the user's own engine puts
	// into other cgroups than it is asked for.
	elsewhere map[string]bool
}

// serving is the engine that runs now.
type serving struct {
	socket  string
	private *private          // nil: the user's own
	client  io.Closer         // the only client of it, see clientOf; nil before the first request
	images  map[string]string // names of the loaded images, by the root file system
}

// clientOf returns the engine's only client. connect makes it when it is first needed.
// A client for each container would keep connections open for all that wait to start.
func clientOf[C io.Closer](e *engine, connect func(socket string) (C, error)) (C, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, made := e.client.(C); made {
		return c, nil
	}
	c, err := connect(e.socket)
	if err == nil {
		e.client = c
	}
	return c, err
}

// leave forgets the engine that runs and returns it.
func (e *engine) leave() serving {
	was := e.serving
	e.serving = serving{images: map[string]string{}}
	if was.client != nil {
		_ = was.client.Close() // connections that were answered
	}
	return was
}

func newEngine(lab driver.Lab, f flavor, name string) *engine {
	e := &engine{lab: lab, flavor: f, name: name, serving: serving{images: map[string]string{}}, more: map[string]string{}, elsewhere: map[string]bool{}}
	e.watchdog = watchdog{limit: hungTime, end: e.end}
	return e
}

// find looks for a program.
func (e *engine) find(program string) (string, error) {
	return sys.FindProgram(e.lab.ToolDirs, program)
}

// cannot is a CannotError of this engine.
func (e *engine) cannot(remedy, format string, args ...any) error {
	return &driver.CannotError{Target: e.flavor.name, Lacks: fmt.Sprintf(format, args...), Remedy: remedy}
}

// What checks say of what failed.
const (
	notLoaded  = "the image could not be loaded"
	notWorking = "a test container did not work"
)

// unable turns the failure of a check into a CannotError, unless the laboratory failed
// or the time was over.
func unable(ctx context.Context, name, what string, err error) error {
	if err == nil || driver.IsLab(err) || errors.As(err, new(*driver.CannotError)) || ctx.Err() != nil {
		return err
	}
	return &driver.CannotError{Target: name, Lacks: fmt.Sprintf("%s: %v", what, err)}
}

// up makes sure that an engine runs, and returns why it does not.
func (e *engine) up(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchdog.hung() != nil {
		if err := e.renew(ctx); err != nil {
			return err
		}
	}
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

// renew stops a private engine that hangs, so that up starts another one. The trial
// that met it has failed; the next ones need not fail too. The user's own engine is
// used again if it removes what is left of that trial.
func (e *engine) renew(ctx context.Context) error {
	if e.private != nil {
		if err := e.leave().private.Close(); err != nil {
			return err
		}
	} else if e.socket != "" {
		timed, cancel := context.WithTimeout(ctx, closeTime)
		defer cancel()
		if err := e.flavor.daemon.removeContainers(timed, e.socket, owner()); err != nil {
			return fmt.Errorf("%w; remove the containers that it has left: %w", e.dead(), err)
		}
	}
	e.watchdog.reset()
	return nil
}

// remove has the engine remove a container, by ask. One that has died has none any more,
// and one that takes too long counts as hanging.
func (e *engine) remove(ask func(context.Context) error) error {
	if e.dead() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), queueTime)
	defer cancel()
	err := ask(ctx)
	if err == nil || e.dead() != nil {
		return nil
	}
	if ctx.Err() != nil {
		e.watchdog.hang(fmt.Errorf("it has not removed a container in %v", queueTime))
	}
	return &driver.RemovalError{Err: e.explain("remove", err)}
}

// bounded asks the engine for what every container needs before its start. An engine
// that does not answer within limit counts as hanging.
func (e *engine) bounded(ctx context.Context, limit time.Duration, ask func(context.Context) error) error {
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := ask(timed)
	if err == nil || timed.Err() == nil || ctx.Err() != nil {
		return err
	}
	e.watchdog.hang(fmt.Errorf("it has not answered a request for %v", limit))
	return e.dead()
}

// explain adds to a request's error that a private engine has ended, where it has. The
// error is the laboratory's where tare has no file descriptor left.
func (e *engine) explain(what string, err error) error {
	if dead := e.broken(); dead != nil {
		return fmt.Errorf("%s a container: %w (%w)", what, dead, err)
	}
	err = fmt.Errorf("%s: %s a container: %w", e.flavor.name, what, err)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return driver.Labf("%w", err)
	}
	return err
}

// end kills a private engine that hangs, with all that it has started.
func (e *engine) end() {
	if e.private != nil {
		_ = e.private.process.Kill() // Close reports what does not die
	}
}

// dead is the error of an engine that hangs, or of a private one that has ended.
func (e *engine) dead() error {
	if reason := e.watchdog.hung(); reason != nil {
		return fmt.Errorf("%s hangs: %w", e.flavor.program, reason)
	}
	if e.private == nil || e.private.alive() {
		return nil
	}
	return fmt.Errorf("the %s that tare has started has ended%s%s", e.flavor.program, e.private.how(), e.private.said())
}

// deathTime is how long the news of a daemon's end may take after its connections have
// broken.
const deathTime = 500 * time.Millisecond

// broken is the error of a private engine that has ended. It is called after a request
// has failed.
func (e *engine) broken() error {
	if p := e.private; p != nil && e.watchdog.hung() == nil {
		select {
		case <-p.died:
		case <-time.After(deathTime):
		}
	}
	return e.dead()
}

// start finds the user's own engine, or starts a private one.
func (e *engine) start(ctx context.Context) error {
	if !e.lab.PrivateEngines {
		socket, err := e.userSocket(ctx)
		if err == nil && socket != "" {
			if err = e.note(socket); err == nil {
				err = e.sweep(ctx, socket)
			}
		}
		if err != nil {
			return err
		}
		if socket != "" {
			e.socket = socket
			return nil
		}
	}
	but := ""
	if unused := e.unused(); unused != "" {
		but = ", and " + unused
	}
	program, err := e.find(e.flavor.program)
	if err != nil {
		return e.cannot(e.flavor.remedy, "%s is not installed%s", e.flavor.program, but)
	}
	if !e.lab.Root || e.lab.Cgroup == "" {
		return e.cannot("run tare as root, or start an engine that you may use", "a private %s needs root and cgroups%s", e.flavor.program, but)
	}
	dir := filepath.Join(e.lab.RunDir, e.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return driver.Labf("directory of the engine: %w", err)
	}
	socket := filepath.Join(dir, "api.sock")
	d, err := e.flavor.daemon.command(e, program, socket)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	d.hideUnified = e.hide
	p, err := startPrivate(ctx, e.lab, dir, d)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.await(ctx, e.lab.AtMost(readyTime), func(ctx context.Context) error { return e.flavor.daemon.answers(ctx, socket) }); err != nil {
		return errors.Join(unable(ctx, e.flavor.name, "a private "+e.flavor.program, err), p.Close())
	}
	e.private, e.socket = p, socket
	return e.bindPrivate()
}

// The notes of a check that name the engine which was proven.
const (
	noteEngine       = "engine"
	noteDaemonDigest = "daemon-digest" // sha256 of its binary, where the facts' own is a client's
	privateEngine    = "private"
	noteUnused       = "own-engine" // why the user's own is not the one that was proven
)

// describe notes in a check's facts which engine is proven.
func (e *engine) describe(facts *driver.Facts) (err error) {
	if e.private == nil {
		facts.Notes[noteEngine] = "the user's own at " + e.socket
		return nil
	}
	facts.Notes[noteEngine] = privateEngine
	if unused := e.unused(); unused != "" {
		facts.Notes[noteUnused] = unused
	}
	if facts.Path, err = e.find(e.flavor.program); err != nil {
		return err
	}
	if facts.Digest, err = sys.FileDigest(facts.Path); err != nil {
		return driver.Labf("digest of %s: %w", facts.Path, err)
	}
	return nil
}

// check proves a driver of the engine, and notes what of it nobody can read.
func (e *engine) check(ctx context.Context, d driver.Driver, notes map[string]string) error {
	err := e.prove(ctx, d)
	if unread := e.unread(d.Name()); unread != "" {
		notes[driver.NoteUnread] = unread
	}
	return unable(ctx, d.Name(), notWorking, err)
}

// stale reports whether an earlier check may not hold for the engine that would be used
// now. A check of the user's own engine is always stale, because the user may have
// configured it since. A check of a private engine is stale where the user's own
// answers now.
func (e *engine) stale(found driver.Facts) bool {
	if found.Notes[noteEngine] != privateEngine {
		return true
	}
	if e.lab.PrivateEngines {
		return false
	}
	socket, err := e.userSocket(context.Background()) // which bounds its time itself, and looks once
	return err != nil || socket != ""
}

// image returns the engine's name of the image with a Spec's root file system. load is
// called once for each image.
func (e *engine) image(ctx context.Context, spec driver.Spec, load func(context.Context, source) (string, error)) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id := e.images[spec.Rootfs]; id != "" {
		return id, nil
	}
	if err := launch.Ordinary(spec.Rootfs); err != nil {
		return "", err
	}
	s, err := openSource(ctx, spec, filepath.Join(e.lab.RunDir, e.name+"-image"))
	if err != nil {
		return "", errors.Join(err, s.remove())
	}
	id, err := e.loadBounded(ctx, s, load)
	if err = errors.Join(err, s.remove()); err != nil {
		return "", err
	}
	e.images[spec.Rootfs] = id
	return id, nil
}

// loadBounded has the engine load an image. One that takes nothing of it for stallTime
// counts as hanging: containerd 1.6 asks itself again for ever where it could not write.
func (e *engine) loadBounded(ctx context.Context, s source, load func(context.Context, source) (string, error)) (id string, err error) {
	taken, stalled := context.WithCancel(ctx)
	defer stalled()
	s.late = time.AfterFunc(stallTime, stalled)
	s.late.Stop() // until something is written
	err = e.bounded(taken, loadTime, func(ctx context.Context) (err error) {
		id, err = load(ctx, s)
		return err
	})
	if err == nil || taken.Err() == nil || ctx.Err() != nil {
		return id, err
	}
	e.watchdog.hang(fmt.Errorf("it has taken nothing of an image for %v", stallTime))
	return "", e.dead()
}

// sweep removes from the user's own engine what killed runs of tare have left there.
func (e *engine) sweep(ctx context.Context, socket string) error {
	owners, err := e.flavor.daemon.owners(ctx, socket)
	if err != nil {
		return fmt.Errorf("look through %s: %w", e.flavor.name, err)
	}
	for _, o := range owners {
		if alive(o) {
			continue
		}
		if err := e.flavor.daemon.removeAll(ctx, socket, o); err != nil {
			return driver.Labf("take away what a run that was killed has left in %s: %w", e.flavor.name, err)
		}
	}
	return nil
}

// closeTime bounds the requests to an engine at the end of the session.
const closeTime = 20 * time.Second

// queueTime bounds the requests at the end of one container. They wait for the other
// containers of the trial, which engines remove one by one.
const queueTime = time.Minute

// stallTime bounds how long an engine may take nothing of an image: containerd has each
// layer on disk before it reads on.
const stallTime = 100 * time.Second

// loadTime bounds how long an engine may take for an image: several GiB on a slow disk.
const loadTime = 10 * time.Minute

// Close stops a private engine, or removes from the user's own what tare made there.
func (e *engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.leave()
	if was.private != nil {
		return was.private.Close()
	}
	if was.socket == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := e.flavor.daemon.removeAll(ctx, was.socket, owner()); err != nil {
		return driver.Labf("take away what was made in %s (tare sweep tries again): %w", e.flavor.name, err)
	}
	return e.forget(e.lab.RunDir)
}
