package drivertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// job is one payload as a check asks for it.
type job struct {
	args   []string
	bare   bool     // without the mark helper in front
	env    []string // nil: PATH alone
	exact  bool     // env is all: the suite's own token is not added
	cwd    string
	user   driver.User
	limits driver.Limits
	mounts []driver.Mount
	rootfs string // "" is the laboratory's
	stdin  *os.File
	stdout io.Writer // nil: kept in outcome.stdout
	stderr io.Writer // nil: kept in outcome.stderr
}

// sh is a job that runs a script with busybox's shell.
func sh(script string, args ...string) job {
	return job{args: append([]string{shell, "-c", script, "sh"}, args...)}
}

// outcome is how one payload went.
type outcome struct {
	exit           driver.Exit
	err            error // of Prepare, Start or Wait
	close          error
	stdout, stderr string
	acted          bool // the mark was seen
	order          []driver.Phase
	took           time.Duration // Start and Wait together
}

// instance is a prepared payload with its streams.
type instance struct {
	driver.Instance
	suite  *suite
	spec   driver.Spec
	dir    string
	stdout *reader
	stderr *reader

	mu     sync.Mutex // guards what follows: a driver may mark from another goroutine
	phases []stamped
	closed bool
}

type stamped struct {
	phase driver.Phase
	at    time.Time
}

// spec fills in what a job leaves out.
func (s *suite) spec(j job) driver.Spec {
	env := j.env
	if env == nil {
		env = []string{"PATH=/bin"}
	}
	if !j.exact {
		env = append(env[:len(env):len(env)], "TARE_TEST="+s.token)
	}
	args := j.args
	if !j.bare {
		args = append([]string{markPath, "--"}, args...)
	}
	return driver.Spec{ID: s.nextID(), Rootfs: cmp.Or(j.rootfs, s.opts.Lab.TestRootfs), Args: args, Env: env, Cwd: j.cwd,
		User: j.user, Limits: j.limits, Mounts: j.mounts}
}

