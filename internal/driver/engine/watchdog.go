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

// watchdog distinguishes an engine that hangs from one that is slow. However many
// starts wait, a slow engine answers some of them.
type watchdog struct {
	limit time.Duration // hungTime, but for tests
	end   func()        // kills a private engine that hangs, without waiting for its end

	mu     sync.Mutex
	lives  map[*requests]func() // for each container, a function that cancels its requests
	asked  int                  // number of starts under way
	last   time.Time            // of the last answer, or of the first start after a pause
	timer  *time.Timer
	reason error // why the engine counts as hanging; nil while it does not
}

// ask registers a start. giveUp cancels its requests and is called if the engine hangs.
// The caller calls answered when the start's requests have ended, with or without an
// error.
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

// beat registers an answer to a request of a start that is still under way.
func (p *watchdog) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// forget removes a container that makes no further requests.
func (p *watchdog) forget(r *requests) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lives, r)
}

// look runs when the limit since the last answer may have passed.
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

// hang declares that the engine hangs. The first reason is kept.
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

// hung returns why the engine counts as hanging; nil where it does not.
func (p *watchdog) hung() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// reset makes the engine, or the one that replaces it, count as working.
func (p *watchdog) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reason = nil
}
