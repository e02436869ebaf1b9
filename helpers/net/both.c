/* A server that says when it listens, and both ends in one container: the server
 * as a child, and once it listens the client as another, whose end is the end of
 * all. */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LISTENS = 10 }; /* TCP_LISTEN (include/net/tcp_states.h) */

/* dumped tells whether a TCP socket of this network namespace listens at a port, by
 * a dump of those that listen (sock_diag(7)); -1 where the kernel, or what stands in
 * for it, gives none. */
static int dumped(unsigned char family, unsigned wanted) {
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} ask = {
		{ .nlmsg_len = sizeof ask, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		{ .sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = 1 << LISTENS },
	};
	_Alignas(struct nlmsghdr) char said[8192];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), found = 0;

	if (fd < 0)
		return -1;
	if (send(fd, &ask, sizeof ask, 0) != (ssize_t)sizeof ask)
		found = -1;
	for (int more = found == 0; more;) {
		ssize_t n = recv(fd, said, sizeof said, 0);
		if (n <= 0)
			more = 0, found = -1;
		for (struct nlmsghdr *h = (void *)said; more && NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
				more = 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				found = -1;
			else if (more && ntohs(((struct inet_diag_msg *)NLMSG_DATA(h))->id.idiag_sport) == wanted)
				found = 1;
		}
	}
	close(fd);
	return found;
}

/* listens tells whether some socket of this network namespace listens at a port,
 * or at the path of a local socket. /proc/net/tcp is the last resort: to read it the
 * kernel walks over the table of all connections, milliseconds where memory is large,
 * which stood in the CPU time of both ends in one container. */
static int listens(const char *port) {
	static const char *const tables[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	char line[512], local[128];
	unsigned state, found;

	if (strncmp(port, "unix:", 5) == 0)
		return access(port + 5, F_OK) == 0; /* there once it listens, see listen_at */
	unsigned wanted = number(port, 1, 65535);
	int four = dumped(AF_INET, wanted), six = four > 0 ? four : dumped(AF_INET6, wanted);
	if (four > 0 || six > 0 || (four == 0 && six == 0))
		return four > 0 || six > 0;
	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(tables[i], "re");
		if (!f)
			continue; /* a kernel without IPv6 */
		while (fgets(line, sizeof line, f))
			if (sscanf(line, " %*d: %127[0-9A-F]:%x %*[0-9A-F]:%*x %x", local, &found, &state) == 3 &&
			    found == wanted && state == LISTENS) {
				fclose(f);
				return 1;
			}
		fclose(f);
	}
	return 0;
}

/* vacant ends all where somebody else listens at the server's port: the client would
 * measure that one. A local socket is replaced. */
static void vacant(const char *port) {
	if (strncmp(port, "unix:", 5) == 0 || !listens(port))
		return;
	errno = EADDRINUSE;
	die("the server's port");
}

static pid_t start(const char *role, const char *how, char **argv) {
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid > 0)
		return pid;
	/* A payload that is killed leaves no server. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		die("prctl");
	pin(role, how);
	execvp(argv[0], argv);
	die(argv[0]);
}

enum { WAIT_MS = 60000 }; /* a database is made first; the laboratory's own limit is shorter, or longer */

/* await waits until the server listens. It looks for the server's end first: who listens
 * after that is another one. */
static void await(pid_t server, const char *port) {
	struct timespec ms = { 0, 1000000 };

	for (int i = 0; i < WAIT_MS; i++) {
		if (waitpid(server, NULL, WNOHANG) == server) {
			errno = 0;
			die("the server ended before it listened");
		}
		if (listens(port))
			return;
		nanosleep(&ms, NULL);
	}
	errno = ETIMEDOUT;
	die("the server does not listen");
}

static int ended(pid_t pid, const char *who) {
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("wait");
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "net: the %s was killed by signal %d\n", who, WTERMSIG(status));
		return 128 + WTERMSIG(status);
	}
	return WEXITSTATUS(status);
}

/* The line goes the way of all output, so that it comes out of containers and
 * guests alike; no one outside has to look into their tables of sockets. */
int ready(char **a) {
	if (!a[0] || !a[1] || !a[2] || strcmp(a[2], "--") != 0 || !a[3])
		return -1;
	vacant(a[1]);
	pid_t server = start("server", a[0], a + 3);
	await(server, a[1]);
	if (puts("net: listening") == EOF || fflush(stdout))
		die("standard output");
	return ended(server, "server");
}

enum { STOP_MS = 3000 };

/* stop ends the server, which takes its own processes with it where it is asked to:
 * by SIGINT, which redis, nginx and postgres all take as "fast, and not when you like". */
static void stop(pid_t server) {
	struct timespec ms = { 0, 1000000 };

	kill(server, SIGINT);
	for (int i = 0; i < STOP_MS; i++) {
		if (waitpid(server, NULL, WNOHANG))
			return;
		nanosleep(&ms, NULL);
	}
	kill(server, SIGKILL);
	while (waitpid(server, NULL, 0) < 0)
		if (errno != EINTR)
			break;
}

int both(char **a) {
	char **client;

	if (!a[0] || !a[1] || !a[2] || strcmp(a[2], "--") != 0)
		return -1;
	for (client = a + 3; *client && strcmp(*client, "--") != 0; client++)
		;
	if (client == a + 3 || !*client || !client[1])
		return -1;
	*client++ = NULL;
	/* What is read is the client's output alone. */
	int out = fcntl(1, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (out < 0 || null < 0 || dup2(null, 1) < 0)
		die("/dev/null");
	vacant(a[1]);
	pid_t server = start("server", a[0], a + 3);
	if (dup2(out, 1) < 0 || close(out))
		die("standard output");
	await(server, a[1]);
	int code = ended(start("client", a[0], client), "client");
	stop(server);
	return code;
}
