/* The clients: each asks the server for one thing, for a while, and prints what
 * came of it. */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static char buf[MOST_BYTES];

static uint64_t deadline(const char *ms) { return now() + (uint64_t)number(ms, 1, 3600000) * 1000000u; }

static int ask(const struct place *p, struct request r) {
	int fd = connect_to(p, SOCK_STREAM);

	no_delay(fd);
	write_all(fd, &r, sizeof r);
	return fd;
}

/* ---- round trips ---- */

enum { MOST_SAMPLES = 8 << 20, WARM = 64 };

static uint32_t *samples;

static int by_size(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* rank is the smallest sample that at least the share of all is not above. */
static uint32_t rank(size_t n, unsigned permille) {
	size_t i = (n * permille + 999) / 1000;
	return samples[i ? i - 1 : 0];
}

static void print_samples(size_t n) {
	double sum = 0;

	qsort(samples, n, sizeof *samples, by_size);
	for (size_t i = 0; i < n; i++)
		sum += samples[i];
	printf("samples %zu\nmean_ns %.1f\np50_ns %" PRIu32 "\np99_ns %" PRIu32 "\np999_ns %" PRIu32 "\n",
	       n, sum / n, rank(n, 500), rank(n, 990), rank(n, 999));
}

static void round_trip(int fd, size_t bytes, int datagram) {
	write_all(fd, buf, bytes);
	if (!datagram) {
		if (!read_all(fd, buf, bytes)) {
			errno = ECONNRESET;
			die("the server");
		}
		return;
	}
	if (recv(fd, buf, sizeof buf, 0) != (ssize_t)bytes) {
		if (errno == EAGAIN)
			errno = ETIMEDOUT;
		die("no answer to a datagram");
	}
}

int rtt(char **a) {
	struct place at;
	int datagram = strcmp(a[0], "udp") == 0, fd, talk;
	struct request r = { 'r', datagram, number(a[2], 1, datagram ? 65507 : MOST_BYTES) };
	size_t n = 0;

	parse_place(a[1], &at);
	samples = malloc(MOST_SAMPLES * sizeof *samples);
	if (!samples)
		die("memory");
	fd = talk = ask(&at, r);
	if (datagram) {
		struct timeval second = { 1, 0 };
		if (!read_all(fd, buf, 1))
			die("the server");
		talk = connect_to(&at, SOCK_DGRAM);
		if (setsockopt(talk, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second))
			die("time-out of the socket");
	}
	for (int i = 0; i < WARM; i++)
		round_trip(talk, r.bytes, datagram);
	uint64_t end = deadline(a[3]), before = now();
	while (before < end && n < MOST_SAMPLES) {
		round_trip(talk, r.bytes, datagram);
		uint64_t after = now();
		samples[n++] = after - before > UINT32_MAX ? UINT32_MAX : after - before;
		before = after;
	}
	print_samples(n);
	return 0;
}

/* ---- connections ---- */

int connections(char **a) {
	/* Closed by a reset: the port is free at once, else a client runs out of
	 * them within seconds. */
	struct linger reset = { 1, 0 };
	struct place at;
	uint64_t n = 0;
	char c;

	parse_place(a[0], &at);
	uint64_t began = now(), end = deadline(a[1]), t;
	do {
		int fd = ask(&at, (struct request){ 'c', 0, 0 });
		if (!read_all(fd, &c, 1))
			die("the server closed a connection");
		if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset))
			die("SO_LINGER");
		close(fd);
		n++;
	} while ((t = now()) < end);
	printf("connections %" PRIu64 "\nelapsed_ns %" PRIu64 "\n", n, t - began);
	return 0;
}

/* ---- datagrams ---- */

int packets(char **a) {
	struct place at;
	size_t bytes = number(a[1], 1, 65507);
	uint64_t sent = 0, received, t;
	char c;

	parse_place(a[0], &at);
	int control = ask(&at, (struct request){ 'p', 1, bytes });
	if (!read_all(control, &c, 1))
		die("the server");
	int fd = connect_to(&at, SOCK_DGRAM);
	uint64_t began = now(), end = deadline(a[2]);
	do {
		for (int i = 0; i < 32; i++)
			if (send(fd, buf, bytes, 0) >= 0)
				sent++;
			else if (errno != ENOBUFS && errno != ECONNREFUSED)
				die("send a datagram");
	} while ((t = now()) < end);
	write_all(control, "e", 1);
	if (!read_all(control, &received, sizeof received))
		die("the server");
	printf("sent %" PRIu64 "\nreceived %" PRIu64 "\nelapsed_ns %" PRIu64 "\n", sent, received, t - began);
	return 0;
}

/* ---- a stream ---- */

int stream(char **a) {
	struct place at;
	size_t bytes = number(a[1], 1, MOST_BYTES);
	uint64_t received, t;

	parse_place(a[0], &at);
	int fd = ask(&at, (struct request){ 's', 0, bytes });
	uint64_t began = now(), end = deadline(a[2]);
	do {
		write_all(fd, buf, bytes);
	} while ((t = now()) < end);
	/* The end of what was sent; the answer says how much of it arrived. */
	if (shutdown(fd, SHUT_WR) || !read_all(fd, &received, sizeof received))
		die("the server");
	printf("bytes %" PRIu64 "\nelapsed_ns %" PRIu64 "\n", received, now() - began);
	return 0;
}
