package engine

import (
	"fmt"
	"sync"
	"time"
)

// hungTime is how long an engine may answer no request of any start while some wait
// for it. Locks of dockerd's network can block each other for good in 20.10.24, which
// is Debian 12's (github.com/moby/moby/issues/46661): it answers pings ever after.
const hungTime = 3 * time.Minute

// watchdog tells an engine that hangs from one that is slow: of many starts some are
// answered, however long the line is.
type watchdog struct {
	limit time.Duration // hungTime, but for tests
	end   func()        // ends an engine that hangs, where that is tare's to do; it does not wait

	mu     sync.Mutex
	lives  map[*requests]func() // what gives up the requests of each container
	asked  int                  // of them, the starts that are under way
	last   time.Time            // when a request of one was answered, or it was asked for while none was under way
	timer  *time.Timer
	reason error // why the engine is taken to hang; nil while it is not
}

// ask notes a start, and what gives up its requests should the engine hang; answered
// says that those of the start were answered, well or not.
func (p *watchdog) ask(r *requests, giveUp func()) (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lives == nil {
		p.lives = map[*requests]func(){}
	}
	if p.asked == 0 {
		p.last = time.Now()
		p.timer = time.AfterFunc(p.limit, p.look)
	}
	p.asked++
	p.lives[r] = giveUp
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked--
		p.last = time.Now()
		if p.asked == 0 {
			p.timer.Stop()
		}
	}
}

// beat notes that a request of a start was answered which is not its last.
func (p *watchdog) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// forget a container of which nothing is asked any more.
func (p *watchdog) forget(r *requests) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lives, r)
}

// look comes back when the time since the last answer may be over.
func (p *watchdog) look() {
	p.mu.Lock()
	left := p.limit - time.Since(p.last)
	idle := p.asked == 0
	if !idle && left > 0 {
		p.timer.Reset(left)
	}
	p.mu.Unlock()
	if !idle && left <= 0 {
		p.hang(fmt.Errorf("it has answered no request of a start for %v", p.limit))
	}
}

// hang gives the engine up for a reason, the first of which counts.
func (p *watchdog) hang(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason != nil {
		return
	}
	p.reason = reason
	p.end()
	for _, giveUp := range p.lives {
		giveUp()
	}
}

// hung is why the engine is taken to hang; nil where it is not.
func (p *watchdog) hung() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// reset gives the engine, or the one in its place, another chance.
func (p *watchdog) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = nil
}
