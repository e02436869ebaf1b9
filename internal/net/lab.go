package net

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Path names how two ends are joined.
type Path string

// The paths that a laboratory builds, the shortest first.
const (
	HostNetwork Path = "host-network"     // both in one namespace that stands for the host's, over its loopback
	Veth        Path = "veth"             // one veth pair between the two
	Bridge      Path = "bridge"           // two veth pairs and a bridge
	CNI         Path = "cni"              // a bridge that CNI's plugins attach the two to
	Netfilter   Path = "bridge-netfilter" // the same as bridge, and bridged packets pass an engine's forward rules
	Bridges     Path = "bridges"          // two bridges on one host, which routes between them
	VXLAN       Path = "vxlan"            // a bridge each on two hosts, joined by a VXLAN over a link
	NAT         Path = "nat"              // the server's port, published on the host: DNAT and masquerade
	Proxy       Path = "proxy"            // the server's port, published by a process that copies
	MACVLAN     Path = "macvlan"          // two macvlan links in bridge mode over one parent
	IPVLAN      Path = "ipvlan"           // two ipvlan links in L2 mode over one parent
)

// Paths are all of them.
func Paths() []Path {
	return []Path{HostNetwork, Veth, Bridge, CNI, Netfilter, Bridges, VXLAN, NAT, Proxy, MACVLAN, IPVLAN}
}

// maxPorts is how many links one Linux bridge takes (BR_MAX_PORTS less the
// invalid port 0, net/bridge/br_private.h).
const maxPorts = 1023

// Options say what stands in a laboratory.
type Options struct {
	Path       Path
	Containers int     // on the bridges in all, the two peers among them; at least 2
	Neighbours Table   // what the peers' neighbour tables hold from the beginning
	Occupied   bool    // the others are places for processes: with a default route, and listed in Others
	Chatter    bool    // the others send a little, ten datagrams a second each
	MTU        int     // of every link between the ends; 0 leaves the kernel's
	Offload    Offload // of every link
	Rules      int     // of a policy on the bridges' hosts
	Qdisc      string  // queueing discipline of every link; "" leaves the kernel's
	RPS        bool    // every link hands what it receives to all CPUs (receive packet steering)
	Range      string  // addresses; "" for defaultRange. Those of IPv6 make a laboratory without IPv4
	// Taps: the two ends are tap devices on the bridges, for machines that run in
	// their host's namespace.
	Taps bool
	// ClientOnHost: the client is the first bridge's host itself.
	ClientOnHost bool
	// Plug attaches a namespace, which a path leads to, to a bridge of the namespace that
	// it is called in, with an address and a default route by the gateway (none where it
	// is invalid). Of the path CNI alone.
	Plug func(bridge, namespace string, address netip.Prefix, gateway netip.Addr, mtu int) error
	// Machines are those that a path between two is between, of which this one's half is
	// built; nil for other paths.
	Machines *Machines
}

// defaultRange holds the addresses of a laboratory. They are seen by nobody
// outside; one that the machine routes too would only confuse who looks.
const defaultRange = "10.213.0.0/16"

// End is a place where a process can run.
type End struct {
	Namespace *Namespace
	Address   netip.Prefix     // of the end itself, with its network's length
	Link      string           // that has the address; "" where a guest has it
	Tap       string           // the guest's link on its host, Namespace; "" for none
	Hardware  net.HardwareAddr // of the end's link
	Gateway   netip.Addr       // of the default route; invalid where there is none
	bridge    *bridge          // that it is attached to; nil for none
	bystander bool             // it sends nothing beyond its bridge
}

// Lab is a network that was built for one trial. Its methods are not safe for
// concurrent use.
type Lab struct {
	Client, Server *End       // of a path between two machines, the one that is on this machine
	Others         []*End     // where they are places for processes, in the order of the bridges they were dealt to
	Dial           netip.Addr // where the client finds the server
	Relay          *Namespace // where a proxy must run that listens at Dial; nil for none
	TunnelPort     int        // UDP port of this machine's end of a WireGuard tunnel; 0 for none

	options Options
	prefix  netip.Prefix
	maker   *maker
	all     []*Namespace
	bridges []*bridge
	outside []*Namespace // with a link on a device of the machine's own
	chatter *chatter
}

