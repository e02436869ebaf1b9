package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
)

// The escape checks run payloads and root file systems that attack the machine.
// What they attack is the suite's own directory, or is put back as it was: a driver
// that fails them does no harm.

// behind skips a check of what a boundary keeps a payload from, where the driver
// says that it has none.
func (s *suite) behind() error {
	if !s.props.Boundary.Holds() {
		return lackf("%s is not a boundary, and says so", s.driver.Name())
	}
	return nil
}

// behindKernel skips a check of the machine's own kernel as well, where the payload
// has another one.
func (s *suite) behindKernel() error {
	if err := s.behind(); err != nil {
		return err
	}
	if s.props.Boundary != driver.ContainerBoundary {
		return lackf("in %s the payload has a kernel of its own", s.driver.Name())
	}
	return nil
}

// checkLinks gives the driver root file systems whose mount points are links out of
// them. At a2ee321, host and every rung of native followed "dev ->
// proc/self/root/DIR": host made 24 mounts over DIR on the machine, and exited with
// 0. A driver may follow a link inside the root, or refuse it.
func checkLinks(ctx context.Context, s *suite) error {
	victim := filepath.Join(s.dir, "victim")
	defer os.RemoveAll(victim)
	if err := os.MkdirAll(filepath.Join(victim, "below"), 0o755); err != nil {
		return err
	}
	texts := []string{"proc/self/root" + victim, victim, strings.Repeat("../", 40) + victim[1:], "/proc/1/root" + victim, "proc/self/cwd"}
	links := []string{"dev", "proc", "sys", "data/here"}
	if s.slow() {
		texts, links = texts[:1], links[:1]
	}
	var errs []error
	for _, link := range links {
		for n, text := range texts {
			err := s.follow(ctx, victim, link, text, fmt.Sprintf("links-%s-%d", filepath.Base(link), n))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s -> %s: %w", link, text, err))
			}
		}
	}
	return errors.Join(errs...)
}

// follow runs a payload in a root with one such link, and looks at what became of
// the directory that the link leads to.
func (s *suite) follow(ctx context.Context, victim, link, text, name string) error {
	j := sh("exit 0")
	j.rootfs = filepath.Join(s.dir, name)
	defer os.RemoveAll(j.rootfs)
	if err := makeRootfs(j.rootfs, s.opts.Lab.MarkPath); err != nil {
		return err
	}
	at := filepath.Join(j.rootfs, link)
	if err := errors.Join(os.RemoveAll(at), os.Symlink(text, at)); err != nil {
		return err
	}
	file := filepath.Join(s.dir, "mounted")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return err
	}
	defer os.Remove(file)
	// Mount points that are there behind the link, and others that are not.
	j.mounts = []driver.Mount{{Source: file, Target: "/data/here/file"}, {Source: s.dir, Target: "/data/here/below", ReadOnly: true}}
	before, err := s.ourMounts()
	if err != nil {
		return err
	}
	i, err := s.prepare(ctx, j)
	if err != nil {
		return errors.Join(s.untouched(victim, before), labFault(err))
	}
	if err = i.start(ctx); err == nil {
		_, err = i.wait(ctx)
	}
	return errors.Join(s.untouched(victim, before), labFault(err), i.close())
}

// labFault is an error only where the laboratory is at fault.
func labFault(err error) error {
	if driver.IsLab(err) {
		return fmt.Errorf("the root file system is at fault, not the laboratory: %w", err)
	}
	return nil
}

// untouched says what a driver did to the directory outside the root.
func (s *suite) untouched(victim string, before []string) error {
	var errs []error
	after, err := s.ourMounts()
	errs = append(errs, err)
	if len(after) > len(before) {
		for _, line := range after {
			if strings.Contains(line, victim) {
				errs = append(errs, fmt.Errorf("mounted over the machine: %s", line))
			}
		}
	}
	entries, err := os.ReadDir(victim)
	errs = append(errs, err)
	if len(entries) != 1 || entries[0].Name() != "below" {
		errs = append(errs, fmt.Errorf("made in a directory of the machine: %v", entries))
	}
	return errors.Join(errs...)
}

