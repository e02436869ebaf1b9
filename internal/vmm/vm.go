package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
)

// Config is a machine and the surroundings that it runs in.
type Config struct {
	VMM      VMM
	Path     string // of the VMM's program
	Machine  Machine
	Dir      string                 // of the machine alone, which locks it: sockets and logs
	Launcher string                 // driver.Lab.LaunchPath
	Cgroup   string                 // of the VMM, as launch.Config has it
	Network  string                 // path of the network namespace that the VMM runs in; "" for the caller's
	Mark     func(Mark)             // told of every mark, once, in whatever goroutine sees it
	Line     func(line string)      // told of every line of the console; may be nil
	Patience map[Mark]time.Duration // how long each mark may take after the one before; DefaultPatience for those missing
	Slow     bool                   // a kernel that prints does not hang: Patience of MarkInit counts from its last line
}

// DefaultPatience is generous: it is for guests that hang, not for slow ones.
// Translated code on a busy machine takes long.
var DefaultPatience = map[Mark]time.Duration{
	MarkReady: 20 * time.Second, MarkRestored: time.Minute, MarkFirstByte: 30 * time.Second, MarkKernel: 10 * time.Second,
	MarkInit: 120 * time.Second, MarkAgent: 60 * time.Second,
}

// VM is a machine that is prepared, and then started once.
type VM struct {
	config  Config
	plan    plan
	process *launch.Process
	helpers []*launch.Process // that run beside it, from New to Close
	console *console
	words   words // what the VMM says
	dir     *os.File
	sockets map[string]*net.UnixListener
	made    []string // names in dir that are this machine's, or will be: only they are removed

	ctx       context.Context // ends with the machine
	cancel    context.CancelFunc
	running   sync.WaitGroup
	agent     chan net.Conn // the channels that came to be
	control   chan control  // of a machine that is to be saved, once it works
	failed    chan error    // the first thing that went wrong
	ended     chan struct{} // closed when the VMM has ended
	printed   chan struct{} // closed when the console has
	silent    chan struct{} // closed when the VMM says no more
	exit      driver.Exit   // valid then
	exitErr   error
	mu        sync.Mutex // guards what follows
	last      Mark
	awaited   Mark // by the watchdog; "" for none
	seen      map[Mark]bool
	watchdog  *time.Timer
	closers   []io.Closer
	watched   control      // the control channel while it is listened on; nil before
	button    func() error // presses the power button; nil before the control channel works, and where it cannot
	started   bool
	closeOnce sync.Once
	closeErr  error
}

