package net

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// goneWithin bounds the kernel's own work after a laboratory was given up. It takes
// network namespaces away one after the other for the whole machine: those of
// others that stand before take their time.
const goneWithin = time.Minute

// heldFor is how long the kernel may take before links are taken away by name. One was
// seen to stay for more than a minute. What can hold it is a connection whose last
// words find no peer any more: its namespace stays, with the links in it, until the
// kernel has tried them eight times (tcp_orphan_retries in
// Documentation/networking/ip-sysctl.rst).
var heldFor = 10 * time.Second

// Close takes the laboratory away and waits until the kernel has done so too:
// what it still tears down would disturb who measures next. It is idempotent.
// What ran in the namespaces must have ended.
func (l *Lab) Close() error {
	if l.maker == nil {
		return nil
	}
	l.maker.close()
	l.maker = nil
	var chatter error
	if l.chatter != nil {
		chatter = l.chatter.stop()
	}
	var hosts []*Namespace
	for _, b := range l.bridges {
		hosts = append(hosts, b.host)
	}
	err := chatter
	for _, n := range l.outside {
		err = errors.Join(err, n.empty())
	}
	err = errors.Join(err, removeEnds(l.all, hosts))
	for _, h := range hosts {
		h.close()
	}
	l.all, l.bridges, l.outside = nil, nil, nil
	return err
}

// empty takes the links of a namespace away at once. The kernel would do so some time after
// the namespace was given up: until then one on the machine's own network goes on to answer
// for its address, which is the next laboratory's.
func (n *Namespace) empty() error {
	links, err := n.nl.LinkList()
	if err != nil {
		return fmt.Errorf("list links outside: %w", err)
	}
	left := map[int]bool{}
	for _, l := range links {
		if l.Attrs().Flags&net.FlagLoopback == 0 {
			left[l.Attrs().Index] = true
		}
	}
	return n.remove(left)
}

// removeEnds closes all namespaces but the hosts, and waits until the hosts have
// seen their ends of the links go: the kernel takes a namespace's links away
// when the last who held it has let go, some time later.
func removeEnds(all, hosts []*Namespace) error {
	held := map[*Namespace]bool{}
	for _, h := range hosts {
		held[h] = true
	}
	for _, n := range all {
		if !held[n] {
			n.close()
		}
	}
	var errs []error
	for h := range held {
		errs = append(errs, h.waitEmpty())
	}
	return errors.Join(errs...)
}

// waitEmpty waits until no bridge of the namespace has a container left.
func (n *Namespace) waitEmpty() error {
	timeout := time.After(goneWithin)
	for {
		left, err := n.waitGone(timeout)
		if left == 0 || err != nil {
			return err
		}
	}
}

// eventBytes holds the kernel's words on a thousand links that go at once.
const eventBytes = 16 << 20

// waitGone follows the ports' going until none is left, and gives up early, with
// the number that was left, where the kernel said more than could be read.
func (n *Namespace) waitGone(timeout <-chan time.Time) (int, error) {
	gone := make(chan netlink.LinkUpdate, 64)
	done := make(chan struct{})
	defer close(done)
	err := netlink.LinkSubscribeWithOptions(gone, done, netlink.LinkSubscribeOptions{
		Namespace: &n.fd, ReceiveBufferSize: eventBytes, ReceiveBufferForceSize: true})
	if err != nil {
		return 0, fmt.Errorf("watch links go: %w", err)
	}
	links, err := n.nl.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return 0, fmt.Errorf("list what is left: %w", err)
	}
	left := map[int]bool{}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, portPrefix) {
			left[l.Attrs().Index] = true
		}
	}
	held := time.After(heldFor)
	for len(left) > 0 {
		select {
		case <-held:
			if err := n.remove(left); err != nil {
				return 0, err
			}
		case u, open := <-gone:
			if !open {
				return len(left), nil
			}
			if u.Header.Type == unix.RTM_DELLINK {
				delete(left, u.Attrs().Index)
			}
		case <-timeout:
			return 0, fmt.Errorf("%d links of a laboratory are still there after %v", len(left), goneWithin)
		}
	}
	if err != nil { // the list was cut short by what it was to show
		return 1, nil
	}
	return 0, nil
}

// remove takes links away by their numbers; those that have gone by themselves in
// between are no error.
func (n *Namespace) remove(links map[int]bool) error {
	for index := range links {
		err := n.nl.LinkDel(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}})
		if err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove link %d, which something holds: %w", index, err)
		}
	}
	return nil
}
