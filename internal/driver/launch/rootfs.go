package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Rootfs is a private, writable view of a Spec's shared root file system: an
// overlay, whose directories lie in the instance's own.
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
	return r, nil
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

// Overlay mounts the overlay at Dir, under the instance's name.
func (r *Rootfs) Overlay() Step {
	return Mount(r.spec.ID, r.Dir, "overlay", 0, r.overlay.Data(r.user))
}

// Shared bind-mounts the host's /proc, /sys and /dev below at, and keeps what
// happens to these mounts from reaching the originals.
func (r *Rootfs) Shared(at string) ([]Step, error) {
	var steps []Step
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		place, err := r.place(at, dir, true)
		if err != nil {
			return nil, err
		}
		steps = append(steps, place...)
		steps = append(steps, Bind(dir, path.Join(at, dir), false)...)
	}
	return append(steps, Mount("", path.Join(at, "/"), "", unix.MS_REC|unix.MS_PRIVATE, "")), nil
}

// Own mounts /proc, /sys and /dev below at as a container has them: a proc and a
// read-only sysfs of its own, and a tmpfs with the six device nodes, the links,
// devpts, shared memory and message queues (OCI runtime specification,
// config-linux.md, "Default Filesystems" and "Default Devices").
func (r *Rootfs) Own(at string) ([]Step, error) {
	var steps []Step
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		place, err := r.place(at, dir, true)
		if err != nil {
			return nil, err
		}
		steps = append(steps, place...)
	}
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	dev := path.Join(at, "dev")
	gid := ",gid=5"
	if r.user {
		gid = "" // the group tty is not mapped there
	}
	steps = append(steps,
		Mount("proc", path.Join(at, "proc"), "proc", safe, ""),
		Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID|unix.MS_STRICTATIME, "mode=755,size=65536k"),
		Mkdir(dev+"/pts", 0o755), Mkdir(dev+"/shm", 0o1777), Mkdir(dev+"/mqueue", 0o755))
	steps = append(steps, r.devices(dev)...)
	return append(steps,
		Symlink("/proc/self/fd", dev+"/fd"), Symlink("/proc/self/fd/0", dev+"/stdin"),
		Symlink("/proc/self/fd/1", dev+"/stdout"), Symlink("/proc/self/fd/2", dev+"/stderr"),
		Symlink("pts/ptmx", dev+"/ptmx"),
		Mount("devpts", dev+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"+gid),
		Mount("shm", dev+"/shm", "tmpfs", safe, "mode=1777,size=65536k"),
		Mount("mqueue", dev+"/mqueue", "mqueue", safe, ""),
		Mount("sysfs", path.Join(at, "sys"), "sysfs", safe|unix.MS_RDONLY, "")), nil
}

// devices makes the six nodes; a user namespace may make none, and binds the
// host's.
func (r *Rootfs) devices(dev string) []Step {
	var steps []Step
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		file := dev + "/" + d.name
		if r.user {
			steps = append(steps, Touch(file))
			steps = append(steps, Bind("/dev/"+d.name, file, false)...)
		} else {
			steps = append(steps, Mknod(file, 0o666, d.major, d.minor))
		}
	}
	return steps
}

// Mounts are the Spec's bind mounts, below at.
func (r *Rootfs) Mounts(at string) ([]Step, error) {
	var steps []Step
	for _, m := range r.spec.Mounts {
		info, err := os.Stat(m.Source)
		if err != nil {
			return nil, driver.Labf("mount for %s: %w", m.Target, err)
		}
		place, err := r.place(at, m.Target, info.IsDir())
		if err != nil {
			return nil, err
		}
		steps = append(steps, place...)
		steps = append(steps, Bind(m.Source, path.Join(at, m.Target), m.ReadOnly)...)
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

// place makes the missing parts of name, an absolute path in the root file
// system, for a mount to stand on. A symbolic link on the way that leads out of
// the root file system is an error.
func (r *Rootfs) place(at, name string, dir bool) ([]Step, error) {
	root, err := os.OpenRoot(r.spec.Rootfs)
	if err != nil {
		return nil, driver.Labf("root file system: %w", err)
	}
	defer root.Close()
	var steps []Step
	rel := strings.Trim(path.Clean("/"+name), "/")
	for i, part := range split(rel) {
		_, err := root.Stat(part)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("mount point %s in %s: %w", name, r.spec.Rootfs, err)
		}
		last := i == strings.Count(rel, "/")
		if last && !dir {
			steps = append(steps, Touch(path.Join(at, part)))
		} else {
			steps = append(steps, Mkdir(path.Join(at, part), 0o755))
		}
	}
	return steps, nil
}

// split gives a path's ancestors and itself: a, a/b, a/b/c.
func split(rel string) []string {
	var all []string
	for i, c := range rel {
		if c == '/' {
			all = append(all, rel[:i])
		}
	}
	return append(all, rel)
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
