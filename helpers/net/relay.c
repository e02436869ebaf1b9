/*
 * The userland proxy: takes connections and datagrams at a port and copies them
 * to a server, as an engine's proxy does for a published port. TCP is spliced
 * through a pipe, which is what the Go program of the engines does too.
 */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct place server;

struct flow {
	int from, to;
};

/* copy moves one direction to its end. */
static void *copy(void *arg) {
	struct flow *f = arg;
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		die("pipe");
	fcntl(p[1], F_SETPIPE_SZ, 1 << 20); /* refused to a user with many pipes: then it is smaller */
	for (;;) {
		ssize_t n = splice(f->from, NULL, p[1], NULL, 1 << 20, SPLICE_F_MOVE);
		if (n <= 0)
			break;
		while (n > 0) {
			ssize_t m = splice(p[0], NULL, f->to, NULL, n, SPLICE_F_MOVE);
			if (m <= 0)
				goto out;
			n -= m;
		}
	}
out:
	shutdown(f->to, SHUT_WR);
	close(p[0]);
	close(p[1]);
	return NULL;
}

static void *connection(void *arg) {
	int client = (int)(intptr_t)arg, to = socket(server.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct flow there = { client, to }, back = { to, client };
	pthread_t other;

	if (to >= 0 && connect(to, &server.any, server.len) == 0) {
		no_delay(client);
		no_delay(to);
		if (pthread_create(&other, NULL, copy, &there))
			die("thread");
		copy(&back);
		/* A reset from the client ends the other direction too. */
		pthread_join(other, NULL);
	}
	close(to);
	close(client);
	return NULL;
}

/* datagrams copies those of one client, the last one heard, both ways. */
static void *datagrams(void *arg) {
	static char buf[65536];
	struct sockaddr_storage client = { 0 };
	socklen_t len = 0;
	int here = (int)(intptr_t)arg, there = connect_to(&server, SOCK_DGRAM);
	struct pollfd p[2] = { { here, POLLIN, 0 }, { there, POLLIN, 0 } };

	for (;;) {
		ssize_t n;
		if (poll(p, 2, -1) < 0)
			die("poll");
		if (p[0].revents) {
			len = sizeof client;
			n = recvfrom(here, buf, sizeof buf, 0, (struct sockaddr *)&client, &len);
			if (n >= 0)
				send(there, buf, n, 0); /* lost, as a datagram may be */
		}
		if (p[1].revents && (n = recv(there, buf, sizeof buf, 0)) >= 0)
			sendto(here, buf, n, 0, (struct sockaddr *)&client, len);
	}
	return NULL;
}

static void detach(void *(*run)(void *), int fd) {
	pthread_t t;

	if (pthread_create(&t, NULL, run, (void *)(intptr_t)fd) || pthread_detach(t))
		die("thread");
}

int relay(char **a) {
	char text[128];
	struct place at;

	snprintf(text, sizeof text, "%s:%s", a[1], a[2]);
	parse_place(text, &server);
	snprintf(text, sizeof text, "%s:%s", server.any.sa_family == AF_INET6 ? "::" : "0.0.0.0", a[0]);
	parse_place(text, &at);
	detach(datagrams, datagrams_at(&at));
	int fd = listen_at(&at);
	for (;;) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client >= 0)
			detach(connection, client);
		else if (errno != ECONNABORTED && errno != EINTR)
			die("accept");
	}
}
