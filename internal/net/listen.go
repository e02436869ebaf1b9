package net

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Listens tells whether a process of the namespace listens at a TCP port. It
// asks the kernel's table: a connection would use up a server for one client.
func (n *Namespace) Listens(port int) (listens bool, err error) {
	err = n.Do(func() error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			sockets, err := netlink.SocketDiagTCP(family)
			if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
				return err
			}
			for _, s := range sockets {
				listens = listens || s.State == netlink.TCP_LISTEN && s.ID.SourcePort == uint16(port)
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("who listens at port %d: %w", port, err)
	}
	return listens, nil
}

// FreePort is a TCP port of the machine's own loopback that nobody listens at.
func FreePort() (port string, err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
