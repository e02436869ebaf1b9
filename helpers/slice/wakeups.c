/* Waking up: futexes, epoll, timers, signals. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* futex: two threads hand a turn back and forth; an iteration is a round trip. */
static atomic_uint word; /* even: the worker's, odd: the partner's */

static void futex_wait_while(unsigned value)
{
	while (atomic_load(&word) == value)
		if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0) != 0 && errno != EAGAIN && errno != EINTR)
			die_errno("futex: cannot wait");
}

static void hand_over(void)
{
	atomic_fetch_add(&word, 1);
	if (syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0)
		die_errno("futex: cannot wake");
}

static void *partner(void *with)
{
	(void)with;
	for (unsigned even = 0;; even += 2) {
		futex_wait_while(even);
		hand_over();
	}
	return NULL;
}

void futex_setup(const struct work *w)
{
	pthread_t t;
	if ((errno = pthread_create(&t, NULL, partner, NULL)) != 0)
		die_errno("%s: no thread", w->name);
}

void futex_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		unsigned odd = atomic_load(&word) + 1;
		hand_over();
		futex_wait_while(odd);
	}
}

/* epoll: one of 64 event descriptors is written, found by epoll_wait and read. */
enum { EVENTS = 64 };
static int events[EVENTS], set;
static unsigned which;

void epoll_setup(const struct work *w)
{
	if ((set = epoll_create1(EPOLL_CLOEXEC)) < 0)
		die_errno("%s: no epoll", w->name);
	for (int i = 0; i < EVENTS; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
		if ((events[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 || epoll_ctl(set, EPOLL_CTL_ADD, events[i], &e) != 0)
			die_errno("%s: no event descriptor", w->name);
	}
}

void epoll_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t value = 1;
		struct epoll_event e;
		which = (which + 7) % EVENTS;
		if (write(events[which], &value, sizeof value) != sizeof value || epoll_wait(set, &e, 1, -1) != 1)
			die_errno("epoll: no event");
		if (e.data.u32 != which || read(events[which], &value, sizeof value) != sizeof value || value != 1)
			die(EXIT_BROKEN, "epoll: another event than was sent");
	}
}

/* timer: a timer descriptor is set to one nanosecond, waited for and read. */
static int timer;

void timer_setup(const struct work *w)
{
	if ((timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) < 0)
		die_errno("%s: no timer descriptor", w->name);
}

void timer_loop(uint64_t n)
{
	const struct itimerspec soon = {.it_value = {.tv_nsec = 1}};
	for (uint64_t i = 0; i < n; i++) {
		uint64_t expired;
		if (timerfd_settime(timer, 0, &soon, NULL) != 0 || read(timer, &expired, sizeof expired) != sizeof expired)
			die_errno("timer: cannot be waited for");
		if (expired != 1)
			die(EXIT_BROKEN, "timer: it expired %llu times", (unsigned long long)expired);
	}
}

/* signal: the worker sends itself a signal, whose handler counts. */
static volatile sig_atomic_t handled;

static void count_signal(int s)
{
	(void)s;
	handled = (handled + 1) & 0xffff;
}

void signal_setup(const struct work *w)
{
	struct sigaction act = {.sa_handler = count_signal};
	if (sigaction(SIGUSR1, &act, NULL) != 0)
		die_errno("%s: no handler", w->name);
}

void signal_loop(uint64_t n)
{
	int before = handled;
	pid_t me = getpid();
	for (uint64_t i = 0; i < n; i++)
		if (kill(me, SIGUSR1) != 0)
			die_errno("signal: cannot be sent");
	if (handled != (int)((unsigned)before + n) % 0x10000)
		die(EXIT_BROKEN, "signal: not every signal was handled");
}
