package net

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// bridge is a Linux bridge in a host's namespace, with an address of its own,
// which is its containers' gateway. Names are those of the CNI plugins: eth0 in
// the container, veth and a number on the host.
type bridge struct {
	host    *Namespace
	link    *netlink.Bridge
	network netip.Prefix
	number  int
	first   int // number of the first container's address
	ends    []*End
	mtu     int
	plug    func(bridge, namespace string, address netip.Prefix, gateway netip.Addr, mtu int) error // Options.Plug
}

// linkName is the container's side of every link; portPrefix begins the names of
// the host's sides.
const (
	linkName   = "eth0"
	portPrefix = "veth"
)

// newBridge makes the nth bridge of the laboratory; hosts that share a network
// give their bridges numbers that differ in first.
func (l *Lab) newBridge(host *Namespace, n, first int) (*bridge, error) {
	b := &bridge{host: host, number: n, network: l.subnet(n), first: first, mtu: l.options.MTU, plug: l.options.Plug,
		link: &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("tare%d", n)}}}
	b.link.HardwareAddr = hardware(Nth(b.network, first)) // else it is the least of its ports', and changes with them
	if err := host.nl.LinkAdd(b.link); err != nil {
		return nil, lacks("bridge", err)
	}
	err := host.address(b.link, nthPrefix(b.network, first))
	if err == nil {
		err = host.nl.LinkSetUp(b.link)
	}
	if err != nil {
		return nil, fmt.Errorf("set up the bridge: %w", err)
	}
	l.bridges = append(l.bridges, b)
	return b, nil
}

// attach joins an end to the bridge with the next address: by a veth pair, or,
// where it has no namespace of its own, by a tap device.
func (b *bridge) attach(e *End) error {
	e.bridge, e.Gateway = b, Nth(b.network, b.first)
	b.ends = append(b.ends, e)
	n := b.first + len(b.ends)
	if e.Namespace == nil {
		return b.tap(e, n)
	}
	return b.join(e, n)
}

// tap gives an end a tap device, which somebody else's machine opens by its name.
func (b *bridge) tap(e *End, n int) error {
	address := nthPrefix(b.network, n)
	e.Namespace, e.Address, e.Hardware, e.Tap = b.host, address, hardware(address.Addr()), fmt.Sprintf("tap%d.%d", b.number, n)
	link := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: e.Tap}, Mode: netlink.TUNTAP_MODE_TAP}
	err := b.host.Do(func() error { return netlink.LinkAdd(link) }) // a tap belongs to the namespace of who makes it
	if err != nil {
		return lacks("tap", err)
	}
	if err := b.host.nl.LinkSetMasterByIndex(link, b.link.Index); err != nil {
		return fmt.Errorf("%s into the bridge: %w", e.Tap, err)
	}
	if err := b.host.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", e.Tap, err)
	}
	return nil
}

// join gives an end its link, with the nth address.
func (b *bridge) join(e *End, n int) error {
	address := nthPrefix(b.network, n)
	if b.plug != nil {
		return b.plugged(e, address)
	}
	mac := hardware(address.Addr())
	err := b.host.veth(b.port(n), e.Namespace, linkName, mac, b.mtu, b.link.Index)
	if errors.Is(err, unix.EXFULL) {
		return &FullError{Containers: len(b.ends), Bridges: 1}
	}
	if err != nil {
		return err
	}
	return e.settle(mac, address)
}

// plugged has plugins join an end.
func (b *bridge) plugged(e *End, address netip.Prefix) error {
	gateway := e.Gateway
	if e.bystander {
		gateway = netip.Addr{}
	}
	err := b.host.Do(func() error { return b.plug(b.link.Name, e.Namespace.Path(), address, gateway, b.mtu) })
	if err != nil {
		return err
	}
	link, err := e.Namespace.nl.LinkByName(linkName)
	if err != nil {
		return fmt.Errorf("find %s: %w", linkName, err)
	}
	e.Link, e.Address, e.Hardware = linkName, address, link.Attrs().HardwareAddr
	return nil
}

// port names the host's side of the link to the nth address.
func (b *bridge) port(n int) string { return fmt.Sprintf("%s%d.%d", portPrefix, b.number, n) }

// settle gives an end's link its address, sets it up, and adds the default route.
func (e *End) settle(mac net.HardwareAddr, address netip.Prefix) error {
	e.Link, e.Address, e.Hardware = linkName, address, mac
	l, err := e.Namespace.nl.LinkByName(linkName)
	if err != nil {
		return fmt.Errorf("find %s: %w", linkName, err)
	}
	if err := e.Namespace.address(l, address); err != nil {
		return err
	}
	if err := e.Namespace.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", linkName, err)
	}
	if !e.Gateway.IsValid() || e.bystander {
		return nil
	}
	if err := e.Namespace.nl.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: e.Gateway.AsSlice()}); err != nil {
		return fmt.Errorf("default route: %w", err)
	}
	return nil
}

// veth makes a veth pair: name here, up and in the bridge master (0 for none),
// and peer in another namespace, with mac.
func (n *Namespace) veth(name string, other *Namespace, peer string, mac []byte, mtu, master int) error {
	link := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu, MasterIndex: master, Flags: net.FlagUp},
		PeerName:  peer, PeerNamespace: netlink.NsFd(other.fd), PeerHardwareAddr: mac,
	}
	if err := n.nl.LinkAdd(link); err != nil {
		return lacks("veth", err)
	}
	return nil
}

func (n *Namespace) address(l netlink.Link, p netip.Prefix) error {
	network := subnetOf(p)
	address := netlink.Addr{IPNet: &network}
	if p.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD // it would be of no use for a second or two
	}
	err := n.nl.AddrAdd(l, &address)
	if err != nil {
		return fmt.Errorf("address %s on %s: %w", p, l.Attrs().Name, err)
	}
	return nil
}

// hardware is a locally administered MAC that tells its address.
func hardware(a netip.Addr) net.HardwareAddr {
	b := a.As16()
	return append(net.HardwareAddr{0x02, 0x74}, b[12:]...)
}

// lacks says that a kind of link could not be made, and whether that is because
// the kernel has none.
func lacks(kind string, err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return &UnsupportedError{kind, err}
	}
	return fmt.Errorf("make a %s: %w", kind, err)
}

// Detach takes the client away from its bridge; Attach puts it back. The two are
// for measuring what attaching one more container costs.
func (l *Lab) Detach() error {
	if len(l.bridges) == 0 || l.Client.bridge == nil {
		return errors.New("the client is on no bridge")
	}
	b := l.bridges[0]
	link, err := b.host.nl.LinkByName(b.port(b.numberOf(l.Client)))
	if err == nil {
		err = b.host.nl.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return nil
}

// Attach joins the client, which was detached, to its bridge again.
func (l *Lab) Attach() error {
	b := l.bridges[0]
	return b.join(l.Client, b.numberOf(l.Client))
}

// numberOf is the number of an end's address.
func (b *bridge) numberOf(e *End) int { return b.first + 1 + slices.Index(b.ends, e) }
