package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/target"
)

// grace is how long Close waits for a launcher to end by itself; only one that
// hangs in the kernel takes longer, and is killed then.
const grace = 2 * time.Second

// Process is one launcher and what it launched. Wait is for one goroutine;
// the other methods may be called from any.
type Process struct {
	name    string // base name of Args[0], for errors
	reap    bool
	goPipe  *os.File // a byte is the timed edge; a second one means kill; EOF means end
	report  *os.File
	lines   *bufio.Reader
	starter *os.Process // the launcher

	started sync.Once // guards reading the first reports
	first   error     // how that went
	pid     int       // the payload's; 0 when it never came to be
	pidfd   *os.File  // the payload's, when it is our child
	runtime *target.Exit

	closed   sync.Once
	closeErr error
	mu       sync.Mutex // guards what follows
	gone     bool       // Go was called
	reaped   bool       // the payload has been waited for
	killed   bool
}

// New starts a launcher, which enters cfg.Cgroup, does cfg.Pre and waits. It
// returns when the launcher is ready for Go, or an Error with the step that
// failed. Cancelling ctx ends only New itself.
func New(ctx context.Context, cfg Config) (*Process, error) {
	argv, err := arguments(cfg)
	if err != nil {
		return nil, err
	}
	p, err := spawn(cfg, argv)
	if err != nil {
		return nil, target.Labf("start the launcher %s: %w", cfg.Launcher, err)
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

// arguments is the launcher's command line; see the comment in guest/launch.c.
func arguments(cfg Config) ([]string, error) {
	argv := []string{cfg.Launcher}
	pre := cfg.Pre
	if cfg.Cgroup != "" {
		groups, err := sys.Cgroups()
		if err != nil {
			return nil, target.Labf("find the cgroup hierarchies: %w", err)
		}
		var joins []Step
		for _, dir := range groups.Dirs(cfg.Cgroup) {
			joins = append(joins, Join(dir))
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
	if cfg.Reap {
		mode = "reap"
	}
	argv = append(argv, "-"+mode, number(cfg.Clone), cfg.Into, cfg.PidFile, "--")
	return append(argv, cfg.Args...), nil
}

// spawn starts the launcher with descriptors 0-2 for the payload, 3 to be told
// and 4 to report.
func spawn(cfg Config, argv []string) (*Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	goRead, goWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer goRead.Close()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		goWrite.Close()
		return nil, err
	}
	defer reportWrite.Close()
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
		Files: []*os.File{or(cfg.Stdio.Stdin), or(cfg.Stdio.Stdout), or(cfg.Stdio.Stderr), goRead, reportWrite},
		// A session of its own: a terminal's Ctrl-C is tare's to handle, and the
		// payload must not die of it first.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		goWrite.Close()
		reportRead.Close()
		return nil, err
	}
	return &Process{name: filepath.Base(cfg.Args[0]), reap: cfg.Reap, goPipe: goWrite, report: reportRead,
		lines: bufio.NewReaderSize(reportRead, 512), starter: starter}, nil
}

// Go is the timed edge: one write of one byte.
func (p *Process) Go() error {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	if _, err := p.goPipe.Write([]byte{'g'}); err != nil {
		return target.Labf("wake the launcher: %w", err)
	}
	return nil
}

// PID is the payload's process id. It waits until the launcher has reported it
// (with Reap: until the runtime's command has ended), and is 0 before Go and
// where the launch failed.
func (p *Process) PID() int {
	p.mu.Lock()
	gone := p.gone
	p.mu.Unlock()
	if !gone || p.await() != nil {
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

func (p *Process) wait() (Result, error) {
	if err := p.await(); err != nil {
		return Result{Runtime: p.runtime}, err
	}
	if !p.reap {
		exit, err := sys.WaitPidfd(p.pidfd)
		p.mu.Lock()
		p.reaped = err == nil
		p.mu.Unlock()
		return Result{Payload: exitOf(exit)}, err
	}
	line, err := p.read()
	if err != nil {
		return Result{Runtime: p.runtime}, err
	}
	exit, err := parseExit(line, "payload")
	return Result{Payload: exit, Runtime: p.runtime}, err
}

// await reads the reports up to the payload's pid, once.
func (p *Process) await() error {
	p.started.Do(func() { p.first = p.readStart() })
	return p.first
}

func (p *Process) readStart() error {
	line, err := p.read()
	if err != nil {
		return err
	}
	if p.reap {
		exit, err := parseExit(line, "runtime")
		if err != nil {
			return err
		}
		p.runtime = &exit
		if exit.Code != 0 || exit.Signal != 0 {
			return p.runtimeError("")
		}
		if line, err = p.read(); err != nil {
			return err
		}
		if why, ok := strings.CutPrefix(line, "lost "); ok {
			return p.runtimeError(why)
		}
	}
	if _, err := fmt.Sscanf(line, "pid %d", &p.pid); err != nil {
		return fmt.Errorf("launcher: unreadable report %q: %w", line, err)
	}
	if p.reap {
		return nil
	}
	p.pidfd, err = sys.OpenPidfd(p.pid)
	return err
}

func (p *Process) runtimeError(why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return ErrKilled
	}
	return &RuntimeError{Name: p.name, Exit: *p.runtime, Reason: why}
}

// read is the next report; one that says that a step failed becomes an Error.
func (p *Process) read() (string, error) {
	line, err := p.lines.ReadString('\n')
	if errors.Is(err, io.EOF) {
		return "", target.Labf("the launcher died (killed, or out of memory)")
	}
	if err != nil {
		return "", target.Labf("read the launcher's report: %w", err)
	}
	line = strings.TrimSuffix(line, "\n")
	if strings.HasPrefix(line, "error ") {
		return "", p.stepError(line)
	}
	return line, nil
}

// stepError parses "error ERRNO PID STEP WHAT" and reaps PID, the child that
// failed, when it is ours.
func (p *Process) stepError(line string) error {
	var errno, pid int
	var step string
	if _, err := fmt.Sscanf(line, "error %d %d %s", &errno, &pid, &step); err != nil {
		return fmt.Errorf("launcher: unreadable report %q: %w", line, err)
	}
	if pid > 0 {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil && err != unix.ECHILD {
			return target.Labf("reap the failed child %d: %w", pid, err)
		}
	}
	what := ""
	if f := strings.SplitN(line, " ", 5); len(f) == 5 {
		what = f[4]
	}
	return &Error{Step: step, What: what, Errno: syscall.Errno(errno)}
}

// Kill ends the payload (or the runtime, while it runs) with SIGKILL; Wait
// returns soon after. What the payload has left in its cgroup is the caller's
// to kill. Killing what has ended is no error.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	if p.reaped {
		return nil
	}
	// The launcher knows what runs, at every moment; 'k' makes it kill that.
	if _, err := p.goPipe.Write([]byte{'k'}); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		return target.Labf("tell the launcher to kill: %w", err)
	}
	return nil
}