// New makes all that lies before the start: sockets, log, and a launcher that
// waits. A machine that the VMM cannot have is a CannotError.
func New(ctx context.Context, config Config) (*VM, error) {
	if err := config.VMM.ask(ctx, config.Path, &config.Machine); err != nil {
		return nil, err
	}
	p, err := config.VMM.planned(config.Machine)
	if err != nil {
		return nil, err
	}
	v := &VM{
		config: config, plan: p, sockets: map[string]*net.UnixListener{}, seen: map[Mark]bool{},
		agent: make(chan net.Conn, len(p.channels)), control: make(chan control, 1), failed: make(chan error, 1), ended: make(chan struct{}), printed: make(chan struct{}), silent: make(chan struct{}),
	}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.console = newConsole(func(m Mark) {
		if v.awaits(m) { // what a restored guest prints when it ends is no beginning
			v.mark(m)
		}
	}, v.line)
	v.console.dead = func() {
		v.mark(MarkPanicked)
		time.AfterFunc(panicGrace, func() { v.fail(errors.New("the VMM went on after the kernel's panic")) })
	}
	if err := v.open(ctx); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// line takes a line of the console.
func (v *VM) line(text string) {
	if v.config.Slow {
		v.stir()
	}
	if v.config.Line != nil {
		v.config.Line(text)
	}
}

func (v *VM) open(ctx context.Context) error {
	var err error
	if v.dir, err = os.Open(v.config.Dir); err != nil {
		return driver.Labf("directory of the machine: %w", err)
	}
	if err := unix.Flock(int(v.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return driver.Labf("directory %s of the machine: it is another machine's: %w", v.config.Dir, err)
	}
	for _, p := range v.plugs() {
		if err := v.provide(p); err != nil {
			return driver.Labf("socket %s of the machine: %w", filepath.Join(v.config.Dir, p.socket), err)
		}
	}
	for name, data := range v.plan.files {
		v.made = append(v.made, name)
		if err := os.WriteFile(filepath.Join(v.config.Dir, name), data, 0o600); err != nil {
			return driver.Labf("file of the machine: %w", err)
		}
	}
	if v.plan.initrd != "" {
		v.made = append(v.made, initrdName)
		if err := copyInPages(filepath.Join(v.config.Dir, initrdName), v.plan.initrd); err != nil {
			return driver.Labf("initramfs of the machine: %w", err)
		}
	}
	says, err := v.pipe(func(r io.Reader) {
		defer close(v.silent)
		_, _ = io.Copy(&v.words, r) // to its end, whatever that is
	})
	if err != nil {
		return err
	}
	defer says.Close()
	stdio := driver.Stdio{Stdout: says, Stderr: says}
	if v.plan.console.socket == "" {
		if stdio.Stdout, err = v.pipe(v.print); err != nil {
			return err
		}
		defer stdio.Stdout.Close()
	}
	for _, h := range v.plan.helpers {
		if err := v.help(ctx, h, says); err != nil {
			return err
		}
	}
	steps := []launch.Step{launch.Chdir(v.config.Dir)}
	if v.config.Network != "" {
		steps = append(steps, launch.Network(v.config.Network))
	}
	v.process, err = launch.New(ctx, launch.Config{
		Launcher: v.config.Launcher, Args: append([]string{v.config.Path}, v.plan.args...),
		Env:   programEnvironment,
		Stdio: stdio, Cgroup: v.config.Cgroup,
		Pre: steps,
	})
	return err
}

// initrdName is the copy of an initramfs in the machine's directory.
const initrdName = "initrd"

// copyInPages copies a file, and fills its last page with zeros, over which the kernel
// reads in an initramfs.
func copyInPages(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	const page = 4096
	size, err := io.Copy(out, in)
	if err == nil {
		err = out.Truncate((size + page - 1) / page * page)
	}
	return errors.Join(err, out.Close())
}

// provide makes a plug's socket where it is tare's to make; a place where the VMM will
// make it must be free, or tare would talk to whoever is there.
func (v *VM) provide(p plug) error {
	if p.socket == "" {
		return nil
	}
	if p.dial {
		if _, err := os.Lstat(filepath.Join(v.config.Dir, p.socket)); !errors.Is(err, os.ErrNotExist) {
			return cmp.Or[error](err, syscall.EADDRINUSE)
		}
	} else {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: v.address(p), Net: "unix"})
		if err != nil {
			return err
		}
		// Its name is a way through /proc that ends with this process.
		l.SetUnlinkOnClose(false)
		v.sockets[p.socket] = l
	}
	v.made = append(v.made, p.socket)
	return nil
}

// pipe gives the end that the VMM writes to; read takes the other one to its end.
func (v *VM) pipe(read func(io.Reader)) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, driver.Labf("pipe of the machine: %w", err)
	}
	v.keep(r)
	v.running.Go(func() { read(r) })
	return w, nil
}

// plugs are all connections.
func (v *VM) plugs() []plug {
	return append([]plug{v.plan.console, v.plan.control}, v.plan.channels...)
}

// address names a socket by the directory's descriptor: a path may be longer
// than a socket's address holds (unix(7)).
func (v *VM) address(p plug) string {
	return "/proc/self/fd/" + strconv.Itoa(int(v.dir.Fd())) + "/" + p.socket
}

// keep has something closed with the machine.
func (v *VM) keep(c io.Closer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx.Err() != nil {
		c.Close()
		return
	}
	v.closers = append(v.closers, c)
}

// print takes the console to its end.
func (v *VM) print(from io.Reader) {
	defer close(v.printed)
	v.console.read(from)
}

