package net

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// uplink is the name of a host's link to the world outside of its bridges.
const uplink = "uplink"

func (l *Lab) buildHostNetwork() error {
	e, err := l.container()
	if err != nil {
		return err
	}
	e.Link, e.Address = "lo", netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 8)
	if l.six() {
		e.Address = netip.PrefixFrom(netip.IPv6Loopback(), 128)
	}
	l.Client, l.Server, l.Dial = e, e, e.Address.Addr()
	return nil
}

// peers makes the namespaces of the two ends, where they have some of their own.
func (l *Lab) peers() (err error) {
	if l.options.Taps {
		l.Client, l.Server = &End{}, &End{}
		return nil
	}
	if l.Client, err = l.container(); err == nil {
		l.Server, err = l.container()
	}
	return err
}

func (l *Lab) buildVeth() error {
	if err := l.peers(); err != nil {
		return err
	}
	network := l.subnet(0)
	client, server := nthPrefix(network, 1), nthPrefix(network, 2)
	mac := hardware(server.Addr())
	if err := l.Client.Namespace.veth(linkName, l.Server.Namespace, linkName, mac, l.options.MTU, 0); err != nil {
		return err
	}
	link, err := l.Client.Namespace.nl.LinkByName(linkName)
	if err != nil {
		return err
	}
	if err := l.Client.settle(link.Attrs().HardwareAddr, client); err != nil {
		return err
	}
	l.Dial = server.Addr()
	return l.Server.settle(mac, server)
}

// host makes a namespace that stands for a host's: it routes, and leaves bridged
// packets alone.
func (l *Lab) host() (*Namespace, error) {
	n, err := l.namespace()
	if err != nil {
		return nil, err
	}
	forwarding := "ipv4/ip_forward"
	if l.six() {
		forwarding = "ipv6/conf/all/forwarding"
	}
	if err := n.Sysctl(forwarding, "1"); err != nil {
		return nil, err
	}
	return n, l.bridgeNetfilter(n, "0")
}

// twoOn attaches the two ends to bridges.
func (l *Lab) twoOn(client, server *bridge) error {
	if err := l.peers(); err != nil {
		return err
	}
	if l.options.ClientOnHost {
		l.Client = &End{Namespace: client.host, Link: client.link.Name, Hardware: client.link.HardwareAddr,
			Address: nthPrefix(client.network, client.first)}
	} else if err := client.attach(l.Client); err != nil {
		return err
	}
	if err := server.attach(l.Server); err != nil {
		return err
	}
	l.Dial = l.Server.Address.Addr()
	return nil
}

func (l *Lab) buildBridge() error {
	host, err := l.host()
	if err != nil {
		return err
	}
	b, err := l.newBridge(host, 0, 1)
	if err != nil {
		return err
	}
	return l.twoOn(b, b)
}

func (l *Lab) buildNetfilter() error {
	if err := l.buildBridge(); err != nil {
		return err
	}
	host := l.bridges[0].host
	if err := l.bridgeNetfilter(host, "1"); err != nil {
		return err
	}
	return host.forwardRules(l.tableFamily())
}

func (l *Lab) buildBridges() error {
	host, err := l.host()
	if err != nil {
		return err
	}
	client, err := l.newBridge(host, 0, 1)
	if err != nil {
		return err
	}
	server, err := l.newBridge(host, 1, 1)
	if err != nil {
		return err
	}
	return l.twoOn(client, server)
}

// onServer is the number that the second of two hosts of one network begins at.
const onServer = 2049

// vxlanHeader is what VXLAN adds to a frame, between machines with addresses like one
// (RFC 7348): 14 + 20 + 8 + 8 bytes over IPv4, and 20 more over IPv6.
func vxlanHeader(outer netip.Addr) int {
	if outer.Is6() {
		return 70
	}
	return 50
}

// leastMTU6 is the least that a link with IPv6 takes (RFC 8200, section 5).
const leastMTU6 = 1280

// leave sets the MTU that a tunnel leaves.
func (l *Lab) leave(mtu int) error {
	if l.six() && mtu < leastMTU6 {
		return &UnsupportedError{"IPv6", fmt.Errorf("the tunnel leaves packets of %d bytes, and they take %d", mtu, leastMTU6)}
	}
	l.options.MTU = mtu
	return nil
}

