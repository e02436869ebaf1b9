package launch

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// Step is one thing that the launcher does: a name and its arguments, as
// helpers/launch.c's table of steps knows them. A step that fails ends the
// launch with an Error that carries the step's name and the errno.
type Step []string

// Unshare moves the launcher into new namespaces (CLONE_NEW* flags). A new
// mount namespace still propagates from the host until a Mount step with
// MS_REC|MS_PRIVATE on "/" follows; PrivateMounts does both.
func Unshare(flags uintptr) Step { return Step{"unshare", number(flags)} }

// Joins is how targets of this launcher get on a network: root alone may enter a
// namespace.
func Joins(root bool) driver.Joining {
	if root {
		return driver.JoinsNamespace
	}
	return ""
}

// Network moves the launcher into the network namespace at path.
func Network(path string) Step { return Step{"netns", path} }

// PrivateMounts are the steps that give the launcher a mount namespace whose
// changes the host does not see.
func PrivateMounts() []Step {
	return []Step{Unshare(unix.CLONE_NEWNS), Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")}
}

// HideUnified are the steps that cover cgroup v2 where the machine has both versions, for
// programs that refuse that. The tree is covered, not unmounted: a user namespace may not
// unmount what it has inherited, and crun makes directories there, which must not land in
// the host's file system below the mount.
func HideUnified() ([]Step, error) {
	trees, err := sys.Cgroups()
	if err != nil {
		return nil, driver.Labf("find the cgroup hierarchies: %w", err)
	}
	i := slices.IndexFunc(trees.All, func(h sys.Hierarchy) bool { return h.Version == 2 })
	if i < 0 || trees.Mode != sys.Hybrid {
		return nil, nil
	}
	return []Step{Mount(driver.Label, trees.All[i].Path, "tmpfs", 0, "size=1m,mode=755")}, nil
}

// Maps writes the launcher's uid and gid maps after a new user namespace, in
// the syntax of /proc/self/uid_map, and denies setgroups as the kernel asks of
// a process without privilege.
func Maps(uid, gid string) Step { return Step{"maps", uid, gid} }

// Mount is mount(2); an empty source, kind or data is NULL.
func Mount(source, dir, kind string, flags uintptr, data string) Step {
	return Step{"mount", source, dir, kind, number(flags), data}
}

// Bind is a recursive bind mount of source on dir, a path that tare made itself.
func Bind(source, dir string) Step { return Mount(source, dir, "", unix.MS_BIND|unix.MS_REC, "") }

// Root opens dir, a root file system that others made, for the steps Enter and
// bindIn: they look paths up inside it, so that no link leads out of it.
func Root(dir string) Step { return Step{"root", dir} }

// Enter makes dir, a path below Root, the current directory, to be mounted on as
// ".". What is missing of it is made; no link may lead to it.
func Enter(dir string) Step { return Step{"enter", dir} }

// bindIn is a recursive bind mount of source, a directory or a file, on target, a
// path below Root. What is missing of it is made, and links are followed inside.
func bindIn(source, target string, isDir, readOnly bool) Step {
	return Step{"bind", source, target, flag(isDir), flag(readOnly)}
}

// Mask hides path, a file or a directory of the kernel's file systems below the
// process's own root. A path that does not exist is fine.
func Mask(path string) Step { return Step{"mask", path} }

// ReadOnly makes path, a file or a directory of the kernel's file systems below the
// process's own root, read-only. A path that does not exist is fine.
func ReadOnly(path string) Step { return Step{"readonly", path} }

// Mkdir makes one directory; one that exists is fine.
func Mkdir(dir string, mode uint32) Step { return Step{"mkdir", dir, number(uintptr(mode))} }

// touch makes an empty file, for a bind mount to stand on.
func touch(file string) Step { return Step{"touch", file} }

// mknod makes a character device node of exactly that mode, whatever the umask.
func mknod(file string, mode, major, minor uint32) Step {
	return Step{"mknod", file, number(uintptr(mode)), number(uintptr(unix.Mkdev(major, minor)))}
}

// symlink makes the link file, which says text.
func symlink(text, file string) Step { return Step{"symlink", text, file} }

// Write writes text to an existing file in one write(2).
func Write(file, text string) Step { return Step{"write", file, text} }

// Join moves the process into the cgroup whose directory is dir.
func Join(dir string) Step { return Step{"join", dir} }

// lookUp looks a file up below the root directory at, as a process would whose root
// that is, so that the first lookup in a fresh overlay lies before the clock.
func lookUp(at, file string) Step { return Step{"warm", at, file} }

// rehearse runs a program without arguments, its standard output thrown away, as
// the payload will be run: what is slow only the first time then lies before the
// clock.
func rehearse(program string) Step { return Step{"rehearse", program} }

// Chroot is chroot(2) followed by chdir("/").
func Chroot(dir string) Step { return Step{"chroot", dir} }

// Pivot makes the mount at dir the root and drops the old one.
func Pivot(dir string) Step { return Step{"pivot_root", dir} }

// OwnNull gives standard streams that are the machine's /dev/null that of the root's own
// /dev, so that the process holds no file of the machine.
func OwnNull() Step { return Step{"null"} }

// Chdir is chdir(2).
func Chdir(dir string) Step { return Step{"chdir", dir} }

// Hostname is sethostname(2).
func Hostname(name string) Step { return Step{"hostname", name} }

// Loopback sets the interface lo up.
func Loopback() Step { return Step{"loopback"} }

// Setsid makes the process the leader of a new session.
func Setsid() Step { return Step{"setsid"} }

// Keyring gives the process a session keyring of its own, which is empty.
func Keyring() Step { return Step{"keyring"} }

// IDs drops all supplementary groups and sets the three gids and uids.
func IDs(uid, gid uint32) Step {
	return Step{"ids", number(uintptr(uid)), number(uintptr(gid))}
}

// BoundingSet drops every capability that mask lacks from the bounding set.
func BoundingSet(mask uint64) Step { return Step{"bound", strconv.FormatUint(mask, 10)} }

// Capabilities sets the permitted and effective sets to what both mask and the
// permitted set hold, and empties the inheritable and ambient ones.
func Capabilities(mask uint64) Step { return Step{"caps", strconv.FormatUint(mask, 10)} }

// NoNewPrivs sets the no_new_privs bit.
func NoNewPrivs() Step { return Step{"no_new_privs"} }

// Seccomp loads the BPF program in file (an array of struct sock_filter in the
// machine's byte order). The file is read before the clock starts.
func Seccomp(file string) Step { return Step{"seccomp", file} }

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

func number(n uintptr) string { return strconv.FormatUint(uint64(n), 10) }
