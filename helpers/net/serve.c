/* The server: one client after the other, as its first bytes ask; open-loop clients
 * beside each other. */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static char buf[MOST_BYTES];

static void echo(int fd, size_t bytes) {
	no_delay(fd);
	while (read_all(fd, buf, bytes))
		write_all(fd, buf, bytes);
}

/* echo_datagrams answers until the client closes its connection. */
static void echo_datagrams(int control, int fd) {
	struct pollfd p[2] = { { fd, POLLIN, 0 }, { control, POLLIN, 0 } };

	write_all(control, "g", 1);
	for (;;) {
		struct sockaddr_storage from;
		socklen_t len = sizeof from;
		if (poll(p, 2, -1) < 0)
			die("poll");
		if (p[1].revents)
			return;
		ssize_t n = recvfrom(fd, buf, sizeof buf, 0, (struct sockaddr *)&from, &len);
		if (n < 0 || sendto(fd, buf, n, 0, (struct sockaddr *)&from, len) < 0)
			die("echo a datagram");
	}
}

/* quiet is how long no datagram may come before the last one has. */
enum { QUIET_MS = 50 };

/* count_packets counts datagrams until the client says that it sent the last
 * one and none comes any more, and tells how many there were. */
static void count_packets(int control, int fd) {
	struct pollfd p[2] = { { fd, POLLIN, 0 }, { control, POLLIN, 0 } };
	uint64_t count = 0;
	int ended = 0;

	write_all(control, "g", 1);
	for (;;) {
		int ready = poll(p, ended ? 1 : 2, ended ? QUIET_MS : -1);
		if (ready < 0)
			die("poll");
		if (ready == 0)
			break;
		while (recv(fd, buf, sizeof buf, MSG_DONTWAIT) >= 0)
			count++;
		if (!ended && p[1].revents)
			ended = 1;
	}
	write_all(control, &count, sizeof count);
}

static void count_bytes(int fd) {
	uint64_t total = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof buf)) > 0)
		total += n;
	if (n < 0)
		die("read from the client");
	write_all(fd, &total, sizeof total);
}

/* What an open-loop client asks is answered on many connections at once, each by a
 * thread of its own. */
struct talk {
	int fd;
	size_t bytes;
};

static atomic_uint_fast64_t echoed;

static void *echo_counted(void *arg) {
	struct talk *t = arg;
	char *own = malloc(t->bytes);

	if (!own)
		die("memory");
	no_delay(t->fd);
	for (;;) {
		size_t got = 0;
		ssize_t n = 1;
		while (got < t->bytes && ((n = read(t->fd, own + got, t->bytes - got)) > 0 || (n < 0 && errno == EINTR)))
			got += n > 0 ? n : 0;
		if (got < t->bytes)
			break; /* the client has closed it, or reset it */
		echoed++;
		if (send(t->fd, own, got, MSG_NOSIGNAL) != (ssize_t)got)
			break;
	}
	close(t->fd);
	free(own);
	free(t);
	return NULL;
}

static void echo_beside(int fd, size_t bytes) {
	struct talk *t = malloc(sizeof *t);
	pthread_t thread;

	if (!t)
		die("memory");
	*t = (struct talk){ fd, bytes };
	if ((errno = pthread_create(&thread, NULL, echo_counted, t)) || (errno = pthread_detach(thread)))
		die("thread");
}

/* answer returns whether it is done with the connection. */
static int answer(int fd, int datagrams) {
	struct request r;

	if (!read_all(fd, &r, sizeof r))
		return 1;
	if (r.bytes > sizeof buf) {
		errno = EMSGSIZE;
		die("a client's request");
	}
	if (r.what == 'o') {
		echo_beside(fd, r.bytes);
		return 0;
	}
	if (r.what == 'n') {
		uint64_t n = echoed;
		write_all(fd, &n, sizeof n);
	} else if (r.what == 'r' && r.datagram)
		echo_datagrams(fd, datagrams);
	else if (r.what == 'r')
		echo(fd, r.bytes);
	else if (r.what == 'p')
		count_packets(fd, datagrams);
	else if (r.what == 's')
		count_bytes(fd);
	else
		write_all(fd, "c", 1);
	return 1;
}

int serve(char **a) {
	struct place at;

	parse_place(a[0], &at);
	int datagrams = at.any.sa_family != AF_UNIX ? datagrams_at(&at) : -1;
	int fd = listen_at(&at);
	for (;;) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0) {
			if (errno == ECONNABORTED || errno == EINTR)
				continue;
			die("accept");
		}
		if (answer(client, datagrams))
			close(client);
	}
}
