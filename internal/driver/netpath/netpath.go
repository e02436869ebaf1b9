// Package netpath makes targets of two places and a network path between them. It
// decorates any driver whose payload can join a network. The server runs in one
// instance of that driver and listens before the clock starts. The timed payload is
// the client, in another instance.
package netpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/cni"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/net"
)

// Loopback is the path on which both ends are one payload, in one instance: it
// needs nothing of the driver.
const Loopback net.Path = "loopback"

// Attach is the path whose timed start attaches the last container to a bridge.
const Attach net.Path = "attach"

// FromHost is the path whose client is a process on the host of the bridge that
// the server's container is attached to.
const FromHost net.Path = "from-host"

// IdleEngine is the path on which both ends are processes on the host of an
// engine that does nothing.
const IdleEngine net.Path = "idle-engine"

// Separator stands between a target's name and its path: "runc@bridge".
const Separator = "@"

// Paths are all paths, the shortest first.
func Paths() []net.Path {
	return slices.Concat([]net.Path{Loopback, IdleEngine}, net.Paths(), []net.Path{FromHost, Attach}, net.RemotePaths())
}

// Addressed reports whether the path has a network with addresses of a range.
func (d *Driver) Addressed() bool {
	byEngine := d.inner.Properties().Joins == driver.JoinsOwn
	return d.path != Loopback && d.path != IdleEngine && d.path != net.Remote && d.path != net.RemoteCNI && (d.path != net.HostNetwork || !byEngine)
}

// Takes returns why the path cannot have such a network; nil where it can.
func (d *Driver) Takes(n driver.Network) error {
	switch {
	case d.path == Loopback:
		return nil
	case d.Remote():
		return d.remoteTakes(n)
	case d.inner.Properties().Joins == driver.JoinsOwn:
		return d.engineTakes(n)
	case n.Others == driver.OthersAreContainers && d.inner.Properties().Joins == driver.JoinsTap:
		return fmt.Errorf("%s has a virtual machine for each container: all but its two ends are namespaces (others: namespaces)", d.inner.Name())
	case n.Pairs > 1 && !d.occupied(n):
		return fmt.Errorf("%d pairs take containers that do the work: add others: containers", n.Pairs)
	case n.Rules > 0 && !slices.Contains(policed, d.netPath()):
		return fmt.Errorf("no packet passes the rules of a bridge's host on the path %s", d.path)
	}
	if err := d.takesPairs(n); err != nil {
		return err
	}
	return net.Takes(d.netPath(), n.Containers)
}

// policed are the paths whose packets pass the rules of a bridge's host.
var policed = []net.Path{net.Bridge, net.CNI, net.Netfilter, net.Bridges, net.VXLAN, net.NAT}

// engineTakes is Takes for an engine that makes its networks itself.
func (d *Driver) engineTakes(n driver.Network) error {
	switch {
	case net.IsIPv6(n.Range) && d.path != net.Bridge && d.path != Attach:
		return fmt.Errorf("the range %s is of IPv6, at which the host of %s cannot be reached as soon as a network is made: the path %s takes one of IPv4", n.Range, d.inner.Name(), d.path)
	case n.MTU > 0 || n.Offload != "" || n.RPS || n.Rules > 0 || n.Qdisc != "":
		return fmt.Errorf("%s makes its networks itself: it takes its own settings", d.inner.Name())
	case n.Others == driver.OthersAreNamespaces:
		return fmt.Errorf("%s makes its networks itself: all others on them are its containers; the target native has bare namespaces", d.inner.Name())
	case d.path == IdleEngine || d.path == net.HostNetwork:
		return net.Takes(net.HostNetwork, n.Containers)
	}
	if err := d.takesPairs(n); err != nil {
		return err
	}
	return net.Takes(net.Bridge, n.Containers)
}

