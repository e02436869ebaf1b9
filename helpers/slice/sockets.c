/* Sockets on this machine: streams, requests with answers, connections, over
 * TCP and UDP on the loopback and over Unix sockets. The other end is a thread
 * of the worker, so that its CPU time is the work's. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { REQUEST = 64 };

static int near, far; /* ends of one connection; far belongs to the other thread */
static unsigned char out[STREAM_PIECE], in[STREAM_PIECE];
static struct sockaddr_in where;
static const char *who;

static void other_end(void *(*serve)(void *))
{
	pthread_t t;
	if ((errno = pthread_create(&t, NULL, serve, NULL)) != 0)
		die_errno("%s: no thread", who);
}

static void no_delay(int fd)
{
	int on = 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
		die_errno("%s: TCP_NODELAY", who);
}

static int bound(int type)
{
	socklen_t size = sizeof where;
	where = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&where, sizeof where) != 0 || getsockname(fd, (struct sockaddr *)&where, &size) != 0)
		die_errno("%s: no socket on the loopback (is lo up?)", who);
	return fd;
}

static int listening(void)
{
	int fd = bound(SOCK_STREAM);
	if (listen(fd, 128) != 0)
		die_errno("%s: cannot listen", who);
	return fd;
}

static int connected(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&where, sizeof where) != 0)
		die_errno("%s: cannot connect", who);
	no_delay(fd);
	return fd;
}

static int accepted(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		die_errno("%s: cannot accept", who);
	return fd;
}

static void tcp_ends(void)
{
	int listener = listening();
	near = connected();
	far = accepted(listener);
	no_delay(far);
	close(listener);
}

static void udp_ends(void)
{
	socklen_t size = sizeof(struct sockaddr_in);
	struct sockaddr_in first;
	near = bound(SOCK_DGRAM);
	first = where;
	far = bound(SOCK_DGRAM);
	if (connect(near, (struct sockaddr *)&where, size) != 0 || connect(far, (struct sockaddr *)&first, size) != 0)
		die_errno("%s: cannot connect", who);
}

static void unix_ends(void)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		die_errno("%s: no socket pair", who);
	near = ends[0];
	far = ends[1];
}

static void make_ends(const struct work *w)
{
	who = w->name;
	for (size_t i = 0; i < sizeof out; i++)
		out[i] = (unsigned char)(i * 7);
	switch (w->name[1]) {
	case 'c': tcp_ends(); break;
	case 'd': udp_ends(); break;
	default: unix_ends();
	}
}

/* Reads size bytes, however many pieces they come in. */
static void read_all(int fd, unsigned char *to, size_t size)
{
	for (size_t got = 0; got < size;) {
		ssize_t n = read(fd, to + got, size - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die_errno("%s: the connection ended", who);
		got += (size_t)n;
	}
}

static void write_all(int fd, const unsigned char *from, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, from + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die_errno("%s: cannot write", who);
		done += (size_t)n;
	}
}

/* Takes pieces and acknowledges each batch: a byte says how many pieces it had. */
static void *sink(void *with)
{
	(void)with;
	for (;;) {
		uint64_t n;
		unsigned char done = 1;
		read_all(far, (unsigned char *)&n, sizeof n);
		for (uint64_t i = 0; i < n; i++)
			read_all(far, in, sizeof in);
		if (memcmp(in, out, sizeof in) != 0)
			die(EXIT_BROKEN, "%s: other bytes arrived than were sent", who);
		write_all(far, &done, 1);
	}
	return NULL;
}

void stream_setup(const struct work *w)
{
	make_ends(w);
	other_end(sink);
}

/* A batch ends when all of it has arrived. */
void stream_loop(uint64_t n)
{
	unsigned char done;
	write_all(near, (unsigned char *)&n, sizeof n);
	for (uint64_t i = 0; i < n; i++)
		write_all(near, out, sizeof out);
	read_all(near, &done, 1);
}

