package netpath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarelab/tare/internal/cni"
	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/sys"
)

// endpoints are the two ends of one instance and the network between them.
type endpoints struct {
	client, server end
	dial           netip.Addr     // the server's address for the client
	port           string         // of the server
	tunnel         *driver.Tunnel // this machine's end of the path between two; nil for none
	relay          string         // path of the network namespace that a proxy must run in; "" for none
	// others are the places of the containers besides the two ends; none where these are
	// bare namespaces.
	others []driver.Join
	host   string // path of the network namespace that has the bridge; "" for none
	// detach takes a container from its network, and attach puts it there again: the
	// client's place or, where an engine does it, the last of the crowd. Nil on most paths.
	detach, attach func(context.Context, *crowd) error
	describe       func() string // the state of both ends
	close          func() error
}

// end is one of the two.
type end struct {
	driver driver.Driver
	join   driver.Join
}

// address is the end's address.
func (e end) address() netip.Addr { return e.join.Address.Addr() }

// free leaves an end to the scheduler.
const free = "free"

// Apart binds the two ends to different CPUs.
const Apart = "apart"

// pin binds an end to CPUs as its spec asks. It binds a guest from outside, by the CPUs
// of its VMM, and returns what is left to do inside.
func (e end) pin(spec *driver.Spec, role string) string {
	how := pinOf(*spec)
	if how == free || e.driver.Properties().Joins != driver.JoinsTap || spec.Limits.CPUSet != "" || spec.Cgroup == "" {
		return how
	}
	cpus, err := sys.AllowedCPUs()
	if err != nil {
		return how // which says what it cannot do
	}
	n := 0
	if how == Apart && role == "server" && len(cpus) > 1 {
		n = 1
	}
	spec.Limits.CPUSet = fmt.Sprint(cpus[n])
	return free
}

// watch lists an instance's watches. Its payload gets the role, and the network
// namespace that the laboratory made for it.
func (e end) watch(i driver.Instance, role driver.Role) []driver.Watch {
	watch := slices.Clone(i.Watch())
	for n := range watch {
		if watch[n].Role == driver.RolePayload {
			watch[n].Role = role
			if e.driver.Properties().Joins == driver.JoinsNamespace {
				watch[n].Network = e.join.Namespace
			}
		}
	}
	return watch
}

// build makes the network of a spec.
func (d *Driver) build(ctx context.Context, spec driver.Spec) (*endpoints, error) {
	if err := d.Takes(spec.Network); err != nil {
		return nil, err
	}
	if p := d.inner.Properties(); p.Joins == driver.JoinsOwn {
		return d.buildByEngine(ctx, p.Networks, spec)
	}
	options := d.options(spec)
	unplug := func() error { return nil }
	if d.path == net.CNI {
		options.Plug, unplug = d.plug(ctx, spec.ID)
	}
	restore, err := d.limit(spec.Network.Limit)
	if err != nil {
		return nil, err
	}
	lab, err := net.Build(ctx, options)
	if err != nil {
		return nil, errors.Join(blame(err), restore(), unplug())
	}
	g := &endpoints{dial: lab.Dial, port: port, describe: lab.Describe, close: func() error {
		if err := errors.Join(lab.Close(), restore(), unplug()); err != nil {
			return driver.Labf("%w", err)
		}
		return nil
	}}
	g.client, g.server = end{d.inner, joinOf(lab.Client)}, end{d.inner, joinOf(lab.Server)}
	if lab.Relay != nil {
		g.relay = lab.Relay.Path()
	}
	switch d.path {
	case FromHost:
		g.client = end{d.host, driver.Join{Namespace: lab.Client.Namespace.Path()}}
	case Attach:
		g.detach = func(context.Context, *crowd) error { return lab.Detach() }
		g.attach = func(context.Context, *crowd) error { return lab.Attach() }
	}
	g.host = lab.Host()
	if options.Occupied {
		for _, other := range lab.Others {
			g.others = append(g.others, joinOf(other))
		}
		if len(spec.Peer) == 0 && g.host != "" {
			g.others = append(g.others, g.server.join)
		}
	}
	return g, nil
}

// plug attaches namespaces by CNI's plugins. What these answered is kept until unplug.
func (d *Driver) plug(ctx context.Context, id string) (plug func(bridge, namespace string, address netip.Prefix, gateway netip.Addr, mtu int) error, unplug func() error) {
	dir := filepath.Join(d.lab.RunDir, "cni-"+id)
	plug = func(bridge, namespace string, address netip.Prefix, gateway netip.Addr, mtu int) error {
		return cni.Plug(ctx, dir, id+"-"+filepath.Base(namespace), bridge, namespace, address, gateway, mtu)
	}
	return plug, func() error { return os.RemoveAll(dir) }
}