// Start executes the VMM, and returns at once.
func (v *VM) Start() error {
	v.started = true
	if err := v.process.Go(); err != nil {
		return err
	}
	v.running.Go(v.wait)
	v.running.Go(func() {
		if v.process.PID() != 0 {
			v.mark(MarkExec)
		}
	})
	if v.plan.console.socket != "" {
		v.connect(v.plan.console, func(c net.Conn) { v.print(c) })
	}
	v.connect(v.plan.control, v.converse)
	for _, p := range v.plan.channels {
		v.connect(p, func(c net.Conn) { v.agent <- c })
	}
	return nil
}

// wait sees the VMM's end.
func (v *VM) wait() {
	defer close(v.ended)
	r, err := v.process.Wait(v.ctx)
	v.exit, v.exitErr = r.Payload, err
	if err == nil {
		v.mark(MarkPoweredOff)
	}
}

// connect does something with a plug's connection, once there is one.
func (v *VM) connect(p plug, use func(net.Conn)) {
	v.running.Go(func() {
		c, err := v.connection(p)
		if err != nil {
			return // the machine has ended, which others tell
		}
		v.keep(c)
		use(c)
	})
}

func (v *VM) connection(p plug) (net.Conn, error) {
	if !p.dial {
		l := v.sockets[p.socket]
		stop := context.AfterFunc(v.ctx, func() { _ = l.Close() }) // Accept tells
		defer stop()
		return l.Accept()
	}
	for {
		c, err := net.Dial("unix", v.address(p))
		if err == nil {
			return c, nil
		}
		select {
		case <-v.ended:
			return nil, err
		case <-v.ctx.Done():
			return nil, err
		case <-time.After(time.Millisecond): // the VMM makes its socket when it is ready
		}
	}
}

// converse brings the control channel up, and listens on it.
func (v *VM) converse(c net.Conn) {
	ctl, err := v.plan.protocol(v.ctx, c, v.config.Machine)
	if err == nil {
		v.power(ctl)
		v.mark(MarkReady)
		err = v.serve(ctl)
	}
	if err != nil && !Gone(err) { // a VMM that ended says so itself
		v.fail(fmt.Errorf("%s: %w", v.config.VMM.Name, err))
	}
}

// serve restores a guest that is to be restored, hands the channel over where the guest
// is to be saved, and else listens on it.
func (v *VM) serve(ctl control) error {
	if v.config.Machine.SaveTo != "" {
		v.control <- ctl
		return nil
	}
	if v.config.Machine.From != "" {
		if v.plan.restore != nil {
			if err := v.plan.restore(v.ctx, ctl, v.config.Machine); err != nil {
				return fmt.Errorf("restore the guest: %w", err)
			}
		}
		v.mark(MarkRestored)
	}
	v.mu.Lock()
	v.watched = ctl
	v.mu.Unlock()
	return ctl.watch()
}

