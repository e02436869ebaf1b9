//go:build ignore

/*
 * floor: what native's start must cost at least: the same system calls in the
 * same order with the same payload, in one program without steps, launcher,
 * pipe or laboratory.
 *
 *     floor N ROOTFS SCRATCH V2 V1...
 *
 * ROOTFS holds /.tare/mark; SCRATCH is an empty directory, absolute as ROOTFS is; V2 is a directory of
 * the cgroup v2 tree ("-" for none) and V1... one of each v1 tree, all of them
 * usable as a parent. The device rules are those of version 2: without V2 there are
 * none, and CAP_MKNOD is dropped. It prints, one a line, the time of each start from the
 * first system call until the payload's mark has been read, in nanoseconds.
 * What is made and removed in between lies outside the clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../helpers/clone3.h"

enum { MAX_TREES = 16, NAME = 4096 };
#define DOCKER_CAPS 0xa80425fbULL /* moby, daemon/pkg/oci/caps/defaults.go */
#define CAP_MKNOD_BIT (1ULL << 27)

static char root[NAME], overlay[3 * NAME], v2[NAME], v1[MAX_TREES][NAME], v1procs[MAX_TREES][NAME];
static int trees;
extern char **environ;

static void die(const char *what) {
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void must(int bad, const char *what) {
	if (bad)
		die(what);
}

static int64_t now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* enter makes a directory of the root the current one, without following a link. */
static void enter(const char *name) {
	int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = openat(top, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	must(top < 0 || fd < 0 || fchdir(fd), name);
	close(fd);
	close(top);
}

static void join(const char *procs) {
	int fd = open(procs, O_WRONLY | O_CLOEXEC);

	must(fd < 0 || write(fd, "0", 1) != 1, procs);
	close(fd);
}

static void loopback(void) {
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r), "lo");
	close(fd);
}

static void mounted(const char *type, const char *dir, unsigned long flags, const char *data) {
	must(mount(type, dir, type, flags, data), dir);
}

