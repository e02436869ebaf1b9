// Package net is the bridge laboratory: network namespaces, bridges, veth pairs
// and what else joins two containers, built beside the machine's own network and
// never in it. A namespace is held by a descriptor of this process alone: it has
// no name and no mount, so that a process that is killed leaves none.
package net

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace of the laboratory, with its loopback up. It has no
// IPv6 where the laboratory is of IPv4: that sends packets of its own.
type Namespace struct {
	fd netns.NsHandle
	nl *netlink.Handle // talks to the kernel from inside
}

// maker is a thread that goes from one new namespace to the next. It ends with
// its goroutine: a thread that has changed its namespace is of no other use.
type maker struct {
	work chan func()
	six  bool // the namespaces have IPv6
}

func newMaker() *maker {
	m := &maker{work: make(chan func())}
	onOwnThread(func() {
		for f := range m.work {
			f()
		}
	})
	return m
}

// onOwnThread runs f on a thread that ends with it. The process's first thread
// cannot end: it would keep the namespace that f leaves it in, and with it all
// links there, so f goes to another while the first one is kept away from it.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f() // the lock is never given back: the runtime ends the thread
			return
		}
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		onOwnThread(func() { defer close(done); f() })
		<-done
	}()
}

func (m *maker) close() { close(m.work) }

// do runs f on the thread and waits for it.
func (m *maker) do(f func() error) error {
	done := make(chan error)
	m.work <- func() { done <- f() }
	return <-done
}

// namespace makes a namespace, in which the thread stays until it makes the next.
func (m *maker) namespace() (n *Namespace, err error) {
	err = m.do(func() error {
		n, err = newNamespace(m.six)
		return err
	})
	if err != nil && n != nil {
		n.close()
		n = nil
	}
	return n, err
}

// loopback is lo's index in every namespace (LOOPBACK_IFINDEX, net/core/dev.h).
const loopback = 1

func newNamespace(six bool) (*Namespace, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("new network namespace: %w", err)
	}
	n := &Namespace{}
	var err error
	if n.fd, err = netns.Get(); err != nil {
		return nil, fmt.Errorf("new network namespace: %w", err)
	}
	if n.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err == nil {
		err = quietIPv6(six)
	}
	if err == nil {
		err = n.nl.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: loopback}})
	}
	return n, err
}

// quietIPv6 turns IPv6 off in the thread's namespace for all links that will be there, or
// what it sends by itself where it is wanted: for addresses of its own and for routers. A
// kernel without it has nothing to turn off.
func quietIPv6(wanted bool) error {
	settings := map[string]string{"disable_ipv6": "1"}
	if wanted {
		settings = map[string]string{"accept_dad": "0", "dad_transmits": "0", "accept_ra": "0", "router_solicitations": "0"}
	}
	for name, value := range settings {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/default/"+name, []byte(value), 0)
		switch {
		case errors.Is(err, os.ErrNotExist) && wanted:
			return &UnsupportedError{"IPv6", err}
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("quiet IPv6 in a namespace of our own: %w", err)
		}
	}
	return nil
}

// namespaceAt opens the namespace at a path, without what talks to the kernel from inside.
func namespaceAt(path string) (*Namespace, error) {
	fd, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", path, err)
	}
	return &Namespace{fd: fd}, nil
}

// Path is where another process finds the namespace, as long as this one lives.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n.fd)) }

// Do runs f on a thread inside the namespace: sockets that it opens, and what it
// reads or writes below /proc/sys/net, are the namespace's.
func (n *Namespace) Do(f func() error) error {
	m := newMaker()
	defer m.close()
	return m.do(func() error {
		if err := netns.Set(n.fd); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// Sysctl writes a setting below /proc/sys/net of this namespace.
func (n *Namespace) Sysctl(name, value string) error {
	err := n.Do(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
	if err != nil {
		return fmt.Errorf("net/%s = %s: %w", name, value, err)
	}
	return nil
}

func (n *Namespace) up(link string) error {
	l, err := n.nl.LinkByName(link)
	if err == nil {
		err = n.nl.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("set %s up: %w", link, err)
	}
	return nil
}

// close is idempotent; a namespace is closed by letting go of it, which does not
// fail. None is closed already.
func (n *Namespace) close() {
	if n == nil {
		return
	}
	if n.nl != nil {
		n.nl.Close()
		n.nl = nil
	}
	if n.fd > 0 {
		_ = n.fd.Close()
	}
}
