/* What isolation is made of: cgroups, namespaces, links, mounts. All of it needs root.
 * A worker works in a mount and a network namespace of its own, and in a cgroup below
 * the one that it was started in. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
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
#include <sys/wait.h>
#include <unistd.h>

#define AREA "/tmp" /* where a worker mounts what it needs, in its own namespace */

static void own_mounts(const struct work *w, const char *type)
{
	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		die_errno("%s: no mount namespace (it needs root)", w->name);
	if (mount(type, AREA, type, 0, NULL) != 0)
		die_errno("%s: %s cannot be mounted on " AREA, w->name, type);
}

/* cgroups of version 2: groups are made in one of its own. */
static char base[PATH_MAX];

static void leave_base(void)
{
	rmdir(base);
}

/* enter_base makes the worker's group below its own one in the tree and goes there. */
static void enter_base(const struct work *w, const char *tree)
{
	char line[PATH_MAX], *home = NULL;
	FILE *f = fopen("/proc/self/cgroup", "re");
	if (f == NULL)
		die_errno("%s: /proc/self/cgroup", w->name);
	while (home == NULL && fgets(line, sizeof line, f))
		if (strncmp(line, "0::", 3) == 0)
			home = line + 3;
	fclose(f);
	if (home == NULL)
		die(EXIT_BROKEN, "%s: this process has no cgroup of version 2", w->name);
	home[strcspn(home, "\n")] = 0;
	if (snprintf(base, sizeof base, "%s%s/slice-%d", tree, home, getpid()) >= (int)sizeof base)
		die(EXIT_BROKEN, "%s: the group's path is too long", w->name);
	if (mkdir(base, 0755) != 0)
		die_errno("%s: %s", w->name, base);
	before_death = leave_base;
	if (chdir(base) != 0)
		die_errno("%s: %s", w->name, base);
}

void cgroup_setup(const struct work *w)
{
	own_mounts(w, "cgroup2");
	enter_base(w, AREA);
}

static const char *numbered(const char *stem, uint64_t i)
{
	static char name[32];
	snprintf(name, sizeof name, "%s%llu", stem, (unsigned long long)i);
	return name;
}

void cgroup_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (mkdir(numbered("g", i), 0755) != 0)
			die_errno("cgroup-mkdir");
}

void cgroup_undo(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (rmdir(numbered("g", i)) != 0)
			die_errno("cgroup-mkdir: a group cannot be removed");
}

/* cgroup-join: a waiting process is moved between two groups. */
static pid_t moved;
static int doors[2], at_door;

static void leave_doors(void)
{
	if (moved > 0) {
		kill(moved, SIGKILL);
		waitpid(moved, NULL, 0);
	}
	rmdir("left");
	rmdir("right");
	leave_base();
}

void join_setup(const struct work *w)
{
	cgroup_setup(w);
	before_death = leave_doors;
	if (mkdir("left", 0755) != 0 || mkdir("right", 0755) != 0)
		die_errno("%s: two groups", w->name);
	doors[0] = open("left/cgroup.procs", O_WRONLY | O_CLOEXEC);
	doors[1] = open("right/cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (doors[0] < 0 || doors[1] < 0 || (moved = fork()) < 0)
		die_errno("%s: who is moved", w->name);
	if (moved == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			pause();
	}
}

void join_loop(uint64_t n)
{
	char text[16];
	int length = snprintf(text, sizeof text, "%d", moved);
	for (uint64_t i = 0; i < n; i++, at_door = !at_door)
		if (write(doors[at_door], text, (size_t)length) != length)
			die_errno("cgroup-join");
}

/* Namespaces: a child is born in a new one, ends, and is waited for. Flags that borrow
 * memory and a new user namespace exclude each other: every clone copies. */
static unsigned long space;
static char stack[16384] __attribute__((aligned(16)));

void namespace_setup(const struct work *w)
{
	space = (unsigned long)w->buffer;
}

static int ends(void *unused)
{
	(void)unused;
	_exit(0);
}

void namespace_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int status = 1, pid = clone(ends, stack + sizeof stack, (int)space | CLONE_VFORK | SIGCHLD, NULL);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			die_errno("clone with a new namespace (it needs root)");
	}
}

/* Links. */
static int route;

struct request {
	struct nlmsghdr head;
	struct ifinfomsg link;
	char body[256];
};

