package pair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/target/launch"
)

// instance is a client with its server and the network between them.
type instance struct {
	driver *Driver
	spec   target.Spec
	dir    string

	lab    *net.Lab
	server *server // nil where nothing is talked to
	relay  *launch.Process
	client target.Instance

	closed   sync.Once
	closeErr error
}

// prepare makes all that lies outside the clock. What it made before an error is
// Close's to remove.
func (i *instance) prepare(ctx context.Context) error {
	options, err := i.driver.options(i.spec)
	if err != nil {
		return err
	}
	if i.lab, err = net.Build(ctx, options); err != nil {
		return blame(err)
	}
	if i.driver.path == Attach {
		if err := i.lab.Detach(); err != nil {
			return blame(err)
		}
	}
	if len(i.spec.Peer) > 0 {
		if err := i.startServer(ctx); err != nil {
			return err
		}
	}
	if i.lab.Relay != nil {
		if err := i.startRelay(ctx); err != nil {
			return err
		}
	}
	client := i.spec
	client.Join, client.Peer = i.lab.Client.Namespace.Path(), nil
	client.Args = pinned("client", client, fill(port, i.lab.Dial.String())(client.Args))
	dir, err := i.place("client")
	if err != nil {
		return err
	}
	i.client, err = i.driver.inner.Prepare(ctx, client, dir)
	return err
}

// pinned is a command line that first binds itself to its end's CPU.
func pinned(role string, spec target.Spec, args []string) []string {
	if pinOf(spec) == "free" {
		return args
	}
	return append([]string{program, "as", role, pinOf(spec), "--"}, args...)
}

// place makes a directory of an end's own.
func (i *instance) place(name string) (string, error) {
	dir := filepath.Join(i.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", target.Labf("directory of the %s: %w", name, err)
	}
	return dir, nil
}

// server is the other end, from its start until Close.
type server struct {
	target.Instance
	said  *os.File
	ended chan error
	stop  context.CancelFunc
}

// startServer starts the other end and waits until it listens.
func (i *instance) startServer(ctx context.Context) error {
	dir, err := i.place("server")
	if err != nil {
		return err
	}
	s := &server{ended: make(chan error, 1)}
	if s.said, err = os.Create(filepath.Join(i.dir, "server.out")); err != nil {
		return target.Labf("output of the server: %w", err)
	}
	spec := i.spec
	spec.ID += "-peer"
	spec.Join, spec.Peer = i.lab.Server.Namespace.Path(), nil
	spec.Args = pinned("server", spec, fill(port, "0.0.0.0")(i.spec.Peer))
	spec.Stdio = target.Stdio{Stdout: s.said, Stderr: s.said}
	if spec.Cgroup != "" {
		spec.Cgroup = path.Join(spec.Cgroup, "peer")
	}
	if s.Instance, err = i.driver.inner.Prepare(ctx, spec, dir); err != nil {
		return fmt.Errorf("the other end: %w", errors.Join(err, s.said.Close()))
	}
	i.server = s
	// It lives until Close, longer than the call that prepares it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if err := s.Start(running, func(target.Phase) {}); err != nil {
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
	return i.await(ctx, i.lab.Server.Namespace, s.ended)
}

// listenEvery is how often is looked whether an end listens.
const listenEvery = 2 * time.Millisecond

// await waits until somebody listens at the port in a namespace.
func (i *instance) await(ctx context.Context, where *net.Namespace, ended chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, i.driver.within,
		fmt.Errorf("nobody listened within %v: %s", i.driver.within, i.lab.Describe()))
	defer cancel()
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	for {
		listening, err := where.Listens(number)
		if listening || err != nil {
			return err
		}
		select {
		case err := <-ended:
			ended <- err // Close looks too
			return explain(fmt.Errorf("the other end ended before it listened: %w", err), i.said())
		case <-ctx.Done():
			return explain(fmt.Errorf("the other end: %w", context.Cause(ctx)), i.said())
		case <-time.After(listenEvery):
		}
	}
}

// said is the end of what the server printed.
func (i *instance) said() string {
	if i.server == nil {
		return ""
	}
	text, err := os.ReadFile(i.server.said.Name())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-1000):]))
}

// relayGroup is the cgroup of the process that copies.
func (i *instance) relayGroup() string {
	if i.spec.Cgroup == "" {
		return ""
	}
	return path.Join(i.spec.Cgroup, "relay", string(target.RolePayload))
}

// startRelay starts the proxy where the server's port is published.
func (i *instance) startRelay(ctx context.Context) error {
	group := i.relayGroup()
	if group != "" {
		groups, err := sys.Cgroups()
		if err == nil {
			err = groups.Make(group)
		}
		if err != nil {
			return target.Labf("cgroup of the proxy: %w", err)
		}
	}
	var err error
	i.relay, err = launch.New(ctx, launch.Config{
		Launcher: i.driver.lab.LaunchPath, Cgroup: group, Pre: []launch.Step{launch.Network(i.lab.Relay.Path())},
		Args: []string{filepath.Join(i.spec.Rootfs, program), "relay", port, i.lab.Server.Address.String(), port},
	})
	if err != nil {
		return fmt.Errorf("the proxy: %w", err)
	}
	if err := i.relay.Go(); err != nil {
		return err
	}
	return i.await(ctx, i.lab.Relay, make(chan error, 1))
}

// Watch lists the client, the other end and what copies between them.
func (i *instance) Watch() []target.Watch {
	watch := inNetwork(i.client.Watch(), i.lab.Client.Namespace)
	if i.server != nil {
		peer := inNetwork(i.server.Watch(), i.lab.Server.Namespace)
		for n := range peer {
			if peer[n].Role == target.RolePayload {
				peer[n].Role = target.RolePeer
			}
		}
		watch = append(watch, peer...)
	}
	if i.relay != nil {
		watch = append(watch, target.Watch{Role: target.RoleRelay, PID: i.relay.PID(), Cgroup: i.relayGroup()})
	}
	return watch
}

// inNetwork says of payloads which namespace they are in.
func inNetwork(watch []target.Watch, n *net.Namespace) []target.Watch {
	watch = slices.Clone(watch)
	for i := range watch {
		if watch[i].Role == target.RolePayload {
			watch[i].Network = n.Path()
		}
	}
	return watch
}

// Start starts the client, on the path attach after its container was attached.
func (i *instance) Start(ctx context.Context, mark func(target.Phase)) error {
	if i.driver.path == Attach {
		if err := i.lab.Attach(); err != nil {
			return blame(err)
		}
	}
	return i.client.Start(ctx, mark)
}

// Wait waits for the client. One that failed after its server had died did so
// because of that.
func (i *instance) Wait(ctx context.Context) (target.Exit, error) {
	exit, err := i.client.Wait(ctx)
	if err != nil || i.server == nil || exit.Code == 0 && exit.Signal == 0 {
		return exit, err
	}
	select {
	case ended := <-i.server.ended:
		i.server.ended <- ended
		return exit, explain(fmt.Errorf("the other end was gone when the client failed with code %d: %w", exit.Code, ended), i.said())
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
	if i.relay != nil {
		errs = append(errs, i.relay.Close())
	}
	if i.server != nil {
		errs = append(errs, i.server.close())
	}
	if i.lab != nil {
		if err := i.lab.Close(); err != nil {
			errs = append(errs, target.Labf("%w", err))
		}
	}
	return errors.Join(errs...)
}

func (s *server) close() error {
	s.stop()
	<-s.ended
	return errors.Join(s.Instance.Close(), s.said.Close())
}
