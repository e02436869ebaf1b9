package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
	"github.com/tarelab/tare/internal/sys"
)

// private is an engine's daemon that tare has started for itself, in its own mount
// and network namespaces. Bridges, packet filter rules, network settings, mounts of
// containers and its files in /run are in these, and those of the host do not change.
// The namespaces end with the last process, so killing the cgroup cleans the machine.
// Files are below dir.
type private struct {
	dir     string
	cgroup  string // of the daemon and what it starts for itself
	process *launch.Process
	starts  []string // names of the daemons that it starts itself
	daemons daemonPIDs
	cpus    string // that its group is bound to, "" for all; the engine's lock guards it

	pid     int           // of the daemon
	died    chan struct{} // closed when the daemon has ended
	exit    driver.Exit   // how it ended; valid after died is closed
	cancel  context.CancelFunc
	awaited sync.WaitGroup // the goroutine that waits for that
	closed  sync.Once
	err     error
}

// environment is the environment of daemons and clients: a PATH for the programs that
// they run, and nothing of the user's.
func environment(lab driver.Lab) []string {
	dirs := append(append([]string{}, lab.ToolDirs...), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
	return []string{"PATH=" + strings.Join(dirs, ":"), "HOME=/root", "LANG=C.UTF-8"}
}

// startPrivate starts a daemon whose files are in dir. It does not wait until
// the daemon answers.
func startPrivate(ctx context.Context, lab driver.Lab, dir string, d daemonCommand) (*private, error) {
	p := &private{dir: dir, cgroup: path.Join(lab.Cgroup, filepath.Base(dir), "daemon"), starts: d.starts, died: make(chan struct{})}
	trees, err := sys.Cgroups()
	if err == nil {
		err = trees.Make(p.cgroup)
	}
	if err != nil {
		return nil, driver.Labf("group of the engine: %w", err)
	}
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, driver.Labf("log of the engine: %w", err)
	}
	defer log.Close()
	steps, err := surroundings(filepath.Dir(lab.RunDir), d)
	if err != nil {
		return nil, err
	}
	p.process, err = launch.New(ctx, launch.Config{
		Launcher: lab.LaunchPath, Args: d.args, Env: append(environment(lab), d.env...),
		Stdio: driver.Stdio{Stdout: log, Stderr: log}, Cgroup: p.cgroup, Pre: steps,
	})
	if err != nil {
		return nil, errors.Join(driver.Labf("surroundings of the engine: %w", err), trees.Remove(p.cgroup))
	}
	// A trial that binds tare to some CPUs may be under way; the engine stays for others.
	cpus, err := sys.AllowedCPUs()
	if err == nil {
		err = sys.BindThread(p.process.LauncherPID(), cpus)
	}
	if err == nil {
		err = p.process.Go()
	}
	if err != nil {
		return nil, errors.Join(err, p.process.Close(), trees.Remove(p.cgroup))
	}
	p.pid = p.process.PID()
	// Not the caller's context: the engine outlives the trial that needed it first.
	watched, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.awaited.Go(func() { p.boundLog(watched) })
	p.awaited.Go(func() {
		r, err := p.process.Wait(watched)
		if err == nil {
			p.exit = r.Payload
		}
		close(p.died)
		if watched.Err() == nil { // else it is taken away
			_ = trees.Kill(path.Dir(p.cgroup)) // its shims and containers would disturb the others; Close reports what does not die
		}
	})
	return p, nil
}

