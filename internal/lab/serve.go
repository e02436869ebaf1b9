package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/netpath"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/peer"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/workload"
)

// facts are what this side tells another machine's tare.
func (l *Lab) facts() peer.Facts {
	return peer.Facts{Tool: l.config.Version, Image: l.bench.Digest, Host: hostinfo.Gather()}
}

// connect reaches the other machine that the user named.
func (l *Lab) connect(ctx context.Context) error {
	if l.config.Peer == "" {
		return nil
	}
	c, err := peer.Connect(ctx, l.config.Peer, l.facts())
	if err != nil {
		if mismatch := new(peer.MismatchError); errors.As(err, &mismatch) {
			return &LackError{err.Error()}
		}
		return err
	}
	l.peer, l.place.Peer = c, c
	return nil
}

// otherMachine is what the run keeps of the other machine; nil where it has none.
func (l *Lab) otherMachine() *store.Peer {
	if l.peer == nil {
		return nil
	}
	here, there := l.peer.Addresses()
	return &store.Peer{Here: here.String(), There: there.String(), Host: l.peer.Facts.Host}
}

// command is the command line for the record, without a peer's key.
func (l *Lab) command() []string {
	command := slices.Clone(l.config.Command)
	for i := range command {
		command[i] = peer.WithoutKey(command[i], l.config.Peer)
	}
	return command
}

// Serve starts far ends of paths for another machine's tare, until that one leaves or ctx
// is cancelled. Then nothing of them is left.
func (l *Lab) Serve(ctx context.Context, v peer.Visitor, tell func(string)) error {
	err := peer.Answer(ctx, v, l.facts(), &farHost{lab: l}, tell)
	for _, d := range l.drivers { // an engine that was started for this client
		if s, ok := driver.As[driver.SessionDriver](d); ok {
			err = errors.Join(err, s.Teardown())
		}
	}
	return err
}

// farHost is this machine, as another one's tare uses it. It implements peer.Host.
type farHost struct {
	lab     *Lab
	proving sync.Mutex
}

// target is one of this build's own targets. A name that stands for a program of this
// machine, as runc=/PATH does, is none of them.
func (h *farHost) target(name string) (driver.Driver, error) {
	for _, d := range h.lab.drivers {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, &driver.CannotError{Target: fmt.Sprintf("%.100q", name), Lacks: "it is not a target of this machine's tare"}
}

// Prove implements peer.Host.
func (h *farHost) Prove(ctx context.Context, name string) (driver.Facts, error) {
	d, err := h.target(name)
	if err != nil {
		return driver.Facts{}, err
	}
	h.proving.Lock()
	defer h.proving.Unlock()
	found := h.lab.Check(ctx, []driver.Driver{d}, false)[0]
	return found.Facts, found.Err
}

// Start implements peer.Host.
func (h *farHost) Start(ctx context.Context, wanted driver.FarEnd) (*driver.Far, error) {
	d, err := h.target(wanted.Target)
	if err != nil {
		return nil, err
	}
	as, own := workload.Server(wanted.Server)
	switch {
	case !own:
		return nil, driver.Labf("refused: the command is not a server of one of tare's own workloads")
	case !slices.Contains(net.RemotePaths(), net.Path(wanted.Path)):
		return nil, driver.Labf("refused: %.100q is not a path between two machines", wanted.Path)
	case wanted.Limits.CPUs < 0 || wanted.Limits.Memory < 0 || wanted.Limits.Pids < 0 || wanted.MTU < 0 || wanted.MTU > 65535:
		return nil, driver.Labf("refused: a limit or an MTU of the far end is out of its range")
	case !h.lab.place.Root:
		return nil, &driver.CannotError{Target: wanted.Target, Lacks: "far ends take root", Remedy: "run tare serve as root"}
	}
	return h.lab.startFar(ctx, netpath.New(h.lab.place, d, h.lab.drivers[0], net.Path(wanted.Path)), as, wanted)
}

// startFar starts a far end in a directory and a cgroup of its own, which go with it.
func (l *Lab) startFar(ctx context.Context, d *netpath.Driver, as driver.User, wanted driver.FarEnd) (far *driver.Far, err error) {
	dir := filepath.Join(l.session.dir, "instances", wanted.ID)
	remove := func() error { return errors.Join(l.groups.Remove(wanted.ID), sys.RemoveTree(dir)) }
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, driver.Labf("directory of the far end: %w", err)
	}
	limits := driver.Limits{CPUs: wanted.Limits.CPUs, Memory: wanted.Limits.Memory, Pids: wanted.Limits.Pids}
	group, err := l.groups.Make(wanted.ID, limits)
	if err != nil {
		return nil, driver.Labf("cgroup of the far end: %w", err)
	}
	spec := driver.Spec{
		ID: wanted.ID, Rootfs: l.bench.Rootfs, Image: l.bench.Layout, Mounts: l.bench.Mounts,
		Env: environment(nil, nil), User: as, Limits: limits, Peer: wanted.Server, Cgroup: group,
		Network: driver.Network{MTU: wanted.MTU, Range: wanted.Range},
	}
	if far, err = d.StartFar(ctx, spec, wanted, dir); err != nil {
		return nil, err
	}
	end := far.Close
	far.Close = sync.OnceValue(func() error { return errors.Join(end(), remove()) })
	return far, nil
}
