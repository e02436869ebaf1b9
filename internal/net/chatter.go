package net

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// chatterEvery is how often each container that is not silent sends a datagram,
// and chatterBytes how much.
const (
	chatterEvery = 100 * time.Millisecond
	chatterBytes = 64
)

// chatter makes the containers that do not take part send a little, each to its
// gateway, where nobody answers.
type chatter struct {
	stopped chan struct{}
	ended   sync.WaitGroup
	sockets []int
	err     error // the first that is no loss on the way; to be read when ended
}

// startChatter opens a socket in every container but the peers, and sends from
// all of them in turn.
func (l *Lab) startChatter() error {
	c := &chatter{stopped: make(chan struct{})}
	l.chatter = c
	for _, b := range l.bridges {
		for _, e := range b.ends {
			if e == l.Client || e == l.Server {
				continue
			}
			err := b.know(e)
			if errors.Is(err, unix.ENOBUFS) { // before Linux 5.0 permanent entries count, too
				return l.overflow(2*len(c.sockets), 2*(l.options.Containers-2))
			}
			fd := -1
			if err == nil {
				fd, err = e.talk()
			}
			if err != nil {
				return fmt.Errorf("let %s send: %w", e.Address, err)
			}
			c.sockets = append(c.sockets, fd)
		}
	}
	if len(c.sockets) > 0 {
		c.ended.Go(c.run)
	}
	return nil
}

// know makes an end and its gateway permanent neighbours of each other: learned, they
// would take two of the entries that the whole machine has for its learned ones, and
// the chatter of many would end where these do.
func (b *bridge) know(e *End) error {
	link, err := e.Namespace.nl.LinkByName(e.Link)
	if err == nil {
		err = e.Namespace.neighbour(link, e.Gateway, b.link.HardwareAddr, netlink.NUD_PERMANENT)
	}
	if err == nil {
		err = b.host.neighbour(b.link, e.Address.Addr(), e.Hardware, netlink.NUD_PERMANENT)
	}
	return err
}

// discard is the port of a service that nobody runs.
const discard = 9

// talk opens a socket of the end's that sends to its gateway.
func (e *End) talk() (fd int, err error) {
	err = e.Namespace.Do(func() error {
		var to unix.Sockaddr
		of := unix.AF_INET
		if e.Gateway.Is6() {
			to, of = &unix.SockaddrInet6{Port: discard, Addr: e.Gateway.As16()}, unix.AF_INET6
		} else {
			to = &unix.SockaddrInet4{Port: discard, Addr: e.Gateway.As4()}
		}
		fd, err = unix.Socket(of, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		err = unix.Connect(fd, to)
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
		return err
	})
	return fd, err
}

// run spreads the datagrams evenly over time.
func (c *chatter) run() {
	tick := time.NewTicker(chatterEvery / 20)
	defer tick.Stop()
	payload := make([]byte, chatterBytes)
	for next := 0; ; {
		select {
		case <-c.stopped:
			return
		case <-tick.C:
		}
		for range (len(c.sockets) + 19) / 20 {
			// Refused or full: a datagram is lost, as on any network.
			_, err := unix.Write(c.sockets[next%len(c.sockets)], payload)
			if c.err == nil && err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EAGAIN) {
				c.err = fmt.Errorf("container %d of those that send a little: %w", next%len(c.sockets)+1, err)
			}
			next++
		}
	}
}

func (c *chatter) stop() error {
	close(c.stopped)
	c.ended.Wait()
	for _, fd := range c.sockets {
		_ = unix.Close(fd) // nothing was promised to arrive
	}
	return c.err
}
