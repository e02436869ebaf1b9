package native

import "golang.org/x/sys/unix"

// level is a rung of the ladder: everything up to it is switched on.
type level int

// The rungs, each adding one piece of isolation. /proc, /dev and /sys come
// before the root file system, so that a payload finds them on every rung.
//
// The cgroup is made in the v2 tree, where the payload is born by
// CLONE_INTO_CGROUP. Joining v1 hierarchies one by one costs as much as five
// namespaces, and no machine needs it any more: where there is a v2 tree, the
// payload is born in the v1 groups, which its launcher has entered before the
// clock, and what a runtime pays for joining them is a rung above the floor.
const (
	spawn      level = iota // vfork and execve in a chroot that was made before the clock
	pid                     // PID namespace
	uts                     // UTS namespace, host name
	ipc                     // IPC namespace
	net                     // network namespace, lo up; before the mounts, because a user namespace may mount sysfs only for a network of its own
	mount                   // mount namespace, made private
	proc                    // /proc, /dev and /sys of its own
	rootfs                  // overlay mounted and pivot_root, inside the clock
	cgroup                  // a cgroup of its own, made inside the clock, and a cgroup namespace
	privileges              // no_new_privs, and capabilities dropped to Docker's default set
	masked                  // paths of /proc and /sys hidden or read-only
	full                    // a device group: with it the floor is a boundary, equal to runc's defaults
	cgroupV1                // on a hybrid machine: cgroups of its own in the v1 hierarchies too
	seccomp                 // Docker's default seccomp profile
)

// names are the drivers' names; the floor proper is the one without a suffix.
var names = map[level]string{
	spawn: "native/spawn", pid: "native/pid", uts: "native/uts", ipc: "native/ipc", mount: "native/mount",
	proc: "native/proc", rootfs: "native/rootfs", net: "native/net", cgroup: "native/cgroup",
	privileges: "native/privileges", masked: "native/masked-paths", cgroupV1: "native/cgroup-v1", full: "native", seccomp: "native/seccomp",
}

// cloneFlags are the namespaces that clone3 itself makes. The cgroup namespace
// is not among them: its root is the cgroup of the moment, which v1 sets later.
func (l level) cloneFlags() uintptr {
	var flags uintptr
	for _, f := range []struct {
		from level
		flag uintptr
	}{{pid, unix.CLONE_NEWPID}, {uts, unix.CLONE_NEWUTS}, {ipc, unix.CLONE_NEWIPC}, {mount, unix.CLONE_NEWNS}, {net, unix.CLONE_NEWNET}} {
		if l >= f.from {
			flags |= f.flag
		}
	}
	return flags
}

// capabilities is bundle.Capabilities as a mask, without CAP_MKNOD: a payload has that one
// only where a device group keeps it from opening what it makes.
const capabilities = 1<<unix.CAP_AUDIT_WRITE | 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER |
	1<<unix.CAP_FSETID | 1<<unix.CAP_KILL | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_NET_RAW |
	1<<unix.CAP_SETFCAP | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_SETUID | 1<<unix.CAP_SYS_CHROOT
