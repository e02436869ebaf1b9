/* The timed window: batches of iterations, with the clock read between them.
 *
 * A batch takes half a thousandth to a thousandth of the window, at most 1 ms,
 * where an iteration is not longer than that. So reading the clock (tens of ns;
 * half a microsecond where it is a system call) stays below 0.1 % of the run,
 * without a signal that could interrupt a system call in the middle of an
 * iteration. The readings are counted, so that a test can show it.
 *
 * All copies have the same window: it begins when the barrier opens, also for a
 * copy that gets no CPU then, for waiting for one is what crowding costs. It
 * ends when its time is over; of the batch that lies across the end the part
 * counts that its time in the window is of its whole time. */
#include "unix.h"

#include <errno.h>
#include <unistd.h>

/* What a batch takes at least, in ns; at most it takes twice that. */
static uint64_t batch_length(const struct run *r)
{
	uint64_t ns = r->opt->count ? 500000u : (uint64_t)(r->opt->seconds * 5e5);
	if (ns > 500000u)
		ns = 500000u;
	if (ns < r->test->least_batch)
		ns = r->test->least_batch;
	return ns;
}

/* Size of the next batch after one of n iterations that took some ns. */
static uint64_t next_batch(uint64_t n, uint64_t took, uint64_t least, uint64_t left)
{
	if (took == 0)
		took = 1;
	double each = (double)took / (double)n;
	double fits = (double)left / each;
	double next = (double)n;
	if (took < least)
		next *= 2;
	else if (took > 2 * least)
		next = 1.5 * (double)least / each; /* also after a preemption: it grows again */
	if (next > fits)
		next = fits;
	if (next > 1e9)
		next = 1e9;
	return next < 1 ? 1 : (uint64_t)next;
}

/* Counts a batch that took from last to t. Says whether the window of that
 * length (ns) is over with it. */
int add_batch(struct outcome *o, uint64_t n, uint64_t last, uint64_t t, uint64_t length)
{
	o->count += n;
	if (t - o->start < length) {
		o->within = (double)o->count;
		o->end = t;
		return 0;
	}
	o->end = o->start + length;
	o->within = (double)(o->count - n) + (double)n * (double)(o->end - last) / (double)(t - last);
	return 1;
}

static void until_deadline(struct run *r, uint64_t least)
{
	uint64_t length = (uint64_t)(r->opt->seconds * 1e9), n = 1, last = r->out.start;
	for (;;) {
		r->test->loop(r, n);
		uint64_t t = now();
		if (add_batch(&r->out, n, last, t, length))
			return;
		n = next_batch(n, t - last, least, length - (t - r->out.start));
		last = t;
	}
}

static void until_count(struct run *r, uint64_t least)
{
	uint64_t n = 1, last = r->out.start, t = last;
	while (r->out.count < r->opt->count) {
		uint64_t rest = r->opt->count - r->out.count;
		if (n > rest)
			n = rest;
		r->test->loop(r, n);
		t = now();
		add_batch(&r->out, n, last, t, UINT64_MAX);
		n = next_batch(n, t - last, least, UINT64_MAX);
		last = t;
	}
}

/* Works on a copy of the run in its own frame, on the page that the loop writes
 * anyway: after a fork, each further page that is written is one more fault. */
static __attribute__((noinline)) void measure(struct run *whole)
{
	struct run own = *whole, *r = &own;
	if (r->test->replace) {
		r->test->replace(r); /* does not come back: its last image hands in */
		die(EXIT_BROKEN, "%s: came back from its own replacement", r->opt->name);
	}
	uint64_t least = batch_length(r), readings = clock_readings;
	double cpu = cpu_seconds();
	if (r->opt->count)
		until_count(r, least);
	else
		until_deadline(r, least);
	double own_cpu = own_cpu_seconds();
	r->out.readings = clock_readings - readings;
	if (r->test->finish)
		r->test->finish(r); /* a helper's time is known when it has ended; our own checks are not the test's */
	r->out.cpu = own_cpu + child_cpu_seconds() - cpu;
	double seconds = (double)(r->out.end - r->out.start) / 1e9;
	r->out.value = r->test->value ? r->test->value(r, seconds) : r->out.within / seconds;
	r->out.ok = 1;
	*whole = own;
}

/* The kernel puts the stack at a random place, so in some runs the frames of
 * the loop would lie across a page boundary: process-creation then takes two
 * page faults more in every round, and runs differ by 20 %. Starting just below
 * a boundary keeps them on one page always. */
void timed_window(struct run *r, uint64_t start)
{
	r->out.start = start;
	r->out.first = now();
	uintptr_t above = (uintptr_t)__builtin_frame_address(0) & (uintptr_t)(getpagesize() - 1);
	volatile char gap[above + 1];
	gap[0] = 0;
	measure(r);
	gap[0] = 1; /* else this frame, and the gap with it, is given up for the call above */
}

/* Smaller than PIPE_BUF: the outcomes of several copies do not mix. */
void hand_in(struct run *r)
{
	ssize_t n;
	do
		n = write(r->report, &r->out, sizeof r->out);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof r->out)
		die_errno("%s: the outcome cannot be handed to the parent", r->opt->name);
}
