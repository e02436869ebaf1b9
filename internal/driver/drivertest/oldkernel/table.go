package oldkernel

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// since are the kernels in which the system calls after Linux 3.10 came: syscalls(2), but
// for membarrier and pkey_*, which it dates earlier than the kernel's own history; for those
// after 5.14 the kernel's tables. Nothing is excepted: neither Go's runtime
// (Linux 3.2) nor the suite's busybox needs a younger call. The one that installs the
// filter is made before it holds.
var since = map[string]string{
	"sched_getattr": "3.14", "sched_setattr": "3.14", "renameat2": "3.15",
	"getrandom": "3.17", "kexec_file_load": "3.17", "memfd_create": "3.17", "seccomp": "3.17",
	"bpf": "3.18", "execveat": "3.19",
	"membarrier": "4.3", "userfaultfd": "4.3", "mlock2": "4.4", "copy_file_range": "4.5", "preadv2": "4.6", "pwritev2": "4.6",
	"pkey_alloc": "4.9", "pkey_free": "4.9", "pkey_mprotect": "4.9", "statx": "4.11", "riscv_flush_icache": "4.15",
	"io_pgetevents": "4.18", "rseq": "4.18",
	"io_uring_enter": "5.1", "io_uring_register": "5.1", "io_uring_setup": "5.1", "pidfd_send_signal": "5.1",
	"fsconfig": "5.2", "fsmount": "5.2", "fsopen": "5.2", "fspick": "5.2", "move_mount": "5.2", "open_tree": "5.2",
	"pidfd_open": "5.3",
	// It came in 5.3 and knows cgroups since 5.7. Its flags lie in memory, which a filter
	// cannot read: all of it is refused before it knows them.
	"clone3":  "5.7",
	"openat2": "5.6", "pidfd_getfd": "5.6", "faccessat2": "5.8", "close_range": "5.9", "process_madvise": "5.10",
	"epoll_pwait2": "5.11", "mount_setattr": "5.12",
	"landlock_add_rule": "5.13", "landlock_create_ruleset": "5.13", "landlock_restrict_self": "5.13",
	"memfd_secret": "5.14", "quotactl_fd": "5.14", "process_mrelease": "5.15", "futex_waitv": "5.16",
	"set_mempolicy_home_node": "5.17", "riscv_hwprobe": "6.4", "cachestat": "6.5", "fchmodat2": "6.6", "map_shadow_stack": "6.6",
	"futex_wake": "6.7", "futex_wait": "6.7", "futex_requeue": "6.7", "statmount": "6.8", "listmount": "6.8",
	"lsm_get_self_attr": "6.8", "lsm_set_self_attr": "6.8", "lsm_list_modules": "6.8", "mseal": "6.10", "uretprobe": "6.11",
	"setxattrat": "6.13", "getxattrat": "6.13", "listxattrat": "6.13", "removexattrat": "6.13", "open_tree_attr": "6.15",
	"file_getattr": "6.17", "file_setattr": "6.17",
}

// use is a use of an older call that came later: what a filter can tell by an argument.
type use struct {
	what  string
	call  string
	since string
	arg   int    // which argument decides, from 0
	mask  uint32 // of which bits
	value uint32 // that they have
	errno unix.Errno
}

// uses are what tare asks older calls for. An overlay's mount cannot be told by its type,
// which lies in memory, but by its flags: tare mounts nothing else with these alone.
var uses = []use{
	{"PERF_FLAG_FD_CLOEXEC", "perf_event_open", "3.14", 4, unix.PERF_FLAG_FD_CLOEXEC, unix.PERF_FLAG_FD_CLOEXEC, unix.EINVAL},
	{"overlayfs", "mount", "3.18", 3, ^uint32(0), 0, unix.ENODEV},
	{"overlayfs", "mount", "3.18", 3, ^uint32(0), unix.MS_NODEV, unix.ENODEV},
	{"overlayfs", "mount", "3.18", 3, ^uint32(0), unix.MS_SILENT, unix.ENODEV},
	{"cgroup namespaces", "unshare", "4.6", 0, unix.CLONE_NEWCGROUP, unix.CLONE_NEWCGROUP, unix.EINVAL},
}

// Older reports whether kernel a is older than b, both "5.10".
func Older(a, b string) bool { return version(a) < version(b) }

func version(v string) int {
	major, minor, ok := strings.Cut(v, ".")
	x, errX := strconv.Atoi(major)
	y, errY := strconv.Atoi(minor)
	if !ok || errX != nil || errY != nil {
		panic(fmt.Sprintf("%q is not a kernel's version", v))
	}
	return x*1000 + y
}