func (l *Lab) buildVXLAN() error {
	var hosts [2]*Namespace
	for i := range hosts {
		var err error
		if hosts[i], err = l.host(); err != nil {
			return err
		}
	}
	if err := hosts[0].veth(uplink, hosts[1], uplink, nil, l.options.MTU, 0); err != nil {
		return err
	}
	outer := l.options.MTU
	if outer == 0 {
		outer = 1500
	}
	if err := l.leave(outer - vxlanHeader(l.prefix.Addr())); err != nil {
		return err
	}
	var bridges [2]*bridge
	for i, first := range []int{1, onServer} {
		var err error
		if bridges[i], err = l.newBridge(hosts[i], 0, first); err != nil {
			return err
		}
	}
	wire := l.subnet(3)
	for i, b := range bridges {
		if err := b.tunnel(nthPrefix(wire, 1+i), Nth(wire, 2-i)); err != nil {
			return err
		}
	}
	return l.twoOn(bridges[0], bridges[1])
}

// tunnel joins a bridge to another host's through the host's uplink, which gets
// the address local.
func (b *bridge) tunnel(local netip.Prefix, remote netip.Addr) error {
	up, err := b.host.nl.LinkByName(uplink)
	if err != nil {
		return err
	}
	if err := b.host.address(up, local); err != nil {
		return err
	}
	if err := b.host.nl.LinkSetUp(up); err != nil {
		return err
	}
	link := &netlink.Vxlan{
		LinkAttrs: netlink.LinkAttrs{Name: "vxlan0", MTU: b.mtu, MasterIndex: b.link.Index},
		VxlanId:   1, VtepDevIndex: up.Attrs().Index, SrcAddr: local.Addr().AsSlice(), Group: remote.AsSlice(), Port: 4789, Learning: true,
	}
	if err := b.host.nl.LinkAdd(link); err != nil {
		return lacks("vxlan", err)
	}
	return b.host.nl.LinkSetUp(link)
}

// buildNAT publishes the server at its gateway's address, as an engine does for a
// client in another container of the same bridge.
func (l *Lab) buildNAT() error {
	if err := l.buildBridge(); err != nil {
		return err
	}
	l.Dial = l.Server.Gateway
	return l.bridges[0].host.publish(l.tableFamily(), l.Dial, l.Server.Address.Addr())
}

func (l *Lab) buildProxy() error {
	if err := l.buildBridge(); err != nil {
		return err
	}
	l.Dial, l.Relay = l.Server.Gateway, l.bridges[0].host
	return nil
}

func (l *Lab) buildMACVLAN() error { return l.onParent("macvlan", macvlan) }

func (l *Lab) buildIPVLAN() error { return l.onParent("ipvlan", ipvlan) }

func macvlan(a netlink.LinkAttrs) netlink.Link {
	return &netlink.Macvlan{LinkAttrs: a, Mode: netlink.MACVLAN_MODE_BRIDGE}
}

func ipvlan(a netlink.LinkAttrs) netlink.Link {
	return &netlink.IPVlan{LinkAttrs: a, Mode: netlink.IPVLAN_MODE_L2}
}

// onParent gives each end a link of a kind that shares one parent, which leads
// nowhere.
func (l *Lab) onParent(kind string, make func(netlink.LinkAttrs) netlink.Link) error {
	host, err := l.namespace()
	if err != nil {
		return err
	}
	if err := host.veth(uplink, host, "nowhere", nil, l.options.MTU, 0); err != nil {
		return err
	}
	if err := host.up("nowhere"); err != nil { // a parent without a carrier carries nothing
		return err
	}
	parent, err := host.nl.LinkByName(uplink)
	if err != nil {
		return err
	}
	if err := l.peers(); err != nil {
		return err
	}
	for i, e := range []*End{l.Client, l.Server} {
		attrs := netlink.LinkAttrs{Name: linkName, ParentIndex: parent.Attrs().Index, MTU: l.options.MTU, Namespace: netlink.NsFd(e.Namespace.fd)}
		if err := host.nl.LinkAdd(make(attrs)); err != nil {
			return lacks(kind, err)
		}
		link, err := e.Namespace.nl.LinkByName(linkName)
		if err != nil {
			return fmt.Errorf("find %s: %w", linkName, err)
		}
		if err := e.settle(link.Attrs().HardwareAddr, nthPrefix(l.subnet(0), 1+i)); err != nil {
			return err
		}
	}
	l.Dial = l.Server.Address.Addr()
	return nil
}
