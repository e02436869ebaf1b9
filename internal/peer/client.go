package peer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// Client is the other machine, as the side that measures sees it. It implements
// driver.Peer.
type Client struct {
	// Facts are what the other machine told of itself.
	Facts Facts

	*connection

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan message // for answers, by their numbers
	ended   map[string]chan error   // of the far ends that run
}

// connection is a way to the other machine.
type connection struct {
	*link
	here, there netip.Addr   // invalid where the other machine tells
	stop        func() error // ends what carries the connection
}

// Connect reaches the other machine at a place as Where explains it, and compares own
// facts with those of that machine.
func Connect(ctx context.Context, where string, own Facts) (*Client, error) {
	c, err := dial(ctx, where)
	if err != nil {
		return nil, fmt.Errorf("the other machine, %s: %w", place(where), err)
	}
	if own.Address = ""; c.here.IsValid() {
		own.Address = c.here.String()
	}
	stop := context.AfterFunc(ctx, func() { c.lose(context.Cause(ctx)) })
	client, err := begin(c, own, Lease)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.lose(errors.New("refused"))
		return nil, errors.Join(fmt.Errorf("the other machine, %s: %w", place(where), err), c.stop())
	}
	return client, nil
}

// begin greets the server and follows what it says.
func begin(c *connection, own Facts, lease time.Duration) (*Client, error) {
	facts, err := c.greet(own)
	if err != nil {
		return nil, err
	}
	client := &Client{Facts: facts, connection: c, waiting: map[uint64]chan message{}, ended: map[string]chan error{}}
	// The other machine knows at which of its addresses ssh has come.
	if told, err := netip.ParseAddr(facts.Address); err == nil && (!client.there.IsValid() || told.Is4() != client.there.Is4()) {
		client.there = told
		client.here = towards(told)
	}
	client.leased(lease)
	go client.follow()
	go client.ask()
	return client, nil
}

// ask gives the server a sign of life, and wants one.
func (c *Client) ask() {
	every := time.NewTicker(c.lease / signsPerLease)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			_ = c.send(message{Kind: kindAsk}) // where it fails, the peer is lost
		case <-c.lost:
			return
		}
	}
}

// follow hands out what the server says.
func (c *Client) follow() {
	for {
		m, err := c.receive()
		if err != nil {
			return // it is lost, which all who wait see
		}
		c.mu.Lock()
		answer, end := c.waiting[m.Number], c.ended[m.ID]
		if m.Kind == kindDone {
			delete(c.waiting, m.Number)
		}
		c.mu.Unlock()
		switch {
		case m.Kind == kindDone && answer != nil:
			answer <- m
		case m.Kind == kindEnded && end != nil:
			select {
			case end <- m.Error.error():
			default: // it has ended before
			}
		}
	}
}

// call makes a request and waits for its answer.
func (c *Client) call(ctx context.Context, m message) (message, error) {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	m.Number = c.last
	c.waiting[m.Number] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, m.Number)
		c.mu.Unlock()
	}()
	if err := c.send(m); err != nil {
		return m, err
	}
	select {
	case m = <-answer:
		return m, m.Error.error()
	case <-c.lost:
		return m, c.err
	case <-ctx.Done():
		return m, context.Cause(ctx)
	}
}

// Addresses implements driver.Peer.
func (c *Client) Addresses() (here, there netip.Addr) { return c.here, c.there }

// Lost implements driver.Peer.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Err implements driver.Peer.
func (c *Client) Err() error {
	select {
	case <-c.lost:
		return c.err
	default:
		return nil
	}
}

// Prove implements driver.Peer.
func (c *Client) Prove(ctx context.Context, target string) (driver.Facts, error) {
	m, err := c.call(ctx, message{Kind: kindProve, Target: target})
	if err != nil || m.Facts == nil {
		return driver.Facts{}, err
	}
	return *m.Facts, nil
}

// stopWithin bounds how long the peer may take to remove a far end.
const stopWithin = 2 * time.Minute

// Start implements driver.Peer.
func (c *Client) Start(ctx context.Context, end driver.FarEnd) (*driver.Far, error) {
	ended := make(chan error, 1)
	c.mu.Lock()
	c.ended[end.ID] = ended
	c.mu.Unlock()
	stop := sync.OnceValue(func() error { return c.stopEnd(context.WithoutCancel(ctx), end.ID) })
	m, err := c.call(ctx, message{Kind: kindStart, End: &end})
	if err == nil {
		err = checkPort(m.Port)
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return &driver.Far{Address: m.Address, Port: m.Port, Tunnel: m.Tunnel, Ended: ended, Close: stop}, nil
}

// stopEnd has the peer end a far end. Of one that is lost, nothing is asked: it removes
// all by itself.
func (c *Client) stopEnd(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopWithin, fmt.Errorf("the other machine has not ended %s after %v", id, stopWithin))
	defer cancel()
	_, err := c.call(ctx, message{Kind: kindStop, ID: id})
	c.mu.Lock()
	delete(c.ended, id)
	c.mu.Unlock()
	if errors.As(err, new(*driver.LostError)) {
		return nil
	}
	return err
}

// Close leaves the peer.
func (c *Client) Close() error {
	c.lose(errors.New("this side has left"))
	return c.stop()
}
