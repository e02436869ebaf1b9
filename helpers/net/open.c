/*
 * The open-loop client: requests are due at moments that no answer can shift, and the
 * time of each is counted from the moment when it was due. A server that stalls makes
 * all requests wait that come due meanwhile, as it does to its users. A client that
 * asks only after the last answer would count one of them ("coordinated omission").
 *
 * Each connection has one request under way. Where all are busy, what is due waits.
 */
#define _GNU_SOURCE
#include "net.h"
#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---- times, in buckets: each holds values that differ by less than a thousandth ---- */

enum { SUB = 10, SLOTS = ((64 - SUB) << SUB) + (1 << SUB) };

struct histogram {
	uint64_t count[SLOTS], n, most;
	double sum;
};

static void add(struct histogram *h, uint64_t v) {
	int shift = 63 - __builtin_clzll(v | 1) - SUB;

	if (shift < 0)
		shift = 0;
	h->count[((size_t)shift << SUB) + (v >> shift)]++;
	h->n++;
	h->sum += v;
	if (v > h->most)
		h->most = v;
}

/* percentile is the smallest bucket's upper end that the share of all is not above. */
static uint64_t percentile(const struct histogram *h, double share) {
	uint64_t wanted = ceil(share * h->n), seen = 0;

	for (size_t i = 0; i < SLOTS; i++) {
		seen += h->count[i];
		if (!h->count[i] || seen < wanted)
			continue;
		int shift = i >> SUB ? (int)(i >> SUB) - 1 : 0;
		uint64_t top = (((i - ((size_t)shift << SUB)) + 1) << shift) - 1;
		return top < h->most ? top : h->most;
	}
	return h->most;
}

/* ---- connections ---- */

struct conn {
	int fd;		 /* -1 while there is none */
	int busy;	 /* a request is under way */
	int greeting;	 /* the server's answer to the hello is awaited */
	uint64_t due;	 /* of the request */
	uint64_t number; /* of the request */
	uint64_t freed;	 /* since when the connection could take another */
	size_t len, sent, have;
	char *out, *in;
};

struct place asked;
static const struct protocol *protocol;
static struct conn *conns, **idle; /* idle: a ring of those without a request */
static size_t nconns, first_idle, nidle, cap;
static int poller, keep;
static struct histogram latency, lateness;
static uint64_t answered, refused, broken, sent_all, payload, last_answer, warmed;
static int last_errno;

void close_at_once(int fd) {
	/* By a reset: the port is free at once, else a client runs out of them. */
	struct linger reset = { 1, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset); /* a local socket has none */
	close(fd);
}

static void watch(struct conn *c) {
	struct epoll_event e = { EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, { .ptr = c } };

	if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e))
		die("epoll_ctl");
}

static size_t read_answer(int fd, char *in, size_t size) {
	size_t have = 0, len;

	while (!(len = protocol->whole(in, have))) {
		ssize_t n = read(fd, in + have, size - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : ECONNRESET;
			die("an answer of the server");
		}
		have += n;
	}
	return len;
}

/* greet opens a connection and waits until it takes requests. */
static int greet(char *in, size_t size) {
	char hello[MOST_OUT];
	int fd = connect_to(&asked, SOCK_STREAM);

	no_delay(fd);
	if (protocol->hello)
		write_all(fd, hello, protocol->hello(hello));
	if (protocol->greets)
		read_answer(fd, in, size);
	return fd;
}

size_t converse(const char *out, size_t len, char *in, size_t size) {
	int fd = greet(in, size);

	write_all(fd, out, len);
	len = read_answer(fd, in, size);
	close_at_once(fd);
	return len;
}

enum { WARM = 8 };

/* open_kept opens a connection that is kept, and warms it up. */
static void open_kept(struct conn *c) {
	c->fd = greet(c->in, cap);
	for (uint64_t i = 0; i < WARM; i++) {
		write_all(c->fd, c->out, protocol->request(c->out, i));
		if (!protocol->right(c->in, read_answer(c->fd, c->in, cap))) {
			errno = 0;
			die("the server refuses what is asked of it");
		}
		warmed++;
	}
	if (fcntl(c->fd, F_SETFL, O_NONBLOCK))
		die("O_NONBLOCK");
	watch(c);
}

static void free_conn(struct conn *c, uint64_t t) {
	c->busy = 0;
	c->have = 0;
	c->freed = t;
	idle[(first_idle + nidle++) % nconns] = c;
}