// takesPairs refuses pairs where their clients do not dial their servers' own address.
func (d *Driver) takesPairs(n driver.Network) error {
	if n.Pairs > 1 && (d.netPath() == net.NAT || d.netPath() == net.Proxy || d.path == FromHost || d.path == Attach) {
		return fmt.Errorf("%d pairs at once are measured between containers, and the path %s has another way", n.Pairs, d.path)
	}
	return nil
}

// occupied reports whether the others on a network are containers.
func (d *Driver) occupied(n driver.Network) bool {
	return d.inner.Properties().Joins == driver.JoinsOwn || n.Others == driver.OthersAreContainers
}

// Others is how many containers a network has besides the two ends. Bare namespaces do
// not count.
func (d *Driver) Others(n driver.Network) int {
	if d.path == Loopback || !d.occupied(n) {
		return 0
	}
	return max(0, n.Containers-2)
}

// Carries returns why a client cannot reach such a server on the path; nil where it can.
func (d *Driver) Carries(peer []string) error {
	if d.path != Loopback && localSocket(peer) != "" {
		return fmt.Errorf("a local socket joins processes of one container, and the path %s has two: it is measured on %s", d.path, Loopback)
	}
	if d.Remote() && len(peer) == 0 {
		return fmt.Errorf("the path %s leads to a server on another machine, and takes workloads with a peer, as net-latency", d.path)
	}
	if d.path == Attach && len(peer) > 0 {
		return fmt.Errorf("the path %s times how a container is attached, and takes workloads without a peer, as start", d.path)
	}
	return nil
}

// netPath is what the laboratory builds for the path.
func (d *Driver) netPath() net.Path {
	if d.path == Attach || d.path == FromHost {
		return net.Bridge
	}
	return d.path
}

// joins are the paths, besides Loopback, that targets of each kind can be on.
var joins = map[driver.Joining]func(net.Path) bool{
	driver.JoinsNamespace: func(p net.Path) bool { return p != IdleEngine },
	driver.JoinsTap: func(p net.Path) bool {
		return p == FromHost || p == net.Bridge || p == net.Netfilter || p == net.Bridges || p == net.VXLAN || p == net.NAT || p == net.Proxy || p == net.RemoteVXLAN || p == net.RemoteWireGuard
	},
	driver.JoinsOwn: func(p net.Path) bool {
		return p == IdleEngine || p == FromHost || p == Attach || p == net.HostNetwork || p == net.Bridge || p == net.NAT || p == net.Proxy || p == net.Remote
	},
}

// Driver is an inner driver on a path.
type Driver struct {
	lab   driver.Lab
	inner driver.Driver
	host  driver.Driver // for an end that is a process on a host
	path  net.Path
	proof *proof

	within time.Duration // an end must listen
	of     string        // range of the addresses that it is proven with; "" for the default
}

// proof is the result of the inner driver's check, which is made once for all paths.
type proof struct {
	once  sync.Once
	facts driver.Facts
	err   error
}

func (p *proof) check(ctx context.Context, inner driver.Driver) (driver.Facts, error) {
	p.once.Do(func() { p.facts, p.err = inner.Check(ctx) })
	facts := p.facts
	facts.Notes = maps.Clone(facts.Notes)
	return facts, p.err
}

// listenWithin is how long a server may take until it listens.
const listenWithin = 10 * time.Second

// New puts a driver on a path of Paths. The driver host runs an end that is a process on
// a host.
func New(lab driver.Lab, inner, host driver.Driver, path net.Path) *Driver {
	return &Driver{lab: lab, inner: inner, host: host, path: path, within: listenWithin, proof: &proof{}}
}

// All puts a driver on every path. The driver is checked once for all of them, in
// networks of the range of addresses ("" for the default).
func All(lab driver.Lab, inner, host driver.Driver, of string) []*Driver {
	var all []*Driver
	shared := &proof{}
	for _, p := range Paths() {
		d := New(lab, inner, host, p)
		d.proof, d.of = shared, of
		all = append(all, d)
	}
	return all
}

