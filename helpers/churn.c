//go:build ignore

/*
 * churn: many tasks that make and remove the same kind of kernel object, to see
 * what they wait for.
 *
 *     churn TASKS EACH cgroup V ATTACH CONTROLLERS [pool] [favordynmods]
 *     churn TASKS EACH net|mount|process
 *
 * TASKS processes begin together; each goes EACH times through the phases of its
 * kind. (Processes, not threads: writing to cgroup.procs moves a whole process.)
 *
 *     cgroup   mkdir join leave rmdir. As container runtimes do it, a child joins
 *              and the task stays where it is. ATTACH is procs: the child is born
 *              beside the task, which then writes its pid to cgroup.procs; or into:
 *              it is born in the group by clone3. To join is both together, to
 *              leave is the child's end. With self the task itself joins, and goes
 *              back to leave; with none nothing joins.
 *              V is v1 or v2, CONTROLLERS a comma list of v1
 *              hierarchies or of v2 controllers to hand down, all, or none;
 *              what is not handed down yet is so until the end.
 *              pool: one group a task, made before, joined and left again.
 *              favordynmods: the v2 tree is remounted so, and back at the end; it is
 *              the whole machine's, which must be a guest of tare's own.
 *     net      create veth address destroy
 *     mount    create mount pivot umount destroy
 *     process  a clone, exit and wait for each namespace: none pid uts ipc mount
 *              net cgroup user
 *
 * It makes a mount namespace of its own to mount what it needs, and works in
 * cgroups below the one it was started in, or in trees where that is the root,
 * below the instance's (see find_session); both vanish with it, except the
 * group churn-PID, which it removes, and after a kill tare sweep.
 *
 * Each task counts its cycles, and it is an error if one made more or fewer than
 * EACH. Output, a line each:
 *     elapsed SECONDS TASKS EACH
 *     phase NAME COUNT MEAN P50 P90 P99 MAX      seconds
 *     done
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clone3.h"

enum { MAX_PHASES = 8, MAX_TREES = 16, MAX_TASKS = 4096 };
#define WORK "/tmp/.churn"

static int tasks, each, task;
static int phases;
static const char *phase_names[MAX_PHASES];
static uint64_t *times;           /* [task][i][phase], ns, shared by all tasks */
static volatile int *go, *failed; /* shared */
static int *cycles;               /* of each task, shared */
static uint64_t last;

static void die(const char *format, ...) {
	int err = errno;
	va_list a;

	va_start(a, format);
	fprintf(stderr, "churn: ");
	vfprintf(stderr, format, a);
	fprintf(stderr, ": %s\n", strerror(err));
	va_end(a);
	if (failed)
		*failed = 1;
	exit(1);
}

static uint64_t now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* ended notes how long a phase took since the one before it. */
static void ended(int i, int phase) {
	uint64_t t = now();

	times[((uint64_t)task * each + i) * phases + phase] = t - last;
	last = t;
}

static int open_at(const char *dir, const char *file, int flags) {
	char path[4096];

	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC);
}

static void put(const char *dir, const char *file, const char *text) {
	int fd = open_at(dir, file, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die("write %s to %s/%s", text, dir, file);
	close(fd);
}

/* copy copies a small file between two directories. */
static void copy(const char *from, const char *to, const char *file) {
	char text[4096];
	int fd = open_at(from, file, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (n < 0)
		die("read %s/%s", from, file);
	close(fd);
	text[n] = 0;
	put(to, file, text);
}

/* ---- cgroups ---- */

static struct {
	char home[4096];  /* the group that churn was started in */
	char base[4096];  /* where the tasks make theirs: home/churn-PID */
	char group[4200]; /* this task's of the moment */
} tree[MAX_TREES];
static int trees;
static enum { PROCS, INTO, SELF, NONE } attach;
static int pool, favoured;

static int listed(const char *list, const char *name) {
	size_t n = strlen(name);

	for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, name, n) && (p[n] == ',' || !p[n]))
			return 1;
	return 0;
}

/* any says whether the list names one of the names of another list. */
static int any(const char *list, const char *names) {
	char copy[256], *at = copy, *name;

	snprintf(copy, sizeof copy, "%s", names);
	while ((name = strsep(&at, ",")))
		if (listed(list, name))
			return 1;
	return 0;
}