static void disconnect(struct conn *c) {
	close_at_once(c->fd);
	c->fd = -1;
}

/* What gets no right answer has waited until the end of the run, at least: how many were
 * due in each millisecond of it. */
static uint32_t *lost;
static uint64_t began;

static void lose(uint64_t due) { lost[(due - began) / 1000000u]++; }

static void fail(struct conn *c) {
	last_errno = errno;
	disconnect(c);
	if (!c->busy)
		return;
	broken++;
	lose(c->due);
	free_conn(c, now());
}

static void finish(struct conn *c, size_t len) {
	uint64_t t = now();

	if (protocol->right(c->in, len)) {
		answered++;
		payload += len;
		last_answer = t;
		add(&latency, t - c->due);
	} else {
		refused++;
		lose(c->due);
	}
	if (!keep)
		disconnect(c);
	free_conn(c, t);
}

/* say is the next thing to be sent: the hello of a new connection, with the request
 * behind it where no greeting comes between. */
static void say(struct conn *c, int fresh) {
	c->sent = c->have = c->len = 0;
	c->greeting = fresh && protocol->greets;
	if (fresh && protocol->hello)
		c->len = protocol->hello(c->out);
	if (!c->greeting)
		c->len += protocol->request(c->out + c->len, c->number);
}

/* progress does what a connection is ready for, until it would have to wait. */
static void progress(struct conn *c) {
	while (c->busy && c->sent < c->len) {
		ssize_t n = send(c->fd, c->out + c->sent, c->len - c->sent, MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
			return;
		if (n < 0 && errno != EINTR)
			return fail(c);
		c->sent += n > 0 ? n : 0;
		if (c->sent == c->len && !c->greeting)
			sent_all++;
	}
	while (c->fd >= 0) {
		ssize_t n = read(c->fd, c->in + c->have, cap - c->have);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : ECONNRESET;
			return fail(c);
		}
		c->have += n;
		if (!c->busy) {
			errno = 0;
			die("the server answers what it was not asked");
		}
		size_t len = protocol->whole(c->in, c->have);
		if (len == 0)
			continue;
		if (c->greeting) {
			say(c, 0);
			return progress(c);
		}
		finish(c, len);
	}
}

/* dispatch sends a request that is due. */
static void dispatch(uint64_t due, uint64_t number) {
	struct conn *c = idle[first_idle];
	uint64_t t = now(), could = due > c->freed ? due : c->freed;
	int fresh = c->fd < 0;

	first_idle = (first_idle + 1) % nconns;
	nidle--;
	add(&lateness, t > could ? t - could : 0);
	c->busy = 1;
	c->due = due;
	c->number = number;
	say(c, fresh);
	if (fresh) {
		c->fd = socket(asked.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (c->fd < 0)
			die("socket");
		no_delay(c->fd);
		if (connect(c->fd, &asked.any, asked.len) && errno != EINPROGRESS && errno != EAGAIN)
			return fail(c);
		watch(c);
	}
	progress(c);
}

/* ---- arrivals ---- */

static uint64_t state;

/* splitmix64: the same seed gives the same arrivals everywhere. */
static double uniform(void) {
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return ((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double gap(double mean, int poisson) { return poisson ? -mean * log1p(-uniform()) : mean; }

/* moment is an offset behind the start. A sum in floating point could lie before the
 * start on a machine that has been up for more than 104 days, 2^53 ns. */
static uint64_t moment(uint64_t start, double offset) { return start + (uint64_t)offset; }

enum { GRACE_MS = 2000 }; /* for answers after the last request was due */

static void arm(int timer, uint64_t at) {
	static uint64_t armed;
	struct itimerspec when = { .it_value = { at / 1000000000u, at % 1000000000u } };

	if (at == armed)
		return;
	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL))
		die("timerfd_settime");
	armed = at;
}

/* run sends all requests and returns how many were due. */
static uint64_t run(double mean, int poisson, uint64_t duration) {
	struct epoll_event events[64], e = { EPOLLIN, { .ptr = NULL } };
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	uint64_t start = now() + 1000000, end = start + duration, deadline = end + GRACE_MS * 1000000u, number = 0, t;
	double offset = poisson ? gap(mean, poisson) : 0;

	if (timer < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, timer, &e))
		die("timer");
	began = last_answer = start;
	for (;;) {
		uint64_t due = moment(start, offset);
		for (t = now(); due < end && nidle && due <= t; due = moment(start, offset), t = now()) {
			dispatch(due, number++);
			offset += gap(mean, poisson);
		}
		if ((due >= end && nidle == nconns) || t >= deadline)
			break;
		arm(timer, due < end && nidle ? due : deadline);
		int n = epoll_wait(poller, events, 64, -1);
		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;
			uint64_t ticks;
			if (!c)
				while (read(timer, &ticks, sizeof ticks) > 0)
					;
			else if (c->fd >= 0)
				progress(c);
		}
	}
	for (; moment(start, offset) < end; number++, offset += gap(mean, poisson)) /* due, and never sent */
		lose(moment(start, offset));
	for (size_t i = 0; i < nconns; i++)
		if (conns[i].busy)
			lose(conns[i].due);
	return number;
}

