package net

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Table says what the peers' neighbour tables hold from the beginning.
type Table string

// The contents of a neighbour table.
const (
	Empty     Table = "empty"     // nothing: the peers find each other by ARP
	Permanent Table = "permanent" // every container of the bridge, exempt from garbage collection
	Learned   Table = "learned"   // the same as if ARP had told: they count against the machine's limit
)

// OverflowError is that the kernel's one neighbour table is full.
type OverflowError struct {
	Entries int // that could be made
	Of      int
	IP      string // whose table it is: ipv4 or ipv6
	Kernel  string // what its log says of it; "" where nothing was found
}

func (e *OverflowError) Error() string {
	text := fmt.Sprintf("neighbour table overflow after %d of %d entries: the table is one for all namespaces of the machine, "+
		"and entries that were learned fill it up to net.%s.neigh.default.gc_thresh3; take fewer containers, permanent entries, or a higher limit (a level's neighbour-limit, for IPv4)",
		e.Entries, e.Of, e.IP)
	if e.Kernel != "" {
		text += "; the kernel's log says: " + e.Kernel
	}
	return text
}

// overflow is the error of a table that is full, with the kernel's own word: its
// message of the last minute (net/core/neighbour.c; it bounds how often it says so).
func (l *Lab) overflow(made, of int) error {
	e := &OverflowError{Entries: made, Of: of, IP: "ipv4"}
	if l.six() {
		e.IP = "ipv6"
	}
	log, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return e // who may not read the log does without
	}
	defer unix.Close(log) //nolint:errcheck // it was only read
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return e
	}
	record := make([]byte, 8<<10)
	for {
		n, err := unix.Read(log, record)
		if errors.Is(err, unix.EPIPE) {
			continue // the kernel has overwritten what was to be read next
		}
		if err != nil || n <= 0 {
			return e
		}
		// "6,1234,5678901,-;text": priority, number, microseconds (Documentation/ABI/testing/dev-kmsg).
		head, text, _ := strings.Cut(string(record[:n]), ";")
		text, _, _ = strings.Cut(text, "\n")
		fields := strings.Split(head, ",")
		if len(fields) < 3 || !strings.Contains(text, "table overflow") {
			continue
		}
		if at, err := strconv.ParseInt(fields[2], 10, 64); err == nil && now.Sec-at/1e6 < 60 {
			e.Kernel = text
		}
	}
}

// fillTables fills the peers' tables with each other and with all others of
// their bridge.
func (l *Lab) fillTables() error {
	if l.options.Neighbours == "" || l.options.Neighbours == Empty || len(l.bridges) == 0 {
		return nil
	}
	state := netlink.NUD_PERMANENT
	if l.options.Neighbours == Learned {
		state = netlink.NUD_STALE
	}
	for _, peer := range []*End{l.Client, l.Server} {
		if peer.Link == "" {
			continue // a guest's own
		}
		if err := l.fill(peer, state); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) fill(peer *End, state int) error {
	link, err := peer.Namespace.nl.LinkByName(peer.Link)
	if err != nil {
		return fmt.Errorf("find %s: %w", peer.Link, err)
	}
	others := l.neighboursOf(peer)
	for made, other := range others {
		err := peer.Namespace.neighbour(link, other.Address.Addr(), other.Hardware, state)
		if errors.Is(err, unix.ENOBUFS) {
			return l.overflow(made, len(others))
		}
		if err != nil {
			return fmt.Errorf("neighbour entry %d of %d: %w", made+1, len(others), err)
		}
	}
	held, err := peer.Namespace.countNeighbours()
	if err == nil && held < len(others) {
		return l.overflow(held, len(others))
	}
	return err
}

// neighbour makes an entry. Nothing changes or collects one that is permanent.
func (n *Namespace) neighbour(link netlink.Link, address netip.Addr, mac net.HardwareAddr, state int) error {
	return n.nl.NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, Family: family(address), State: state,
		IP: address.AsSlice(), HardwareAddr: mac})
}

// neighboursOf are all others in the same network; behind a tunnel they are on
// both bridges.
func (l *Lab) neighboursOf(peer *End) []*End {
	var others []*End
	for _, b := range l.bridges {
		if !b.network.Contains(peer.Address.Addr()) {
			continue
		}
		for _, e := range b.ends {
			if e != peer {
				others = append(others, e)
			}
		}
	}
	return others
}

// Neighbours counts as countNeighbours does, in the namespace at a path.
func Neighbours(path string) (int, error) {
	n, err := namespaceAt(path)
	if err != nil {
		return 0, err
	}
	defer n.close()
	if n.nl, err = netlink.NewHandleAt(n.fd, unix.NETLINK_ROUTE); err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", path, err)
	}
	return n.countNeighbours()
}

// countNeighbours reads back how many other machines the namespace's neighbour tables
// know the hardware address of, apart from addresses that links give themselves.
func (n *Namespace) countNeighbours() (int, error) {
	entries, err := n.nl.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return 0, fmt.Errorf("read the neighbour tables: %w", err)
	}
	count := 0
	for _, e := range entries {
		known := e.State&(netlink.NUD_PERMANENT|netlink.NUD_REACHABLE|netlink.NUD_STALE|netlink.NUD_DELAY|netlink.NUD_PROBE) != 0
		if known && !e.IP.IsLinkLocalUnicast() && len(bytes.Trim(e.HardwareAddr, "\x00")) > 0 {
			count++
		}
	}
	return count, nil
}
