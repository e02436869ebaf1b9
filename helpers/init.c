//go:build ignore

/*
 * init: the agent in a guest, as its first process or as a service of systemd.
 *
 * It makes a guest out of a kernel and the workbench image: mounts, modules,
 * links, then one channel to the host, over which it is told what to run and
 * carries the payload's streams. When the payload has ended it says how, and
 * powers the machine off.
 *
 * The kernel's command line comes as environment (parameters without a dot that
 * the kernel does not know):
 *     tare_channel=WAY[,WAY...]  ways to the host, the first that opens is taken:
 *         vsock:PORT             a connection to PORT of the host
 *         port:NAME              the virtio-serial port of that name
 *         dev:/dev/vport0p1      a device that is read and written
 *         tty:/dev/ttyS1         a serial port of its own
 *     tare_root=/dev/vda         the root is that disk (ext4, read-only) under an
 *                                overlay in memory; without it, the initramfs
 *     tare_disk=DIRECTORY        /dev/vda, an ext4 of the guest's own, is mounted there
 *     tare_share=DIRECTORY       the host's directory (virtio-fs) is mounted there
 *     tare_net=ADDRESS/LENGTH[,GATEWAY]  of the guest's link eth0, of IPv4 or IPv6
 *     tare_off=reset             the machine has no switch: a reset ends the VMM
 *     tare_host=1                the root is a container host's disk, writable: it
 *                                also gets /run and /tmp; with tare_system, the payload's
 *                                root is the system's own
 *     tare_system=TYPE:DEVICE    the machine is given to /sbin/init of that disk's root,
 *                                of that file system; the agent is a service of its
 *                                systemd, and the payload's root what it is without
 * /.tare/modules lists the kernel modules to load, a file a line.
 *
 * As "init service" it is not the first process: systemd has made the guest, and
 * is asked to power it off. With the nanoseconds of the guest's clock at the first
 * process's begin behind it, it serves a tare_system. As "init links" it says on the console when docker0
 * is created and when it is up, since new kernels print neither, and looks which
 * processes there are, until the service says that the payload has ended.
 *
 * The channel carries frames: one byte of kind, the length of what follows as
 * four bytes, little-endian, and that many bytes. No frame is longer than MOST.
 *
 *     guest -> host
 *     H  hello: "1" and a line feed, then the way that was taken; of a first process
 *        or in a tare_system a line feed more, and the nanoseconds of the guest's clock when it began,
 *        a blank, and those of now
 *     O, E  standard output, standard error
 *     W  room for so many bytes of standard input (u32)
 *     T  of a first process, before X: by the same clock, nanoseconds when R had come,
 *        a blank, and those when the payload was executed
 *     X  the payload ended: its wait status (u32); all its output came before
 *     P  of a container host, after X: processes that were seen, a line each: pid,
 *        parent, begin and end in ms since the kernel's start, ms of CPU time, name;
 *        an empty one is the end
 *     F  it could not be run: what failed, as text
 *     S  after S: nothing is under way, and the machine may be saved
 *     host -> guest
 *     S  the machine is about to be saved, before R: the host is heard again as A
 *     A  of a restored machine, on whichever channel it has now: the nanoseconds of the
 *        host's calendar time (u64) and SEED random bytes. The guest takes both over and
 *        says H again.
 *     R  run, once: texts, each ended by NUL: uid, gid, most processes (0: any),
 *        "1" for standard input or "0" for none, number of arguments, number of
 *        variables, directory, the arguments, the variables
 *     I  standard input; an empty one is its end. Never more than W allowed.
 *     Q  power off
 *
 * What it prints on the console starts with "tare: "; "tare: init" is its first
 * act.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>

enum { SEED = 32, MOST = 4 << 20, PIECE = 64 << 10, TTY_ROOM = 1 << 10, PATIENCE_MS = 3000 };

static void say(const char *what, const char *object, int err) {
	char line[512];
	int n = snprintf(line, sizeof line, err ? "tare: %s %s: %s\n" : "tare: %s%s\n", what, object, strerror(err));

	/* Without a console nobody listens, and nothing depends on it. */
	if (write(2, line, n < (int)sizeof line ? n : (int)sizeof line) < 0)
		errno = 0;
}

static int serving; /* systemd is the first process */

static void power_off(void) {
	/* systemd(1): SIGRTMIN+4 starts poweroff.target and SIGRTMIN+5 reboot.target, by
	 * glibc's SIGRTMIN; this program's C library has another. */
	const int start_off = 34 + (getenv("tare_off") ? 5 : 4);

	if (serving && !kill(1, start_off))
		for (;;)
			pause();
	sync();
	reboot(getenv("tare_off") ? RB_AUTOBOOT : RB_POWER_OFF);
	say("power off", "", errno);
	for (;;)
		pause();
}