static void *tail(struct request *r)
{
	return (char *)r + NLMSG_ALIGN(r->head.nlmsg_len);
}

static struct rtattr *add(struct request *r, int type, const void *data, size_t length)
{
	struct rtattr *a = tail(r);
	a->rta_type = (unsigned short)type;
	a->rta_len = (unsigned short)RTA_LENGTH(length);
	if (length)
		memcpy(RTA_DATA(a), data, length);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
	return a;
}

static void close_nest(struct request *r, struct rtattr *a)
{
	a->rta_len = (unsigned short)((char *)tail(r) - (char *)a);
}

static struct request link_request(int type, int flags, int index)
{
	struct request r = {.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = (unsigned short)type,
				.nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags)}, .link = {.ifi_index = index}};
	return r;
}

static void ask(struct request *r, const char *what)
{
	char answer[1024];
	struct nlmsghdr *h = (void *)answer;
	if (send(route, r, r->head.nlmsg_len, 0) < 0 || recv(route, answer, sizeof answer, 0) < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
		die_errno("%s: no answer of the kernel", what);
	errno = -((struct nlmsgerr *)NLMSG_DATA(h))->error;
	if (errno)
		die_errno("%s", what);
}

void links_setup(const struct work *w)
{
	if (unshare(CLONE_NEWNET) != 0)
		die_errno("%s: no network namespace (it needs root)", w->name);
	if ((route = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) < 0)
		die_errno("%s: netlink", w->name);
}

static void make_veth(uint64_t i)
{
	struct request r = link_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	struct ifinfomsg none = {0};
	const char *name = numbered("a", i);
	add(&r, IFLA_IFNAME, name, strlen(name) + 1);
	struct rtattr *info = add(&r, IFLA_LINKINFO, NULL, 0);
	add(&r, IFLA_INFO_KIND, "veth", 5);
	struct rtattr *data = add(&r, IFLA_INFO_DATA, NULL, 0);
	struct rtattr *peer = add(&r, VETH_INFO_PEER, &none, sizeof none);
	name = numbered("b", i);
	add(&r, IFLA_IFNAME, name, strlen(name) + 1);
	close_nest(&r, peer);
	close_nest(&r, data);
	close_nest(&r, info);
	ask(&r, "veth");
}

void veth_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		make_veth(i);
}

void veth_undo(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct request r = link_request(RTM_DELLINK, 0, (int)if_nametoindex(numbered("a", i)));
		ask(&r, "veth: a pair cannot be removed");
	}
}

/* bridge-port: one end of a pair is made a port of a bridge, and freed again. */
static int port, bridge;

void port_setup(const struct work *w)
{
	links_setup(w);
	struct request r = link_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, 0);
	add(&r, IFLA_IFNAME, "bridge", 7);
	struct rtattr *info = add(&r, IFLA_LINKINFO, NULL, 0);
	add(&r, IFLA_INFO_KIND, "bridge", 7);
	close_nest(&r, info);
	ask(&r, "bridge-port: a bridge");
	make_veth(0);
	port = (int)if_nametoindex("a0");
	bridge = (int)if_nametoindex("bridge");
}

void port_loop(uint64_t n)
{
	for (uint64_t i = 0; i < 2 * n; i++) {
		struct request r = link_request(RTM_NEWLINK, 0, port);
		int master = i % 2 ? 0 : bridge;
		add(&r, IFLA_MASTER, &master, sizeof master);
		ask(&r, "bridge-port");
	}
}

/* Mounts. */
void tmpfs_setup(const struct work *w)
{
	own_mounts(w, "tmpfs");
	if (mkdir(AREA "/at", 0755) != 0)
		die_errno("%s: a directory", w->name);
}

void tmpfs_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (mount("slice", AREA "/at", "tmpfs", 0, "size=4k") != 0 || umount2(AREA "/at", 0) != 0)
			die_errno("mount-tmpfs");
}

void overlay_setup(const struct work *w)
{
	tmpfs_setup(w);
	if (mkdir(AREA "/lower", 0755) != 0 || mkdir(AREA "/upper", 0755) != 0 || mkdir(AREA "/work", 0755) != 0)
		die_errno("%s: directories", w->name);
}

