package netpath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/tarelab/tare/internal/cni"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/net"
)

// Remote reports whether the path's server is on another machine.
func (d *Driver) Remote() bool { return slices.Contains(net.RemotePaths(), d.path) }

// ownNetwork is the network namespace of this process: the machine's, or what stands for
// it where tare was started.
func ownNetwork() string { return fmt.Sprintf("/proc/%d/ns/net", os.Getpid()) }

// remoteTakes is Takes for a path between two machines.
func (d *Driver) remoteTakes(n driver.Network) error {
	switch {
	case n.Neighbours != "" || n.Others != "" || n.Pairs > 1 || n.Chatter || n.Rules > 0 || n.Limit > 0:
		return fmt.Errorf("the path %s has its two ends alone: neighbours, others, pairs, chatter, rules and neighbour-limit are for paths on one machine", d.path)
	case pinOf(driver.Spec{Network: n}) != free:
		return fmt.Errorf("the path %s has its ends on two machines, which have no CPU in common: leave pin out", d.path)
	case n.Offload != "" || n.Qdisc != "" || n.RPS:
		return fmt.Errorf("the path %s uses the machines' own network devices, whose settings tare leaves alone", d.path)
	case (d.path == net.Remote || d.path == net.RemoteCNI) && n.MTU > 0:
		return fmt.Errorf("the path %s uses the machines' own networks, whose MTU tare leaves alone", d.path)
	}
	return net.Takes(d.path, n.Containers)
}

// remoteFits returns why the target cannot be on a path between two machines; nil where
// it can.
func (d *Driver) remoteFits(ctx context.Context) error {
	if d.lab.Peer == nil {
		return &driver.CannotError{Target: d.Name(), Lacks: "no other machine is known", Remedy: "start tare serve there, and name it with --peer"}
	}
	if !reach(d.lab.Peer.Addresses()) {
		return &driver.CannotError{Target: d.Name(), Lacks: "nothing tells by which addresses the machines reach each other", Remedy: "have tare serve --listen at an address that is not of one link alone (fe80:...)"}
	}
	return d.joinsMachine(ctx)
}

// reach reports whether two machines' addresses are known, and of one family.
func reach(here, there netip.Addr) bool {
	return here.IsValid() && there.IsValid() && here.Is4() == there.Is4()
}

// joinsMachine returns why an engine's containers cannot be in the machine's own network;
// nil where they can, and for other targets and paths.
func (d *Driver) joinsMachine(ctx context.Context) error {
	networks := d.inner.Properties().Networks
	if networks == nil || d.path != net.Remote {
		return nil
	}
	host, err := networks.Host(ctx)
	if err != nil {
		return err
	}
	of, err := os.Stat(host)
	if err != nil {
		return driver.Labf("the engine's network: %w", err)
	}
	own, err := os.Stat(ownNetwork())
	if err != nil {
		return driver.Labf("this machine's network: %w", err)
	}
	if !os.SameFile(of, own) {
		return &driver.CannotError{Target: d.Name(), Lacks: "the engine that tare starts has a network of its own, which leads to no other machine", Remedy: "start the engine of this machine, and leave --private-engines out"}
	}
	return nil
}

// farFacts adds to the facts of a target here what the same target is on the peer.
func (d *Driver) farFacts(ctx context.Context, facts driver.Facts) error {
	there, err := d.lab.Peer.Prove(ctx, d.inner.Name())
	if cannot := new(driver.CannotError); errors.As(err, &cannot) {
		return &driver.CannotError{Target: d.Name(), Lacks: "on the other machine: " + cannot.Lacks, Remedy: cannot.Remedy}
	}
	if err != nil {
		return err
	}
	facts.Notes["peer"] = there.Version
	if there.Digest != "" {
		facts.Notes["peer-digest"] = there.Digest
	}
	return nil
}

// join is how a payload of the target gets into the machine's own network.
func (d *Driver) join() driver.Join {
	if d.inner.Properties().Joins == driver.JoinsOwn {
		return driver.Join{Network: driver.HostNetwork}
	}
	return driver.Join{Namespace: ownNetwork()}
}

// networkNumber draws the number of a network that two machines share, so that those of
// others on the same machines differ.
func networkNumber() uint32 { return 1 + rand.Uint32N(1<<24-1) }

