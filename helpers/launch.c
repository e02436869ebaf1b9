//go:build ignore

/*
 * launch: the launcher on the host's side.
 *
 *     launch -pre STEP... -go STEP... -child STEP...
 *            {-spawn|-warm|-reap} CLONEFLAGS INTO PIDFILE -- CMD ARG...
 *
 * It is started before the clock with the payload's standard streams as 0-2,
 * does the steps of -pre, reports "ready" and blocks. One byte on descriptor 3
 * is the timed edge: it does the steps of -go, clones with CLONEFLAGS (into the
 * cgroup v2 directory INTO unless ""), and the new process does the steps of
 * -child and executes CMD.
 *
 * -spawn: CMD is the payload. -warm: it is, and all but its execution comes before
 * the clock: the new process reports "ready" when it has done its steps, and the
 * byte is for it. -reap: CMD is an OCI runtime; the launcher waits
 * for it, then reads the container's pid from PIDFILE. As the nearest subreaper
 * it is the container's parent by then, and of all that a payload leaves behind.
 *
 * Reports, lines on descriptor 4:
 *     ready
 *     error ERRNO STEP WHAT        a step failed
 *     runtime|payload STATUS UTIME_US STIME_US MAXRSS_KB MINFLT MAJFLT NVCSW NIVCSW
 *     lost TEXT                    the runtime ended well, and left no container
 * and on descriptor 5, once, the payload's pid. It has a pipe of its own because
 * a report wakes the laboratory up, which would take a processor from the payload.
 *
 * A 'k' on descriptor 3 kills what runs; end of file kills it and all that it
 * has left, and ends the launcher: a laboratory that was killed leaves no payload.
 *
 * The launcher, not the laboratory, is the payload's parent: telling the pid
 * first and the exit later would cost the laboratory two wake-ups inside the
 * clock instead of one (measured: 20 us more), and what a payload leaves behind
 * would be init's to reap, which takes its time.
 *
 * The child shares the launcher's memory until execve (CLONE_VM|CLONE_VFORK),
 * on a stack of its own: no page table is copied inside the clock, and a step's
 * failure needs no pipe to be told.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clone3.h"

enum { GO = 3, REPORT = 4, PID = 5, MAX_STEPS = 512 };

/* What went wrong; the child writes it into the memory that it shares. */
static struct {
	const char *volatile step;
	const char *volatile what;
	volatile int err;
} failure;

static int fail(const char *step, const char *what) {
	failure.err = errno;
	failure.what = what;
	failure.step = step;
	return -1;
}

/* is_missing reports that the kernel has no such call. The filters of old sandboxes
 * refuse with EPERM what they do not know. */
static int is_missing(void) { return errno == ENOSYS || errno == EPERM; }

static unsigned long number(const char *s) { return strtoul(s, NULL, 10); }

static const char *opt(const char *s) { return *s ? s : NULL; }