// proofTime is what building a network and proving it takes on a busy machine,
// beside the inner driver's own check.
const proofTime = 20 * time.Second

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.inner.Name() + Separator + string(d.path) }

// Properties implements driver.Driver.
func (d *Driver) Properties() driver.Properties {
	p := d.inner.Properties()
	p.StartTime *= 2
	p.CheckTime += proofTime
	return p
}

// Unwrap implements driver.Decorator.
func (d *Driver) Unwrap() driver.Driver { return d.inner }

// Setup implements driver.SessionDriver. It starts nothing: an engine runs from the
// first trial on a path that needs it, so that the cells before it, the host's among
// them, are measured without one.
func (d *Driver) Setup(context.Context, driver.Spec) error { return nil }

// Teardown implements driver.SessionDriver.
func (d *Driver) Teardown() error {
	if s, ok := driver.As[driver.SessionDriver](d.inner); ok {
		return s.Teardown()
	}
	return nil
}

// Check proves by use that a client reaches its server on this path.
func (d *Driver) Check(ctx context.Context) (driver.Facts, error) {
	facts, err := d.proof.check(ctx, d.inner)
	if err != nil {
		return facts, err
	}
	if facts.Notes == nil {
		facts.Notes = map[string]string{}
	}
	facts.Notes["path"] = string(d.path)
	switch {
	case d.path == Loopback:
		return facts, nil
	case !d.lab.Root:
		return facts, &driver.CannotError{Target: d.Name(), Lacks: "network namespaces and links take root", Remedy: "run as root"}
	}
	if err := d.fits(); err != nil {
		return facts, err
	}
	if d.path == IdleEngine {
		return facts, nil // two processes on a host beside an engine that was just proven
	}
	if lacks := cni.Lacks(cni.Plugins); d.path == net.CNI && len(lacks) > 0 {
		return facts, &driver.CannotError{Target: d.Name(), Lacks: fmt.Sprintf("the CNI plugins %s are not installed in %s", strings.Join(lacks, ", "), strings.Join(cni.PluginDirs, " or ")), Remedy: "tare setup installs them"}
	}
	if d.Remote() {
		if err := d.remoteFits(ctx); err != nil {
			return facts, err
		}
		if d.path == net.RemoteCNI {
			network, err := cni.Default()
			if err != nil {
				return facts, &driver.CannotError{Target: d.Name(), Lacks: err.Error(), Remedy: "configure one, as engines and clusters do"}
			}
			facts.Notes["cni"] = network.String()
		}
		if err := d.farFacts(ctx, facts); err != nil {
			return facts, err
		}
	}
	err = d.prove(ctx)
	var lacks *net.UnsupportedError
	if errors.As(err, &lacks) {
		return facts, &driver.CannotError{Target: d.Name(), Lacks: lacks.Error(), Remedy: "look for it in the kernel's configuration"}
	}
	return facts, err
}

// Stale implements driver.Staler: another machine is proven each time.
func (d *Driver) Stale(found driver.Facts) bool {
	s, ok := driver.As[driver.Staler](d.inner)
	return d.Remote() || ok && s.Stale(found)
}

// Rest stops the engine of the path IdleEngine until a trial needs it, because other
// cells are measured without one.
func (d *Driver) Rest() error {
	if d.path == IdleEngine {
		return d.Teardown()
	}
	return nil
}

// fits returns why the target cannot be on the path; nil where it can.
func (d *Driver) fits() error {
	can := joins[d.inner.Properties().Joins]
	if can == nil {
		return &driver.CannotError{Target: d.Name(), Lacks: d.inner.Name() + " cannot join a network that is given to it"}
	}
	networks := d.inner.Properties().Networks
	if !can(d.path) || networks != nil && d.path == net.Proxy && networks.Proxy == "" {
		return &driver.CannotError{Target: d.Name(), Lacks: d.inner.Name() + " has no such path"}
	}
	return nil
}