// Save pauses the guest and saves it to Machine.SaveTo. The VMM stays as it is, to be
// ended by Close.
func (v *VM) Save(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	select {
	case ctl := <-v.control:
		return v.plan.save(ctx, ctl, v.config.Machine)
	case err := <-v.failed:
		return err
	case <-v.ended:
		return v.Explain(nil)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail notes the first thing that went wrong.
func (v *VM) fail(err error) {
	select {
	case v.failed <- err:
	default:
	}
}

// panicGrace is the time that a machine gets to end by itself after its kernel
// has panicked, and its console's last words to arrive.
const panicGrace = time.Second

// Marked tells the machine of a mark that its user saw: the agent's.
func (v *VM) Marked(m Mark) { v.mark(m) }

// Channels gives the connections on one of which the agent will speak.
func (v *VM) Channels() <-chan net.Conn { return v.agent }

// Failed gives what went wrong with the machine while it runs.
func (v *VM) Failed() <-chan error { return v.failed }

// Ended is closed when the VMM has ended.
func (v *VM) Ended() <-chan struct{} { return v.ended }

// Died says why a machine that has ended did not end well: the VMM failed, or the
// kernel panicked. It is nil for one that was switched off. Once it has returned,
// all that the console printed has been seen.
func (v *VM) Died() error {
	v.Settle()
	if v.exitErr == nil && v.exit.Code == 0 && v.exit.Signal == 0 && v.console.panicked() == "" {
		return nil
	}
	return v.Explain(nil)
}

// Used is what the VMM used from its exec to its end, as getrusage(2) counts it; nil
// before it has ended, and where nobody could tell.
func (v *VM) Used() *driver.Usage {
	select {
	case <-v.ended:
		return v.exit.Usage
	default:
		return nil
	}
}

// Settle waits for what a machine that has ended has printed: it is on its way.
func (v *VM) Settle() {
	late, cancel := context.WithTimeout(context.Background(), panicGrace)
	defer cancel()
	for _, end := range []chan struct{}{v.printed, v.silent} {
		select {
		case <-end:
		case <-late.Done():
		}
	}
}

// PID is the VMM's process; 0 before Start.
func (v *VM) PID() int { return v.process.PID() }

// LauncherPID is the process that the VMM is a child of.
func (v *VM) LauncherPID() int { return v.process.LauncherPID() }

// Console is what the guest printed last, up to 256 KiB.
func (v *VM) Console() []byte { return v.console.text() }

// Kill ends the VMM at once.
func (v *VM) Kill() error { return v.process.Kill() }

// tailLines of the console go into an error.
const tailLines = 20

// Explain adds to err what the machine itself tells: how the VMM ended and what
// it said, the kernel's panic, the last mark and the console's last lines. err
// nil asks why the VMM has ended.
func (v *VM) Explain(err error) error {
	select {
	case <-v.ended:
		v.Settle()
		if ended := v.howEnded(); err == nil || v.exit.Code != 0 || v.exit.Signal != 0 {
			if err == nil {
				err = ended
			} else {
				err = fmt.Errorf("%w: %w", err, ended)
			}
		}
	default:
	}
	if line := v.console.panicked(); line != "" {
		err = fmt.Errorf("the guest's kernel panicked: %s (%w)", line, err)
	}
	v.mu.Lock()
	last := v.last
	v.mu.Unlock()
	if last == "" {
		last = "none"
	}
	text := fmt.Sprintf("the last mark was %q", last)
	if tail := v.console.tail(tailLines); tail != "" {
		text += ", and the console ends:\n" + tail
	} else {
		text += ", and the console is empty"
	}
	return fmt.Errorf("%w; %s", err, text)
}

// howEnded words the VMM's end.
func (v *VM) howEnded() error {
	name := filepath.Base(v.config.Path)
	var how string
	switch {
	case v.exitErr != nil:
		return v.exitErr
	case v.exit.Signal != 0:
		how = fmt.Sprintf("%s was killed by signal %d (%v)", name, v.exit.Signal, syscall.Signal(v.exit.Signal))
	case v.exit.Code != 0:
		how = fmt.Sprintf("%s ended with exit code %d", name, v.exit.Code)
	default:
		how = name + " ended early: the guest was switched off or reset"
	}
	if text := v.words.text(); text != "" {
		how += ": " + text
	}
	return errors.New(how)
}

// Close ends the VMM and removes what belongs to the machine but its
// directory. It is idempotent.
func (v *VM) Close() error {
	v.closeOnce.Do(func() { v.closeErr = v.close() })
	return v.closeErr
}

func (v *VM) close() error {
	var errs []error
	if v.started {
		// Killed first: the goroutine that waits for it must not outlive it.
		errs = append(errs, v.process.Kill())
	}
	for _, p := range v.helpers {
		errs = append(errs, p.Kill())
	}
	v.mu.Lock()
	v.cancel()
	closers := v.closers
	v.closers = nil
	if v.watchdog != nil {
		v.watchdog.Stop()
	}
	v.mu.Unlock()
	for _, c := range closers {
		c.Close()
	}
	for _, l := range v.sockets {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	v.running.Wait()
	if v.process != nil {
		errs = append(errs, v.process.Close())
	}
	for _, p := range v.helpers {
		errs = append(errs, p.Close())
	}
	for _, name := range v.made {
		if err := os.Remove(filepath.Join(v.config.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if v.dir != nil {
		v.dir.Close()
	}
	return errors.Join(errs...)
}

// Gone reports whether an error is only that the other side has ended.
func Gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrDeadlineExceeded)
}