// tunnel makes a key for this machine's end of the path's tunnel; nil for paths without
// one.
func (d *Driver) tunnel() (*net.Tunnel, error) {
	if d.path != net.RemoteWireGuard {
		return nil, nil
	}
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return nil, driver.Labf("key of a tunnel: %w", err)
	}
	return &net.Tunnel{Private: key}, nil
}

// publicEnd is what the other machine has to know of this one's end; nil for none.
func publicEnd(t *net.Tunnel, port int) *driver.Tunnel {
	if t == nil {
		return nil
	}
	return &driver.Tunnel{Key: t.Private.PublicKey().String(), Port: port}
}

// introduce tells this machine's end of a tunnel, where there is one, of the other end, whose
// port is at least a number.
func introduce(t *net.Tunnel, other *driver.Tunnel, port int) error {
	if t == nil {
		return nil
	}
	if other == nil || other.Port < port || other.Port > 65535 {
		return driver.Labf("the other machine did not say where its end of the tunnel is: %+v", other)
	}
	key, err := wgtypes.ParseKey(other.Key)
	if err != nil {
		return driver.Labf("public key of the other end of the tunnel: %w", err)
	}
	t.Public, t.Port = key, other.Port
	return nil
}

// attachCNI puts this machine's end on the machine's own network.
func (d *Driver) attachCNI(ctx context.Context, id string, own *net.End, server bool) (detach func() error, err error) {
	network, err := cni.Default()
	if err != nil {
		return nil, err
	}
	if server { // both ends may be on one machine
		id += "-peer"
	}
	attached, err := network.Attach(ctx, d.lab.RunDir, id, own.Namespace.Path())
	if err != nil {
		return nil, err
	}
	own.Address = attached.Address
	return func() error { return attached.Detach(ctx) }, nil
}

// buildRemote makes this machine's half of a path between two.
func (d *Driver) buildRemote(ctx context.Context, spec driver.Spec, m net.Machines) (*endpoints, error) {
	g := &endpoints{port: port, dial: m.There, close: func() error { return nil },
		describe: func() string { return fmt.Sprintf("this machine is %s, the other one %s", m.Here, m.There) }}
	own := end{d.inner, d.join()}
	if d.path != net.Remote {
		options := d.options(spec)
		options.Machines = &m
		lab, err := net.Build(ctx, options)
		if err != nil {
			return nil, blame(err)
		}
		g.dial, g.describe, g.tunnel = lab.Dial, lab.Describe, publicEnd(m.Tunnel, lab.TunnelPort)
		detach := func() error { return nil }
		if d.path == net.RemoteCNI {
			if detach, err = d.attachCNI(ctx, spec.ID, lab.Own(), m.Server); err != nil {
				return nil, errors.Join(blame(err), lab.Close())
			}
			g.dial = lab.Own().Address.Addr() // of the client's end until the server's is known
		}
		g.close = func() error {
			if err := errors.Join(detach(), lab.Close()); err != nil {
				return driver.Labf("%w", err)
			}
			return nil
		}
		own.join = joinOf(lab.Own())
	}
	if m.Server {
		g.server = own
	} else {
		g.client = own
	}
	return g, nil
}

// far is the server of a path on another machine, as the client's machine sees it.
type far struct {
	*driver.Far
	peer driver.Peer
}

// prepareRemote has the peer start the server, and makes the network to it.
func (i *instance) prepareRemote(ctx context.Context) error {
	d := i.driver
	if err := errors.Join(d.remoteFits(ctx), d.Takes(i.spec.Network)); err != nil {
		return err
	}
	tunnel, err := d.tunnel()
	if err != nil {
		return err
	}
	m := net.Machines{Number: networkNumber(), Tunnel: tunnel}
	m.Here, m.There = d.lab.Peer.Addresses()
	limits := driver.Limits{CPUs: i.spec.Limits.CPUs, Memory: i.spec.Limits.Memory, Pids: i.spec.Limits.Pids}
	started, err := d.lab.Peer.Start(ctx, driver.FarEnd{
		ID: i.spec.ID, Target: d.inner.Name(), Path: string(d.path), Server: i.spec.Peer, Limits: limits,
		MTU: i.spec.Network.MTU, Range: i.spec.Network.Range, Number: m.Number, Tunnel: publicEnd(m.Tunnel, 0),
	})
	if err != nil {
		return fmt.Errorf("the other end: %w", err)
	}
	i.far = &far{started, d.lab.Peer}
	if err := introduce(m.Tunnel, started.Tunnel, 1); err != nil {
		return err
	}
	if i.ends, err = d.buildRemote(ctx, i.spec, m); err != nil {
		return err
	}
	i.ends.port = started.Port
	if d.path == net.RemoteCNI {
		if i.ends.dial = started.Address; !i.ends.dial.IsValid() {
			return driver.Labf("the other machine did not say at which address its server is")
		}
	}
	return nil
}

