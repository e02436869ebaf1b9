#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

void parse_place(const char *text, struct place *p) {
	char address[64];
	const char *colon = strrchr(text, ':');

	memset(p, 0, sizeof *p);
	errno = EINVAL;
	if (strncmp(text, "unix:", 5) == 0) {
		p->un.sun_family = AF_UNIX;
		if (strlen(text + 5) >= sizeof p->un.sun_path)
			die(text);
		strcpy(p->un.sun_path, text + 5);
		p->len = sizeof p->un;
		return;
	}
	if (!colon || colon - text >= (long)sizeof address)
		die(text);
	memcpy(address, text, colon - text);
	address[colon - text] = 0;
	int six = strchr(address, ':') != NULL;
	in_port_t port = htons(number(colon + 1, 1, 65535));
	p->any.sa_family = six ? AF_INET6 : AF_INET;
	*(six ? &p->in6.sin6_port : &p->in.sin_port) = port;
	p->len = six ? sizeof p->in6 : sizeof p->in;
	if (inet_pton(p->any.sa_family, address, six ? (void *)&p->in6.sin6_addr : &p->in.sin_addr) != 1) {
		errno = EINVAL;
		die(text);
	}
}

int read_all(int fd, void *buf, size_t len) {
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, (char *)buf + got, len - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 && got == 0)
			return 0;
		if (n <= 0) {
			errno = n ? errno : ECONNRESET;
			die("read from the other end");
		}
		got += n;
	}
	return 1;
}

void write_all(int fd, const void *buf, size_t len) {
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, (const char *)buf + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die("write to the other end");
		done += n;
	}
}

void no_delay(int fd) {
	/* A local socket has no such option and no such delay. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) && errno != EOPNOTSUPP && errno != ENOPROTOOPT)
		die("TCP_NODELAY");
}

/* A local socket is made under another name and gets its own when it listens: a
 * client that finds the name may connect. Between bind and listen it would be
 * refused. */
static struct place unborn(const struct place *p) {
	static const char suffix[] = ".new";
	struct place q = *p;
	size_t n = strlen(q.un.sun_path);

	if (n + sizeof suffix > sizeof q.un.sun_path) {
		errno = ENAMETOOLONG;
		die(p->un.sun_path);
	}
	memcpy(q.un.sun_path + n, suffix, sizeof suffix);
	return q;
}

int listen_at(const struct place *p) {
	int fd = socket(p->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), local = p->any.sa_family == AF_UNIX;
	struct place at = local ? unborn(p) : *p;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) ||
	    bind(fd, &at.any, at.len) || listen(fd, 4096) ||
	    (local && rename(at.un.sun_path, p->un.sun_path)))
		die("listen");
	return fd;
}

int datagrams_at(const struct place *p) {
	int fd = socket(p->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, &p->any, p->len))
		die("listen for datagrams");
	return fd;
}

int connect_to(const struct place *p, int type) {
	int fd = socket(p->any.sa_family, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, &p->any, p->len))
		die("connect");
	return fd;
}
