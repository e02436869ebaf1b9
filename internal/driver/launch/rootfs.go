package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Rootfs is a private, writable view of a Spec's shared root file system: an
// overlay, whose directories lie in the instance's own, or a copy (see Writable).
type Rootfs struct {
	Dir     string // where the overlay is mounted
	spec    driver.Spec
	overlay sys.Overlay
	user    bool // mounted inside a user namespace
}

// NewRootfs makes the overlay's directories in dir; Mounts mounts it.
// inUserNamespace says that the steps run without root.
func NewRootfs(spec driver.Spec, dir string, inUserNamespace bool) (*Rootfs, error) {
	if err := isDir(spec.Rootfs); err != nil {
		return nil, err
	}
	r := &Rootfs{Dir: filepath.Join(dir, "root"), spec: spec, user: inUserNamespace,
		overlay: sys.Overlay{Lower: spec.Rootfs, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work")}}
	for _, d := range []string{r.Dir, r.overlay.Upper, r.overlay.Work} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, driver.Labf("make the overlay's directories: %w", err)
		}
	}
	return r, CopyLower(r.overlay)
}

// CopyLower copies the lower directory into the upper one where the kernel has no
// overlayfs: Writable mounts the copy. The clock times neither.
func CopyLower(o sys.Overlay) error {
	if sys.HasCall(sys.Overlayfs) {
		return nil
	}
	if err := sys.CopyTree(o.Upper, o.Lower); err != nil {
		return driver.Labf("this kernel has no overlayfs: %w", err)
	}
	return nil
}

// Writable mounts the overlay o at dir; where the kernel has no overlayfs it binds the
// copy that CopyLower has made. source is the mount's name. flags are of mount(2).
func Writable(source, dir string, o sys.Overlay, flags uintptr, inUserNamespace bool) []Step {
	if sys.HasCall(sys.Overlayfs) {
		return []Step{Mount(source, dir, "overlay", flags, o.Data(inUserNamespace))}
	}
	steps := []Step{Bind(o.Upper, dir)}
	if flags != 0 { // a bind mount gets its flags by a second call
		steps = append(steps, Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""))
	}
	return steps
}

func isDir(rootfs string) error {
	info, err := os.Stat(rootfs)
	if err != nil {
		return driver.Labf("root file system: %w", err)
	}
	if !info.IsDir() {
		return driver.Labf("root file system %s is not a directory", rootfs)
	}
	return nil
}

// Overlay mounts the overlay at Dir, under the instance's name, and makes it the
// Root of the steps that follow. flags are of mount(2): MS_NODEV where no device
// group guards the nodes that the root file system may hold.
func (r *Rootfs) Overlay(flags uintptr) []Step {
	return append(Writable(r.spec.ID, r.Dir, r.overlay, flags, r.user), Root(r.Dir))
}

// Shared bind-mounts the host's /proc, /sys and /dev below Root, and keeps what
// happens to these mounts from reaching the originals.
func (r *Rootfs) Shared() []Step {
	var steps []Step
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		steps = append(steps, Enter(dir), Bind(dir, "."))
	}
	return append(steps, Mount("", r.Dir, "", unix.MS_REC|unix.MS_PRIVATE, ""))
}

// Own mounts /proc, /sys and /dev below Root as a container has them: a proc and a
// read-only sysfs of its own, and a tmpfs with the six device nodes, the links,
// devpts, shared memory and message queues (OCI runtime specification,
// config-linux.md, "Default Filesystems" and "Default Devices"). The current
// directory is below Root afterwards.
func (r *Rootfs) Own() []Step {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	gid := ",gid=5"
	if r.user {
		gid = "" // the group tty is not mapped there
	}
	steps := []Step{
		Enter("/proc"), Mount("proc", ".", "proc", safe, ""),
		Enter("/sys"), Mount("sysfs", ".", "sysfs", safe|unix.MS_RDONLY, ""),
		Enter("/dev"), Mount("tmpfs", ".", "tmpfs", unix.MS_NOSUID|unix.MS_STRICTATIME, "mode=755,size=65536k"),
		Enter("/dev"), Mkdir("pts", 0o755), Mkdir("shm", 0o1777), Mkdir("mqueue", 0o755)}
	steps = append(steps, r.devices()...)
	return append(steps,
		symlink("/proc/self/fd", "fd"), symlink("/proc/self/fd/0", "stdin"),
		symlink("/proc/self/fd/1", "stdout"), symlink("/proc/self/fd/2", "stderr"), symlink("pts/ptmx", "ptmx"),
		Mount("devpts", "pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"+gid),
		Mount("shm", "shm", "tmpfs", safe, "mode=1777,size=65536k"),
		Mount("mqueue", "mqueue", "mqueue", safe, ""))
}

// devices makes the six nodes in the current directory; a user namespace may make
// none, and binds the host's.
func (r *Rootfs) devices() []Step {
	var steps []Step
	for _, d := range defaultDevices[:6] {
		if r.user {
			steps = append(steps, touch(d.name), Bind("/dev/"+d.name, d.name))
		} else {
			steps = append(steps, mknod(d.name, 0o666, d.major, d.minor))
		}
	}
	return steps
}

// Mounts are the Spec's bind mounts, below Root.
func (r *Rootfs) Mounts() ([]Step, error) {
	var steps []Step
	for _, m := range r.spec.Mounts {
		info, err := os.Stat(m.Source)
		if err != nil {
			return nil, driver.Labf("mount for %s: %w", m.Target, err)
		}
		steps = append(steps, bindIn(m.Source, m.Target, info.IsDir(), m.ReadOnly))
	}
	return steps, nil
}

// Warm looks up, below at, the files that the payload's start looks up: an
// overlay that has just been mounted knows none of them.
func Warm(at string, spec driver.Spec) []Step {
	var steps []Step
	for _, file := range spec.Opens {
		steps = append(steps, lookUp(at, file))
	}
	return steps
}

// Rehearsal starts the mark alone, once the launcher's root is the payload's,
// as the payload will be started. Where a root has no mark nothing starts.
func Rehearsal(spec driver.Spec) []Step {
	return append(Warm("/", spec), rehearse(driver.Mark))
}

// Clean makes the overlay's work directory removable: overlayfs leaves one
// without permissions in it, which stops a user who is not root.
func (r *Rootfs) Clean() error {
	err := os.Chmod(filepath.Join(r.overlay.Work, "work"), 0o700)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return driver.Labf("clean up the overlay: %w", err)
	}
	return nil
}

// UserNamespace are the steps by which a launcher without root gets the
// privileges that mounting takes: namespaces of its own for users and mounts,
// in which the payload's identity is tare's own.
func UserNamespace(as driver.User) []Step {
	return []Step{
		Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS),
		Maps(fmt.Sprintf("%d %d 1", as.UID, os.Geteuid()), fmt.Sprintf("%d %d 1", as.GID, os.Getegid())),
		Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
	}
}