// checkKernelPaths reads what a container must not see of the kernel, and writes what
// it must not change: each value is the one that is there. At a2ee321 a payload of
// native set core_pattern, crashed, and ran a program as the machine's root.
func checkKernelPaths(ctx context.Context, s *suite) error {
	if err := s.behindKernel(); err != nil {
		return err
	}
	const pattern = "/proc/sys/kernel/core_pattern"
	before, err := os.ReadFile(pattern)
	if err != nil {
		return err
	}
	o := s.run(ctx, sh(`bad=0; fail() { echo "$@" >&2; bad=1; }
for f in /proc/kcore /proc/keys /proc/timer_list /proc/sched_debug /proc/latency_stats; do
	[ -e $f ] && [ -n "$(head -c 1 $f 2>/dev/null | od -An -tx1)" ] && fail "$f can be read"
done
for d in /proc/scsi /proc/acpi /sys/firmware; do
	[ -d $d ] && [ -n "$(ls -A $d 2>/dev/null)" ] && fail "$d can be listed"
done
[ -e /proc/sys/kernel/core_pattern ] || fail "/proc/sys is missing"
for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/printk /proc/sys/vm/swappiness /proc/irq/default_smp_affinity /sys/kernel/uevent_helper /sys/kernel/profiling; do
	[ -e $f ] || continue
	v=$(cat $f 2>/dev/null)
	(echo "$v" >$f) 2>/dev/null && fail "$f can be written"
done
(true >/proc/sysrq-trigger) 2>/dev/null && fail "/proc/sysrq-trigger can be opened"
for how in "-t tmpfs none" "--bind /bin" "-t proc none" "-t cgroup none"; do
	mount $how /tmp 2>/dev/null && { fail "mount $how works"; umount /tmp; }
done
for how in "rw /sys" "rw /proc/sys"; do
	mount -o remount,bind,$how 2>/dev/null && fail "remount $how works"
done
exit $bad`))
	after, rerr := os.ReadFile(pattern)
	if rerr == nil && string(after) != string(before) {
		rerr = fmt.Errorf("core_pattern of the machine was %q and is %q", before, after)
	}
	return errors.Join(o.ok(), rerr)
}

// checkForeignDevices makes nodes of devices that are not a container's. Making may
// work, as in runc; opening must be forbidden, whether the device exists or not. At
// a2ee321 native opened loop-control, loop0 and fuse.
func checkForeignDevices(ctx context.Context, s *suite) error {
	if err := s.behindKernel(); err != nil {
		return err
	}
	return s.run(ctx, sh(`bad=0; cd /tmp
for d in "c 1 1" "c 1 4" "c 1 11" "c 10 229" "c 10 237" "c 10 232" "c 4 0" "b 7 0" "b 254 0" "b 8 0"; do
	for dir in /tmp /dev; do
		rm -f $dir/node; mknod $dir/node $d 2>/dev/null || continue
		said=$(true 2>&1 <$dir/node)
		case $said in *"not permitted"*|*"ermission denied"*) ;; *) echo "$d in $dir: ${said:-it can be opened}" >&2; bad=1;; esac
	done
done
rm -f /dev/node; exit $bad`)).ok()
}

// checkOwnDevices: every user may use the devices of a container, whatever the
// umask of who made them. At a2ee321 null was 0644 on host and native.
func checkOwnDevices(ctx context.Context, s *suite) error {
	j := sh(`for d in null zero full random urandom; do
	[ "$(stat -c %a /dev/$d)" = 666 ] || { echo "/dev/$d is $(stat -c %a /dev/$d)" >&2; exit 1; }
done
echo x >/dev/null && head -c 1 /dev/zero >/dev/null && head -c 1 /dev/urandom >/dev/null`)
	j.user = driver.User{UID: 1234, GID: 4321}
	return s.run(ctx, j).ok()
}

// checkDoors looks for descriptors and links of /proc by which a payload could leave
// its root: directories of the machine that a runtime has left open, and the machine's
// /dev/null, whose mode a payload that holds it can change for everybody.
func checkDoors(ctx context.Context, s *suite) error {
	if err := s.behind(); err != nil {
		return err
	}
	script := doors
	if s.behindKernel() == nil {
		script = ownNull + doors
	}
	return s.run(ctx, sh("bad=0\n"+script)).ok()
}

// ownNull looks at each stream that is a device.
const ownNull = `for fd in /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2; do
	[ ! -c $fd ] || [ $fd -ef /dev/null ] || { echo "$fd is the machine's $(readlink $fd)" >&2; bad=1; }
done
`

const doors = `[ -d /proc/self/fd ] || { echo "/proc/self/fd is missing" >&2; bad=1; }
for fd in /proc/self/fd/*; do
	case ${fd##*/} in 0|1|2) continue;; esac
	if [ -d $fd/.. ] && [ "$(readlink $fd)" != /proc/$$/fd ] && [ "$(readlink $fd)" != /proc/self/fd ]; then
		echo "descriptor $fd is the directory $(readlink $fd)" >&2; bad=1
	fi
done
for root in /proc/self/root /proc/1/root; do
	[ -e $root ] || continue
	[ -e $root/.tare/mark ] || { echo "$root is another root" >&2; bad=1; }
	[ -e $root/../.tare/mark ] || { echo "$root/.. is another root" >&2; bad=1; }
done
exit $bad`

// gate is a reader's end that takes nothing until it is opened.
type gate struct{ open chan struct{} }

func (g gate) Write(p []byte) (int, error) {
	<-g.open
	return len(p), nil
}

