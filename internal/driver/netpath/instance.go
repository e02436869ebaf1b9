package netpath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// instance is a client with its server and the network between them.
type instance struct {
	driver *Driver
	spec   driver.Spec
	dir    string

	ends   *endpoints
	server *server // nil where nothing is talked to
	far    *far    // the server, where it is on another machine; else nil
	relay  *relay
	crowd  *crowd // nil where the ends are alone, or among bare namespaces
	client driver.Instance

	closed   sync.Once
	closeErr error
}

// prepare makes all that lies outside the clock. What it made before an error is
// Close's to remove.
func (i *instance) prepare(ctx context.Context) error {
	surround := i.prepareHere
	if i.driver.Remote() {
		surround = i.prepareRemote
	}
	if err := surround(ctx); err != nil {
		return err
	}
	client := i.spec
	client.Join, client.Peer = i.ends.client.join, nil
	client.Args = fill(i.ends.port, i.ends.dial.String())(client.Args)
	if how := i.ends.client.pin(&client, "client"); how != free {
		client.Args = append([]string{program, "as", "client", how, "--"}, client.Args...)
	}
	dir, err := i.place("client")
	if err != nil {
		return err
	}
	i.client, err = i.ends.client.driver.Prepare(ctx, client, dir)
	return err
}

// prepareHere makes the network on this machine, and all around the client.
func (i *instance) prepareHere(ctx context.Context) (err error) {
	if i.ends, err = i.driver.build(ctx, i.spec); err != nil {
		return err
	}
	if err := i.startCrowd(ctx); err != nil {
		return err
	}
	if len(i.spec.Peer) > 0 {
		if err := i.startServer(ctx); err != nil {
			return err
		}
	}
	if i.ends.relay == "" {
		return nil
	}
	return i.startRelay(ctx)
}

// place makes a directory of an end's own.
func (i *instance) place(name string) (string, error) {
	dir := filepath.Join(i.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", driver.Labf("directory of the %s: %w", name, err)
	}
	return dir, nil
}

// server is the other end, from its start until Close.
type server struct {
	driver.Instance
	output *serverOutput
	ended  chan error
	stop   context.CancelFunc
}

// startServer starts the other end and waits until it listens.
func (i *instance) startServer(ctx context.Context) error {
	dir, err := i.place("server")
	if err != nil {
		return err
	}
	s := &server{ended: make(chan error, 1)}
	end := i.ends.server
	spec := i.spec
	spec.ID += "-peer"
	spec.Join, spec.Peer, spec.Console = end.join, nil, nil
	if spec.Cgroup != "" {
		spec.Cgroup = path.Join(spec.Cgroup, "peer")
	}
	spec.Args = listening(end.pin(&spec, "server"), i.ends.port, i.serving())
	if s.output, err = listen(); err != nil {
		return err
	}
	spec.Stdio = driver.Stdio{Stdout: s.output.in, Stderr: s.output.in}
	if s.Instance, err = end.driver.Prepare(ctx, spec, dir); err != nil {
		return fmt.Errorf("the other end: %w", errors.Join(err, s.output.close()))
	}
	i.server = s
	// It lives until Close, longer than the call that prepares it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if err := s.Start(running, func(driver.Phase) {}); err != nil {
		s.ended <- err
		return fmt.Errorf("the other end: %w", err)
	}
	go func() {
		exit, err := s.Wait(running)
		if err == nil {
			err = fmt.Errorf("it ended with code %d, signal %d", exit.Code, exit.Signal)
		}
		s.ended <- err
	}()
	return i.await(ctx, s.output, s.ended)
}

// serving is the server's command. Where both ends meet on a loopback, the network may be
// the machine's own, and the server listens on the loopback alone.
func (i *instance) serving() []string {
	if i.ends.dial.IsLoopback() {
		return at(i.ends.dial, fill(i.ends.port, everyAddress)(i.spec.Peer))
	}
	return i.everywhere(i.ends.port)
}

// everywhere is the server's command that listens at all addresses.
func (i *instance) everywhere(port string) []string {
	args := fill(port, everyAddress)(i.spec.Peer)
	if i.ends.dial.Is6() {
		return at(netip.IPv6Unspecified(), args)
	}
	return args
}

// listening is the command line of a server that says when it listens.
func listening(pin, port string, args []string) []string {
	return append([]string{program, "ready", pin, port, "--"}, args...)
}

// await waits until somebody has reported that it listens.
func (i *instance) await(ctx context.Context, output *serverOutput, ended chan error) error {
	within := i.within()
	select {
	case <-output.listens:
		return nil
	case err := <-ended:
		ended <- err // Close looks too
		return output.explain(fmt.Errorf("the other end ended before it listened: %w", err))
	case <-time.After(within):
		return output.explain(fmt.Errorf("the other end: nobody listened within %v: %s", within, i.ends.describe()))
	case <-ctx.Done():
		return output.explain(fmt.Errorf("the other end: %w: %s", context.Cause(ctx), i.ends.describe()))
	}
}