// wait waits for the client. It ends the client when the other machine is lost: what the
// client would measure then has no server any more.
func (f *far) wait(ctx context.Context, client driver.Instance) (driver.Exit, error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-f.peer.Lost():
			cancel()
		case <-bounded.Done():
		}
	})
	exit, err := client.Wait(bounded)
	cancel()
	watching.Wait()
	if lost := f.peer.Err(); lost != nil && ctx.Err() == nil {
		return exit, lost
	}
	if err != nil || exit.Code == 0 && exit.Signal == 0 {
		return exit, err
	}
	select {
	case ended := <-f.Ended:
		return exit, fmt.Errorf("the other end was gone when the client failed with code %d: %w", exit.Code, ended)
	case <-f.peer.Lost():
		return exit, f.peer.Err()
	case <-time.After(newsTime):
		return exit, nil
	}
}

// everyAddress is where servers listen that are alone in their network.
const everyAddress = "0.0.0.0"

// StartFar starts the server of a path between two machines, for a client on the other
// one. It returns when the server listens. spec.Peer is the server's command; dir is an
// empty directory for it.
func (d *Driver) StartFar(ctx context.Context, spec driver.Spec, wanted driver.FarEnd, dir string) (*driver.Far, error) {
	i := &instance{driver: d, spec: spec, dir: dir}
	if err := i.prepareFar(ctx, wanted); err != nil {
		if lacks, none := new(net.UnsupportedError), new(cni.NoneError); errors.As(err, &lacks) {
			err = &driver.CannotError{Target: d.Name(), Lacks: "on the other machine: " + lacks.Error()}
		} else if errors.As(err, &none) {
			err = &driver.CannotError{Target: d.Name(), Lacks: "on the other machine: " + none.Error()}
		}
		return nil, errors.Join(err, i.Close())
	}
	ended := make(chan error, 1)
	go func() {
		err := <-i.server.ended
		i.server.ended <- err // Close waits for it, too
		ended <- err
	}()
	started := &driver.Far{Port: i.ends.port, Tunnel: i.ends.tunnel, Ended: ended, Close: i.Close}
	if d.path == net.RemoteCNI {
		started.Address = i.ends.dial
	}
	return started, nil
}

// prepareFar makes all of the far end. What it made before an error is Close's to remove.
func (i *instance) prepareFar(ctx context.Context, wanted driver.FarEnd) (err error) {
	d := i.driver
	if err := errors.Join(d.fits(), d.joinsMachine(ctx), d.Takes(i.spec.Network)); err != nil {
		return err
	}
	if !reach(wanted.Here, wanted.There) || wanted.Number == 0 || wanted.Number >= 1<<24 {
		return driver.Labf("the machines %s and %s cannot share the network number %d", wanted.Here, wanted.There, wanted.Number)
	}
	m := net.Machines{Here: wanted.Here, There: wanted.There, Number: wanted.Number, Server: true}
	if m.Tunnel, err = d.tunnel(); err != nil {
		return err
	}
	if err := introduce(m.Tunnel, wanted.Tunnel, 0); err != nil {
		return err
	}
	if i.ends, err = d.buildRemote(ctx, i.spec, m); err != nil {
		return err
	}
	if d.path == net.Remote {
		if i.ends.port, err = freePort(); err != nil {
			return err
		}
		i.spec.Peer = at(wanted.Here, i.spec.Peer)
	}
	return i.startServer(ctx)
}

// at is a server's command with one address of the machine to listen at, where it takes
// one as an argument, and not all of them.
func at(address netip.Addr, args []string) []string {
	placed := make([]string, len(args))
	for n, a := range args {
		if a == everyAddress || strings.HasPrefix(a, everyAddress+":") {
			a = address.String() + strings.TrimPrefix(a, everyAddress)
		}
		placed[n] = a
	}
	return placed
}