// checkFlood has a payload that writes without end: to a reader that takes nothing,
// then to one that keeps up. It must be as easy to end as any other.
func checkFlood(ctx context.Context, s *suite) error {
	g := gate{make(chan struct{})}
	open := sync.OnceFunc(func() { close(g.open) })
	defer open()
	// Standard output alone, in which the mark comes first: a client that carries both in one
	// connection would wait for the reader of a flood in the other before it comes to the mark.
	j := sh("exec yes flood")
	j.stdout, j.stderr = g, g
	i, err := s.prepare(ctx, j)
	if err != nil {
		return err
	}
	err = i.cancelled(ctx, func(cancel func()) error {
		if err := i.ready(ctx); err != nil {
			return err
		}
		time.AfterFunc(200*time.Millisecond, cancel)
		return nil
	})
	open()
	if err = errors.Join(err, i.close()); err != nil {
		return fmt.Errorf("a flood that nobody reads: %w", err)
	}
	j = sh("yes flood >&2 & exec yes flood")
	j.stdout, j.stderr = opened(), opened()
	if i, err = s.prepare(ctx, j); err != nil {
		return err
	}
	if err = i.start(ctx); err == nil {
		err = i.ready(ctx)
	}
	time.Sleep(200 * time.Millisecond)
	if err = errors.Join(err, i.close()); err != nil {
		return fmt.Errorf("a flood: %w", err)
	}
	return nil
}

// opened is a gate that takes all.
func opened() gate {
	g := gate{make(chan struct{})}
	close(g.open)
	return g
}

// bombPids is the limit under which the fork bomb runs, and bombSlack what a runtime
// and its clients may add to it on the machine.
const (
	bombPids  = 64
	bombSlack = 48
)

// checkForkBomb doubles a payload's processes, up to 511 where nothing stops it. They
// are pipelines: a shell gives what it runs in the background /dev/null to read, and
// not every root has one.
func checkForkBomb(ctx context.Context, s *suite) error {
	if err := limitable(); err != nil {
		return err
	}
	j := sh(`bomb() { if [ $1 -gt 0 ]; then bomb $(($1-1)) | bomb $(($1-1)); else sleep 30; fi; }
bomb 8 2>&-`)
	j.limits = driver.Limits{Pids: bombPids}
	i, err := s.prepare(ctx, j)
	if err != nil {
		return err
	}
	if err = i.start(ctx); err == nil {
		err = i.ready(ctx)
	}
	if err == nil {
		err = s.bounded(ctx)
	}
	return errors.Join(err, i.close())
}

// bounded watches the suite's processes until they have stopped growing.
func (s *suite) bounded(ctx context.Context) error {
	const looks = 8 // in a row without growth, on a machine that may be busy
	for most, same := 0, 0; same < looks && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		ours, err := s.ourProcesses()
		if err != nil {
			return err
		}
		if len(ours) > bombPids+bombSlack {
			return fmt.Errorf("a fork bomb made %d processes under a limit of %d", len(ours), bombPids)
		}
		if same++; len(ours) > most {
			most, same = len(ours), 0
		}
	}
	return nil
}

// killed reports whether a payload died of SIGKILL, as the target tells it: a kernel
// other than Linux lets process 1 kill itself.
func (s *suite) killed(o outcome) bool {
	return o.err == nil && o.close == nil && (o.exit.Signal == 9 || o.exit.Code == 128+9 && !s.props.ExactSignal)
}

// checkKillsInit has a payload kill all that it can see, and its init, while another
// instance runs. It does so only as process 1, the first of its own namespace.
func checkKillsInit(ctx context.Context, s *suite) error {
	if err := s.behind(); err != nil {
		return err
	}
	if !s.props.Isolated {
		return lackf("the payload of %s is not process 1", s.driver.Name())
	}
	hold, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hold.Close()
	defer release.Close()
	calm := sh("read x; exit 7")
	calm.stdin = hold
	other, err := s.prepare(ctx, calm)
	if err != nil {
		return err
	}
	if err = other.start(ctx); err == nil {
		err = other.ready(ctx)
	}
	if err == nil {
		o := s.run(ctx, sh(`[ $$ = 1 ] || { echo "process $$, not 1" >&2; exit 99; }
sleep 30 & kill -9 -1; kill -9 1; kill -15 1; exit 7`))
		if err = o.ended(7); err != nil && !s.killed(o) {
			err = fmt.Errorf("a payload that kills its init: %w", err)
		} else {
			err = nil
		}
	}
	release.Close()
	if err == nil {
		var exit driver.Exit
		if exit, err = other.wait(ctx); err == nil && exit.Code != 7 {
			err = fmt.Errorf("another instance ended with %s, want exit code 7", exitText(exit))
		}
	}
	return errors.Join(err, other.close())
}