/* mount_tree mounts a tree of its own, in which the groups are made below session, or
 * the nearest group above it that the tree has: a sweep after a kill finds them there. */
static void mount_tree(int v2, const char *options, const char *path, const char *session) {
	char at[64], below[4200], nearest[4096];

	snprintf(at, sizeof at, WORK "/tree%d", trees);
	if (mkdir(at, 0755) || mount("churn", at, v2 ? "cgroup2" : "cgroup", 0, v2 ? NULL : options))
		die("mount cgroups %s", v2 ? "v2" : options);
	/* Only measured and limited trees have the instance's own group; all have the
	 * session's, of which it is a part. */
	snprintf(nearest, sizeof nearest, "%s", session);
	while (strstr(nearest, "/tare/s")) {
		snprintf(below, sizeof below, "%s%s", at, nearest);
		if (!access(below, F_OK)) {
			path = nearest;
			break;
		}
		*strrchr(nearest, '/') = 0;
	}
	snprintf(tree[trees].home, sizeof tree[trees].home, "%s%s", at, strcmp(path, "/") ? path : "");
	if (snprintf(tree[trees].base, sizeof tree[trees].base, "%s/churn-%d", tree[trees].home, getpid()) >= (int)sizeof tree[trees].base)
		die("%s is too long", path);
	trees++;
}

static char lent[512]; /* what home hands down for churn alone, as "-memory -pids" */

/* hand_down gives the groups below base controllers of a v2 tree: home must hand
 * them down to base, which the root of a tree may, and a group with processes in
 * it may not. */
static void hand_down(const char *controllers, const char *home, const char *base) {
	char have[512] = "", on[512] = "", *at = have, *name;
	int fd = open_at(home, "cgroup.controllers", O_RDONLY), sub = open_at(home, "cgroup.subtree_control", O_RDONLY), given = 0;

	if (!strcmp(controllers, "none"))
		return;
	if (fd < 0 || read(fd, have, sizeof have - 1) < 0 || sub < 0 || read(sub, on, sizeof on - 1) < 0)
		die("controllers of %s", home);
	close(fd), close(sub);
	for (char *c = on; *c; c++)
		*c = *c == ' ' || *c == '\n' ? ',' : *c;
	while ((name = strsep(&at, " \n"))) {
		char plus[128];

		if (!*name || !(listed(controllers, name) || !strcmp(controllers, "all")))
			continue;
		snprintf(plus, sizeof plus, "+%s", name);
		if (!listed(on, name)) {
			put(home, "cgroup.subtree_control", plus);
			snprintf(lent + strlen(lent), sizeof lent - strlen(lent), "-%s ", name);
		}
		put(base, "cgroup.subtree_control", plus);
		given++;
	}
	errno = ENOENT;
	if (!given)
		die("the group that churn runs in has no controller %s to hand down", controllers);
}

/* take_back ends what was handed down for churn alone. */
static void take_back(void) {
	int fd = *lent ? open_at(tree[0].home, "cgroup.subtree_control", O_WRONLY) : -1;

	if (*lent && (fd < 0 || write(fd, lent, strlen(lent)) < 0))
		fprintf(stderr, "churn: the groups below %s keep %s: %s\n", tree[0].home, lent, strerror(errno));
	close(fd);
}

static void remove_bases(void) {
	for (int t = 0; t < trees; t++)
		rmdir(tree[t].base);
	if (favoured && mount(NULL, WORK "/tree0", NULL, MS_REMOUNT, NULL))
		fprintf(stderr, "churn: the tree keeps favordynmods: %s\n", strerror(errno));
}

/* is_favoured asks the kernel: a remount by whom it does not heed succeeds, too. */
static int is_favoured(void) {
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[4200];
	int yes = 0;

	if (!f)
		die("/proc/self/mountinfo");
	while (fgets(line, sizeof line, f))
		yes |= strstr(line, " " WORK "/tree0 ") && strstr(line, "favordynmods");
	fclose(f);
	return yes;
}

static void favour(void) {
	if (is_favoured())
		errno = EBUSY, die("the tree has favordynmods already");
	if (mount(NULL, WORK "/tree0", NULL, MS_REMOUNT, "favordynmods"))
		die("remount with favordynmods (Linux 6.0)");
	favoured = 1;
	if (!is_favoured())
		errno = EPERM, die("the kernel does not heed favordynmods");
}

