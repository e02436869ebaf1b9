package sys

import (
	"errors"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call, or a use of one, that came after Linux 3.10, the least kernel,
// and that tare uses where the kernel has it.
type Call struct {
	Name    string // one of the Call constants
	Since   string // the first kernel that has it
	Instead string // what tare does on a kernel that has it not; "" where only the program of a target uses it

	has func() bool
}

// The names of calls that drivers ask for.
const (
	CallPidfd        = "pidfd_open"
	CallSeccomp      = "seccomp"
	CallMemfd        = "memfd_create"
	CallBPF          = "bpf"
	IntoCgroup       = "clone3 into a cgroup"
	CgroupNamespaces = "cgroup namespaces"
	Overlayfs        = "overlayfs"
)

// absent stands for an argument that no kernel accepts: no descriptor, no process, no
// operation has this number.
const absent = ^uintptr(0)

// calls are all of them, by age. Each is asked with arguments that no kernel accepts, or
// that do nothing.
var calls = []Call{
	{"getrandom", "3.17", "reads /dev/urandom", answers(unix.SYS_GETRANDOM, 0, 0, unix.GRND_NONBLOCK)},
	{CallSeccomp, "3.17", "prctl(PR_SET_SECCOMP)", answers(unix.SYS_SECCOMP, absent)},
	{CallMemfd, "3.17", "", answers(unix.SYS_MEMFD_CREATE, 0, absent)},
	{CallBPF, "3.18", "device rules of cgroup version 1; probes by perf events", answers(unix.SYS_BPF, absent)},
	{Overlayfs, "3.18", "copies the root file system for each instance, before the clock", hasOverlay},
	{"copy_file_range", "4.5", "reads and writes", answers(unix.SYS_COPY_FILE_RANGE, absent, 0, absent)},
	{CgroupNamespaces, "4.6", "payloads see the machine's cgroup paths", hasCgroupNamespaces},
	{"pidfd_send_signal", "5.1", "kill, after a look at the start time", answers(unix.SYS_PIDFD_SEND_SIGNAL, absent)},
	{CallPidfd, "5.3", "SIGCHLD, and the pid with its start time", answers(unix.SYS_PIDFD_OPEN, absent)},
	{"openat2", "5.6", "opens component by component, following no link", answers(unix.SYS_OPENAT2, absent)},
	{IntoCgroup, "5.7", "payloads join by cgroup.procs", clonesIntoCgroup},
	{"close_range", "5.11", "closes what /proc/self/fd lists", closesOnExec},
}

// MissingCalls are those that this kernel has not, by age. What cannot be found out
// without root counts as there.
var MissingCalls = sync.OnceValue(func() []Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return c.has() })
})

// HasCall reports whether this kernel has the call of that name, which is in the table.
func HasCall(name string) bool {
	return !slices.ContainsFunc(MissingCalls(), func(c Call) bool { return c.Name == name })
}

// answers asks a call and sees whether the kernel knows it. The filters of old sandboxes
// refuse with EPERM what they do not know; the kernel itself refuses only other users so.
func answers(number uintptr, args ...uintptr) func() bool {
	return func() bool {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		return errno != unix.ENOSYS && (errno != unix.EPERM || os.Geteuid() != 0)
	}
}

// closesOnExec asks for CLOSE_RANGE_CLOEXEC of no descriptor: 5.9 has the call without it.
func closesOnExec() bool {
	const none = 1<<32 - 1
	_, _, errno := unix.Syscall(unix.SYS_CLOSE_RANGE, none, none, unix.CLOSE_RANGE_CLOEXEC)
	return errno == 0
}

// clonesIntoCgroup asks for a child in a cgroup that no descriptor has open. A kernel
// that knows cgroups here says EBADF and makes none; others refuse the argument.
func clonesIntoCgroup() bool {
	args := struct {
		flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
	}{flags: unix.CLONE_INTO_CGROUP | unix.CLONE_VM | unix.CLONE_VFORK, exitSignal: uint64(unix.SIGCHLD), cgroup: 1<<31 - 1}
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	return errno == unix.EBADF
}

// hasCgroupNamespaces makes one for a thread that ends with it. A kernel that has none
// says EINVAL; without root the answer is EPERM.
func hasCgroupNamespaces() bool {
	var err error
	onThreadOfItsOwn(func() { err = unix.Unshare(unix.CLONE_NEWCGROUP) })
	return !errors.Is(err, unix.EINVAL)
}

// hasOverlay asks for a mount without the directories that it needs, which loads the
// module. Without root the answer is EPERM.
func hasOverlay() bool {
	return unix.Mount("tare", "/", "overlay", unix.MS_SILENT, "") != unix.ENODEV
}
