package net

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
)

// leaseTime is longer than any machine runs: none of them renews its lease.
const leaseTime = 24 * time.Hour

// Lease answers DHCP on the end's bridge, until the result is closed: a machine behind the
// end's tap gets the end's address and its default route as it would on a network of its
// user's. Whoever else asks is not answered. It is of IPv4.
func (e *End) Lease() (io.Closer, error) {
	var s *server4.Server
	err := e.bridge.host.Do(func() (err error) {
		s, err = server4.NewServer(e.bridge.link.Name, &net.UDPAddr{IP: net.IPv4zero, Port: dhcpv4.ServerPort}, e.answer)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("DHCP on the bridge %s: %w", e.bridge.link.Name, err)
	}
	go func() { _ = s.Serve() }() // ends with the socket
	return s, nil
}

// answer replies to one message.
func (e *End) answer(conn net.PacketConn, to net.Addr, asked *dhcpv4.DHCPv4) {
	kind, ok := map[dhcpv4.MessageType]dhcpv4.MessageType{
		dhcpv4.MessageTypeDiscover: dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeRequest: dhcpv4.MessageTypeAck,
	}[asked.MessageType()]
	if !ok || asked.ClientHWAddr.String() != e.Hardware.String() {
		return
	}
	gateway := net.IP(e.Gateway.AsSlice())
	reply, err := dhcpv4.NewReplyFromRequest(asked,
		dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(e.Address.Addr().AsSlice()), dhcpv4.WithServerIP(gateway),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(gateway)), dhcpv4.WithRouter(gateway),
		dhcpv4.WithNetmask(net.CIDRMask(e.Address.Bits(), e.Address.Addr().BitLen())),
		dhcpv4.WithLeaseTime(uint32(leaseTime.Seconds())))
	if err == nil {
		_, _ = conn.WriteTo(reply.ToBytes(), to) // a client that hears nothing asks again
	}
}