static void *echo(void *with)
{
	unsigned char request[REQUEST];
	(void)with;
	for (;;) {
		read_all(far, request, sizeof request);
		write_all(far, request, sizeof request);
	}
	return NULL;
}

void echo_setup(const struct work *w)
{
	make_ends(w);
	other_end(echo);
}

void echo_loop(uint64_t n)
{
	unsigned char request[REQUEST], reply[REQUEST];
	memcpy(request, out, sizeof request);
	for (uint64_t i = 0; i < n; i++) {
		memcpy(request, &i, sizeof i);
		write_all(near, request, sizeof request);
		read_all(near, reply, sizeof reply);
		if (memcmp(request, reply, sizeof request) != 0)
			die(EXIT_BROKEN, "%s: another answer than was asked for", who);
	}
}

/* udp-throughput: so many datagrams may be on their way, which fit into any receive
 * buffer: none is lost. Each begins with how many of its batch are left, itself too. */
enum { WINDOW = 16 };

static void *datagram_sink(void *with)
{
	static unsigned char datagram[DATAGRAM];
	uint64_t left = 0, now;
	(void)with;
	for (;;) {
		ssize_t n = recv(far, datagram, sizeof datagram, 0);
		if (n != (ssize_t)sizeof datagram)
			die_errno("%s: a datagram of %zd bytes", who, n);
		memcpy(&now, datagram, sizeof now);
		if ((left && now != left) || memcmp(datagram + sizeof now, out + sizeof now, sizeof datagram - sizeof now) != 0)
			die(EXIT_BROKEN, "%s: other datagrams arrived than were sent", who);
		left = now - 1;
		if (now % WINDOW == 1 && send(far, "", 1, 0) != 1)
			die_errno("%s: cannot acknowledge", who);
	}
	return NULL;
}

void datagram_setup(const struct work *w)
{
	const struct timeval second = {.tv_sec = 1};
	make_ends(w);
	if (setsockopt(near, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) != 0)
		die_errno("%s: SO_RCVTIMEO", who);
	other_end(datagram_sink);
}

void datagram_loop(uint64_t n)
{
	static unsigned char datagram[DATAGRAM];
	unsigned char done;
	memcpy(datagram, out, sizeof datagram);
	for (; n > 0; n--) {
		memcpy(datagram, &n, sizeof n);
		if (send(near, datagram, sizeof datagram, 0) != (ssize_t)sizeof datagram)
			die_errno("%s: cannot send", who);
		if (n % WINDOW == 1 && recv(near, &done, 1, 0) != 1)
			die_errno("%s: a datagram was lost on the loopback", who);
	}
}

static int listener;

static void *greet(void *with)
{
	unsigned char byte = 1;
	(void)with;
	for (;;) {
		int fd = accepted(listener);
		write_all(fd, &byte, 1);
		close(fd);
	}
	return NULL;
}

/* tcp-connect: connect, take one byte, close. The connection is reset, so that
 * closed ones do not use up the ports. */
void connect_setup(const struct work *w)
{
	who = w->name;
	listener = listening();
	other_end(greet);
}

/* unix-connect: the same by a Unix socket in this directory. */
static const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "connect"};

void unix_connect_setup(const struct work *w)
{
	who = w->name;
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&name, sizeof name) != 0 || listen(listener, 128) != 0)
		die_errno("%s: no Unix socket in this directory", who);
	other_end(greet);
}

void unix_connect_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		unsigned char byte;
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof name) != 0)
			die_errno("%s: cannot connect", who);
		read_all(fd, &byte, 1);
		close(fd);
	}
}

void connect_loop(uint64_t n)
{
	const struct linger reset = {.l_onoff = 1};
	for (uint64_t i = 0; i < n; i++) {
		unsigned char byte;
		int fd = connected();
		read_all(fd, &byte, 1);
		if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) != 0 || close(fd) != 0)
			die_errno("%s: cannot close", who);
	}
}