// Build makes a laboratory. The error of a path that this kernel lacks is an
// *UnsupportedError. Close must follow, also after an error of Attach.
func Build(ctx context.Context, o Options) (*Lab, error) {
	o.Containers = max(2, o.Containers)
	if err := Takes(o.Path, o.Containers); err != nil {
		return nil, err
	}
	build, ok := builders[o.Path]
	if !ok {
		return nil, fmt.Errorf("unknown path %q: there are %v", o.Path, Paths())
	}
	prefix, err := Unused(o.Range)
	if err != nil {
		return nil, err
	}
	l := &Lab{options: o, prefix: prefix, maker: newMaker()}
	l.maker.six = l.six()
	err = build(l)
	if err == nil {
		err = l.tune() // before there are others: what it sees lies between the ends
	}
	if err == nil {
		err = l.policy()
	}
	if err == nil {
		err = l.others(ctx)
	}
	if err == nil {
		err = l.fillTables()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("network for the path %s: %w", o.Path, err), l.Close())
	}
	return l, nil
}

// six reports whether the laboratory is of IPv6.
func (l *Lab) six() bool { return l.prefix.Addr().Is6() }

// builders make the two ends of each path and what lies between.
var builders = map[Path]func(*Lab) error{
	HostNetwork: (*Lab).buildHostNetwork,
	Veth:        (*Lab).buildVeth,
	Bridge:      (*Lab).buildBridge,
	CNI:         (*Lab).buildBridge,
	Netfilter:   (*Lab).buildNetfilter,
	Bridges:     (*Lab).buildBridges,
	VXLAN:       (*Lab).buildVXLAN,
	NAT:         (*Lab).buildNAT,
	Proxy:       (*Lab).buildProxy,
	MACVLAN:     (*Lab).buildMACVLAN,
	IPVLAN:      (*Lab).buildIPVLAN,

	RemoteVXLAN:     (*Lab).buildRemoteVXLAN,
	RemoteWireGuard: (*Lab).buildRemoteWireGuard,
	RemoteMACVLAN:   (*Lab).buildRemoteMACVLAN,
	RemoteIPVLAN:    (*Lab).buildRemoteIPVLAN,
	RemoteCNI:       (*Lab).buildRemoteCNI,
}

// namespace makes a namespace that Close removes.
func (l *Lab) namespace() (*Namespace, error) {
	n, err := l.maker.namespace()
	if err == nil {
		l.all = append(l.all, n)
	}
	return n, err
}

// others attaches the containers that do not talk to each other, dealt out over
// the bridges. Their namespaces are made by one thread while another attaches those
// that are there.
func (l *Lab) others(ctx context.Context) error {
	count := l.options.Containers - 2
	type made struct {
		*Namespace
		err error
	}
	ready, stop := make(chan made, 16), make(chan struct{})
	go func() {
		defer close(ready)
		for range count {
			n, err := l.maker.namespace()
			select {
			case ready <- made{n, err}:
			case <-stop:
				n.close()
				return
			}
		}
	}()
	defer func() {
		close(stop)
		for m := range ready {
			m.close()
		}
	}()
	for i := range count {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := <-ready
		err := n.err
		if err == nil {
			l.all = append(l.all, n.Namespace)
			other := &End{Namespace: n.Namespace, bystander: !l.options.Occupied}
			if err = l.bridges[i%len(l.bridges)].attach(other); l.options.Occupied {
				l.Others = append(l.Others, other)
			}
		}
		if err != nil {
			return fmt.Errorf("attach container %d of %d: %w", i+3, l.options.Containers, err)
		}
	}
	if l.options.Chatter && count > 0 {
		return l.startChatter()
	}
	return nil
}

// Takes says why a path cannot have so many containers attached: a FullError
// where its bridges are full, another where it has none; nil where it can.
func Takes(p Path, containers int) error {
	bridges := 1
	switch p {
	case Bridges, VXLAN:
		bridges = 2
	case HostNetwork, Veth, MACVLAN, IPVLAN:
		bridges = 0
	}
	if slices.Contains(RemotePaths(), p) && containers > 2 {
		return fmt.Errorf("the path %s takes its two ends alone, not %d containers", p, containers)
	}
	// A link each of the tunnel's two bridges leads to the other.
	most := bridges * maxPorts
	if p == VXLAN {
		most -= 2
	}
	switch {
	case containers <= 2 || bridges > 0 && containers <= most:
		return nil
	case bridges == 0:
		return fmt.Errorf("the path %s has no bridge: it takes its two ends alone, not %d containers", p, containers)
	}
	return &FullError{Containers: containers, Bridges: bridges}
}

// container makes a namespace for an end.
func (l *Lab) container() (*End, error) {
	n, err := l.namespace()
	return &End{Namespace: n}, err
}

// FullError is that one bridge takes no more containers.
type FullError struct{ Containers, Bridges int }