// prepare makes an instance ready to start. On error nothing is left.
func (s *suite) prepare(ctx context.Context, j job) (*instance, error) {
	i := &instance{suite: s, spec: s.spec(j)}
	i.dir = filepath.Join(s.dir, i.spec.ID)
	if err := os.Mkdir(i.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if i.stdout, err = newReader(j.stdout, !j.bare); err != nil {
		return nil, err
	}
	if i.stderr, err = newReader(j.stderr, false); err != nil {
		return nil, err
	}
	i.spec.Stdio = driver.Stdio{Stdin: j.stdin, Stdout: i.stdout.write, Stderr: i.stderr.write}
	if i.spec.Cgroup, err = makeCgroup(i.spec.ID); err != nil {
		return nil, err
	}
	i.Instance, err = s.driver.Prepare(ctx, i.spec, i.dir)
	if err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

// start is the timed edge.
func (i *instance) start(ctx context.Context) error {
	i.mark(driver.PhaseRequest)
	return i.Start(ctx, i.mark)
}

func (i *instance) wait(ctx context.Context) (driver.Exit, error) {
	exit, err := i.Wait(ctx)
	i.mark(driver.PhaseExit)
	return exit, err
}

func (i *instance) mark(p driver.Phase) {
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.phases = append(i.phases, stamped{p, now})
}

// drain reads both streams to their ends.
func (i *instance) drain() error {
	return errors.Join(i.stdout.end(), i.stderr.end())
}

// close ends the instance, and checks that it left its cgroup and its
// directory fit to be removed.
func (i *instance) close() error {
	if i.closed {
		return nil
	}
	i.closed = true
	var errs []error
	if i.Instance != nil {
		errs = append(errs, i.Close())
	}
	errs = append(errs, i.drain(), i.suite.removeCgroup(i.spec.Cgroup))
	if err := sys.RemoveTree(i.dir); err != nil {
		errs = append(errs, fmt.Errorf("after Close, the instance's directory cannot be removed: %w", err))
	}
	return errors.Join(errs...)
}

// run is a whole payload: prepare, start, wait, close.
func (s *suite) run(ctx context.Context, j job) outcome {
	i, err := s.prepare(ctx, j)
	if err != nil {
		return outcome{err: fmt.Errorf("prepare: %w", err)}
	}
	begin := time.Now()
	var o outcome
	if err := i.start(ctx); err != nil {
		o.err = fmt.Errorf("start: %w", err)
	} else if o.exit, err = i.wait(ctx); err != nil {
		o.err = fmt.Errorf("wait: %w", err)
	}
	o.took = time.Since(begin)
	o.close = i.close()
	o.stdout, o.stderr = i.stdout.kept.String(), i.stderr.kept.String()
	o.acted = i.stdout.found
	o.order = i.order()
	return o
}

// order is the phases sorted by their stamps, the payload's own mark among them.
func (i *instance) order() []driver.Phase {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.phases
	if i.stdout.found {
		all = append(all, stamped{driver.PhaseActed, i.stdout.acted})
	}
	return sortedPhases(all)
}

// ok says what is wrong with a payload that should have ended well.
func (o outcome) ok() error { return o.ended(0) }

// ended says what is wrong with a payload that should have acted and ended
// with code.
func (o outcome) ended(code int) error {
	switch {
	case o.err != nil || o.close != nil:
		return errors.Join(o.err, o.close, o.said())
	case o.exit.Signal != 0 || o.exit.Code != code:
		return errors.Join(fmt.Errorf("got %s, want exit code %d", exitText(o.exit), code), o.said())
	case !o.acted:
		return errors.New("the payload ended without its mark on standard output")
	}
	return nil
}

// said quotes the payload's errors, for messages.
func (o outcome) said() error {
	if o.stderr == "" {
		return nil
	}
	return fmt.Errorf("standard error: %.500q", o.stderr)
}

func exitText(e driver.Exit) string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d", e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// streamGrace is how long a stream may stay open after Close: a process that
// still holds it is a leak.
const streamGrace = 2 * time.Second

// reader reads one stream to its end, and cuts the mark off its front.
type reader struct {
	read, write *os.File
	to          io.Writer
	kept        bytes.Buffer
	done        chan struct{}
	marked      chan struct{} // closed when the mark has come
	err         error
	once        sync.Once
	endErr      error

	seeking bool
	head    []byte
	found   bool
	acted   time.Time
}

func newReader(to io.Writer, marked bool) (*reader, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &reader{read: r, write: w, to: to, seeking: marked, done: make(chan struct{}), marked: make(chan struct{})}
	if to == nil {
		p.to = &p.kept
	}
	go p.loop()
	return p, nil
}

func (r *reader) loop() {
	defer close(r.done)
	_, err := io.Copy(r, r.read)
	if r.seeking {
		_, _ = r.to.Write(r.head) // a stream shorter than the mark
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		r.err = err
	}
}

// Write takes what was read, looks for the mark, and passes the rest on.
func (r *reader) Write(data []byte) (int, error) {
	now := time.Now()
	rest := data
	if r.seeking {
		r.head = append(r.head, data...)
		if len(r.head) < len(driver.Acted) && bytes.HasPrefix([]byte(driver.Acted), r.head) {
			return len(data), nil
		}
		r.seeking = false
		if rest, r.found = bytes.CutPrefix(r.head, []byte(driver.Acted)); r.found {
			r.acted = now
			close(r.marked)
		}
	}
	_, err := r.to.Write(rest)
	return len(data), err
}

// end waits for the stream's end after all writers should have gone.
func (r *reader) end() error {
	r.once.Do(func() {
		r.write.Close()
		select {
		case <-r.done:
			r.endErr = r.err
		case <-time.After(streamGrace):
			r.endErr = errors.New("after Close, a process still holds an output stream open")
		}
		r.read.Close()
		<-r.done
	})
	return r.endErr
}