static void die(const char *what, const char *object) {
	say(what, object, errno);
	power_off();
}

/* ---- the machine ---- */

static void place(const char *kind, const char *dir, unsigned long flags, const char *data) {
	mkdir(dir, 0755);
	if (mount(kind, dir, kind, flags, data) && errno != EBUSY)
		say("mount", dir, errno);
}

static void mounts(void) {
	const unsigned long safe = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	place("devtmpfs", "/dev", MS_NOSUID, "mode=755"); /* the kernel may have done so */
	place("proc", "/proc", safe, NULL);
	place("sysfs", "/sys", safe, NULL);
}

/* furnish makes what programs expect of a system beside the three. */
static void furnish(void) {
	const unsigned long safe = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	static const char *const links[][2] = {
		{ "/proc/self/fd", "/dev/fd" }, { "/proc/self/fd/0", "/dev/stdin" },
		{ "/proc/self/fd/1", "/dev/stdout" }, { "/proc/self/fd/2", "/dev/stderr" },
	};

	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		if (symlink(links[i][0], links[i][1]) && errno != EEXIST)
			say("link", links[i][1], errno);
	place("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "ptmxmode=0666,mode=0620,gid=5");
	place("tmpfs", "/dev/shm", safe, "mode=1777");
	place("cgroup2", "/sys/fs/cgroup", safe, NULL);
	if (getenv("tare_host")) {
		place("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=755");
		place("tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777");
	}
}

static void load(const char *file) {
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
		say("module", file, errno);
	if (fd >= 0)
		close(fd);
	unlink(file); /* its memory is the payload's */
}

static void modules(void) {
	char line[512];
	FILE *list = fopen("/.tare/modules", "re");

	if (!list)
		return; /* a kernel that needs none */
	while (fgets(line, sizeof line, list)) {
		line[strcspn(line, "\n")] = 0;
		load(line);
	}
	fclose(list);
}

static void links_up(void) {
	struct if_nameindex *all = if_nameindex();
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (struct if_nameindex *i = all; fd >= 0 && i && i->if_index; i++) {
		struct ifreq r = { 0 };
		strncpy(r.ifr_name, i->if_name, sizeof r.ifr_name - 1);
		r.ifr_flags = IFF_UP | IFF_RUNNING;
		if (ioctl(fd, SIOCSIFFLAGS, &r))
			say("link", i->if_name, errno);
	}
	if (fd >= 0)
		close(fd);
	if (all)
		if_freenameindex(all);
}

static void nap(void);
static long milliseconds(void);

static int put_text(const char *file, const char *text);

static struct sockaddr_in ip(uint32_t host_order) {
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(host_order) };
}

static uint32_t address(const char *text) {
	struct in_addr a;

	if (!inet_aton(text, &a)) {
		errno = EINVAL;
		die("address", text);
	}
	return ntohl(a.s_addr);
}

static struct in6_addr address6(const char *text) {
	struct in6_addr a;

	if (inet_pton(AF_INET6, text, &a) != 1) {
		errno = EINVAL;
		die("address", text);
	}
	return a;
}

/* own_address6 gives the link an address of IPv6. Nobody else can have it, so the kernel
 * need not ask first, which takes a second. */
static void own_address6(int link, const char *text, const char *length, const char *gateway) {
	struct { struct in6_addr address; uint32_t length; int link; } own = { address6(text), atoi(length), link }; /* in6_ifreq of linux/ipv6.h */
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || put_text("/proc/sys/net/ipv6/conf/eth0/accept_dad", "0"))
		die("network of IPv6", text);
	if (ioctl(fd, SIOCSIFADDR, &own))
		die("address", text);
	if (gateway) {
		struct in6_rtmsg route = { .rtmsg_gateway = address6(gateway), .rtmsg_metric = 1, .rtmsg_flags = RTF_UP | RTF_GATEWAY, .rtmsg_ifindex = link };
		if (ioctl(fd, SIOCADDRT, &route))
			die("route", gateway);
	}
	close(fd);
}

/* own_address gives eth0, which may take its time to come, an address, and the
 * guest a default route. */