// within is how long a container may take until it listens.
func (i *instance) within() time.Duration {
	return i.driver.within + 20*i.driver.inner.Properties().StartTime
}

// relayGroup is the cgroup of the process that copies.
func (i *instance) relayGroup() string {
	if i.spec.Cgroup == "" {
		return ""
	}
	return path.Join(i.spec.Cgroup, "relay", string(driver.RolePayload))
}

// relay is the process that copies between the two ends.
type relay struct {
	*launch.Process
	output *serverOutput
}

// startRelay starts the proxy where the server's port is published.
func (i *instance) startRelay(ctx context.Context) error {
	group := i.relayGroup()
	if group != "" {
		if err := sys.MakeCgroup(group); err != nil {
			return driver.Labf("cgroup of the proxy: %w", err)
		}
	}
	output, err := listen()
	if err != nil {
		return err
	}
	port := i.ends.port
	args := listening(free, port, []string{filepath.Join(i.spec.Rootfs, program), "relay", port, i.ends.server.address().String(), port})
	args[0] = filepath.Join(i.spec.Rootfs, program)
	process, err := launch.New(ctx, launch.Config{
		Launcher: i.driver.lab.LaunchPath, Cgroup: group, Pre: []launch.Step{launch.Network(i.ends.relay)},
		Args: args, Stdio: driver.Stdio{Stdout: output.in, Stderr: output.in},
	})
	if err != nil {
		return fmt.Errorf("the proxy: %w", errors.Join(err, output.close()))
	}
	i.relay = &relay{process, output}
	if err := process.Go(); err != nil {
		return err
	}
	return i.await(ctx, output, make(chan error, 1))
}

// Watch lists the client, the other end and what copies between them.
func (i *instance) Watch() []driver.Watch {
	watch := i.ends.client.watch(i.client, driver.RolePayload)
	if i.server != nil {
		watch = append(watch, i.ends.server.watch(i.server, driver.RolePeer)...)
	}
	if i.relay != nil {
		watch = append(watch, driver.Watch{Role: driver.RoleRelay, PID: i.relay.PID(), Cgroup: i.relayGroup()})
	}
	return append(watch, driver.Watch{Counts: i.counts})
}

// Start starts the client, on the path attach after a container was taken from the
// network and attached again.
func (i *instance) Start(ctx context.Context, mark func(driver.Phase)) error {
	if i.driver.path == Attach {
		if err := i.ends.detach(ctx, i.crowd); err != nil {
			return blame(err)
		}
		mark(driver.PhaseDetached)
		if err := i.ends.attach(ctx, i.crowd); err != nil {
			return blame(err)
		}
		mark(driver.PhaseAttached)
	}
	return i.client.Start(ctx, mark)
}

// Wait waits for the client. One that failed after its server had died did so
// because of that.
func (i *instance) Wait(ctx context.Context) (driver.Exit, error) {
	if i.far != nil {
		return i.far.wait(ctx, i.client)
	}
	exit, err := i.client.Wait(ctx)
	if err != nil || i.server == nil || exit.Code == 0 && exit.Signal == 0 {
		return exit, err
	}
	select {
	case ended := <-i.server.ended:
		i.server.ended <- ended
		return exit, i.server.output.explain(fmt.Errorf("the other end was gone when the client failed with code %d: %w", exit.Code, ended))
	case <-time.After(newsTime):
		return exit, nil
	}
}

// newsTime is how long the news of a server's end may take: its end breaks the
// client's connection before its launcher has told of it.
const newsTime = 500 * time.Millisecond

// Close ends both ends and takes the network away. It is idempotent.
func (i *instance) Close() error {
	i.closed.Do(func() { i.closeErr = i.close() })
	return i.closeErr
}

func (i *instance) close() error {
	var errs []error
	if i.client != nil {
		errs = append(errs, i.client.Close())
	}
	if i.far != nil {
		errs = append(errs, i.far.Close())
	}
	if i.relay != nil {
		errs = append(errs, i.relay.Close(), i.relay.output.close())
	}
	if i.server != nil {
		errs = append(errs, i.server.close())
	}
	if i.crowd != nil {
		errs = append(errs, i.crowd.close(i.driver.inner.Properties().MaxParallel))
	}
	if i.ends != nil {
		errs = append(errs, i.ends.close())
	}
	return errors.Join(errs...)
}

func (s *server) close() error {
	s.stop()
	s.ended <- <-s.ended // StartFar waits for it, too
	return errors.Join(s.Instance.Close(), s.output.close())
}
