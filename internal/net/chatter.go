package net

import (
	"errors"
	"fmt"
	"sync"
	"time"

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
			fd, err := e.talk()
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

// discard is the port of a service that nobody runs.
const discard = 9

// talk opens a socket of the end's that sends to its gateway.
func (e *End) talk() (fd int, err error) {
	err = e.Namespace.Do(func() error {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: discard, Addr: e.Gateway.As4()})
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
			_, _ = unix.Write(c.sockets[next%len(c.sockets)], payload)
			next++
		}
	}
}

func (c *chatter) stop() {
	close(c.stopped)
	c.ended.Wait()
	for _, fd := range c.sockets {
		_ = unix.Close(fd) // nothing was promised to arrive
	}
}