/* served is how many requests of run the server has counted, which had counted before
 * when none was sent, nor one to warm up. One that counts late is given time until it
 * has counted those that it answered. */
static uint64_t served(uint64_t before) {
	uint64_t n = 0;

	for (int i = 0; i < 100; i++) {
		n = protocol->count() - before - warmed - protocol->self;
		before += protocol->self;
		if ((n >= answered && n <= sent_all) || !protocol->late)
			break;
		usleep(20000);
	}
	return n;
}

/* open_loop PROTOCOL PLACE OPERATION BYTES RATE ARRIVALS SEED CONNECTIONS KEEP MS */
int open_loop(char **a) {
	size_t bytes = number(a[3], 1, MOST_BYTES);
	double mean = 1e9 / number(a[4], 1, 10000000);
	int poisson = strcmp(a[5], "poisson") == 0;
	uint64_t ms = number(a[9], 1, 3600000), duration = ms * 1000000u;

	parse_place(a[1], &asked);
	protocol = protocol_of(a[0], a[2], bytes);
	state = number(a[6], 0, INT32_MAX);
	nconns = number(a[7], 1, 10000);
	keep = strcmp(a[8], "keep") == 0;
	errno = EINVAL;
	if (!poisson && strcmp(a[5], "fixed") != 0)
		die(a[5]);
	if (!keep && strcmp(a[8], "new") != 0)
		die(a[8]);
	cap = bytes + MOST_IN;
	conns = calloc(nconns, sizeof *conns);
	idle = calloc(nconns, sizeof *idle);
	lost = calloc(ms, sizeof *lost);
	poller = epoll_create1(EPOLL_CLOEXEC);
	if (!conns || !idle || !lost || poller < 0)
		die("memory");
	if (protocol->prepare)
		protocol->prepare();
	uint64_t before = protocol->count();
	for (size_t i = 0; i < nconns; i++) {
		struct conn *c = &conns[i];
		c->fd = -1;
		if (!(c->out = malloc(bytes + MOST_OUT)) || !(c->in = malloc(cap)))
			die("memory");
		if (keep || i == 0)
			open_kept(c);
		if (!keep && c->fd >= 0)
			disconnect(c);
		free_conn(c, 0);
	}
	uint64_t asked_for = run(mean, poisson, duration), over = now();
	if (over < began + duration)
		over = began + duration;
	for (size_t i = 0; i < nconns; i++)
		if (conns[i].fd >= 0)
			disconnect(&conns[i]);
	uint64_t counted = served(before);
	if (last_errno)
		fprintf(stderr, "net: %" PRIu64 " requests were lost with their connections; the last: %s\n", broken, strerror(last_errno));
	for (uint64_t i = 0; i < ms; i++)
		for (; lost[i] > 0; lost[i]--)
			add(&latency, over - began - i * 1000000u);
	printf("due %" PRIu64 "\nsent %" PRIu64 "\nanswered %" PRIu64 "\nrefused %" PRIu64 "\nbroken %" PRIu64 "\nserved %" PRIu64
	       "\nbytes %" PRIu64 "\nduration_ns %" PRIu64 "\nelapsed_ns %" PRIu64 "\nmean_ns %.1f\n",
	       asked_for, sent_all, answered, refused, broken, counted, payload, duration, last_answer - began,
	       latency.n ? latency.sum / latency.n : 0);
	printf("p50_ns %" PRIu64 "\np90_ns %" PRIu64 "\np99_ns %" PRIu64 "\np999_ns %" PRIu64 "\nmost_ns %" PRIu64 "\nlate_p99_ns %" PRIu64 "\n",
	       percentile(&latency, 0.5), percentile(&latency, 0.9), percentile(&latency, 0.99), percentile(&latency, 0.999), latency.most,
	       percentile(&lateness, 0.99));
	return 0;
}