// Close ends and reaps the launcher and what it launched. It is idempotent.
func (p *Process) Close() error {
	p.closed.Do(func() { p.closeErr = p.close() })
	return p.closeErr
}

func (p *Process) close() error {
	p.mu.Lock()
	gone, reaped := p.gone, p.reaped
	p.mu.Unlock()
	p.goPipe.Close() // EOF: the launcher kills what runs, and ends
	_ = p.report.SetReadDeadline(time.Now().Add(grace))
	var err error
	if gone && !p.reap && !reaped && p.await() == nil {
		// Ours to reap: the launcher has just been told to kill it.
		_ = p.pidfd.SetReadDeadline(time.Now().Add(grace))
		_, err = sys.WaitPidfd(p.pidfd)
	}
	if _, rest := io.Copy(io.Discard, p.lines); rest != nil {
		// It hangs in the kernel; what it leaves is found by cgroup and label.
		err = errors.Join(err, p.starter.Kill())
	}
	_, werr := p.starter.Wait()
	p.report.Close()
	if p.pidfd != nil {
		p.pidfd.Close()
	}
	return errors.Join(err, werr)
}

// parseExit parses "WHO STATUS USER_US SYS_US MAXRSS_KB MINFLT MAJFLT NVCSW NIVCSW".
func parseExit(line, who string) (target.Exit, error) {
	var got string
	var status uint32
	var user, system, rss int64
	var u target.Usage
	_, err := fmt.Sscanf(line, "%s %d %d %d %d %d %d %d %d", &got, &status, &user, &system, &rss,
		&u.MinorFaults, &u.MajorFaults, &u.VoluntarySwitches, &u.InvoluntarySwitches)
	if err != nil || got != who {
		return target.Exit{}, fmt.Errorf("launcher: unreadable report %q in place of the %s's exit", line, who)
	}
	u.User, u.System = time.Duration(user)*time.Microsecond, time.Duration(system)*time.Microsecond
	u.MaxRSS = rss << 10
	exit := target.Exit{Usage: &u}
	if ws := unix.WaitStatus(status); ws.Signaled() {
		exit.Signal = int(ws.Signal())
	} else {
		exit.Code = ws.ExitStatus()
	}
	return exit, nil
}

// exitOf turns what the kernel says into the seam's words.
func exitOf(e sys.Exit) target.Exit {
	u := e.Usage
	return target.Exit{Code: e.Code, Signal: e.Signal, Usage: &target.Usage{
		User: time.Duration(u.Utime.Nano()), System: time.Duration(u.Stime.Nano()),
		MaxRSS: int64(u.Maxrss) << 10, MinorFaults: int64(u.Minflt), MajorFaults: int64(u.Majflt),
		VoluntarySwitches: int64(u.Nvcsw), InvoluntarySwitches: int64(u.Nivcsw),
	}}
}