/* find_session finds the group of the laboratory's instance that churn runs in. It
 * is there in every tree, but churn is a member of it only in those that are
 * measured or limited: in the others, its own is the root. */
static void find_session(char *session, size_t size) {
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[4200], *path;

	if (!f)
		die("/proc/self/cgroup");
	*session = 0;
	while (!*session && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		path = strchr(line, '/');
		if (path && strstr(path, "/tare/s"))
			snprintf(session, size, "%s", path);
	}
	fclose(f);
}

static void find_trees(int v2, const char *controllers) {
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[4200], session[4096];

	find_session(session, sizeof session);
	if (!f)
		die("/proc/self/cgroup");
	while (fgets(line, sizeof line, f)) {
		char *at = line, *names, *path;

		line[strcspn(line, "\n")] = 0;
		strsep(&at, ":");
		names = strsep(&at, ":");
		path = at;
		if (!names || !path || trees == MAX_TREES)
			continue;
		if (v2 ? !*names : *names && strncmp(names, "name=", 5) && (!strcmp(controllers, "all") || any(controllers, names)))
			mount_tree(v2, names, path, session);
	}
	fclose(f);
	errno = ENOENT;
	if (!trees)
		die("no cgroup hierarchy of version %d with %s", v2 ? 2 : 1, controllers);
}

static void cgroup_begin(char **a, int n) {
	int v2 = n > 0 && !strcmp(a[0], "v2");

	if (n < 3 || (!v2 && strcmp(a[0], "v1")))
		errno = EINVAL, die("usage: cgroup v1|v2 procs|into|self|none CONTROLLERS [pool] [favordynmods]");
	attach = !strcmp(a[1], "into") ? INTO : !strcmp(a[1], "self") ? SELF : !strcmp(a[1], "none") ? NONE : PROCS;
	for (int i = 3; i < n; i++) {
		pool |= !strcmp(a[i], "pool");
		favoured |= !strcmp(a[i], "favordynmods");
	}
	if (attach == INTO && !v2)
		errno = EINVAL, die("clone3 knows cgroups of version 2 alone");
	find_trees(v2, a[2]);
	atexit(take_back);
	for (int t = 0; t < trees; t++) {
		if (mkdir(tree[t].base, 0755))
			die("%s", tree[t].base);
		if (!v2 && strcmp(a[2], "none")) {
			char file[4300];

			snprintf(file, sizeof file, "%s/cpuset.cpus", tree[t].base);
			if (!access(file, F_OK)) {
				copy(tree[t].home, tree[t].base, "cpuset.cpus");
				copy(tree[t].home, tree[t].base, "cpuset.mems");
				put(tree[t].base, "cgroup.clone_children", "1");
			}
		}
	}
	atexit(remove_bases);
	if (v2)
		hand_down(a[2], tree[0].home, tree[0].base);
	if (favoured) {
		favoured = 0;
		favour();
	}
	phases = 4;
	phase_names[0] = "mkdir", phase_names[1] = "join", phase_names[2] = "leave", phase_names[3] = "rmdir";
}

static void make_groups(int i) {
	for (int t = 0; t < trees; t++) {
		snprintf(tree[t].group, sizeof tree[t].group, "%s/%d-%d", tree[t].base, task, i);
		if (mkdir(tree[t].group, 0755))
			die("%s", tree[t].group);
	}
}

#define REMOVE_TIME 10000000000ULL /* ns that a group may stay busy after all have left */

static void remove_groups(void) {
	for (int t = 0; t < trees; t++) {
		uint64_t since = 0;

		/* Whoever has left or ended may hold the group for a moment longer. */
		while (rmdir(tree[t].group)) {
			if (errno != EBUSY || (since && now() - since > REMOVE_TIME))
				die("%s", tree[t].group);
			if (!since)
				since = now();
		}
	}
}

static int gate[2]; /* a pipe: a byte in it lets one child end */

static void cgroup_task_begin(void) {
	if (pool)
		make_groups(0);
	if ((attach == PROCS || attach == INTO) && pipe2(gate, O_CLOEXEC))
		die("pipe");
}

static void cgroup_task_end(void) {
	if (pool)
		remove_groups();
}

