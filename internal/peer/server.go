package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/limit"
)

// Host is what a server has: the targets of its machine. Its methods are safe for
// concurrent use.
type Host interface {
	Prove(ctx context.Context, target string) (driver.Facts, error)
	// Start starts a far end. Its server is one of tare's own workloads, or Start refuses.
	Start(ctx context.Context, end driver.FarEnd) (*driver.Far, error)
}

// Visitor is a connected client that has shown its key.
type Visitor struct {
	Conn        io.ReadWriteCloser
	Here, There netip.Addr // this machine's address and the client's; invalid where nothing tells
}

// Answer serves one client until it leaves, is lost, or ctx is cancelled. Then all that
// was started for it has ended and is removed: the error says what could not be.
func Answer(ctx context.Context, v Visitor, own Facts, host Host, tell func(string)) error {
	return answer(ctx, v, own, host, tell, Lease)
}

func answer(ctx context.Context, v Visitor, own Facts, host Host, tell func(string), lease time.Duration) error {
	s := &server{link: newLink(v.Conn, lease), host: host, here: v.Here, there: v.There, ends: map[string]*end{}, proving: make(chan struct{}, provesMost)}
	defer s.lose(errors.New("this side has left"))
	stop := context.AfterFunc(ctx, func() { s.lose(errors.New("this side was stopped")) })
	defer stop()
	if s.here.IsValid() {
		own.Address = s.here.String()
	}
	facts, err := s.greet(own)
	if err != nil {
		tell("refused: " + err.Error())
		return nil
	}
	if told, err := netip.ParseAddr(facts.Address); err == nil && !s.there.IsValid() {
		s.there = told
	}
	tell(fmt.Sprintf("%s is here (tare %s, Linux %s)", facts.Host.Hostname, facts.Tool, facts.Host.Kernel))
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.follow(running)
	cancel()
	s.work.Wait()
	n, err := s.removeAll()
	tell(fmt.Sprintf("%s has left: %v; removed %d far ends that still ran", facts.Host.Hostname, reason(s.err), n))
	return err
}

// reason is why the other side was given up.
func reason(err error) error {
	var lost *driver.LostError
	if errors.As(err, &lost) {
		return lost.Err
	}
	return err
}

// server is one client's.
type server struct {
	*link
	host        Host
	here, there netip.Addr
	work        sync.WaitGroup // requests under way
	requests    atomic.Int64   // how many
	proving     chan struct{}  // holds one for each proof under way

	mu   sync.Mutex
	ends map[string]*end
}

// end is a far end from the request for it until it is stopped.
type end struct {
	cancel  context.CancelFunc
	started chan struct{} // closed when far is valid; nil: it could not be started
	far     *driver.Far
}

// follow takes requests until the client is lost.
func (s *server) follow(ctx context.Context) {
	for {
		m, err := s.receive()
		if err != nil {
			return
		}
		switch m.Kind {
		case kindAsk:
			_ = s.send(message{Kind: kindDone}) // where it fails, the client is lost
		case kindProve:
			s.later(m, func() (message, error) { return s.prove(ctx, m.Target) })
		case kindStart:
			s.start(ctx, m)
		case kindStop:
			s.later(m, func() (message, error) { return message{}, s.stop(m.ID) })
		default:
			s.lose(fmt.Errorf("it sent a message %q, which is not a request", m.Kind))
			return
		}
	}
}

// requestsMost bounds requests under way: no client has more than a few for each far end.
const requestsMost = 4096

// later answers a request when its work is done.
func (s *server) later(request message, do func() (message, error)) {
	if s.requests.Add(1) > requestsMost {
		s.lose(fmt.Errorf("it made more than %d requests without waiting for an answer", requestsMost))
	}
	s.work.Go(func() {
		defer s.requests.Add(-1)
		m, err := do()
		m.Kind, m.Number, m.Error = kindDone, request.Number, failureOf(err)
		_ = s.send(m) // where it fails, the client is lost
	})
}

// provesMost bounds proofs under way: a client asks for those of one study.
const provesMost = 64

func (s *server) prove(ctx context.Context, target string) (message, error) {
	select {
	case s.proving <- struct{}{}:
		defer func() { <-s.proving }()
	default:
		return message{}, fmt.Errorf("%d targets are being proven, and no more are at once", provesMost)
	}
	facts, err := s.host.Prove(ctx, target)
	return message{Facts: &facts}, err
}

// endID is how far ends are named: as instances are.
var endID = regexp.MustCompile(`^` + driver.Label + `-[a-z0-9][a-z0-9-]{0,80}$`)

// start notes a far end before anything is made for it, so that a stop finds it.
func (s *server) start(ctx context.Context, m message) {
	one, ctx, err := s.note(ctx, m.End)
	if err != nil {
		s.later(m, func() (message, error) { return message{}, err })
		return
	}
	wanted := *m.End
	wanted.Here, wanted.There = s.here, s.there
	s.later(m, func() (message, error) {
		far, err := s.host.Start(ctx, wanted)
		one.far = far
		close(one.started)
		if err != nil {
			return message{}, err
		}
		s.work.Go(func() { s.watch(ctx, wanted.ID, far) })
		return message{Address: far.Address, Port: far.Port, Tunnel: far.Tunnel}, nil
	})
}

// note gives a far end with the context that ends it.
func (s *server) note(ctx context.Context, wanted *driver.FarEnd) (*end, context.Context, error) {
	if wanted == nil || !endID.MatchString(wanted.ID) {
		return nil, nil, errors.New("the far end has no name as tare's instances have")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[wanted.ID] != nil {
		return nil, nil, fmt.Errorf("the far end %s is there already", wanted.ID)
	}
	if err := limit.PeerEnds.CheckItems(len(s.ends) + 1); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	one := &end{cancel: cancel, started: make(chan struct{})}
	s.ends[wanted.ID] = one
	return one, ctx, nil
}

// watch tells the client when a far end has ended by itself.
func (s *server) watch(ctx context.Context, id string, far *driver.Far) {
	select {
	case err := <-far.Ended:
		_ = s.send(message{Kind: kindEnded, ID: id, Error: failureOf(err)}) // where it fails, the client is lost
	case <-ctx.Done():
	}
}

// stop ends a far end and removes it. One that is not there is no error: it could not be
// started, or was stopped before.
func (s *server) stop(id string) error {
	s.mu.Lock()
	one := s.ends[id]
	delete(s.ends, id)
	s.mu.Unlock()
	if one == nil {
		return nil
	}
	one.cancel()
	<-one.started
	if one.far == nil {
		return nil
	}
	return one.far.Close()
}

// removeAll stops what is left, and counts what ran.
func (s *server) removeAll() (int, error) {
	s.mu.Lock()
	var ids []string
	n := 0
	for id, one := range s.ends {
		ids = append(ids, id)
		if one.far != nil {
			n++
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.stop(id))
	}
	return n, errors.Join(errs...)
}