static void own_address(char *text) {
	char *length = strchr(text, '/'), *gateway = strchr(text, ',');
	long until = milliseconds() + PATIENCE_MS;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), link;
	struct ifreq r = { .ifr_name = "eth0" };

	if (fd < 0 || !length)
		die("network", text);
	*length++ = 0;
	if (gateway)
		*gateway++ = 0;
	while (!(link = if_nametoindex("eth0"))) {
		if (milliseconds() > until)
			die("link", "eth0");
		nap();
	}
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &r))
		die("link", "eth0");
	if (strchr(text, ':')) {
		close(fd);
		own_address6(link, text, length, gateway);
		return;
	}
	uint32_t mask = ~(uint32_t)0 << (32 - atoi(length));
	*(struct sockaddr_in *)&r.ifr_addr = ip(address(text));
	if (ioctl(fd, SIOCSIFADDR, &r))
		die("address", text);
	*(struct sockaddr_in *)&r.ifr_netmask = ip(mask);
	if (ioctl(fd, SIOCSIFNETMASK, &r))
		die("netmask", length);
	if (gateway) {
		struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };
		*(struct sockaddr_in *)&route.rt_dst = ip(0);
		*(struct sockaddr_in *)&route.rt_genmask = ip(0);
		*(struct sockaddr_in *)&route.rt_gateway = ip(address(gateway));
		if (ioctl(fd, SIOCADDRT, &route))
			die("route", gateway);
	}
	close(fd);
}

/* bridge_moments tells of docker0 by the kernel's own news of links. */
static void bridge_moments(void) {
	static char news[16 << 10];
	struct sockaddr_nl to = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), created = 0;

	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof to)) {
		say("news of links", "", errno);
		return;
	}
	for (;;) {
		int n = recv(fd, news, sizeof news, 0);
		unsigned int index = if_nametoindex("docker0");
		for (struct nlmsghdr *h = (struct nlmsghdr *)news; n > 0 && index && NLMSG_OK(h, (unsigned int)n); h = NLMSG_NEXT(h, n)) {
			struct ifinfomsg *link = NLMSG_DATA(h);
			if (h->nlmsg_type != RTM_NEWLINK || (unsigned int)link->ifi_index != index)
				continue;
			if (!created++)
				say("docker0 created", "", 0);
			if (link->ifi_flags & IFF_UP) {
				say("docker0 up", "", 0);
				return;
			}
		}
	}
}

static void nap(void) {
	struct timespec t = { 0, 300 * 1000 };

	nanosleep(&t, NULL);
}

