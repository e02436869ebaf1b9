package hostinfo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// child runs a shell script in namespaces of its own; args come as $1 and so
// on. Whatever it mounts goes with it.
func child(ctx context.Context, attr *syscall.SysProcAttr, script string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "/bin/sh", append([]string{"-ec", script, "sh"}, args...)...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.SysProcAttr = &out, &errs, attr
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if err := c.Run(); err != nil {
		if said := strings.TrimSpace(errs.String()); said != "" {
			return "", fmt.Errorf("%w: %s", err, said)
		}
		return "", err
	}
	return out.String(), nil
}

// mapped is a user namespace in which the caller is root.
func mapped() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// private is a mount namespace whose mounts nobody else sees; for those who
// are not root, inside a user namespace.
func private() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		attr = mapped()
	}
	attr.Unshareflags = unix.CLONE_NEWNS // Go makes the mounts private after it
	return attr
}

func userNamespace(ctx context.Context) (string, error) {
	out, err := child(ctx, mapped(), "cat /proc/self/uid_map")
	if err != nil {
		return "", err
	}
	if f := strings.Fields(out); len(f) != 3 || f[0] != "0" {
		return "", fmt.Errorf("the child's uid map is %q", out)
	}
	return "a process became root in its own", nil
}

// namespaceKinds are those that containers have, with their clone(2) flags.
var namespaceKinds = []struct {
	name string
	flag uintptr
}{
	{"mnt", unix.CLONE_NEWNS}, {"pid", unix.CLONE_NEWPID}, {"net", unix.CLONE_NEWNET}, {"uts", unix.CLONE_NEWUTS},
	{"ipc", unix.CLONE_NEWIPC}, {"cgroup", unix.CLONE_NEWCGROUP}, {"time", unix.CLONE_NEWTIME},
}

// namespaces makes each kind on its own and sees that the child's differs.
func namespaces(ctx context.Context) (string, error) {
	var works []string
	fails := map[string][]string{} // by what was said: mostly it is the same of all
	for _, k := range namespaceKinds {
		attr := &syscall.SysProcAttr{Cloneflags: k.flag}
		if k.flag == unix.CLONE_NEWTIME { // clone(2) has no such flag; unshare moves the children
			attr = &syscall.SysProcAttr{Unshareflags: k.flag}
		}
		link := "/proc/self/ns/" + k.name
		own, err := os.Readlink(link)
		if err == nil {
			var got string
			if got, err = child(ctx, attr, `readlink "$1"`, link); err == nil && strings.TrimSpace(got) == own {
				err = errors.New("the child is in the parent's")
			}
		}
		if err != nil {
			fails[err.Error()] = append(fails[err.Error()], k.name)
			continue
		}
		works = append(works, k.name)
	}
	var said []string
	for _, text := range slices.Sorted(maps.Keys(fails)) {
		said = append(said, strings.Join(fails[text], " ")+": "+text)
	}
	if len(said) > 0 {
		return strings.Join(works, " "), errors.New(strings.Join(said, "; "))
	}
	return strings.Join(works, " "), nil
}

// overlay mounts one over two directories of a tmpfs, writes through it and
// sees where the writing went. The tmpfs hides the directory of temporary files from
// the child alone: one of its own would be left by a kill -9.
func overlay(ctx context.Context) (string, error) {
	const script = `mount -t tmpfs tare "$1"
cd "$1"; mkdir lower upper work merged; echo below > lower/file
mount -t overlay tare -o lowerdir=lower,upperdir=upper,workdir=work merged
echo above > merged/file
cat lower/file upper/file`
	out, err := child(ctx, private(), script, os.TempDir())
	if err != nil {
		return "", err
	}
	if out != "below\nabove\n" {
		return "", fmt.Errorf("writing through it gave %q", out)
	}
	if os.Geteuid() != 0 {
		return "mounted and written through, in a user namespace", nil
	}
	return "mounted and written through", nil
}

// tracepoints looks two of them up in a tracefs that its child alone sees.
func tracepoints(ctx context.Context) (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("tracefs is root's")
	}
	const script = `mount -t tracefs tare "$1"
for t in sched/sched_switch lock/contention_begin; do read -r id < "$1/events/$t/id" || { echo "no tracepoint $t" >&2; exit 1; }; done`
	if _, err := child(ctx, private(), script, os.TempDir()); err != nil {
		return "", err
	}
	return "sched:sched_switch, lock:contention_begin", nil
}
