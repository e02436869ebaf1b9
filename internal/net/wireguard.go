package net

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Tunnel is this machine's end of a WireGuard tunnel, and what it has to know of the
// other end.
type Tunnel struct {
	Private wgtypes.Key // never leaves this machine
	Public  wgtypes.Key // the other end's
	// Port is the other end's UDP port. It is 0 where that end begins: this one learns
	// where it is from its first packet.
	Port int
}

// wireguardHeader is what WireGuard adds to a packet over IPv6: 40 + 8 + 16, and a tag of
// 16. Over IPv4 it is 20 less. wg-quick(8) leaves as much room over both, and so do the
// tunnels that people have.
const wireguardHeader = 80

// buildRemoteWireGuard makes a bridge with this machine's end, and routes to the other
// machine's bridge through a tunnel. As with a VXLAN, the tunnel's packets travel in the
// network that it is born in, and it lives in the bridge's namespace.
func (l *Lab) buildRemoteWireGuard() error {
	m := l.options.Machines
	here, there := 0, 1
	if m.Server {
		here, there = there, here
	}
	b, err := l.behindTunnel(wireguardHeader, here, 1)
	if err != nil {
		return err
	}
	attrs := netlink.LinkAttrs{Name: m.link(), MTU: b.mtu, Namespace: netlink.NsFd(b.host.fd)}
	if err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs}); err != nil {
		return lacks("wireguard", err)
	}
	link, err := b.host.nl.LinkByName(attrs.Name)
	if err != nil {
		return fmt.Errorf("find the tunnel: %w", err)
	}
	network := subnetOf(l.subnet(there))
	err = b.host.wireguard(func(c *wgctrl.Client) error {
		return c.ConfigureDevice(attrs.Name, m.Tunnel.config(m.There, network))
	})
	if err == nil {
		err = b.host.nl.LinkSetUp(link)
	}
	if err == nil {
		err = b.host.nl.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &network, Scope: netlink.SCOPE_LINK})
	}
	if err == nil {
		err = b.host.wireguard(func(c *wgctrl.Client) error {
			device, err := c.Device(attrs.Name)
			if err == nil {
				l.TunnelPort = device.ListenPort
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("the tunnel between the bridges: %w", err)
	}
	l.Dial = Nth(l.subnet(1), 2)
	return nil
}

// config has one peer: the other end, through which a network is reached.
func (t *Tunnel) config(there netip.Addr, network net.IPNet) wgtypes.Config {
	other := wgtypes.PeerConfig{PublicKey: t.Public, AllowedIPs: []net.IPNet{network}}
	if t.Port != 0 {
		other.Endpoint = net.UDPAddrFromAddrPort(netip.AddrPortFrom(there, uint16(t.Port)))
	}
	return wgtypes.Config{PrivateKey: &t.Private, Peers: []wgtypes.PeerConfig{other}}
}

// wireguard talks to the kernel about the namespace's tunnels.
func (n *Namespace) wireguard(f func(*wgctrl.Client) error) error {
	return n.Do(func() error {
		c, err := wgctrl.New()
		if err != nil {
			return err
		}
		return errors.Join(f(c), c.Close())
	})
}

// subnetOf is a network, with the address in it, as the standard library's older types
// have it.
func subnetOf(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
