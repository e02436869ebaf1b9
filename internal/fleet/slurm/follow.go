package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
)

const (
	// readPause is between two looks at a file that has nothing new.
	readPause = 200 * time.Millisecond
	// askPause is between two questions about all jobs that are followed.
	askPause = 2 * time.Second
	// settleTime is how long the file of a job that has ended may stay away: a client of
	// NFS keeps for up to a minute that it is not there (acdirmax in nfs(5)).
	settleTime = time.Minute
)

// Follow implements engine.Engine. It reads the file that Slurm's daemon on the machine
// writes. Whether the job is over is asked once for all that are followed.
func (e *Engine) Follow(ctx context.Context, name string, from int64) (io.ReadCloser, error) {
	e.mu.Lock()
	e.followed[name]++
	e.fresh = false
	e.mu.Unlock()
	return &follower{e: e, ctx: ctx, name: name, at: from}, nil
}

// follower reads the output of a job.
type follower struct {
	e      *Engine
	ctx    context.Context
	name   string
	at     int64
	file   *os.File // nil until it is there
	last   bool     // the file was opened after the job was over
	away   time.Duration
	closed bool
}

// Read implements io.Reader.
func (f *follower) Read(p []byte) (int, error) {
	for {
		if f.file == nil {
			if err := f.open(); err != nil {
				return 0, err
			}
		}
		if f.file != nil {
			n, err := f.file.ReadAt(p, f.at)
			f.at += int64(n)
			if n > 0 {
				return n, nil // an error that stays comes again
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return 0, fmt.Errorf("slurm: %w", err)
			}
			if f.last {
				return 0, io.EOF
			}
		}
		over, err := f.e.over(f.ctx, f.name)
		if err != nil {
			return 0, err
		}
		if over {
			if end, err := f.reopen(); end || err != nil {
				return 0, err
			}
			continue
		}
		if err := f.pause(); err != nil {
			return 0, err
		}
	}
}

func (f *follower) pause() error {
	select {
	case <-f.ctx.Done():
		return f.ctx.Err()
	case <-time.After(readPause):
		return nil
	}
}

// open opens the file where it is there: what the machines write there is not trusted.
func (f *follower) open() error {
	file, err := os.OpenFile(f.e.output(f.name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("slurm: %w", err)
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("slurm: %s is not a regular file", file.Name()), err, file.Close())
	}
	f.file = file
	return nil
}

// reopen looks at the file once more after the job's end: over NFS only a file that was
// opened after its writer closed it is sure to be whole. It reports end where nothing is
// left to read.
func (f *follower) reopen() (end bool, err error) {
	before := f.file
	f.file = nil
	if err := f.open(); err != nil {
		return true, err
	}
	switch {
	case f.file != nil:
		f.last = true
		if before != nil {
			return false, before.Close()
		}
		return false, nil
	case before != nil: // it was removed meanwhile
		f.file, f.last = before, true
		return false, nil
	case f.away >= f.e.settle(f.name):
		return true, io.EOF
	}
	f.away += readPause
	return false, f.pause()
}

// Close implements io.Closer.
func (f *follower) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	f.e.mu.Lock()
	if f.e.followed[f.name]--; f.e.followed[f.name] == 0 {
		delete(f.e.followed, f.name)
	}
	f.e.mu.Unlock()
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// over reports whether a job will write no more: it is over, or Slurm does not know it.
func (e *Engine) over(ctx context.Context, name string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.fresh {
		names := make([]string, 0, len(e.followed))
		for n := range e.followed {
			names = append(names, n)
		}
		all, err := e.States(ctx, names)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil { // of the moment: it is asked again
			return false, nil
		}
		e.known, e.fresh = all, true
		time.AfterFunc(askPause, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.fresh = false
		})
	}
	state, ok := e.known[name]
	return !ok || state.Phase.Over(), nil
}

// settle is how long to wait for the file of a job that is over.
func (e *Engine) settle(name string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known[name].Phase == engine.Ended {
		return settleTime
	}
	return 0
}
