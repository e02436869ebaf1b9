//go:build ignore

/*
 * floor: what native's start must cost at least: the same system calls in the
 * same order with the same payload, in one program without steps, launcher,
 * pipe or laboratory.
 *
 *     floor N ROOTFS SCRATCH V2 V1...
 *
 * ROOTFS holds /.tare/mark; SCRATCH is an empty directory; V2 is a directory of
 * the cgroup v2 tree ("-" for none) and V1... one of each v1 tree, all of them
 * usable as a parent. It prints, one a line, the time of each start from the
 * first system call until the payload's mark has been read, in nanoseconds.
 * What is made and removed in between lies outside the clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../helpers/clone3.h"

enum { MAX_TREES = 16, NAME = 4096 };
#define DOCKER_CAPS 0xa80425fbULL /* moby, daemon/pkg/oci/caps/defaults.go */

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

static const char *in(const char *name) {
	static char path[2 * NAME];

	snprintf(path, sizeof path, "%s/%s", root, name);
	return path;
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
	must(mount(type, in(dir), type, flags, data), dir);
}

static void devices(void) {
	static const struct { const char *name; int major, minor; } all[] = {
		{ "dev/null", 1, 3 }, { "dev/zero", 1, 5 }, { "dev/full", 1, 7 },
		{ "dev/random", 1, 8 }, { "dev/urandom", 1, 9 }, { "dev/tty", 5, 0 } };
	static const char *const links[][2] = { { "/proc/self/fd", "dev/fd" }, { "/proc/self/fd/0", "dev/stdin" },
		{ "/proc/self/fd/1", "dev/stdout" }, { "/proc/self/fd/2", "dev/stderr" }, { "pts/ptmx", "dev/ptmx" } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		must(mknod(in(all[i].name), S_IFCHR | 0666, makedev(all[i].major, all[i].minor)), all[i].name);
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		must(symlink(links[i][0], in(links[i][1])), links[i][1]);
}

static void mounts(void) {
	const unsigned long safe = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
	must(mount("floor", root, "overlay", 0, overlay), "overlay");
	mounted("proc", "proc", safe, NULL);
	mounted("tmpfs", "dev", MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k");
	must(mkdir(in("dev/pts"), 0755), "dev/pts");
	must(mkdir(in("dev/shm"), 01777), "dev/shm");
	must(mkdir(in("dev/mqueue"), 0755), "dev/mqueue");
	devices();
	mounted("devpts", "dev/pts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5");
	mounted("tmpfs", "dev/shm", safe, "mode=1777,size=65536k");
	mounted("mqueue", "dev/mqueue", safe, NULL);
	mounted("sysfs", "sys", safe | MS_RDONLY, NULL);
	must(chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"), "pivot_root");
}

static void privileges(void) {
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	for (int cap = 0; cap < 64; cap++)
		if (!(DOCKER_CAPS >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			break; /* past the last one */
	must(syscall(SYS_setgroups, 0UL, NULL) || syscall(SYS_setresgid, 0, 0, 0) || syscall(SYS_setresuid, 0, 0, 0), "ids");
	must(syscall(SYS_capget, &head, data), "capget");
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(DOCKER_CAPS >> 32 * i);
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
	must(sethostname("tare-floor", 10), "hostname");
	privileges();
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
	while (rmdir(dir)) { /* the reaped process leaves it a moment later */
		must(errno != EBUSY, dir);
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
	umask(022);
	must(pipe(out) || fcntl(out[0], F_SETFD, FD_CLOEXEC), "pipe");
	int results = fcntl(1, F_DUPFD_CLOEXEC, 10);
	must(results < 0 || dup2(out[1], 1) < 0, "standard output");
	fcntl(out[1], F_SETFD, FD_CLOEXEC);
	trees = argc - 5;
	for (int i = 0; i < n; i++) {
		pid_t pid;
		int status;

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