static int child_exits(void *unused) {
	(void)unused;
	_exit(0);
}

static char stack[16384] __attribute__((aligned(16)));

/* child_waits is what a container's process does while its runtime sees to it: it
 * waits. It has the task's memory, and a stack of its own. */
static int child_waits(void *unused) {
	char go_on;

	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	_exit(read(gate[0], &go_on, 1) != 1);
}

/* start_beside starts a child and moves it into the task's groups. */
static int start_beside(void) {
	int pid = clone(child_waits, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
	char text[16];

	if (pid < 0)
		die("clone");
	snprintf(text, sizeof text, "%d", pid);
	for (int t = 0; t < trees; t++)
		put(tree[t].group, "cgroup.procs", text);
	return pid;
}

static int start_into(const char *dir) {
	struct clone3_args args = {
		.flags = CLONE_VM | CLONE_INTO_CGROUP_,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)stack,
		.stack_size = sizeof stack,
		.cgroup = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC),
	};
	long pid = clone3_run(&args, child_waits, NULL);

	if (pid < 0)
		errno = -pid, die("clone3 into %s", dir);
	close(args.cgroup);
	return pid;
}

static void end_child(int pid) {
	int status = 1;

	if (write(gate[1], "", 1) != 1 || waitpid(pid, &status, 0) < 0)
		die("end of a child");
	errno = ECHILD;
	if (status)
		die("a child ended with status %#x", status);
}

/* move_self puts the task into a group of each tree. */
static void move_self(int home) {
	for (int t = 0; t < trees; t++)
		put(home ? tree[t].home : tree[t].group, "cgroup.procs", "0");
}

static void cgroup_cycle(int i) {
	int pid = 0;

	if (!pool)
		make_groups(i);
	ended(i, 0);
	if (attach == INTO)
		pid = start_into(tree[0].group);
	else if (attach == PROCS)
		pid = start_beside();
	else if (attach == SELF)
		move_self(0);
	ended(i, 1);
	if (pid)
		end_child(pid);
	else if (attach == SELF)
		move_self(1);
	ended(i, 2);
	if (!pool)
		remove_groups();
	ended(i, 3);
}

/* ---- network namespaces ---- */

static int own_net;

static void net_begin(char **a, int n) {
	(void)a, (void)n;
	phases = 4;
	phase_names[0] = "create", phase_names[1] = "veth", phase_names[2] = "address", phase_names[3] = "destroy";
	if ((own_net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
		die("/proc/self/ns/net");
}

struct request {
	struct nlmsghdr head;
	char body[512];
};

static void *tail(struct request *r) { return (char *)r + NLMSG_ALIGN(r->head.nlmsg_len); }

static struct rtattr *add(struct request *r, int type, const void *data, size_t len) {
	struct rtattr *a = tail(r);

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(a), data, len);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

static void close_nest(struct request *r, struct rtattr *a) { a->rta_len = (char *)tail(r) - (char *)a; }

static void talk(int fd, struct request *r, const char *what) {
	char answer[1024];
	struct nlmsghdr *h = (void *)answer;

	r->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, r, r->head.nlmsg_len, 0) < 0 || recv(fd, answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
		die("%s", what);
	errno = -((struct nlmsgerr *)NLMSG_DATA(h))->error;
	if (errno)
		die("%s", what);
}

static void make_veth(int fd) {
	struct request r = { .head = { .nlmsg_type = RTM_NEWLINK, .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL, .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)) } };
	struct ifinfomsg none = { 0 };
	struct rtattr *info, *data, *peer;

	add(&r, IFLA_IFNAME, "a", 2);
	info = add(&r, IFLA_LINKINFO, NULL, 0);
	add(&r, IFLA_INFO_KIND, "veth", 5);
	data = add(&r, IFLA_INFO_DATA, NULL, 0);
	peer = add(&r, VETH_INFO_PEER, &none, sizeof none);
	add(&r, IFLA_IFNAME, "b", 2);
	close_nest(&r, peer);
	close_nest(&r, data);
	close_nest(&r, info);
	talk(fd, &r, "veth");
}