// surroundings are the steps that make the namespaces of a private engine. Files that
// engines and their shims keep at fixed paths (sockets in /run, locks in /dev/shm) are
// its own there. session is the directory that both sides see.
func surroundings(session string, d daemonCommand) ([]launch.Step, error) {
	for _, dir := range append([]string{"/run", "/var/run", "/dev/shm"}, d.hides...) {
		if strings.HasPrefix(session+"/", dir+"/") {
			return nil, driver.Labf("a private engine cannot live in %s, where it gets a file system of its own: choose another place with --state", session)
		}
	}
	steps := append(launch.PrivateMounts(), launch.Unshare(unix.CLONE_NEWNET), launch.Loopback(),
		launch.Mount(driver.Label, "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		steps = append(steps, launch.Mount(driver.Label, "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"))
	}
	for _, dir := range d.covers {
		steps = append(steps, cover(dir, session)...)
	}
	for _, dir := range append(hiddenModules(), d.hides...) {
		steps = append(steps, hide(dir, session)...)
	}
	if !d.hideUnified {
		return steps, nil
	}
	hidden, err := launch.HideUnified()
	return append(steps, hidden...), err
}

// moduleDirs are where modprobe looks for the kernel's modules.
var moduleDirs = []string{"/lib/modules", "/usr/lib/modules"}

// hiddenModules are those of them that the machine has. A private engine loads no
// modules: they are the whole machine's, and some change it at once. With br_netfilter,
// which dockerd asks for, the host's bridges begin to filter. What the kernel loads by
// itself (overlay, veth) it still does.
func hiddenModules() []string {
	var dirs []string
	for _, dir := range moduleDirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// cover lays an overlay over dir whose upper part is in /run. The session's
// directory, where it lies below, stays the real one.
func cover(dir, session string) []launch.Step {
	at := "/run/" + driver.Label + strings.ReplaceAll(dir, "/", "-")
	overlay := sys.Overlay{Lower: dir, Upper: at + "/upper", Work: at + "/work"}
	steps := []launch.Step{launch.Mkdir(at, 0o755), launch.Mkdir(overlay.Upper, 0o755), launch.Mkdir(overlay.Work, 0o755)}
	inside := strings.HasPrefix(session, dir+"/")
	if inside {
		steps = append(steps, launch.Mkdir(at+"/session", 0o755))
		steps = append(steps, launch.Bind(session, at+"/session"))
	}
	steps = append(steps, launch.Mount(driver.Label, dir, "overlay", 0, overlay.Data(false)))
	if inside {
		steps = append(steps, launch.Bind(at+"/session", session))
	}
	return steps
}

// hide mounts an empty file system at dir. Where the machine has no such directory, it
// is made in an overlay over its parent, so that the machine itself gets none. Where
// the parent is missing too, nothing is mounted.
func hide(dir, session string) []launch.Step {
	above := filepath.Dir(dir)
	if _, err := os.Stat(above); err != nil {
		return nil
	}
	var steps []launch.Step
	if _, err := os.Stat(dir); err != nil {
		steps = append(cover(above, session), launch.Mkdir(dir, 0o755))
	}
	return append(steps, launch.Mount(driver.Label, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
}

// shimTime is how long a shim may outlive the container that was removed.
const shimTime = time.Second

// endShim waits for the shim of a removed container to end, and kills one that does
// not. dockerd forgets the shim of a runtime whose start it has given up (runsc), and
// that shim would run during every later trial.
func (p *private) endShim(container string) {
	trees, err := sys.Cgroups()
	if p == nil || container == "" || err != nil {
		return
	}
	pids, err := trees.PIDs(p.cgroup)
	if err != nil {
		return // the group has gone with the engine
	}
	itsShim := func(pid int) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err == nil && strings.Contains(string(line), "-id\x00"+container+"\x00")
	}
	for _, pid := range pids {
		if !itsShim(pid) {
			continue
		}
		shim, err := sys.OpenProcess(pid)
		if err != nil {
			continue // it has ended meanwhile
		}
		if itsShim(pid) { // asked again, now that the number cannot become another's
			if ended, err := shim.EndsIn(shimTime); err == nil && !ended {
				_ = shim.Kill() // a group that stays is reported when it is removed
			}
		}
		_ = shim.Close()
	}
}

func (p *private) log() string { return filepath.Join(p.dir, "log") }

// alive reports whether the daemon still runs.
func (p *private) alive() bool {
	select {
	case <-p.died:
		return false
	default:
		return true
	}
}

// how names the signal that killed the daemon, for messages; "" for none.
func (p *private) how() string {
	if p.exit.Signal == 0 {
		return ""
	}
	return fmt.Sprintf(" (killed by signal %d)", p.exit.Signal)
}

// readyTime bounds how long an engine may take to answer, on a real CPU.
const readyTime = 30 * time.Second

// await asks until the engine answers, has ended, or takes too long.
func (p *private) await(ctx context.Context, most time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.died:
			return fmt.Errorf("it ended before it answered%s", p.said())
		case <-ctx.Done():
			return fmt.Errorf("it did not answer (%w): %w%s", ctx.Err(), err, p.said())
		case <-time.After(pause):
		}
	}
}

// saidBytes is how much of the log is searched for an error.
const saidBytes = 16 << 10

// said is the last error in the engine's log, for messages.
func (p *private) said() string {
	data, err := tail(p.log(), saidBytes)
	if err != nil {
		return ""
	}
	last := ""
	for line := range bytes.Lines(data) {
		text := string(bytes.TrimSpace(line))
		calm := strings.Contains(text, "level=warning") || strings.Contains(text, "level=info")
		severe := !calm && (strings.Contains(text, "level=error") || strings.Contains(text, "level=fatal") || strings.Contains(strings.ToLower(text), "failed") || strings.Contains(text, "Error:"))
		if severe {
			last = text
		}
	}
	if last == "" && !p.alive() && p.exit.Signal != 0 {
		return "" // it was killed, and had no time to say why
	}
	if last == "" {
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		last = lines[len(lines)-1]
	}
	if last == "" {
		return ""
	}
	return fmt.Sprintf("; it said: %.600s", last)
}

// The log of an engine that repeats an error does not fill the disk: it is looked at so
// often, and begins anew from so many bytes on. The engine writes at its end, wherever
// that is.
const (
	logLook  = 10 * time.Second
	logBytes = 16 << 20
)

// boundLog bounds the log until ctx or the engine ends.
func (p *private) boundLog(ctx context.Context) {
	for ticker := time.NewTicker(logLook); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-p.died:
			ticker.Stop()
			return
		case <-ticker.C:
			_ = shorten(p.log(), logBytes) // it is tried again
		}
	}
}

// shorten empties a file that has more bytes than most.
func shorten(file string, most int64) error {
	info, err := os.Lstat(file)
	if err != nil || info.Size() <= most {
		return err
	}
	return os.Truncate(file, 0)
}

// tail reads the end of a file, which may be long.
func tail(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
}

// Close kills the engine with all that it has started, and removes its files. They are
// its own, so removing them does not need the engine's help.
func (p *private) Close() error {
	p.closed.Do(func() { p.err = p.close() })
	return p.err
}

func (p *private) close() error {
	var errs []error
	p.cancel()
	p.awaited.Wait()
	errs = append(errs, p.process.Close())
	group := path.Dir(p.cgroup)
	if _, err := sys.RemoveCgroups(group); err != nil {
		errs = append(errs, err)
	}
	if err := sys.RemoveTree(p.dir); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return driver.Labf("take the engine away: %w", err)
	}
	return nil
}
