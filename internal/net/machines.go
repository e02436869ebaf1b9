package net

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The paths between two machines. Of each, a laboratory builds the half that is on this
// one.
const (
	Remote          Path = "remote"           // both in their machines' own networks
	RemoteVXLAN     Path = "remote-vxlan"     // a bridge on each machine, joined by a VXLAN
	RemoteWireGuard Path = "remote-wireguard" // a bridge on each machine, routed through WireGuard
	RemoteMACVLAN   Path = "remote-macvlan"   // a macvlan link each on the machines' network devices
	RemoteIPVLAN    Path = "remote-ipvlan"    // an ipvlan link each, in L2 mode
	RemoteCNI       Path = "remote-cni"       // a namespace each, which the caller puts on the machines' own networks
)

// RemotePaths are those between two machines.
func RemotePaths() []Path {
	return []Path{Remote, RemoteVXLAN, RemoteWireGuard, RemoteMACVLAN, RemoteIPVLAN, RemoteCNI}
}

// Machines are the two that a path is between.
type Machines struct {
	Here, There netip.Addr // by which they reach each other
	Number      uint32     // of the network that both share: 24 bits, above 0
	Server      bool       // this machine has the server, the other one the client
	Tunnel      *Tunnel    // of RemoteWireGuard; nil on other paths
}

// link is a name that no device of the machine has: older kernels (5.10 is one) refuse a
// link for another namespace whose name is taken in the maker's.
func (m *Machines) link() string { return fmt.Sprintf("tare%06x", m.Number) }

// first is the number that a machine's addresses begin at: both share one network.
func (m *Machines) first() int {
	if m.Server {
		return onServer
	}
	return 1
}

// device is the network device that has this machine's address.
func (m *Machines) device() (netlink.Link, error) {
	addresses, err := netlink.AddrList(nil, family(m.Here))
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("this machine's addresses: %w", err)
	}
	for _, a := range addresses {
		if found, ok := netip.AddrFromSlice(a.IP); ok && found.Unmap() == m.Here {
			return netlink.LinkByIndex(a.LinkIndex)
		}
	}
	return nil, fmt.Errorf("no network device of this machine has the address %s, at which the other one reaches it", m.Here)
}

// buildRemoteVXLAN makes a bridge with this machine's end, and a tunnel to the other
// machine's bridge. The tunnel is born in the machine's own network, where its packets
// travel, and lives in the bridge's namespace: it goes with that, also after a kill.
func (l *Lab) buildRemoteVXLAN() error {
	m := l.options.Machines
	b, err := l.behindTunnel(vxlanHeader(m.Here), 0, m.first())
	if err != nil {
		return err
	}
	attrs := netlink.LinkAttrs{Name: m.link(), MTU: b.mtu, Namespace: netlink.NsFd(b.host.fd)}
	err = netlink.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: int(m.Number), SrcAddr: m.Here.AsSlice(), Group: m.There.AsSlice(), Port: 4789, Learning: true})
	if err != nil {
		return lacks("vxlan", err)
	}
	link, err := b.host.nl.LinkByName(attrs.Name)
	if err == nil {
		err = b.host.nl.LinkSetMasterByIndex(link, b.link.Index)
	}
	if err == nil {
		err = b.host.nl.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("the tunnel into the bridge: %w", err)
	}
	l.Dial = Nth(l.subnet(0), onServer+1)
	return nil
}

// behindTunnel makes the nth bridge with this machine's end, whose address is the one
// after first. Packets of the bridge are so small that a tunnel to the other machine can
// add its header.
func (l *Lab) behindTunnel(header, n, first int) (*bridge, error) {
	device, err := l.options.Machines.device()
	if err != nil {
		return nil, err
	}
	outer := device.Attrs().MTU
	if l.options.MTU > 0 {
		outer = min(outer, l.options.MTU)
	}
	if err := l.leave(outer - header); err != nil {
		return nil, err
	}
	host, err := l.host()
	if err != nil {
		return nil, err
	}
	b, err := l.newBridge(host, n, first)
	if err != nil {
		return nil, err
	}
	own := &End{}
	if !l.options.Taps {
		if own, err = l.container(); err != nil {
			return nil, err
		}
	}
	l.own(own)
	return b, b.attach(own)
}

func (l *Lab) buildRemoteCNI() error {
	own, err := l.container()
	l.own(own)
	return err
}

// Own is the end that this machine has of a path between two.
func (l *Lab) Own() *End {
	if l.options.Machines.Server {
		return l.Server
	}
	return l.Client
}

// own makes an end the one that this machine has.
func (l *Lab) own(e *End) {
	if l.options.Machines.Server {
		l.Server = e
	} else {
		l.Client = e
	}
}

func (l *Lab) buildRemoteMACVLAN() error {
	return l.onDevice("macvlan", macvlan)
}

func (l *Lab) buildRemoteIPVLAN() error {
	return l.onDevice("ipvlan", ipvlan)
}

// onDevice gives this machine's end a link of a kind on the device that leads to the
// other machine.
func (l *Lab) onDevice(kind string, make func(netlink.LinkAttrs) netlink.Link) error {
	m := l.options.Machines
	device, err := m.device()
	if err != nil {
		return err
	}
	own, err := l.container()
	if err != nil {
		return err
	}
	l.own(own)
	attrs := netlink.LinkAttrs{Name: m.link(), ParentIndex: device.Attrs().Index, Namespace: netlink.NsFd(own.Namespace.fd)}
	if l.options.MTU > 0 {
		attrs.MTU = min(l.options.MTU, device.Attrs().MTU)
	}
	err = addOnDevice(make(attrs))
	if errors.Is(err, unix.EBUSY) {
		return &UnsupportedError{kind, fmt.Errorf("%s has links of another kind, or is in a bridge: %w", device.Attrs().Name, err)}
	}
	if err != nil {
		return lacks(kind, err)
	}
	l.outside = append(l.outside, own.Namespace)
	link, err := own.Namespace.nl.LinkByName(attrs.Name)
	if err == nil {
		err = own.Namespace.nl.LinkSetName(link, linkName)
	}
	if err != nil {
		return fmt.Errorf("name %s: %w", linkName, err)
	}
	l.Dial = Nth(l.subnet(0), onServer+1)
	return own.settle(link.Attrs().HardwareAddr, nthPrefix(l.subnet(0), m.first()+1))
}

// addOnDevice adds a link on a device, which takes macvlan or ipvlan links and not both.
// Those of a process that was killed may still be there: the kernel takes them away some
// time after it.
func addOnDevice(link netlink.Link) error {
	deadline := time.After(heldFor)
	for {
		err := netlink.LinkAdd(link)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-deadline:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