/* put writes text to a file that exists, in one write, as kernel files want. */
static int put(const char *file, const char *text, size_t len) {
	int fd = open(file, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -1;
	if (write(fd, text, len) != (ssize_t)len)
		err = errno ? errno : EIO;
	close(fd);
	errno = err;
	return err ? -1 : 0;
}

/* ---- steps: one function each, with its arguments as text ---- */

static int do_write(char **a) { return put(a[0], a[1], strlen(a[1])); }

static int do_join(char **a) {
	char file[4096];

	if (snprintf(file, sizeof file, "%s/cgroup.procs", a[0]) >= (int)sizeof file) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return put(file, "0", 1);
}

static int do_unshare(char **a) { return unshare(number(a[0])); }

static int do_netns(char **a) {
	int fd = open(a[0], O_RDONLY | O_CLOEXEC), ok;

	if (fd < 0)
		return -1;
	ok = setns(fd, CLONE_NEWNET);
	close(fd);
	return ok;
}

static int do_maps(char **a) {
	if (put("/proc/self/setgroups", "deny", 4) && errno != ENOENT)
		return -1;
	if (put("/proc/self/uid_map", a[0], strlen(a[0])))
		return -1;
	return put("/proc/self/gid_map", a[1], strlen(a[1]));
}

static int do_mount(char **a) {
	return mount(opt(a[0]), a[1], opt(a[2]), number(a[3]), opt(a[4]));
}

static int do_umount(char **a) { return umount2(a[0], number(a[1])); }

static int do_mkdir(char **a) {
	return mkdir(a[0], number(a[1])) && errno != EEXIST ? -1 : 0;
}

static int do_touch(char **a) {
	int fd = open(a[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : close(fd);
}

/* The launcher's umask is 0: the mode is as it is asked for. */
static int do_mknod(char **a) { return mknod(a[0], S_IFCHR | number(a[1]), number(a[2])); }

static int do_symlink(char **a) { return symlink(a[0], a[1]); }

/* ---- a root file system that others made ----
 *
 * Its links are read as text and followed inside it, component by component, so
 * that none leads out: neither an absolute one, nor "..", nor one of /proc that
 * the kernel itself would follow. What is found is held by a descriptor: nothing
 * is looked up a second time.
 */

static int root = -1; /* the step "root" opens it */

enum { DEEPEST = 64, MOST_LINKS = 40 }; /* MAXSYMLINKS of the kernel */
enum make { AS_IT_IS, MAKE_DIR, MAKE_FILE };

/* way is a walk below root: the directories entered, and what is left of the path. */
struct way {
	int at[DEEPEST + 1], depth, links;
	char rest[4096];
};

static void leave(struct way *w, int depth) {
	while (w->depth > depth)
		close(w->at[w->depth--]);
}

static int enter_name(struct way *w, const char *name) {
	int fd = openat(w->at[w->depth], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (w->depth == DEEPEST) {
		close(fd);
		errno = ENAMETOOLONG;
		return -1;
	}
	w->at[++w->depth] = fd;
	return 0;
}

/* make_name makes what is missing: the last name as make says, others as directories. */
static int make_name(struct way *w, const char *name, enum make make) {
	int fd;

	if (make != MAKE_FILE || *w->rest)
		return mkdirat(w->at[w->depth], name, 0755) && errno != EEXIST ? -1 : 0;
	fd = openat(w->at[w->depth], name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}

/* follow puts the text of the link that was just entered before what is left. */
static int follow(struct way *w) {
	char text[sizeof w->rest];
	ssize_t n = readlinkat(w->at[w->depth], "", text, sizeof text - 1);
	size_t left = strlen(w->rest) + 1;

	if (n < 0)
		return -1;
	if (++w->links > MOST_LINKS) {
		errno = ELOOP;
		return -1;
	}
	if (n + 1 + left > sizeof w->rest) {
		errno = ENAMETOOLONG;
		return -1;
	}
	leave(w, *text == '/' ? 0 : w->depth - 1);
	memmove(w->rest + n + 1, w->rest, left);
	memcpy(w->rest, text, n);
	w->rest[n] = '/';
	return 0;
}

/* step_in enters the next name of the path. */
static int step_in(struct way *w, enum make make) {
	char name[NAME_MAX + 1];
	size_t skip = strspn(w->rest, "/"), len = strcspn(w->rest + skip, "/");
	struct stat st;

	if (len >= sizeof name) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(name, w->rest + skip, len);
	name[len] = 0;
	skip += len;
	skip += strspn(w->rest + skip, "/");
	memmove(w->rest, w->rest + skip, strlen(w->rest + skip) + 1);
	if (!len || strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		leave(w, w->depth ? w->depth - 1 : 0);
		return 0;
	}
	if (enter_name(w, name)) {
		if (errno != ENOENT || make == AS_IT_IS || make_name(w, name, make) || enter_name(w, name))
			return -1;
	}
	if (fstat(w->at[w->depth], &st))
		return -1;
	return S_ISLNK(st.st_mode) ? follow(w) : 0;
}

/* in_tree is an O_PATH descriptor of path below the directory top. No component is a
 * link to it where links is 0. */
static int in_tree(int top, const char *path, enum make make, int links) {
	struct way w = { .at = { top }, .links = links ? 0 : MOST_LINKS };
	int found;

	if (strlen(path) >= sizeof w.rest) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(w.rest, path);
	while (*w.rest)
		if (step_in(&w, make)) {
			int err = errno;

			leave(&w, 0);
			errno = err;
			return -1;
		}
	found = fcntl(w.at[w.depth], F_DUPFD_CLOEXEC, 0);
	leave(&w, 0);
	return found;
}

static int in_root(const char *path, enum make make, int links) { return in_tree(root, path, make, links); }

static int do_root(char **a) {
	if (root >= 0)
		close(root);
	root = open(a[0], O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -1 : 0;
}

/* enter makes an ordinary directory of the root the current one: the next steps
 * mount on ".". No link may lead there, as no runtime takes one for /proc. */
static int do_enter(char **a) {
	int fd = in_root(a[0], MAKE_DIR, 0), bad;

	if (fd < 0)
		return -1;
	bad = fchdir(fd);
	close(fd);
	return bad;
}

/* on names what fd has open, in a way that mount(2) takes. */
static const char *on(int fd) {
	static char name[32];

	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	return name;
}

/* remount_read_only keeps the other restrictions of the mount at path: the call
 * would lift them, and a user namespace has them locked. */
static int remount_read_only(const char *path) {
	struct statvfs st;

	if (statvfs(path, &st))
		return -1;
	return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | (st.f_flag & (ST_NOSUID | ST_NODEV | ST_NOEXEC)), NULL);
}

/* bind: a bind mount becomes read-only by a second call, on what the first one made. */
static int do_bind(char **a) {
	int dir = number(a[2]), read_only = number(a[3]), fd = in_root(a[1], dir ? MAKE_DIR : MAKE_FILE, 1), bad;

	if (fd < 0)
		return -1;
	bad = mount(a[0], on(fd), NULL, MS_BIND | MS_REC, NULL);
	close(fd);
	if (bad || !read_only)
		return bad;
	if ((fd = in_root(a[1], AS_IT_IS, 1)) < 0)
		return -1;
	bad = remount_read_only(on(fd));
	close(fd);
	return bad;
}

/* mask hides a path of the kernel's file systems, where it exists: a file behind
 * /dev/null, a directory behind an empty one. */
static int do_mask(char **a) {
	if (!mount("/dev/null", a[0], NULL, MS_BIND, NULL) || errno == ENOENT)
		return 0;
	if (errno != ENOTDIR)
		return -1;
	return mount("tmpfs", a[0], "tmpfs", MS_RDONLY, "size=0k");
}

/* readonly makes a path of the kernel's file systems read-only, where it exists. */
static int do_readonly(char **a) {
	if (mount(a[0], a[0], NULL, MS_BIND | MS_REC, NULL))
		return errno == ENOENT ? 0 : -1;
	return remount_read_only(a[0]);
}

/*
 * warm: what was made a moment ago knows none of its files yet, and the first to
 * look one up would pay for the laboratory's own preparation. A file that is not
 * there is looked up as well, and is no error. O_PATH: nothing is opened, so a
 * device or a pipe of that name does nothing.
 */
static int do_warm(char **a) {
	/* struct open_how of <linux/openat2.h>, which not every library has. */
	struct { uint64_t flags, mode, resolve; } how = { O_PATH | O_CLOEXEC, 0, 0x10 /* RESOLVE_IN_ROOT */ };
	int top = open(a[0], O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	if (top < 0)
		return -1;
	fd = syscall(SYS_openat2, top, a[1], &how, sizeof how);
	if (fd < 0 && is_missing()) /* before Linux 5.6 */
		fd = in_tree(top, a[1], AS_IT_IS, 1);
	if (fd >= 0)
		close(fd);
	return close(top);
}

/* ---- a rehearsal ---- */

static int nowhere = -1; /* /dev/null, opened while there surely is one */

static int rehearse_child(void *a) {
	char *argv[] = { *(char **)a, NULL };

	if (dup2(nowhere, 1) >= 0)
		execve(argv[0], argv, argv + 1);
	_exit(127);
}

static char stack[65536] __attribute__((aligned(16)));

/*
 * rehearse: the first process that is born of a new launcher in a new cgroup
 * takes longer than the next. It runs a program that does nothing but write to
 * its standard output, which goes nowhere; what comes of it is of no interest.
 */
static int do_rehearse(char **a) {
	int pid = clone(rehearse_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, a);

	if (pid < 0)
		return -1;
	while (waitpid(pid, NULL, 0) < 0)
		if (errno != EINTR)
			return -1;
	return 0;
}

static int do_chroot(char **a) { return chroot(a[0]) || chdir("/") ? -1 : 0; }

/* pivot: with "." for both, the old root is stacked on the new one, and one
 * umount takes it away; pivot_root(2) describes it. */
static int do_pivot(char **a) {
	if (chdir(a[0]) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH))
		return -1;
	return chdir("/");
}

/* null gives standard streams that are the machine's /dev/null that of the own /dev:
 * who holds the machine's can change its mode and its owner. */
static int do_null(char **a) {
	struct stat st;

	(void)a;
	for (int i = 0; i < 3; i++) {
		int fd, ok;

		if (fstat(i, &st) || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
			continue;
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -1;
		ok = dup2(fd, i);
		close(fd);
		if (ok < 0)
			return -1;
	}
	return 0;
}

static int do_chdir(char **a) { return chdir(a[0]); }

static int do_hostname(char **a) { return sethostname(a[0], strlen(a[0])); }

static int do_loopback(char **a) {
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ok;

	(void)a;
	if (fd < 0)
		return -1;
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	ok = ioctl(fd, SIOCSIFFLAGS, &r);
	close(fd);
	return ok;
}

static int do_setsid(char **a) {
	(void)a;
	return setsid() < 0 ? -1 : 0;
}

/* keyring leaves the session keyring of who has started the laboratory. Where there
 * are no keys, or a filter refuses the call, the payload has no way to them either. */
static int do_keyring(char **a) {
	(void)a;
	return syscall(SYS_keyctl, (unsigned long)KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && !is_missing() ? -1 : 0;
}

/* Raw calls: the library's would try to tell other threads, of which the child
 * that borrows the launcher's memory has none. */
static int do_ids(char **a) {
	unsigned long uid = number(a[0]), gid = number(a[1]);

	/* A user namespace without privilege denies setgroups: then there are none
	 * that count. */
	if (syscall(SYS_setgroups, 0UL, NULL) && errno != EPERM)
		return -1;
	if (syscall(SYS_setresgid, gid, gid, gid))
		return -1;
	return syscall(SYS_setresuid, uid, uid, uid);
}

static int do_bound(char **a) {
	unsigned long long keep = strtoull(a[0], NULL, 10);

	for (int cap = 0; cap < 64; cap++) {
		if (keep >> cap & 1)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
			return errno == EINVAL ? 0 : -1; /* past the last one */
	}
	return 0;
}

static int do_caps(char **a) {
	unsigned long long keep = strtoull(a[0], NULL, 10);
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return -1;
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(keep >> 32 * i);
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, data);
}

static int do_nnp(char **a) {
	(void)a;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* read_program reads a file of whole instructions while the steps are parsed, before
 * the clock, and returns their number. */
static int read_program(const char *file, void *to, size_t room, size_t one) {
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, to, room);

	if (fd >= 0)
		close(fd);
	if (n <= 0 || n % one) {
		errno = n < 0 ? errno : EINVAL;
		return -1;
	}
	return n / one;
}

static struct sock_filter program[BPF_MAXINSNS];
static struct sock_fprog filter = { 0, program };

static int read_seccomp(char **a) {
	int n = read_program(a[0], program, sizeof program, sizeof *program);

	filter.len = n < 0 ? 0 : n;
	return n < 0 ? -1 : 0;
}

static struct bpf_insn device_rules[512];
static int device_rules_len;

static int read_devices(char **a) {
	device_rules_len = read_program(a[1], device_rules, sizeof device_rules, sizeof *device_rules);
	return device_rules_len < 0 ? -1 : 0;
}

static int bpf(int call, union bpf_attr *attr) { return syscall(SYS_bpf, call, attr, sizeof *attr); }

/* devices attaches the program to a cgroup of version 2, where it lives as long as
 * the group does: it decides which devices those in the group may open. */
static int do_devices(char **a) {
	union bpf_attr load, attach;
	int group, loaded, bad = -1;

	memset(&load, 0, sizeof load);
	load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	load.insns = (uintptr_t)device_rules;
	load.insn_cnt = device_rules_len;
	load.license = (uintptr_t)"GPL";
	if ((loaded = bpf(BPF_PROG_LOAD, &load)) < 0)
		return -1;
	group = open(a[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (group >= 0) {
		memset(&attach, 0, sizeof attach);
		attach.target_fd = group;
		attach.attach_bpf_fd = loaded;
		attach.attach_type = BPF_CGROUP_DEVICE;
		attach.attach_flags = BPF_F_ALLOW_MULTI;
		bad = bpf(BPF_PROG_ATTACH, &attach);
		close(group);
	}
	close(loaded);
	return bad;
}

static int do_seccomp(char **a) {
	(void)a;
	if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
		return 0;
	/* Before Linux 3.17. */
	return errno == ENOSYS ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) : -1;
}

static const struct kind {
	const char *name;
	int nargs;
	int what; /* which argument an error names; -1 none */
	int (*run)(char **);
	int (*load)(char **); /* done when parsed */
} kinds[] = {
	{ "write", 2, 0, do_write, NULL },
	{ "join", 1, 0, do_join, NULL },
	{ "unshare", 1, -1, do_unshare, NULL },
	{ "netns", 1, 0, do_netns, NULL },
	{ "maps", 2, -1, do_maps, NULL },
	{ "mount", 5, 1, do_mount, NULL },
	{ "root", 1, 0, do_root, NULL },
	{ "enter", 1, 0, do_enter, NULL },
	{ "bind", 4, 1, do_bind, NULL },
	{ "mask", 1, 0, do_mask, NULL },
	{ "readonly", 1, 0, do_readonly, NULL },
	{ "umount", 2, 0, do_umount, NULL },
	{ "warm", 2, 0, do_warm, NULL },
	{ "rehearse", 1, 0, do_rehearse, NULL },
	{ "mkdir", 2, 0, do_mkdir, NULL },
	{ "touch", 1, 0, do_touch, NULL },
	{ "mknod", 3, 0, do_mknod, NULL },
	{ "symlink", 2, 1, do_symlink, NULL },
	{ "chroot", 1, 0, do_chroot, NULL },
	{ "pivot_root", 1, 0, do_pivot, NULL },
	{ "null", 0, -1, do_null, NULL },
	{ "chdir", 1, 0, do_chdir, NULL },
	{ "hostname", 1, 0, do_hostname, NULL },
	{ "loopback", 0, -1, do_loopback, NULL },
	{ "setsid", 0, -1, do_setsid, NULL },
	{ "keyring", 0, -1, do_keyring, NULL },
	{ "ids", 2, -1, do_ids, NULL },
	{ "bound", 1, -1, do_bound, NULL },
	{ "caps", 1, -1, do_caps, NULL },
	{ "no_new_privs", 0, -1, do_nnp, NULL },
	{ "seccomp", 1, 0, do_seccomp, read_seccomp },
	{ "devices", 2, 0, do_devices, read_devices },
};

struct step {
	const struct kind *kind;
	char **args;
};

static struct step table[MAX_STEPS];
static int used;

/* ends marks the end of each phase in the table. */
enum { PRE, IN_GO, CHILD, PHASES };
static int ends[PHASES];

static int run_phase(int phase) {
	for (int i = phase ? ends[phase - 1] : 0; i < ends[phase]; i++) {
		const struct kind *k = table[i].kind;
		if (k->run(table[i].args))
			return fail(k->name, k->what < 0 ? "" : table[i].args[k->what]);
	}
	return 0;
}

/* ---- the command line ---- */

static struct {
	int warm, reap;
	unsigned long flags;
	const char *into, *pidfile;
	char **argv;
} job;

static int bad_usage(const char *word) {
	errno = EINVAL;
	return fail("arguments", word ? word : "(end)");
}

static int parse_step(char ***at) {
	char **a = *at;

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const struct kind *k = &kinds[i];
		if (strcmp(k->name, *a) != 0)
			continue;
		for (int n = 1; n <= k->nargs; n++)
			if (!a[n])
				return bad_usage(NULL);
		if (used == MAX_STEPS)
			return bad_usage("too many steps");
		if (k->load && k->load(a + 1))
			return fail(k->name, a[1]);
		table[used++] = (struct step){ k, a + 1 };
		*at = a + 1 + k->nargs;
		return 0;
	}
	return bad_usage(*a);
}

static int parse(char **a) {
	static const char *const flags[PHASES] = { "-pre", "-go", "-child" };

	for (int phase = 0; phase < PHASES; phase++) {
		if (!*a || strcmp(*a, flags[phase]) != 0)
			return bad_usage(*a);
		for (a++; *a && **a != '-';)
			if (parse_step(&a))
				return -1;
		ends[phase] = used;
	}
	if (!*a || !a[1] || !a[2] || !a[3] || !a[4] || strcmp(a[4], "--") != 0 || !a[5])
		return bad_usage(*a);
	job.warm = strcmp(*a, "-warm") == 0;
	job.reap = strcmp(*a, "-reap") == 0;
	job.flags = number(a[1]);
	job.into = a[2];
	job.pidfile = a[3];
	job.argv = a + 5;
	return 0;
}

/* ---- reports ---- */

static void report(const char *line, int len) {
	/* Nobody listens any more: the laboratory died. Descriptor 3 says so too,
	 * and the caller's next look there ends the launcher. */
	if (write(REPORT, line, len) < 0)
		failure.err = errno;
}

static void report_failure(void) {
	char line[4200];
	int n = snprintf(line, sizeof line, "error %d %s %s\n", failure.err, failure.step, failure.what);

	if (n >= (int)sizeof line) {
		n = sizeof line;
		line[n - 1] = '\n';
	}
	report(line, n);
}

static long long micros(struct timeval t) { return t.tv_sec * 1000000LL + t.tv_usec; }

static void report_exit(const char *who, int status, const struct rusage *u) {
	char line[256];
	int n = snprintf(line, sizeof line, "%s %d %lld %lld %ld %ld %ld %ld %ld\n", who, status, micros(u->ru_utime),
		micros(u->ru_stime), u->ru_maxrss, u->ru_minflt, u->ru_majflt, u->ru_nvcsw, u->ru_nivcsw);
	report(line, n);
}

static void report_pid(int pid) {
	char line[32];
	int n = snprintf(line, sizeof line, "%d\n", pid);

	if (write(PID, line, n) < 0)
		failure.err = errno; /* as in report */
}

/* ---- the start ---- */

/* edge reports that all is ready, and waits for the timed edge. */
static int edge(void) {
	char c;

	report("ready\n", 6);
	if (read(GO, &c, 1) == 1 && c == 'g')
		return 0;
	errno = ECANCELED; /* ended, or killed before the start */
	return fail("edge", "");
}

extern char **environ;

static int child(void *unused) {
	(void)unused;
	if (run_phase(CHILD) == 0 && (!job.warm || edge() == 0)) {
		umask(022); /* the payload's */
		execve(job.argv[0], job.argv, environ);
		fail("exec", job.argv[0]);
	}
	_exit(127);
}

/* start clones and returns the child's pid, after its execve or its failure. */
static int start(void) {
	struct clone3_args args = {
		.flags = job.flags | CLONE_VM | CLONE_VFORK,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)stack,
		.stack_size = sizeof stack,
	};
	int into = -1;

	if (*job.into) {
		into = open(job.into, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (into < 0)
			return fail("cgroup", job.into);
		args.flags |= CLONE_INTO_CGROUP_;
		args.cgroup = into;
	}
	long pid = clone3_run(&args, child, NULL);
	/* Kernels before 5.3 and sandboxes older than clone3 refuse it with ENOSYS, some
	 * sandboxes with EPERM. Who asks for a cgroup knows that it is there. */
	if ((pid == -ENOSYS || pid == -EPERM) && into < 0)
		pid = clone(child, stack + sizeof stack, args.flags | SIGCHLD, NULL);
	else if (pid < 0)
		errno = -pid;
	if (into >= 0)
		close(into);
	return pid < 0 ? fail("clone", job.into) : (int)pid;
}

/* ---- waiting ---- */

/* A signalfd of SIGCHLD, once a payload runs; before, -1: poll passes it over. A
 * kernel without pidfds has it for the runtime as well. */
static int ended = -1;

/* Set once a payload runs. What ends while the runtime does may be its container,
 * whose exit code must not be lost. */
static int payload_runs;

/* watch_children has every child's end told. Children that were started before
 * do not inherit the blocked signal. */
static void watch_children(void) {
	sigset_t chld;

	if (ended >= 0)
		return;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &chld, NULL) == 0)
		ended = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* reap_adopted reaps the children that have ended, except pid: what a payload
 * has left to its subreaper. An engine's shims would pile up over a session. */
static void reap_adopted(int pid) {
	struct signalfd_siginfo told;
	siginfo_t one = { 0 };

	while (read(ended, &told, sizeof told) > 0)
		;
	while (payload_runs && waitid(P_ALL, 0, &one, WEXITED | WNOHANG | WNOWAIT) == 0 && one.si_pid > 0 && one.si_pid != pid) {
		wait4(one.si_pid, NULL, 0, NULL);
		one.si_pid = 0;
	}
}

/* has_ended asks for a child's end and leaves the child to be reaped. */
static int has_ended(int pid) {
	siginfo_t one = { 0 };

	return waitid(P_PID, pid, &one, WEXITED | WNOHANG | WNOWAIT) == 0 && one.si_pid == pid;
}

/*
 * guard waits until pid, a child, has ended, and kills it when it is told to. It
 * returns 0, or 1 after end of file on descriptor 3. pidfd is -1 on a kernel before
 * 5.3: there SIGCHLD tells the end. The number cannot become another process's,
 * because nobody else reaps the child.
 */
static int guard(int pidfd, int pid) {
	struct pollfd p[3] = { { pidfd, POLLIN, 0 }, { GO, POLLIN, 0 }, { ended, POLLIN, 0 } };
	char c = 0;

	if (pidfd < 0 && has_ended(pid)) /* before its signal was watched for */
		return 0;
	for (;;) {
		if (poll(p, 3, -1) < 0)
			continue; /* EINTR: nothing else can happen to open descriptors */
		if (p[2].revents)
			reap_adopted(pid);
		if (p[0].revents || (pidfd < 0 && has_ended(pid)))
			return p[1].fd < 0;
		if (!p[1].revents)
			continue;
		ssize_t n = read(GO, &c, 1);
		if (n == 0 || c == 'k')
			kill(pid, SIGKILL);
		if (n == 0)
			p[1].fd = -1;
	}
}

/* reap_one guards pid, then reaps it: 0, 1 at end of file, or -1. */
static int reap_one(int pid, int *status, struct rusage *u) {
	int pidfd = syscall(SYS_pidfd_open, pid, 0), eof;

	if (pidfd < 0 && !is_missing())
		return fail("pidfd_open", "");
	if (pidfd < 0)
		watch_children();
	if (pidfd < 0 && ended < 0)
		return fail("signalfd", "");
	eof = guard(pidfd, pid);
	while (wait4(pid, status, 0, u) < 0)
		if (errno != EINTR)
			return fail("wait", "");
	if (pidfd >= 0)
		close(pidfd);
	return eof;
}

static int read_pid(const char *file) {
	char text[32] = "";
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	return n <= 0 ? -1 : atoi(text);
}

static void report_lost(const char *why) {
	char line[4200];
	int n = snprintf(line, sizeof line, "lost %s %s\n", why, job.pidfile);
	report(line, n < (int)sizeof line ? n : (int)sizeof line);
}

static void payload(int pid) {
	struct rusage u;
	int status;

	report_pid(pid);
	payload_runs = 1;
	watch_children();
	if (reap_one(pid, &status, &u) < 0)
		report_failure();
	else
		report_exit("payload", status, &u);
}

static int parent_of(int pid) {
	char file[64], text[512] = "", *end;
	int fd, parent = -1;

	snprintf(file, sizeof file, "/proc/%d/stat", pid);
	if ((fd = open(file, O_RDONLY | O_CLOEXEC)) < 0)
		return -1;
	/* After the name, which is in parentheses and may hold anything. */
	if (read(fd, text, sizeof text - 1) > 0 && (end = strrchr(text, ')')))
		sscanf(end, ") %*c %d", &parent);
	close(fd);
	return parent;
}

/*
 * adopt waits until pid is a child of the launcher, and returns 0 when it cannot
 * be. crun forks before it makes the container, and the child ends a little
 * later than the parent, whose exit was waited for: the container's own parent.
 */
static int adopt(int pid) {
	while (waitid(P_PID, pid, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT)) {
		struct rusage u;
		int status, between = parent_of(pid);

		if (between <= 1 || waitid(P_PID, between, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT))
			return waitid(P_PID, pid, &(siginfo_t){ 0 }, WEXITED | WNOHANG | WNOWAIT) == 0;
		if (reap_one(between, &status, &u))
			return 0;
	}
	return 1;
}

/* runtime waits for the OCI runtime's command, then for its container. */
static void runtime(int pid) {
	struct rusage u;
	int status, gone = reap_one(pid, &status, &u);

	if (gone < 0) {
		report_failure();
		return;
	}
	report_exit("runtime", status, &u);
	if (gone || status)
		return;
	pid = read_pid(job.pidfile);
	if (pid <= 0)
		report_lost("left no pid in");
	/* Ask before promising: a container that is not ours is never reaped. */
	else if (!adopt(pid))
		report_lost("left a process that is not its descendant in");
	else
		payload(pid);
}

/* ---- the end ---- */

/* The kernel's list of the launcher's children; -1 where it has none
 * (CONFIG_PROC_CHILDREN): then the laboratory's own kill by cgroup is all. */
static int children = -1;

#ifndef LIST_BYTES
#define LIST_BYTES 8192 /* the test of this file takes fewer */
#endif

/* kill_children kills the launcher's children; their own become its children
 * then, by subreaping, and are found the next time. A blank ends each number: the
 * last one, where the list is longer than text, may be cut, and another process's. */
static int kill_children(void) {
	char text[LIST_BYTES], *at = text, *end;
	int found = 0;

	ssize_t n = children < 0 ? -1 : pread(children, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	for (long pid; (pid = strtol(at, &end, 10)) > 0 && *end == ' '; at = end, found++)
		kill(pid, SIGKILL);
	return found;
}

/* finish waits for end of file, then kills and reaps all that is left. */
static void finish(void) {
	char c;

	close(REPORT);
	close(PID);
	for (ssize_t n = 1; n > 0 || (n < 0 && errno == EINTR);) /* any other error is an end as well */
		n = read(GO, &c, 1);
	while (kill_children())
		if (wait4(-1, NULL, 0, NULL) < 0 && errno != EINTR)
			break;
	while (wait4(-1, NULL, WNOHANG, NULL) > 0)
		;
}

/* close_each has all descriptors from 3 on close with execve, where the kernel does not
 * do so in one call (before 5.11). A descriptor that cannot be listed could be left
 * to the payload. */
static int close_each(void) {
	DIR *all = opendir("/proc/self/fd");

	if (!all)
		return -1;
	for (struct dirent *one; (one = readdir(all));)
		if (atoi(one->d_name) >= GO)
			fcntl(atoi(one->d_name), F_SETFD, FD_CLOEXEC);
	return closedir(all);
}

static int hygiene(void) {
	char file[64];

	umask(0); /* what steps make has the mode that they were given */
	for (int fd = GO; fd <= PID; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC))
			return fail("descriptors", "3, 4 and 5");
	if (syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */) && close_each())
		return fail("descriptors", "/proc/self/fd");
	nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	/* Opened now: there may be no /proc after chroot. */
	snprintf(file, sizeof file, "/proc/self/task/%d/children", getpid());
	children = open(file, O_RDONLY | O_CLOEXEC);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return fail("subreaper", "");
	return 0;
}

/* drop_streams leaves the standard streams to the payload alone: who reads them
 * sees their end with it, and not when the launcher is closed. */
static void drop_streams(void) {
	close(0);
	close(1);
	close(2);
}

int main(int argc, char **argv) {
	int pid = -1, bad;

	(void)argc;
	if (hygiene() || parse(argv + 1) || run_phase(PRE)) {
		report_failure();
		return 1;
	}
	if (!job.warm && edge())
		return 0;
	bad = run_phase(IN_GO) || (pid = start()) < 0 || failure.step;
	/* A laboratory that was killed reads no report, and what is left must end all the
	 * same. What inherits this has been executed by now. */
	signal(SIGPIPE, SIG_IGN);
	if (bad)
		report_failure();
	else if (drop_streams(), job.reap)
		runtime(pid);
	else
		payload(pid);
	finish();
	return 0;
}