static void devices(void) {
	static const struct { const char *name; int major, minor; } all[] = {
		{ "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 } };
	static const char *const links[][2] = { { "/proc/self/fd", "fd" }, { "/proc/self/fd/0", "stdin" },
		{ "/proc/self/fd/1", "stdout" }, { "/proc/self/fd/2", "stderr" }, { "pts/ptmx", "ptmx" } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		must(mknod(all[i].name, S_IFCHR | 0666, makedev(all[i].major, all[i].minor)), all[i].name);
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		must(symlink(links[i][0], links[i][1]), links[i][1]);
}

static void mounts(void) {
	const unsigned long safe = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
	must(mount("floor", root, "overlay", 0, overlay), "overlay");
	enter("proc");
	mounted("proc", ".", safe, NULL);
	enter("sys");
	mounted("sysfs", ".", safe | MS_RDONLY, NULL);
	enter("dev");
	mounted("tmpfs", ".", MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k");
	enter("dev");
	must(mkdir("pts", 0755), "dev/pts");
	must(mkdir("shm", 01777), "dev/shm");
	must(mkdir("mqueue", 0755), "dev/mqueue");
	devices();
	mounted("devpts", "pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5");
	mounted("tmpfs", "shm", safe, "mode=1777,size=65536k");
	mounted("mqueue", "mqueue", safe, NULL);
	must(chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"), "pivot_root");
}

/* hide makes paths of the kernel's file systems unreadable or read-only (moby,
 * daemon/pkg/oci/defaults.go). */
static void hide(void) {
	static const char *const masked[] = { "/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap" };
	static const char *const fixed[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger" };
	struct statvfs st;

	for (size_t i = 0; i < sizeof masked / sizeof *masked; i++)
		if (mount("/dev/null", masked[i], NULL, MS_BIND, NULL) && errno != ENOENT)
			must(errno != ENOTDIR || mount("tmpfs", masked[i], "tmpfs", MS_RDONLY, "size=0k"), masked[i]);
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
		if (mount(fixed[i], fixed[i], NULL, MS_BIND | MS_REC, NULL)) {
			must(errno != ENOENT, fixed[i]);
			continue;
		}
		must(statvfs(fixed[i], &st) || mount(NULL, fixed[i], NULL, MS_REMOUNT | MS_BIND | MS_RDONLY |
			(st.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)), NULL), fixed[i]);
	}
}

/* rules make the program that decides which devices a group may open: any may be
 * made, and those of a container opened (runc, libcontainer/specconv). */
static struct bpf_insn rules[64];

#define INSN(c, d, s, o, i) (struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }

static struct bpf_insn *answer(struct bpf_insn *at, int yes) {
	*at++ = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, yes);
	*at++ = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	return at;
}

static int make_rules(void) {
	static const struct { int major, minor; } open[] = { { 1, 3 }, { 1, 5 }, { 1, 7 }, { 1, 8 }, { 1, 9 }, { 5, 0 }, { 5, 2 }, { 136, -1 } };
	struct bpf_insn *at = rules;

	*at++ = INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 0, 0);
	*at++ = INSN(BPF_ALU64 | BPF_MOV | BPF_X, 3, 2, 0, 0);
	*at++ = INSN(BPF_ALU64 | BPF_AND | BPF_K, 2, 0, 0, 0xffff);
	*at++ = INSN(BPF_ALU64 | BPF_RSH | BPF_K, 3, 0, 0, 16);
	*at++ = INSN(BPF_LDX | BPF_MEM | BPF_W, 4, 1, 4, 0);
	*at++ = INSN(BPF_LDX | BPF_MEM | BPF_W, 5, 1, 8, 0);
	*at++ = INSN(BPF_JMP | BPF_JNE | BPF_K, 3, 0, 2, BPF_DEVCG_ACC_MKNOD);
	at = answer(at, 1);
	*at++ = INSN(BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 2, BPF_DEVCG_DEV_CHAR);
	at = answer(at, 0);
	for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
		*at++ = INSN(BPF_JMP | BPF_JNE | BPF_K, 4, 0, open[i].minor < 0 ? 2 : 3, open[i].major);
		if (open[i].minor >= 0)
			*at++ = INSN(BPF_JMP | BPF_JNE | BPF_K, 5, 0, 2, open[i].minor);
		at = answer(at, 1);
	}
	return answer(at, 0) - rules;
}

static int rules_len;

static void guard(const char *group) {
	union bpf_attr load, attach;
	int loaded, fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(&load, 0, sizeof load);
	load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	load.insns = (uintptr_t)rules;
	load.insn_cnt = rules_len;
	load.license = (uintptr_t)"GPL";
	loaded = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof load);
	must(fd < 0 || loaded < 0, "device rules");
	memset(&attach, 0, sizeof attach);
	attach.target_fd = fd;
	attach.attach_bpf_fd = loaded;
	attach.attach_type = BPF_CGROUP_DEVICE;
	attach.attach_flags = BPF_F_ALLOW_MULTI;
	must(syscall(SYS_bpf, BPF_PROG_ATTACH, &attach, sizeof attach), "device rules");
	close(loaded);
	close(fd);
}