static void set_address(int fd, const char *name, const char address[4]) {
	int index = if_nametoindex(name);
	struct request a = { .head = { .nlmsg_type = RTM_NEWADDR, .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL, .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)) } };
	struct request up = { .head = { .nlmsg_type = RTM_NEWLINK, .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)) } };
	struct ifaddrmsg body = { .ifa_family = AF_INET, .ifa_prefixlen = 24, .ifa_index = index };
	struct ifinfomsg link = { .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };

	memcpy(NLMSG_DATA(&a.head), &body, sizeof body);
	add(&a, IFA_LOCAL, address, 4);
	add(&a, IFA_ADDRESS, address, 4);
	talk(fd, &a, "address");
	memcpy(NLMSG_DATA(&up.head), &link, sizeof link);
	talk(fd, &up, "link up");
}

static void net_cycle(int i) {
	int fd;

	if (unshare(CLONE_NEWNET))
		die("network namespace");
	ended(i, 0);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		die("netlink");
	make_veth(fd);
	ended(i, 1);
	set_address(fd, "a", "\x0a\x00\x00\x01");
	set_address(fd, "b", "\x0a\x00\x00\x02");
	ended(i, 2);
	close(fd);
	if (setns(own_net, CLONE_NEWNET))
		die("leave the network namespace");
	ended(i, 3);
}

/* ---- mounts ---- */

static int own_mounts, own_root;

/* pivot_root(2) does not replace the kernel's first root file system, in which a
 * guest's payload runs. A bind mount of it has a parent, and can be replaced. */
static void leave_first_root(void) {
	struct statfs root;

	if (statfs("/", &root))
		die("statfs /");
	if (root.f_type != TMPFS_MAGIC && root.f_type != RAMFS_MAGIC)
		return;
	if (mkdir(WORK "/root", 0755) || mount("/", WORK "/root", NULL, MS_BIND | MS_REC, NULL) || chdir(WORK "/root") || chroot("."))
		die("a root that can be replaced");
}

static void mount_begin(char **a, int n) {
	(void)a, (void)n;
	phases = 5;
	phase_names[0] = "create", phase_names[1] = "mount", phase_names[2] = "pivot", phase_names[3] = "umount", phase_names[4] = "destroy";
	leave_first_root();
	if (mkdir(WORK "/lower", 0755))
		die("lower directory");
	if ((own_mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)) < 0 || (own_root = open("/", O_PATH | O_CLOEXEC)) < 0)
		die("own mount namespace");
}

static char overlay[512], merged[64];

static void mount_task_begin(void) {
	char dir[64];

	for (int i = 0; i < 3; i++) {
		snprintf(dir, sizeof dir, WORK "/%s%d", (const char *[]){ "upper", "work", "merged" }[i], task);
		if (mkdir(dir, 0755))
			die("%s", dir);
	}
	snprintf(merged, sizeof merged, WORK "/merged%d", task);
	snprintf(overlay, sizeof overlay, "lowerdir=" WORK "/lower,upperdir=" WORK "/upper%d,workdir=" WORK "/work%d", task, task);
}

static void mount_cycle(int i) {
	if (unshare(CLONE_NEWNS))
		die("mount namespace");
	ended(i, 0);
	if (mount("churn", merged, "overlay", 0, overlay))
		die("overlay %s", overlay);
	ended(i, 1);
	if (chdir(merged) || syscall(SYS_pivot_root, ".", "."))
		die("pivot_root");
	ended(i, 2);
	if (umount2(".", MNT_DETACH))
		die("umount");
	ended(i, 3);
	if (setns(own_mounts, CLONE_NEWNS) || fchdir(own_root) || chroot("."))
		die("leave the mount namespace");
	ended(i, 4);
}

/* ---- processes ---- */

static const struct {
	const char *name;
	unsigned long flag;
} spaces[] = { { "none", 0 }, { "pid", CLONE_NEWPID }, { "uts", CLONE_NEWUTS }, { "ipc", CLONE_NEWIPC }, { "mount", CLONE_NEWNS },
	       { "net", CLONE_NEWNET }, { "cgroup", CLONE_NEWCGROUP }, { "user", CLONE_NEWUSER } };

static void process_begin(char **a, int n) {
	(void)a, (void)n;
	phases = sizeof spaces / sizeof *spaces;
	for (int p = 0; p < phases; p++)
		phase_names[p] = spaces[p].name;
}