func (e *FullError) Error() string {
	if e.Bridges > 1 {
		return fmt.Sprintf("%d containers do not fit on %d Linux bridges: one takes %d links; take fewer", e.Containers, e.Bridges, maxPorts)
	}
	return fmt.Sprintf("%d containers do not fit on one Linux bridge: one takes %d links; take fewer, or the path %s, which has two bridges",
		e.Containers, maxPorts, Bridges)
}

// UnsupportedError is a kind of link that cannot be made here.
type UnsupportedError struct {
	Kind string
	Err  error
}

func (e *UnsupportedError) Error() string {
	if errors.Is(e.Err, unix.EBUSY) {
		return fmt.Sprintf("no %s link can be made: %v", e.Kind, e.Err)
	}
	return fmt.Sprintf("this kernel has no %s links: %v", e.Kind, e.Err)
}

// Unwrap gives the cause.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// subnets counts those that were given out by Subnet.
var subnets atomic.Uint32

// Subnet is the next part of a range ("" for defaultRange), which must be unused
// on this machine, for who makes a network of his own. Several may be in use at
// once, as many as the range has parts.
func Subnet(of string) (netip.Prefix, error) {
	prefix, err := Unused(of)
	if err != nil {
		return prefix, err
	}
	counted := max(prefix.Bits()-(prefix.Addr().BitLen()-32), 0) // of the last 32 bits, as Nth has it
	return part(prefix, int(subnets.Add(1)-1)%(1<<(partBits-counted))), nil
}

// IsIPv6 reports whether a range is of IPv6. defaultRange, which "" stands for, is not.
func IsIPv6(text string) bool {
	prefix, err := netip.ParsePrefix(text)
	return err == nil && prefix.Addr().Is6()
}

// Unused is a range ("" for defaultRange) of which the machine itself neither has
// nor routes an address.
func Unused(text string) (netip.Prefix, error) {
	if text == "" {
		text = defaultRange
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().BitLen()-prefix.Bits() < 14 || prefix != prefix.Masked() {
		return prefix, fmt.Errorf("%q is not a range for a laboratory: write a network of at least 16384 addresses, as %s or fd74:6172:6500::/112", text, defaultRange)
	}
	routes, err := netlink.RouteListFiltered(family(prefix.Addr()), &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE) // of all tables
	if err != nil {
		return prefix, fmt.Errorf("read the machine's routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		addr, _ := netip.AddrFromSlice(r.Dst.IP)
		addr = addr.Unmap()
		ones, _ := r.Dst.Mask.Size()
		if used := netip.PrefixFrom(addr, ones); ones > 0 && used.Overlaps(prefix) {
			return prefix, fmt.Errorf("the address range %s is in use: this machine has a route to %s; choose another", prefix, used)
		}
	}
	return prefix, nil
}

// subnet is the nth part of the range.
func (l *Lab) subnet(n int) netip.Prefix { return part(l.prefix, n) }

// partBits is the length of a part's prefix in IPv4: room for 4094 ends.
const partBits = 20

func part(of netip.Prefix, n int) netip.Prefix {
	return netip.PrefixFrom(Nth(of, n<<(32-partBits)), of.Addr().BitLen()-32+partBits)
}

// Nth is the nth address of a network, of which the last 32 bits are counted.
func Nth(p netip.Prefix, n int) netip.Addr {
	a := p.Addr().As16() // an IPv4 address stands at the end
	last := a[len(a)-4:]
	binary.BigEndian.PutUint32(last, binary.BigEndian.Uint32(last)+uint32(n))
	if p.Addr().Is4() {
		return netip.AddrFrom16(a).Unmap()
	}
	return netip.AddrFrom16(a)
}

// nthPrefix is the nth address of a network, with the network's length.
func nthPrefix(p netip.Prefix, n int) netip.Prefix { return netip.PrefixFrom(Nth(p, n), p.Bits()) }

// family is an address's, as netlink numbers it.
func family(a netip.Addr) int {
	if a.Is6() {
		return netlink.FAMILY_V6
	}
	return netlink.FAMILY_V4
}

// Describe is the state of both ends, for who wonders why they do not meet.
func (l *Lab) Describe() string {
	var lines []string
	for _, e := range []struct {
		name string
		*End
	}{{"client", l.Client}, {"server", l.Server}} {
		if e.End == nil {
			continue
		}
		links, err := e.Namespace.nl.LinkList()
		if err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", e.name, err))
			continue
		}
		var states []string
		for _, link := range links {
			a := link.Attrs()
			states = append(states, fmt.Sprintf("%s %s", a.Name, a.OperState))
		}
		slices.Sort(states)
		lines = append(lines, fmt.Sprintf("%s has %s (%s)", e.name, e.Address, strings.Join(states, ", ")))
	}
	return strings.Join(lines, "; ")
}