/* null puts the container's own /dev/null in the place of the machine's. */
static void null(void) {
	struct stat st;

	for (int i = 0; i < 3; i++) {
		if (fstat(i, &st) || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
			continue;
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		must(fd < 0 || dup2(fd, i) < 0, "/dev/null");
		close(fd);
	}
}

static void privileges(void) {
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];
	unsigned long long keep = *v2 ? DOCKER_CAPS : DOCKER_CAPS & ~CAP_MKNOD_BIT;

	must(syscall(SYS_keyctl, (unsigned long)KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0, "session keyring");
	for (int cap = 0; cap < 64; cap++)
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			break; /* past the last one */
	must(syscall(SYS_setgroups, 0UL, NULL) || syscall(SYS_setresgid, 0, 0, 0) || syscall(SYS_setresuid, 0, 0, 0), "ids");
	must(syscall(SYS_capget, &head, data), "capget");
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	must(syscall(SYS_capset, &head, data), "capset");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
}

static int child(void *unused) {
	static char *argv[] = { "/.tare/mark", NULL };

	(void)unused;
	for (int i = 0; i < trees; i++)
		join(v1procs[i]);
	must(unshare(CLONE_NEWCGROUP), "cgroup namespace");
	must(setsid() < 0, "setsid");
	loopback();
	mounts();
	null();
	hide();
	must(sethostname("tare-floor", 10), "hostname");
	privileges();
	umask(022);
	execve(argv[0], argv, environ);
	die("/.tare/mark");
	return 1;
}

static int64_t start(int out, pid_t *pid) {
	static char stack[65536] __attribute__((aligned(16)));
	struct clone3_args args = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWNET,
		.exit_signal = SIGCHLD, .stack = (uintptr_t)stack, .stack_size = sizeof stack };
	char acted[12];
	int into = -1;
	int64_t from = now();

	if (*v2) {
		must(mkdir(v2, 0755), v2);
		into = open(v2, O_PATH | O_DIRECTORY | O_CLOEXEC);
		must(into < 0, v2);
		args.flags |= CLONE_INTO_CGROUP_;
		args.cgroup = into;
		guard(v2);
	}
	for (int i = 0; i < trees; i++)
		must(mkdir(v1[i], 0755), v1[i]);
	long got = clone3_run(&args, child, NULL);
	if (got < 0) {
		errno = -got;
		die("clone3");
	}
	*pid = got;
	must(read(out, acted, sizeof acted) != sizeof acted, "the payload's mark");
	int64_t took = now() - from;
	if (into >= 0)
		close(into);
	return took;
}

static void remove_group(const char *dir) {
	for (int tries = 0; rmdir(dir); tries++) { /* the reaped process leaves it a moment later */
		must(errno != EBUSY || tries == 10000, dir);
		poll(NULL, 0, 1);
	}
}

int main(int argc, char **argv) {
	int out[2], n = argc > 4 ? atoi(argv[1]) : 0;
	char upper[NAME], work[NAME];

	if (n <= 0 || argc - 5 > MAX_TREES) {
		fprintf(stderr, "usage: floor N ROOTFS SCRATCH V2 V1...\n");
		return 2;
	}
	umask(0);
	rules_len = make_rules();
	must(pipe(out) || fcntl(out[0], F_SETFD, FD_CLOEXEC), "pipe");
	int results = fcntl(1, F_DUPFD_CLOEXEC, 10);
	must(results < 0 || dup2(out[1], 1) < 0, "standard output");
	fcntl(out[1], F_SETFD, FD_CLOEXEC);
	trees = argc - 5;
	for (int i = 0; i < n; i++) {
		pid_t pid;
		int status;

		alarm(60); /* a child that failed has said so, and no mark will come */
		/* Fresh directories each time, as every instance has. */
		snprintf(root, sizeof root, "%s/root%d", argv[3], i);
		snprintf(upper, sizeof upper, "%s/upper%d", argv[3], i);
		snprintf(work, sizeof work, "%s/work%d", argv[3], i);
		must(mkdir(root, 0755) || mkdir(upper, 0755) || mkdir(work, 0755), argv[3]);
		snprintf(overlay, sizeof overlay, "lowerdir=%s,upperdir=%s,workdir=%s", argv[2], upper, work);
		if (strcmp(argv[4], "-") != 0)
			snprintf(v2, sizeof v2, "%s/box%d", argv[4], i);
		for (int t = 0; t < trees; t++) {
			snprintf(v1[t], sizeof v1[t], "%s/box%d", argv[5 + t], i);
			must(snprintf(v1procs[t], sizeof v1procs[t], "%s/box%d/cgroup.procs", argv[5 + t], i) >= NAME, argv[5 + t]);
		}
		dprintf(results, "%lld\n", (long long)start(out[0], &pid));
		must(waitpid(pid, &status, 0) != pid || status != 0, "the payload's exit code");
		if (*v2)
			remove_group(v2);
		for (int t = 0; t < trees; t++)
			remove_group(v1[t]);
	}
	return 0;
}