void overlay_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (mount("slice", AREA "/at", "overlay", 0, "lowerdir=" AREA "/lower,upperdir=" AREA "/upper,workdir=" AREA "/work") != 0 ||
			umount2(AREA "/at", 0) != 0)
			die_errno("mount-overlay");
}

/* container-start: what a runtime asks of the kernel, once. A child with all namespaces
 * but the user's joins a group of its own, takes its loopback up, and gets an overlay
 * over a file system in memory as its root, with a /proc; there it executes this program,
 * which ends. The groups are removed outside of the time. */
#define INSIDE "/slice" /* the program in the container */

static void copy_program(const struct work *w, const char *to)
{
	char piece[65536];
	ssize_t got;
	/* Not by its path, which may lie below what was mounted over. */
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (in < 0 || out < 0)
		die_errno("%s: %s as %s", w->name, self, to);
	while ((got = read(in, piece, sizeof piece)) > 0)
		if (write(out, piece, (size_t)got) != got)
			die_errno("%s: write %s", w->name, to);
	if (got < 0 || close(in) != 0 || close(out) != 0)
		die_errno("%s: read %s", w->name, self);
}

void start_setup(const struct work *w)
{
	static const char *const dirs[] = {AREA "/at", AREA "/memory", AREA "/groups", AREA "/lower", AREA "/lower/proc"};
	own_mounts(w, "tmpfs");
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		if (mkdir(dirs[i], 0755) != 0)
			die_errno("%s: %s", w->name, dirs[i]);
	copy_program(w, AREA "/lower" INSIDE);
	if (mount("cgroup2", AREA "/groups", "cgroup2", 0, NULL) != 0)
		die_errno("%s: cgroup2 cannot be mounted", w->name);
	enter_base(w, AREA "/groups");
}

static int contained(void *group)
{
	struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int procs, net = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	before_death = NULL; /* the worker's to do */
	if (chdir(group) != 0 || (procs = open("cgroup.procs", O_WRONLY | O_CLOEXEC)) < 0 || write(procs, "0", 1) != 1)
		die_errno("container-start: join the group %s", (const char *)group);
	if (net < 0 || ioctl(net, SIOCSIFFLAGS, &loopback) != 0)
		die_errno("container-start: the loopback");
	if (mount("memory", AREA "/memory", "tmpfs", 0, NULL) != 0 || mkdir(AREA "/memory/upper", 0755) != 0 || mkdir(AREA "/memory/work", 0755) != 0 ||
		mount("container", AREA "/at", "overlay", 0, "lowerdir=" AREA "/lower,upperdir=" AREA "/memory/upper,workdir=" AREA "/memory/work") != 0 ||
		mount("proc", AREA "/at/proc", "proc", 0, NULL) != 0)
		die_errno("container-start: the root file system");
	if (chdir(AREA "/at") != 0)
		die_errno("container-start: the root file system");
	if (syscall(SYS_pivot_root, ".", ".") == 0) {
		if (umount2(".", MNT_DETACH) != 0)
			die_errno("container-start: leave the root before");
	} else if (errno != EINVAL || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0) {
		die_errno("container-start: pivot_root"); /* EINVAL: a guest's first root is not replaced, but covered */
	}
	if (chdir("/") != 0 || sethostname("container", 9) != 0)
		die_errno("container-start: its host name");
	execl(INSIDE, INSIDE, "exec-step", "1", (char *)NULL);
	die_errno("container-start: " INSIDE " cannot be executed");
}

void start_loop(uint64_t n)
{
	const int spaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWCGROUP;
	for (uint64_t i = 0; i < n; i++) {
		const char *group = numbered("g", i);
		if (mkdir(group, 0755) != 0)
			die_errno("container-start: a group");
		int status = 1, pid = clone(contained, stack + sizeof stack, spaces | CLONE_VFORK | SIGCHLD, (void *)group);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			die_errno("container-start: clone");
		if (status != 0)
			die(EXIT_BROKEN, "container-start: the container ended with wait status 0x%x", status);
	}
}

/* start_undo removes the groups. The kernel may hold one for a moment after its process
 * was waited for. */
void start_undo(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		for (int tries = 0; rmdir(numbered("g", i)) != 0; tries++) {
			if (errno != EBUSY || tries == 2000)
				die_errno("container-start: a group cannot be removed");
			usleep(1000);
		}
}
