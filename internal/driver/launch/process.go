package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// grace is how long Close waits for a launcher to end by itself; only one that
// hangs in the kernel takes longer, and is killed then.
const grace = 2 * time.Second

// Process is one launcher and what it launched. Close must not run while Wait
// does; else its methods may be called from any goroutine.
type Process struct {
	name    string   // base name of Args[0], for errors
	reap    bool     // Args is an OCI runtime's command
	goPipe  *os.File // a byte is the timed edge; a second one means kill; EOF means end
	report  *os.File
	lines   *bufio.Reader
	pidPipe int         // read end; -1 when closed
	starter *os.Process // the launcher

	closed   sync.Once
	closeErr error
	pidMu    sync.Mutex // guards pid and pidPipe
	pid      int        // the payload's, once it has been asked for
	gone     atomic.Bool
	killed   atomic.Bool
}

// New starts a launcher, which enters cfg.Cgroup, does cfg.Pre (with cfg.Warm, all
// but execve) and waits. It returns when the launcher is ready for Go, or an Error with the step that
// failed. Cancelling ctx ends only New itself.
func New(ctx context.Context, cfg Config) (*Process, error) {
	argv, err := arguments(cfg)
	if err != nil {
		return nil, err
	}
	p, err := spawn(cfg, argv)
	if err != nil {
		return nil, driver.Labf("start the launcher %s: %w", cfg.Launcher, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.report.SetReadDeadline(time.Now()) })
	line, err := p.read()
	if !stop() {
		err = context.Cause(ctx)
	}
	if err == nil && line != "ready" {
		err = fmt.Errorf("launcher: said %q before it was ready", line)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// arguments is the launcher's command line; see the comment in helpers/launch.c.
func arguments(cfg Config) ([]string, error) {
	argv := []string{cfg.Launcher}
	pre := cfg.Pre
	if cfg.Cgroup != "" {
		groups, err := sys.Cgroups()
		if err != nil {
			return nil, driver.Labf("find the cgroup hierarchies: %w", err)
		}
		var joins []Step
		for _, dir := range groups.Dirs(cfg.Cgroup) {
			if _, err := os.Stat(dir); err == nil {
				joins = append(joins, Join(dir))
			}
		}
		if len(joins) == 0 {
			return nil, driver.Labf("the cgroup %s is in no hierarchy", cfg.Cgroup)
		}
		pre = append(joins, pre...)
	}
	for _, phase := range []struct {
		flag  string
		steps []Step
	}{{"-pre", pre}, {"-go", cfg.Go}, {"-child", cfg.Child}} {
		argv = append(argv, phase.flag)
		for _, s := range phase.steps {
			argv = append(argv, s...)
		}
	}
	mode := "spawn"
	switch {
	case cfg.Reap:
		mode = "reap"
	case cfg.Warm:
		mode = "warm"
	}
	argv = append(argv, "-"+mode, number(cfg.Clone), cfg.Into, cfg.PidFile, "--")
	return append(argv, cfg.Args...), nil
}

// spawn starts the launcher with descriptors 0-2 for the payload, 3 to be told,
// and 4 and 5 to report.
func spawn(cfg Config, argv []string) (*Process, error) {
	var files opened
	defer files.close()
	null := files.open(os.OpenFile(os.DevNull, os.O_RDWR, 0))
	goRead, goWrite := files.pipe()
	reportRead, reportWrite := files.pipe()
	var pid [2]int
	// Not of os.Pipe's kind: Go's poller watches those and would wake up for the
	// pid, which nobody may ever ask for.
	if err := errors.Join(files.err, unix.Pipe2(pid[:], unix.O_CLOEXEC)); err != nil {
		return nil, err
	}
	pidWrite := files.open(os.NewFile(uintptr(pid[1]), "pid"), nil)
	or := func(f *os.File) *os.File {
		if f == nil {
			return null
		}
		return f
	}
	env := cfg.Env
	if env == nil {
		env = []string{} // nil would inherit tare's own environment
	}
	starter, err := os.StartProcess(cfg.Launcher, argv, &os.ProcAttr{
		Dir: "/", Env: env,
		Files: []*os.File{or(cfg.Stdio.Stdin), or(cfg.Stdio.Stdout), or(cfg.Stdio.Stderr), goRead, reportWrite, pidWrite},
		// A session of its own: a terminal's Ctrl-C is tare's to handle, and the
		// payload must not die of it first.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(err, unix.Close(pid[0]))
	}
	files.keep(goWrite, reportRead)
	return &Process{name: filepath.Base(cfg.Args[0]), reap: cfg.Reap, goPipe: goWrite, report: reportRead, pidPipe: pid[0],
		lines: bufio.NewReaderSize(reportRead, 256), starter: starter}, nil
}

// opened are files that close together unless kept, and the first error.
type opened struct {
	files []*os.File
	err   error
}

func (o *opened) open(f *os.File, err error) *os.File {
	o.err = errors.Join(o.err, err)
	if err == nil {
		o.files = append(o.files, f)
	}
	return f
}

func (o *opened) pipe() (r, w *os.File) {
	r, w, err := os.Pipe()
	return o.open(r, err), o.open(w, err)
}

func (o *opened) keep(files ...*os.File) {
	o.files = slices.DeleteFunc(o.files, func(f *os.File) bool { return slices.Contains(files, f) })
}

func (o *opened) close() {
	for _, f := range o.files {
		f.Close()
	}
}

// Go is the timed edge: one write of one byte.
func (p *Process) Go() error {
	p.gone.Store(true)
	if _, err := p.goPipe.Write([]byte{'g'}); err != nil {
		return driver.Labf("wake the launcher: %w", err)
	}
	return nil
}

// PID is the payload's process id. It waits until the launcher has started the
// payload (with Reap: until the runtime's command has ended), and is 0 before Go
// and where the launch failed.
func (p *Process) PID() int {
	p.pidMu.Lock()
	defer p.pidMu.Unlock()
	if p.pid != 0 || p.pidPipe < 0 || !p.gone.Load() {
		return p.pid
	}
	var text [32]byte
	n, err := unix.Read(p.pidPipe, text[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(p.pidPipe, text[:])
	}
	if err != nil || n == 0 {
		return 0 // no payload came to be: Wait says why
	}
	if p.pid, err = strconv.Atoi(strings.TrimSpace(string(text[:n]))); err != nil {
		return 0
	}
	return p.pid
}

// LauncherPID is the launcher's own process id.
func (p *Process) LauncherPID() int { return p.starter.Pid }

// Wait returns when the payload has ended. It returns an Error when a step
// inside the clock failed, a RuntimeError when the runtime's command did. When
// ctx is cancelled it kills what runs, and returns the context's error.
func (p *Process) Wait(ctx context.Context) (Result, error) {
	stop := context.AfterFunc(ctx, func() {
		_ = p.Kill()
		// A launcher whose runtime hangs in the kernel never reports: do not
		// wait for it. Close deals with the rest.
		_ = p.report.SetReadDeadline(time.Now().Add(grace / 2))
	})
	defer stop()
	r, err := p.wait()
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	return r, err
}

func (p *Process) wait() (r Result, err error) {
	line, err := p.read()
	if err == nil && p.reap {
		line, err = p.readRuntime(line, &r)
	}
	if err != nil {
		return r, err
	}
	r.Payload, err = parseExit(line, "payload")
	return r, err
}

// readRuntime takes the runtime's report, and returns the one that follows.
func (p *Process) readRuntime(line string, r *Result) (string, error) {
	exit, err := parseExit(line, "runtime")
	if err != nil {
		return "", err
	}
	r.Runtime = &exit
	failed := func(why string) error {
		if p.killed.Load() {
			return errKilled
		}
		return &RuntimeError{Name: p.name, Exit: exit, Reason: why}
	}
	if exit.Code != 0 || exit.Signal != 0 {
		return "", failed("")
	}
	if line, err = p.read(); err != nil {
		return "", err
	}
	if why, ok := strings.CutPrefix(line, "lost "); ok {
		return "", failed(why)
	}
	return line, nil
}

// read is the next report; one that says that a step failed becomes an Error.
func (p *Process) read() (string, error) {
	line, err := p.lines.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return "", driver.Labf("the launcher died (killed, or out of memory)")
	}
	if err != nil {
		return "", driver.Labf("read the launcher's report: %w", err)
	}
	line = strings.TrimSuffix(line, "\n")
	if strings.HasPrefix(line, "error ") {
		return "", stepError(line)
	}
	return line, nil
}

// stepError parses "error ERRNO STEP WHAT".
func stepError(line string) error {
	f := strings.SplitN(line, " ", 4)
	if len(f) < 4 {
		return fmt.Errorf("launcher: unreadable report %q", line)
	}
	errno, err := strconv.Atoi(f[1])
	if err != nil {
		return fmt.Errorf("launcher: unreadable report %q: %w", line, err)
	}
	failed := &Error{Step: f[2], What: f[3], Errno: syscall.Errno(errno)}
	if failed.full() {
		return &driver.LabError{Err: failed}
	}
	return failed
}

// Kill ends the payload (or the runtime, while it runs) with SIGKILL; Wait
// returns soon after. What the payload has left behind is for Close. Killing
// what has ended is no error.
func (p *Process) Kill() error {
	p.killed.Store(true)
	// The launcher knows what runs, at every moment; 'k' makes it kill that.
	_, err := p.goPipe.Write([]byte{'k'})
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		return driver.Labf("tell the launcher to kill: %w", err)
	}
	return nil
}

// Close ends and reaps the launcher, what it launched, and what that has left.
// It is idempotent.
func (p *Process) Close() error {
	p.closed.Do(func() { p.closeErr = p.close() })
	return p.closeErr
}

func (p *Process) close() error {
	p.goPipe.Close() // EOF: the launcher kills and reaps what there is, and ends
	ended := make(chan error, 1)
	go func() {
		_, err := p.starter.Wait()
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-time.After(grace):
		// Something of it hangs in the kernel: what is left is found by cgroup.
		err = p.starter.Kill()
		if errors.Is(err, os.ErrProcessDone) {
			err = nil // it ended in this moment
		}
		err = errors.Join(err, <-ended)
	}
	p.report.Close()
	p.pidMu.Lock() // after the launcher's end nobody waits in PID
	defer p.pidMu.Unlock()
	fd := p.pidPipe
	p.pidPipe = -1
	return errors.Join(err, unix.Close(fd))
}

// parseExit parses "WHO STATUS USER_US SYS_US MAXRSS_KB MINFLT MAJFLT NVCSW NIVCSW".
func parseExit(line, who string) (driver.Exit, error) {
	var got string
	var status uint32
	var user, system, rss int64
	var u driver.Usage
	_, err := fmt.Sscanf(line, "%s %d %d %d %d %d %d %d %d", &got, &status, &user, &system, &rss,
		&u.MinorFaults, &u.MajorFaults, &u.VoluntarySwitches, &u.InvoluntarySwitches)
	if err != nil || got != who {
		return driver.Exit{}, fmt.Errorf("launcher: unreadable report %q in place of the %s's exit", line, who)
	}
	u.User, u.System = time.Duration(user)*time.Microsecond, time.Duration(system)*time.Microsecond
	u.MaxRSS = rss << 10
	exit := driver.Exit{Usage: &u}
	if ws := unix.WaitStatus(status); ws.Signaled() {
		exit.Signal = int(ws.Signal())
	} else {
		exit.Code = ws.ExitStatus()
	}
	return exit, nil
}
