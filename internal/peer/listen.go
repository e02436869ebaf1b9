package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// strangersMost is how many connections may be showing their keys at one time.
const strangersMost = 16

// Listener waits for clients, one at a time, each with a key of its own.
type Listener struct {
	inner    net.Listener
	visitors chan Visitor

	mu       sync.Mutex
	config   *tls.Config // that the next client must fit; nil while one is served
	showing  int         // connections under way
	refused  int
	acceptor error
	done     chan struct{} // closed when acceptor is valid
}

// Listen begins to listen at an address of this machine, IP:PORT. Close ends it.
func Listen(ctx context.Context, address string) (*Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || net.ParseIP(host) == nil {
		return nil, fmt.Errorf("%q is not an address to listen at: write IP:PORT with an IP address of this machine, as 192.0.2.7:7450", address)
	}
	var config net.ListenConfig
	inner, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l := &Listener{inner: inner, visitors: make(chan Visitor), done: make(chan struct{})}
	go l.accept()
	return l, nil
}

// Addr is where it listens.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close ends it.
func (l *Listener) Close() error {
	err := l.inner.Close()
	<-l.done
	return err
}

// Next makes a key, shows it, and waits for the client that has it. refused is how many
// connections without a valid key came since the client before.
func (l *Listener) Next(ctx context.Context, show func(Key)) (v Visitor, refused int, err error) {
	key, config, err := oneTime()
	if err != nil {
		return v, 0, err
	}
	l.mu.Lock()
	l.config = config
	l.mu.Unlock()
	show(key)
	select {
	case v = <-l.visitors:
	case <-l.done:
		err = fmt.Errorf("listen: %w", l.acceptor)
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	refused, l.refused, l.config = l.refused, 0, nil
	return v, refused, err
}

// accept takes connections until Close. One that comes while a client is served, or while
// many show their keys, is closed at once.
func (l *Listener) accept() {
	defer close(l.done)
	for {
		conn, err := l.inner.Accept()
		if err != nil {
			var passing interface{ Temporary() bool } // too many open files: others close some
			if errors.As(err, &passing) && passing.Temporary() {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			l.acceptor = err
			return
		}
		l.mu.Lock()
		config := l.config
		if l.showing >= strangersMost {
			config = nil
		}
		if config == nil {
			l.refused++
		} else {
			l.showing++
		}
		l.mu.Unlock()
		if config == nil {
			conn.Close()
			continue
		}
		go l.shake(conn, config)
	}
}

// shake lets a connection show its key. The key is used up by the first that does.
func (l *Listener) shake(conn net.Conn, config *tls.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeWithin)
	defer cancel()
	secure := tls.Server(conn, config)
	err := secure.HandshakeContext(ctx)
	l.mu.Lock()
	l.showing--
	first := err == nil && l.config == config
	if first {
		l.config = nil
	} else {
		l.refused++
	}
	l.mu.Unlock()
	if !first {
		conn.Close()
		return
	}
	select {
	case l.visitors <- Visitor{Conn: closer{secure}, Here: addressOf(conn.LocalAddr()), There: addressOf(conn.RemoteAddr())}:
	case <-l.done:
		conn.Close()
	case <-time.After(handshakeWithin): // whoever waited has left
		conn.Close()
	}
}