// limit sets how many neighbours the machine learns, with the kernel's ratios between
// the three thresholds (net/ipv4/arp.c: 128, 512, 1024).
func (d *Driver) limit(most int) (restore func() error, err error) {
	if most == 0 {
		return func() error { return nil }, nil
	}
	if d.lab.Sysctl == nil {
		return nil, driver.Labf("the limit of neighbours is the machine's, and may not be changed")
	}
	restore, err = d.lab.Sysctl(map[string]string{
		"net.ipv4.neigh.default.gc_thresh1": fmt.Sprint(most / 8),
		"net.ipv4.neigh.default.gc_thresh2": fmt.Sprint(most / 2),
		"net.ipv4.neigh.default.gc_thresh3": fmt.Sprint(most),
	})
	if err != nil {
		return nil, driver.Labf("%w", err)
	}
	return restore, nil
}

// joinOf is a place of the laboratory as a driver takes it.
func joinOf(e *net.End) driver.Join {
	return driver.Join{Namespace: e.Namespace.Path(), Tap: e.Tap, Hardware: e.Hardware, Gateway: e.Gateway, Address: e.Address}
}

// buildByEngine lets the engine make the network. A client on the engine's host is a
// process there.
func (d *Driver) buildByEngine(ctx context.Context, networks *driver.Networks, spec driver.Spec) (*endpoints, error) {
	number, err := freePort()
	if err != nil {
		return nil, err
	}
	host, err := networks.Host(ctx)
	if err != nil {
		return nil, err
	}
	onHost := end{d.host, driver.Join{Namespace: host}}
	g := &endpoints{port: number, describe: func() string { return "on a network of " + d.inner.Name() }, close: func() error { return nil }}
	switch d.path {
	case IdleEngine:
		g.client, g.server, g.dial = onHost, onHost, loopback
		g.close = d.Rest
		return g, nil
	case net.HostNetwork:
		both := end{d.inner, driver.Join{Network: driver.HostNetwork}}
		g.client, g.server, g.dial = both, both, loopback
		return g, nil
	}
	of, err := net.Subnet(spec.Network.Range)
	if err != nil {
		return nil, driver.Labf("%w", err)
	}
	if g.close, err = networks.Make(ctx, spec.ID, of); err != nil {
		return nil, err
	}
	at := func(n int) driver.Join {
		return driver.Join{Network: spec.ID, Address: netip.PrefixFrom(net.Nth(of, n), of.Bits()), Gateway: net.Nth(of, 1)}
	}
	g.host = host
	g.client, g.server = end{d.inner, at(2)}, end{d.inner, at(3)}
	g.dial = g.server.address()
	if d.path == net.NAT || d.path == net.Proxy {
		g.server.join.Publish, g.dial = number, net.Nth(of, 1)
	}
	if d.path == net.NAT || d.path == FromHost {
		g.client = onHost
	}
	if d.path == Attach {
		g.attachBy(networks, spec.ID)
	}
	for n := range max(2, spec.Network.Containers) - 2 {
		g.others = append(g.others, at(4+n))
	}
	switch {
	case len(spec.Peer) == 0:
		g.others = append(g.others, g.server.join)
	case d.path == Attach && len(g.others) == 0: // a check talks, and one is attached besides
		g.others = append(g.others, at(4))
	}
	if err := d.publish(g.others, number); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// attachBy lets an engine take the last of the crowd from its network, and put it there
// again.
func (g *endpoints) attachBy(networks *driver.Networks, network string) {
	g.detach = func(ctx context.Context, c *crowd) error { return networks.Detach(ctx, c.last().Instance, network) }
	g.attach = func(ctx context.Context, c *crowd) error {
		last := c.last()
		return networks.Attach(ctx, last.Instance, network, g.others[last.place].Address.Addr())
	}
}

// publish gives each of the others a port of its own on the paths whose server's port is
// published: that one's port is taken.
func (d *Driver) publish(others []driver.Join, taken string) error {
	if d.path != net.NAT && d.path != net.Proxy {
		return nil
	}
	used := map[string]bool{taken: true}
	for n := range others {
		for others[n].Publish == "" {
			port, err := freePort()
			if err != nil {
				return err
			}
			if !used[port] {
				used[port], others[n].Publish = true, port
			}
		}
	}
	return nil
}