// Prepare builds the network, starts the server and waits until it listens.
func (d *Driver) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	if d.path == Loopback {
		return d.prepareLoopback(ctx, spec, dir)
	}
	i := &instance{driver: d, spec: spec, dir: dir}
	if err := i.prepare(ctx); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// program is the path of the helper of both ends in every root file system.
const program = "/.tare/net"

// loopback is the address of a network's own loopback.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// prepareLoopback makes one payload from server and client. It takes a free port and the
// loopback alone everywhere, because some targets are in the machine's own network: others
// may have taken the usual port there, or may reach the server.
func (d *Driver) prepareLoopback(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	if len(spec.Peer) == 0 {
		return d.inner.Prepare(ctx, spec, dir)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	place := fill(port, loopback.String())
	// For a local socket, the helper waits for its path, which is the same in all arguments.
	waited := cmp.Or(localSocket(spec.Peer), port)
	args := append([]string{program, "both", pinOf(spec), waited, "--"}, at(loopback, place(spec.Peer))...)
	spec.Args = append(append(args, "--"), place(spec.Args)...)
	spec.Peer = nil
	return d.inner.Prepare(ctx, spec, dir)
}

// localSocket is the argument that names a server's local socket; "" where the server
// listens at a port.
func localSocket(peer []string) string {
	for _, a := range peer {
		if strings.HasPrefix(a, "unix:") {
			return a
		}
	}
	return ""
}

// port is where servers listen in a namespace of their own.
const port = "5201"

func pinOf(spec driver.Spec) string {
	if spec.Network.Pin == "" {
		return free
	}
	return spec.Network.Pin
}

// fill puts the address and the port of the peer into arguments.
func fill(port, address string) func([]string) []string {
	r := strings.NewReplacer(driver.PeerAddress, address, driver.PeerPort, port)
	return func(args []string) []string {
		filled := make([]string, len(args))
		for i, a := range args {
			filled[i] = r.Replace(a)
		}
		return filled
	}
}

// options are a spec's wishes as the laboratory takes them.
func (d *Driver) options(spec driver.Spec) net.Options {
	n := spec.Network
	return net.Options{Path: d.netPath(), Containers: n.Containers, Neighbours: net.Table(n.Neighbours),
		Occupied: d.occupied(n), Chatter: n.Chatter && !d.occupied(n), MTU: n.MTU, Rules: n.Rules, Qdisc: n.Qdisc, Offload: net.Offload(n.Offload), RPS: n.RPS, Range: n.Range, Taps: d.inner.Properties().Joins == driver.JoinsTap, ClientOnHost: d.path == FromHost}
}

// blame marks errors of building a network. They are the laboratory's, unless this
// machine cannot have such a path.
func blame(err error) error {
	var lacks *net.UnsupportedError
	var full *net.FullError
	var overflow *net.OverflowError
	if errors.As(err, &lacks) || errors.As(err, &full) || errors.As(err, &overflow) {
		return err
	}
	return driver.Labf("%w", err)
}

// prove sends a byte there and back.
func (d *Driver) prove(ctx context.Context) error {
	exit, said, err := launch.Try(ctx, d, d.lab, driver.Spec{
		Peer:    []string{program, "serve", everyAddress + ":" + driver.PeerPort},
		Args:    []string{driver.Mark, "--", program, "rtt", "tcp", driver.PeerAddress + ":" + driver.PeerPort, "1", "1"},
		Network: driver.Network{Range: d.of},
	})
	if err == nil && (exit.Code != 0 || exit.Signal != 0) {
		err = fmt.Errorf("a check's client ended with code %d, signal %d (it said %q)", exit.Code, exit.Signal, said)
	}
	if err != nil && d.Remote() && !driver.IsLab(err) && !errors.As(err, new(*driver.CannotError)) {
		here, there := d.lab.Peer.Addresses()
		err = fmt.Errorf("%w; do all TCP and UDP ports between %s and %s pass?", err, here, there)
	}
	return err
}
