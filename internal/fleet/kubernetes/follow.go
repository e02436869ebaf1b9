package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/tarelab/tare/internal/fleet/engine"
)

// Follow implements engine.Engine. Kubernetes keeps standard output and standard error
// in one file, gives no offset into it, and takes away the beginning of one of more than
// 10 MiB (kubelet's containerLogMaxSize): what was lost so is for the reader to notice.
// The log of a job that is lost ends where it was read to.
func (e *Engine) Follow(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
	_, ok, err := get[job](ctx, e.api.Resource(jobs).Namespace(e.namespace), name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("there is no job %s", name)
	}
	ctx, end := context.WithCancel(ctx)
	f := &follower{engine: e, ctx: ctx, end: end, name: name, at: from}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.following[f] = true
	return f, nil
}

// lose ends the reading of logs whose node is out of reach: the connections to it would
// stay for minutes.
func (e *Engine) lose(found map[string]engine.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for f := range e.following {
		if found[f.name].Phase == engine.Lost {
			f.lost.Store(true)
			f.end()
		}
	}
}

// follower reads a log to its end, also where the connection ends before the job does.
type follower struct {
	engine *Engine
	ctx    context.Context
	end    context.CancelFunc
	name   string
	at     int64         // bytes read
	now    io.ReadCloser // nil between two connections
	last   bool          // the job was over when now began
	lost   atomic.Bool
}

// Read implements io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	var pause patience
	for {
		if f.now == nil {
			if err := f.connect(); err != nil {
				return 0, f.why(err)
			}
		}
		n, err := f.now.Read(p)
		f.at += int64(n)
		if n > 0 || err == nil {
			return n, nil
		}
		_ = f.now.Close() // only read
		f.now = nil
		if f.last && errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		// The job is over, or a connection broke: what it has written since is asked for.
		if !pause.wait(f.ctx) {
			return 0, f.why(f.ctx.Err())
		}
	}
}

// why is the error of a read: the log of a lost job has ended.
func (f *follower) why(err error) error {
	if f.lost.Load() {
		return io.EOF
	}
	return err
}

// Close implements io.Closer.
func (f *follower) Close() error {
	f.end()
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	delete(f.engine.following, f)
	if f.now != nil {
		return f.now.Close()
	}
	return nil
}

// connect waits for the job's container, and reads its log from f.at on. The error is
// io.EOF where there is nothing more to read.
func (f *follower) connect() error {
	var pause patience
	for {
		there, err := f.engine.podsOf(f.ctx, f.name)
		if err != nil {
			return err
		}
		for _, p := range there {
			if s, ok := p.container(); ok && (s.State.Running != nil || s.State.Terminated != nil) {
				return f.open(p, s.State.Terminated != nil)
			}
		}
		if over, err := f.over(there); over || err != nil {
			if err == nil {
				err = io.EOF
			}
			return err
		}
		if !pause.wait(f.ctx) {
			return f.ctx.Err()
		}
	}
}

// over reports whether a job without a container will not have one any more.
func (f *follower) over(there []pod) (bool, error) {
	if len(there) > 0 && there[0].Status.Phase != "Failed" {
		return false, nil
	}
	all, err := f.engine.States(f.ctx, []string{f.name})
	s, ok := all[f.name]
	return err == nil && (!ok || s.Phase.Over()), err
}

func (f *follower) open(p pod, over bool) error {
	on, ok, err := get[node](f.ctx, f.engine.api.Resource(nodes), p.Spec.NodeName)
	if err != nil {
		return err
	}
	if !ok || on.unreachable() {
		return io.EOF
	}
	log, err := f.engine.logs.Get().AbsPath("/api/v1/namespaces", f.engine.namespace, "pods", p.Metadata.Name, "log").
		Param("container", container).Param("follow", "true").Stream(f.ctx)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, log, f.at); err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, log.Close())
	}
	f.now, f.last = log, over
	return nil
}
