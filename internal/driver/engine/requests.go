package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// requests are the requests of one start. They go on when the start is cancelled: a
// request that is given up may have any effect in the engine. Close waits for them.
type requests struct {
	mu     sync.Mutex         // guards what follows, and what an instance learns by them
	begun  chan struct{}      // closed when none is under way; nil before the start
	cancel context.CancelFunc // of requests that last as long as the container
	unhook func() bool
	closed bool
}

// start runs begin, which makes the requests and checks between them whether ctx was
// cancelled. When it is, kill ends the payload.
func (r *requests) start(ctx context.Context, e *engine, kill func(), begin func(life context.Context) error) error {
	if err := errors.Join(ctx.Err(), e.dead()); err != nil {
		return err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	begun := make(chan struct{})
	r.mu.Lock()
	r.begun, r.cancel = begun, func() { e.watchdog.forget(r); cancel() }
	r.unhook = context.AfterFunc(ctx, kill)
	r.mu.Unlock()
	var err error
	answered := e.watchdog.ask(r, cancel)
	go func() {
		defer close(begun)
		defer answered()
		err = begin(life)
	}()
	select {
	case <-begun:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// first reports whether Close is called for the first time, and whether there was a
// start.
func (r *requests) first() (first, started bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !r.closed
	r.closed = true
	return first, r.begun != nil
}

// quiesce ends the payload and waits until no request is under way.
func (r *requests) quiesce(e *engine, kill func()) error {
	if r.unhook() { // else it was cancelled, and the payload is killed already
		kill()
	}
	select {
	case <-r.begun:
		return nil
	case <-time.After(queueTime):
		e.watchdog.hang(fmt.Errorf("it has not answered a request for %v", queueTime))
		return &driver.RemovalError{Err: e.dead()}
	}
}