static long long clock_ns(clockid_t clock) {
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* nanoseconds of the clock that starts with the kernel: at the first process's
 * begin they are what systemd-analyze calls the kernel's time. */
static long long nanoseconds(void) { return clock_ns(CLOCK_MONOTONIC); }

static long milliseconds(void) { return (long)(nanoseconds() / 1000000); }

/* mount_disk mounts a disk, whose device may take its time to come. */
static void mount_disk(const char *device, const char *type, const char *dir, unsigned long flags) {
	long until = milliseconds() + PATIENCE_MS;

	while (mount(device, dir, type, flags, NULL)) {
		if (errno != ENOENT || milliseconds() > until)
			die("mount", device);
		nap();
	}
}

/* own_files mounts what everyone may write files to. */
static void own_files(char *dir, const char *device, const char *type) {
	for (char *at = strchr(dir + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(dir, 0755);
		*at = '/';
	}
	mkdir(dir, 0755);
	mount_disk(device, type, dir, MS_NOSUID | MS_NODEV);
	if (chmod(dir, 01777))
		die("open", dir);
}

/* carry_mounts has what the kernel offers below another directory. */
static void carry_mounts(const char *below, unsigned long how) {
	for (const char *const *dir = (const char *const[]){ "/dev", "/proc", "/sys", NULL }; *dir; dir++) {
		char to[64];
		snprintf(to, sizeof to, "%s%s", below, *dir);
		mkdir(to, 0755);
		if (mount(*dir, to, NULL, how, NULL))
			die("mount", to);
	}
}

static void change_root(const char *to) {
	if (chdir(to) || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		die("change the root to", to);
}

/* disk_root puts an overlay in memory over a disk in the place of the root. */
static void disk_root(const char *device) {
	mkdir("/lower", 0755);
	mkdir("/new", 0755);
	mount_disk(device, "ext4", "/lower", MS_RDONLY);
	place("tmpfs", "/memory", 0, "mode=755");
	mkdir("/memory/upper", 0755);
	mkdir("/memory/work", 0755);
	if (mount("overlay", "/new", "overlay", 0, "lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work"))
		die("mount", "overlay");
	carry_mounts("/new", MS_MOVE);
	change_root("/new");
}

/* Where a tare_system finds what the root is without it. */
#define WORKBENCH "/run/tare/root"

/* agent_unit has systemd start the agent once nothing else is left to be started. */
static void agent_unit(long long began) {
	static const char unit[] =
		"[Unit]\nDescription=tare's agent\nAfter=multi-user.target\n"
		"[Service]\nType=idle\nTasksMax=infinity\nOOMPolicy=continue\n"
		"ExecStart=" WORKBENCH "/.tare/init service %lld\n";
	static const char file[] = "/run/systemd/system/tare-agent.service";
	static const char wants[] = "/run/systemd/system/multi-user.target.wants";

	mkdir("/run/systemd", 0755);
	mkdir("/run/systemd/system", 0755);
	mkdir(wants, 0755);
	FILE *out = fopen(file, "we");
	if (!out || fprintf(out, unit, began) < 0 || fclose(out) || symlink(file, "/run/systemd/system/multi-user.target.wants/tare-agent.service"))
		die("write", file);
}

/* boot_system gives the machine to a disk's own init. */
static void boot_system(char *disk, long long began) {
	char *device = strchr(disk, ':'), *const init[] = { "/sbin/init", NULL };

	if (!device) {
		errno = EINVAL;
		die("tare_system", disk);
	}
	*device++ = 0;
	mkdir("/system", 0755);
	mount_disk(device, disk, "/system", 0);
	place("tmpfs", "/system/run", MS_NOSUID | MS_NODEV, "mode=755");
	mkdir("/system/run/tare", 0755);
	mkdir("/system" WORKBENCH, 0755);
	if (mount("/", "/system" WORKBENCH, NULL, MS_BIND, NULL))
		die("keep", WORKBENCH);
	carry_mounts("/system", MS_MOVE);
	change_root("/system");
	if (getenv("tare_channel"))
		agent_unit(began);
	execv(init[0], init);
	die("execute", init[0]);
}

/* enter_workbench has this process and its children see the workbench as their root. */
static void enter_workbench(void) {
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		die("own mounts of", "the agent");
	carry_mounts(WORKBENCH, MS_BIND | MS_REC);
	if (chroot(WORKBENCH) || chdir("/"))
		die("change the root to", WORKBENCH);
}

/* ---- the channel ---- */

static int channel = -1;
static uint32_t room = PIECE; /* of standard input that may be on its way */

static int by_vsock(const char *port) {
	struct sockaddr_vm to = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = strtoul(port, NULL, 10) };
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to)) {
		int err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

/* by_port opens the virtio-serial port of that name; its node's number is the
 * machine's affair. */
static int by_port(const char *name) {
	char file[64], text[64];

	for (int device = 0; device < 4; device++)
		for (int port = 0; port < 8; port++) {
			snprintf(file, sizeof file, "/sys/class/virtio-ports/vport%dp%d/name", device, port);
			int fd = open(file, O_RDONLY | O_CLOEXEC);
			if (fd < 0)
				continue;
			ssize_t n = read(fd, text, sizeof text - 1);
			close(fd);
			text[n < 0 ? 0 : n] = 0;
			text[strcspn(text, "\n")] = 0;
			if (strcmp(text, name) != 0)
				continue;
			snprintf(file, sizeof file, "/dev/vport%dp%d", device, port);
			return open(file, O_RDWR | O_CLOEXEC);
		}
	errno = ENOENT;
	return -1;
}

static int by_device(const char *file) { return open(file, O_RDWR | O_NOCTTY | O_CLOEXEC); }

static int by_tty(const char *file) {
	struct termios t;
	int fd = open(file, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (tcgetattr(fd, &t))
		goto unfit;
	cfmakeraw(&t);
	t.c_cflag |= CLOCAL | CREAD;
	cfsetspeed(&t, B115200);
	if (tcsetattr(fd, TCSANOW, &t))
		goto unfit;
	room = TTY_ROOM; /* the port has no flow control, and a small buffer */
	return fd;
unfit:; /* a port without hardware opens, and answers EIO */
	int err = errno;
	close(fd);
	errno = err;
	return -1;
}

static int by(const char *way) {
	static const struct {
		const char *name;
		int (*open)(const char *);
	} ways[] = { { "vsock:", by_vsock }, { "port:", by_port }, { "dev:", by_device }, { "tty:", by_tty } };

	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		if (strncmp(way, ways[i].name, strlen(ways[i].name)) == 0)
			return ways[i].open(way + strlen(ways[i].name));
	errno = EINVAL;
	return -1;
}

/* connect_host tries each way, in order, for a while: devices appear in their
 * own time. Only after that the next one is worth trying. */
static const char *connect_host(char *ways) {
	for (char *way = strtok(ways, ","); way; way = strtok(NULL, ",")) {
		long until = milliseconds() + PATIENCE_MS;
		while ((channel = by(way)) < 0 && milliseconds() < until)
			nap();
		if (channel >= 0)
			return way;
		say("channel", way, errno);
	}
	return NULL;
}

static void put_all(const char *data, size_t len) {
	while (len) {
		ssize_t n = write(channel, data, len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			die("write to", "the channel");
		data += n;
		len -= n;
	}
}

static void send_frame(char kind, const void *data, uint32_t len) {
	static char frame[5 + PIECE];

	frame[0] = kind;
	for (int i = 0; i < 4; i++)
		frame[1 + i] = (char)(len >> 8 * i);
	memcpy(frame + 5, data, len);
	put_all(frame, 5 + len);
}

/* By the guest's clock, when its first process began; 0 where nobody knows. */
static long long first_began;

static void send_number(char kind, uint32_t n) {
	unsigned char text[4] = { n, n >> 8, n >> 16, n >> 24 };

	send_frame(kind, text, sizeof text);
}

static void get_all(char *data, size_t len) {
	while (len) {
		ssize_t n = read(channel, data, len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			die("read from", "the channel");
		data += n;
		len -= n;
	}
}

/* receive reads one frame into a buffer of its own, NUL behind it. */
static char receive(char **data, uint32_t *len) {
	unsigned char head[5];

	get_all((char *)head, sizeof head);
	*len = head[1] | head[2] << 8 | head[3] << 16 | (uint32_t)head[4] << 24;
	errno = EBADMSG;
	if (*len > MOST || !(*data = malloc(*len + 1)))
		die("a frame of", "the channel");
	get_all(*data, *len);
	(*data)[*len] = 0;
	return (char)head[0];
}

/* ---- processes, for a chart of the boot ---- */

enum { MOST_SEEN = 2048, MOST_PIDS = 32768, TICK_MS = 10 /* of USER_HZ */, SHARE = 50, NAP_MS = 20 };

/* What was seen of each process but the kernel's own, shared by who looks and who
 * tells. A process ended soon after it was seen last. */
static struct chart {
	volatile int over; /* nobody wants more */
	int seen;
	struct process {
		int pid, parent;
		long start, last, cpu; /* ms */
		char name[32];
	} of[MOST_SEEN];
} *chart;

/* open_chart shares one with children, or with another service. */
static void open_chart(const char *file) {
	int fd = file ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (file && (fd < 0 || ftruncate(fd, sizeof *chart))) {
		say("processes", file, errno);
		return;
	}
	chart = mmap(NULL, sizeof *chart, PROT_READ | PROT_WRITE, MAP_SHARED | (file ? 0 : MAP_ANONYMOUS), fd, 0);
	if (chart == MAP_FAILED) {
		chart = NULL;
		say("processes", "", errno);
	}
	if (fd >= 0)
		close(fd);
}

static struct process *known(int pid, long start) {
	for (int i = chart->seen - 1; i >= 0; i--)
		if (chart->of[i].pid == pid && chart->of[i].start == start)
			return &chart->of[i];
	if (chart->seen == MOST_SEEN)
		return NULL;
	chart->of[chart->seen].pid = pid;
	chart->of[chart->seen].start = start;
	return &chart->of[chart->seen++];
}

/* look_at reads /proc/PID/stat; it is 0 for a thread of the kernel. */
static int look_at(int pid, long now) {
	char file[32], text[512];
	long user, system, start;
	int parent;
	struct process *p;

	snprintf(file, sizeof file, "/proc/%d/stat", pid);
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 1; /* it has ended */
	text[n] = 0;
	char *name = strchr(text, '('), *end = strrchr(text, ')');
	if (!name || !end || sscanf(end + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld %*d %*d %*d %*d %*d %*d %ld", &parent, &user, &system, &start) != 4)
		return 1;
	if (pid == 2 || parent == 2)
		return 0;
	if (!(p = known(pid, start * TICK_MS)))
		return 1;
	*end = 0;
	p->parent = parent;
	p->last = now;
	p->cpu = (user + system) * TICK_MS;
	for (char *c = name; *c; c++)
		if (*c == '\n')
			*c = ' ';
	snprintf(p->name, sizeof p->name, "%s", name + 1);
	return 1;
}

/* watch_processes looks as often as a fiftieth of one CPU allows. */
static void watch_processes(void) {
	static unsigned char kernels[MOST_PIDS];
	long began = milliseconds();
	DIR *all = opendir("/proc");

	while (all && chart && !chart->over) {
		long now = (long)(clock_ns(CLOCK_BOOTTIME) / 1000000);
		rewinddir(all);
		for (struct dirent *e; (e = readdir(all));) {
			int pid = atoi(e->d_name);
			if (pid > 0 && !(pid < MOST_PIDS && kernels[pid]) && !look_at(pid, now) && pid < MOST_PIDS)
				kernels[pid] = 1;
		}
		long due = SHARE * ((long)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1000000) + 1) - (milliseconds() - began);
		due = due > NAP_MS ? due : NAP_MS;
		nanosleep(&(struct timespec){ due / 1000, due % 1000 * 1000000 }, NULL);
	}
}

/* tell_processes sends what was seen, and lets the looking end. */
static void tell_processes(void) {
	static char lines[PIECE];
	int n = 0;

	for (int i = 0; chart && i < chart->seen; i++) {
		struct process *p = &chart->of[i];
		n += snprintf(lines + n, sizeof lines - n, "%d %d %ld %ld %ld %s\n", p->pid, p->parent, p->start, p->last, p->cpu, p->name);
		if (n > PIECE - 256) {
			send_frame('P', lines, n);
			n = 0;
		}
	}
	if (n)
		send_frame('P', lines, n);
	send_frame('P', "", 0);
	if (chart)
		chart->over = 1;
}

/* ---- the payload ---- */

static struct {
	unsigned long uid, gid, processes;
	int input;
	char *cwd, **argv, **envp;
} job;

static void parse(char *at, char *end) {
	char *text[7];
	unsigned long n[2];

	for (int i = 0; i < 7; i++) {
		if (at >= end)
			die("the request", "");
		text[i] = at;
		at += strlen(at) + 1;
	}
	job.uid = strtoul(text[0], NULL, 10);
	job.gid = strtoul(text[1], NULL, 10);
	job.processes = strtoul(text[2], NULL, 10);
	job.input = *text[3] == '1';
	job.cwd = text[6];
	for (int list = 0; list < 2; list++) {
		n[list] = strtoul(text[4 + list], NULL, 10);
		char **v = n[list] > MOST ? NULL : calloc(n[list] + 1, sizeof *v);
		if (!v)
			die("the request", "");
		for (unsigned long i = 0; i < n[list]; i++) {
			if (at >= end)
				die("the request", "");
			v[i] = at;
			at += strlen(at) + 1;
		}
		if (list)
			job.envp = v;
		else
			job.argv = v;
	}
}

static int put_text(const char *file, const char *text) {
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	int bad = fd < 0 || write(fd, text, strlen(text)) < 0;

	if (fd >= 0)
		close(fd);
	return bad ? -1 : 0;
}

/* few puts this process into a group that holds only so many. */
static int few(unsigned long processes) {
	char text[32];

	snprintf(text, sizeof text, "%lu", processes);
	if (put_text("/sys/fs/cgroup/cgroup.subtree_control", "+pids"))
		return -1;
	if (mkdir("/sys/fs/cgroup/payload", 0755) && errno != EEXIST)
		return -1;
	return put_text("/sys/fs/cgroup/payload/pids.max", text) || put_text("/sys/fs/cgroup/payload/cgroup.procs", "0") ? -1 : 0;
}

/* What the agent adds to a payload's start lies between the two. Shared with the
 * payload's process until it executes. */
static struct {
	long long asked, executed;
} *moment;

static void become(int in, int out, int err, int tell) {
	const char *what = "limit processes";
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (job.processes && few(job.processes))
		goto failed;
	what = "standard streams";
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		goto failed;
	what = job.cwd;
	if (*job.cwd && chdir(job.cwd))
		goto failed;
	what = "identity";
	if (setgroups(0, NULL) || setresgid(job.gid, job.gid, job.gid) || setresuid(job.uid, job.uid, job.uid))
		goto failed;
	what = job.argv[0] ? job.argv[0] : "an empty command";
	moment->executed = nanoseconds();
	if (job.argv[0])
		execve(job.argv[0], job.argv, job.envp);
	else
		errno = EINVAL;
failed:
	dprintf(tell, "%s: %s", what, strerror(errno));
	_exit(127);
}

static pid_t payload;
static int to_payload = -1, from_payload[2] = { -1, -1 }; /* output, errors */

static void start(void) {
	int in[2], out[2], err[2], tell[2];
	static char why[1024];

	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || pipe2(tell, O_CLOEXEC))
		die("pipe", "");
	if (job.input) {
		if (pipe2(in, O_CLOEXEC))
			die("pipe", "");
		to_payload = in[1];
		fcntl(to_payload, F_SETFL, O_NONBLOCK);
	} else if ((in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0) {
		die("open", "/dev/null");
	}
	payload = fork();
	if (payload < 0)
		die("fork", "");
	if (!payload)
		become(in[0], out[1], err[1], tell[1]);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	close(tell[1]);
	ssize_t n = read(tell[0], why, sizeof why);
	close(tell[0]);
	if (n > 0)
		send_frame('F', why, n);
	from_payload[0] = out[0];
	from_payload[1] = err[0];
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
}

/* forward passes on what there is of one stream; it is 0 at its end. */
static int forward(int stream) {
	static char piece[PIECE];
	ssize_t n = read(from_payload[stream], piece, sizeof piece);

	if (n > 0)
		send_frame("OE"[stream], piece, n);
	else if (n == 0) {
		close(from_payload[stream]);
		from_payload[stream] = -1;
	}
	return n > 0;
}

static char *input;
static uint32_t input_len, input_at;
static int input_ended;

static void end_input(void) {
	if (to_payload >= 0)
		close(to_payload);
	to_payload = -1;
}

/* feed gives the payload what came for it; a payload that reads no more is no
 * failure. */
static void feed(void) {
	ssize_t n = write(to_payload, input + input_at, input_len - input_at);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n < 0)
		end_input();
	input_at += n < 0 ? 0 : n;
	if (n >= 0 && input_at < input_len)
		return;
	free(input);
	input = NULL;
	if (input_ended)
		end_input();
	else if (to_payload >= 0)
		send_number('W', room);
}

static void told(void) {
	char *data;
	uint32_t len;

	switch (receive(&data, &len)) {
	case 'I':
		if (len && to_payload >= 0) {
			input = data;
			input_len = len;
			input_at = 0;
			return;
		}
		input_ended = len == 0;
		if (input_ended && !input)
			end_input();
		break;
	case 'Q':
		power_off();
	}
	free(data);
}

/* reap waits for whoever ended, and says whether the payload has. */
static int reap(int *status) {
	int ended = 0, s;
	pid_t pid;

	while ((pid = waitpid(-1, &s, WNOHANG)) > 0)
		if (pid == payload) {
			*status = s;
			ended = 1;
		}
	return ended;
}

/* drain passes on what a payload that ended has left in a pipe, and not what
 * others go on writing there. */
static void drain(int stream) {
	int left = 0;

	while (from_payload[stream] >= 0 && !ioctl(from_payload[stream], FIONREAD, &left) && left > 0) {
		static int allowed[2] = { MOST, MOST };
		if ((allowed[stream] -= PIECE) < 0 || !forward(stream))
			return;
	}
}

static void carry(int signals) {
	struct signalfd_siginfo info;
	int status = 0, ended = 0;

	if (job.input)
		send_number('W', room);
	while (!ended) {
		struct pollfd on[] = {
			{ channel, POLLIN, 0 },
			{ signals, POLLIN, 0 },
			{ from_payload[0], POLLIN, 0 },
			{ from_payload[1], POLLIN, 0 },
			{ input ? to_payload : -1, POLLOUT, 0 },
		};
		if (poll(on, sizeof on / sizeof *on, -1) < 0)
			continue;
		if (on[1].revents && read(signals, &info, sizeof info) > 0)
			ended = reap(&status);
		for (int stream = 0; stream < 2; stream++)
			if (on[2 + stream].revents)
				forward(stream);
		if (on[4].revents)
			feed();
		if (on[0].revents)
			told();
	}
	for (int stream = 0; stream < 2; stream++)
		drain(stream);
	if (first_began) {
		char text[48];
		send_frame('T', text, snprintf(text, sizeof text, "%lld %lld", moment->asked, moment->executed));
	}
	send_number('X', status);
}

/* ---- */

/* from_command_line makes variables of the kernel's parameters, which systemd
 * does not pass on to its services, and takes the console. */
static void from_command_line(void) {
	static char line[4096];
	FILE *file = fopen("/proc/cmdline", "re");
	int console = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);

	if (console >= 0)
		dup2(console, 2);
	if (!file || !fgets(line, sizeof line, file))
		die("read", "/proc/cmdline");
	fclose(file);
	for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n"))
		if (strncmp(word, "tare_", 5) == 0)
			putenv(word);
}

static int children(void) {
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* as_first makes the guest, as far as a channel needs it. */
static void as_first(void) {
	char *root;

	say("init", "", 0);
	mounts();
	modules();
	if ((root = getenv("tare_root")))
		disk_root(root);
	if ((root = getenv("tare_system")))
		boot_system(root, first_began);
	if (!getenv("tare_host"))
		return;
	open_chart(NULL);
	if (!fork()) {
		bridge_moments();
		_exit(0);
	}
	if (!fork()) {
		watch_processes();
		_exit(0);
	}
}

/* as_links is the early service of a container host. */
static void as_links(void) {
	if (!fork()) {
		bridge_moments();
		_exit(0);
	}
	watch_processes();
}

static void say_hello(const char *way) {
	char hello[192];
	int size = snprintf(hello, sizeof hello, "1\n%.100s", way);

	if (first_began)
		size += snprintf(hello + size, sizeof hello - size, "\n%lld %lld", first_began, nanoseconds());
	send_frame('H', hello, size);
}

/* try_all reads so many bytes of a channel that may have been closed while the machine
 * was away; it is 0 then. */
static int try_all(unsigned char *data, size_t len) {
	while (len) {
		ssize_t n = read(channel, data, len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return 0;
		data += n;
		len -= n;
	}
	return 1;
}

/* renew gives a restored guest the host's calendar time, and a state of its random
 * numbers that no other guest has which was restored from the same files. */
static void renew(const unsigned char *news) {
	struct { /* struct rand_pool_info */
		int bits, bytes;
		unsigned char seed[SEED];
	} pool = { 8 * SEED, SEED, { 0 } };
	unsigned long long ns = 0;
	int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

	for (int i = 7; i >= 0; i--)
		ns = ns << 8 | news[i];
	struct timespec now = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	if (clock_settime(CLOCK_REALTIME, &now))
		say("set", "the clock", errno);
	memcpy(pool.seed, news + 8, SEED);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) || ioctl(fd, RNDRESEEDCRNG))
		say("seed", "/dev/urandom", errno);
	if (fd >= 0)
		close(fd);
}

/* be_saved waits until the machine was restored and the host is there again. Where the
 * channel did not outlive the machine, another one is opened. */
static void be_saved(const char *ways, const char *way) {
	unsigned char again[5 + 8 + SEED];

	send_frame('S', "", 0);
	while (!try_all(again, sizeof again)) {
		close(channel);
		way = connect_host(strdup(ways));
		nap();
	}
	if (*again != 'A' || again[1] != 8 + SEED) {
		errno = EBADMSG;
		die("a frame of", "the restored channel");
	}
	renew(again + 5);
	say_hello(way);
}

int main(int argc, char **argv) {
	const char *ways, *disk, *share, *network, *way;
	char *data;
	uint32_t len;
	int signals, system;

	serving = argc > 1 && getpid() != 1;
	system = serving && argc > 2;
	first_began = system ? atoll(argv[2]) : serving ? 0 : nanoseconds();
	if (serving)
		from_command_line();
	else
		as_first();
	if (system && !getenv("tare_host"))
		enter_workbench();
	else if (serving)
		open_chart("/run/tare-processes");
	if (serving && strcmp(argv[1], "links") == 0) {
		as_links();
		return 0;
	}
	ways = getenv("tare_channel");
	disk = getenv("tare_disk");
	share = getenv("tare_share");
	network = getenv("tare_net");
	way = connect_host(strdup(ways ? ways : ""));
	if (!way)
		die("no channel to the host:", ways ? ways : "none named");
	say_hello(way);
	if (!serving)
		links_up();
	if (network)
		own_address(strdup(network));
	if (!serving)
		furnish();
	if (disk)
		own_files(strdup(disk), "/dev/vda", "ext4");
	if (share)
		own_files(strdup(share), "tare", "virtiofs");
	signals = children();
	if (signals < 0)
		die("signalfd", "");
	moment = mmap(NULL, sizeof *moment, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (moment == MAP_FAILED)
		die("memory", "");
	char kind = receive(&data, &len);
	if (kind == 'S') {
		be_saved(ways, way);
		kind = receive(&data, &len);
	}
	moment->asked = nanoseconds();
	if (kind == 'R') {
		parse(data, data + len);
		start();
		carry(signals);
		if ((serving && !system) || getenv("tare_host"))
			tell_processes();
		kind = receive(&data, &len);
	}
	if (kind != 'Q') {
		errno = EBADMSG;
		say("unexpected frame, powering off", "", 0);
	}
	power_off();
}
