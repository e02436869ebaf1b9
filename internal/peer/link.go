package peer

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// Lease is how long one side waits for a sign of the other. Then it gives the other up,
// and ends and removes all that was started for it.
const Lease = 20 * time.Second

// signsPerLease is how often the client asks whether the server is there.
const signsPerLease = 6

// link is a connection to the other side. Its methods are safe for concurrent use, but
// for receive.
type link struct {
	conn     io.ReadWriteCloser
	lease    time.Duration
	watchdog *time.Timer
	sending  sync.Mutex

	lost chan struct{} // closed when the other side is given up
	once sync.Once
	err  error // why; valid when lost is closed
}

func newLink(conn io.ReadWriteCloser, lease time.Duration) *link {
	l := &link{conn: conn, lease: lease, lost: make(chan struct{})}
	l.watchdog = time.AfterFunc(lease, func() { l.lose(fmt.Errorf("no sign of it for %v", l.lease)) })
	return l
}

// leased changes how long the other side is waited for, before the first goroutine uses
// the link.
func (l *link) leased(lease time.Duration) {
	l.watchdog.Stop()
	l.lease = lease
	l.watchdog.Reset(lease)
}

// lose gives the other side up. The first reason counts.
func (l *link) lose(why error) {
	l.once.Do(func() {
		if errors.Is(why, io.EOF) {
			why = errors.New("the connection has ended")
		}
		l.err = &driver.LostError{Err: why}
		close(l.lost)
		l.watchdog.Stop()
		_ = l.conn.Close() // what it says helps nobody: the other side is gone
	})
}

func (l *link) send(m message) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	if err := write(l.conn, m); err != nil {
		l.lose(err)
		return l.err
	}
	return nil
}

// receive waits for the next message. A sign of life is one that could be read.
func (l *link) receive() (message, error) {
	m, err := read(l.conn)
	if err != nil {
		l.lose(err)
		return m, l.err
	}
	l.watchdog.Reset(l.lease)
	return m, nil
}

// greet exchanges facts, and refuses a side that would not do the same work.
func (l *link) greet(own Facts) (Facts, error) {
	own.Protocol = Protocol
	sent := make(chan error, 1)
	go func() { sent <- l.send(message{Kind: kindHello, Hello: &own}) }() // both sides begin with it
	m, err := l.receive()
	if err != nil {
		return Facts{}, err
	}
	if m.Kind != kindHello || m.Hello == nil {
		return Facts{}, fmt.Errorf("the other machine began with a message %q", m.Kind)
	}
	if err := <-sent; err != nil {
		return *m.Hello, err
	}
	return *m.Hello, differ(own, *m.Hello)
}

// MismatchError means that the two sides would not do the same work.
type MismatchError struct{ What, Here, There, Remedy string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the %s is %s here and %s on the other machine: %s", e.What, e.Here, e.There, e.Remedy)
}

func differ(own, other Facts) error {
	switch {
	case own.Protocol != other.Protocol:
		return &MismatchError{"version of the protocol", fmt.Sprint(own.Protocol), fmt.Sprint(other.Protocol), "use one tare on both"}
	case own.Tool != other.Tool:
		return &MismatchError{"version of tare", own.Tool, other.Tool, "use one tare on both"}
	case own.Image != other.Image:
		return &MismatchError{"workbench image", own.Image, other.Image, "make one with: tare image save FILE, copy it, and give both sides --workbench FILE@DIGEST"}
	}
	return nil
}