static void process_cycle(int i) {
	for (int p = 0; p < phases; p++) {
		int pid = clone(child_exits, stack + sizeof stack, spaces[p].flag | CLONE_VFORK | SIGCHLD, NULL);

		/* Flags that borrow memory and a new user namespace exclude each other:
		 * every clone here copies, so that they can be compared. */
		if (pid < 0 || waitpid(pid, NULL, 0) < 0)
			die("clone with a new %s namespace", spaces[p].name);
		ended(i, p);
	}
}

/* ---- all kinds ---- */

static void nothing(void) {}

static const struct kind {
	const char *name;
	void (*begin)(char **, int);
	void (*task_begin)(void);
	void (*cycle)(int);
	void (*task_end)(void);
} kinds[] = {
	{ "cgroup", cgroup_begin, cgroup_task_begin, cgroup_cycle, cgroup_task_end },
	{ "net", net_begin, nothing, net_cycle, nothing },
	{ "mount", mount_begin, mount_task_begin, mount_cycle, nothing },
	{ "process", process_begin, nothing, process_cycle, nothing },
};

static void prepare(void) {
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		die("mount namespace (needs root)");
	if ((mkdir("/tmp", 01777) && errno != EEXIST) || (mkdir(WORK, 0700) && errno != EEXIST) || mount("churn", WORK, "tmpfs", 0, NULL))
		die(WORK);
}

static void *shared(size_t size) {
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("%zu bytes of shared memory", size);
	return p;
}

static void run_task(const struct kind *k) {
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	k->task_begin();
	__atomic_add_fetch(&go[1], 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&go[0], __ATOMIC_SEQ_CST) && !*failed)
		sched_yield();
	last = now();
	for (int i = 0; i < each && !*failed; i++) {
		k->cycle(i);
		cycles[task]++;
	}
	k->task_end();
	_exit(*failed);
}

static uint64_t run(const struct kind *k) {
	uint64_t began;

	for (task = 0; task < tasks; task++) {
		int pid = fork();

		if (pid < 0)
			die("task %d", task);
		if (pid == 0)
			run_task(k);
	}
	while (__atomic_load_n(&go[1], __ATOMIC_SEQ_CST) < tasks && !*failed)
		sched_yield();
	began = now();
	__atomic_store_n(&go[0], 1, __ATOMIC_SEQ_CST);
	for (int status; wait(&status) > 0;)
		if (status)
			*failed = 1;
	return now() - began;
}

/* counted sees that each task made its cycles. */
static void counted(void) {
	for (int t = 0; t < tasks; t++)
		if (cycles[t] != each)
			errno = EPROTO, die("task %d made %d cycles of %d", t, cycles[t], each);
}

static int ascending(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(int phase) {
	size_t n = (size_t)tasks * each;
	uint64_t *all = malloc(n * sizeof *all), sum = 0;

	if (!all)
		die("memory for %zu times", n);
	for (size_t i = 0; i < n; i++)
		sum += all[i] = times[i * phases + phase];
	qsort(all, n, sizeof *all, ascending);
#define AT(q) (all[(size_t)((n - 1) * (q))] / 1e9)
	printf("phase %s %zu %.9f %.9f %.9f %.9f %.9f\n", phase_names[phase], n, sum / 1e9 / n, AT(0.5), AT(0.9), AT(0.99), AT(1.0));
	free(all);
}

int main(int argc, char **argv) {
	const struct kind *k = NULL;
	uint64_t took;

	for (size_t i = 0; argc > 3 && i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(argv[3], kinds[i].name))
			k = &kinds[i];
	if (k)
		tasks = atoi(argv[1]), each = atoi(argv[2]);
	if (!k || tasks < 1 || tasks > MAX_TASKS || each < 1 || each > 1000000) {
		fputs("churn: usage: churn TASKS EACH cgroup|net|mount|process ...\n", stderr);
		return 2;
	}
	prepare();
	k->begin(argv + 4, argc - 4);
	go = shared(4096);
	failed = go + 2;
	times = shared((size_t)tasks * each * phases * sizeof *times);
	cycles = shared(tasks * sizeof *cycles);
	took = run(k);
	if (*failed)
		return 1;
	counted();
	printf("elapsed %.9f %d %d\n", took / 1e9, tasks, each);
	for (int p = 0; p < phases; p++)
		report(p);
	puts("done");
	return 0;
}
