/* A worker: waits for turns, works in batches until a turn's time is over. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int copy;
pid_t helper;
const char *remark = "";

/* CPU time of this process with its threads, of reaped children and of the helper. */
static uint64_t cpu_ns(void)
{
	uint64_t ns = (uint64_t)(cpu_seconds() * 1e9);
	clockid_t clock;
	struct timespec t;
	if (helper && clock_getcpuclockid(helper, &clock) == 0 && clock_gettime(clock, &t) == 0)
		ns += (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return ns;
}

/* Reading the clock weighs below a percent of a batch where an iteration is
 * short: a batch takes a fiftieth of the turn. */
enum { BATCHES = 50 };

/* An engine's processes hand over the turn and stop within this time (docs/slices.md). */
enum { LEAD_NS = 200 * 1000 };

static uint64_t next_batch(uint64_t n, uint64_t took, uint64_t length)
{
	uint64_t least = length / BATCHES;
	if (took < least)
		return n * 2;
	if (took > 2 * least) {
		n = (uint64_t)((double)n * 1.5 * (double)least / (double)took);
		return n ? n : 1;
	}
	return n;
}

static void one_turn(const struct work *w, uint64_t *batch, uint64_t length, int to)
{
	/* Who wakes up finds the caches full of what ran before, and the CPU busy with what
	 * handed over the turn: the laboratory, an engine, another target. The first batches
	 * outlast that, and do not count. */
	uint64_t uncounted = 0, count = 0, begin = now();
	do {
		w->loop(*batch);
		if (w->undo)
			w->undo(*batch);
		uncounted += *batch;
	} while (now() - begin < LEAD_NS);
	uint64_t cpu = cpu_ns(), last;
	begin = last = now();
	do {
		uint64_t n = *batch;
		w->loop(n);
		count += n;
		uint64_t t = now();
		*batch = next_batch(n, t - last, length);
		last = t;
		if (w->undo) { /* its time is none of the work's */
			uint64_t spent = cpu_ns();
			w->undo(n);
			cpu += cpu_ns() - spent;
			last = now();
			begin += last - t;
		}
	} while (last - begin < length);
	cpu = cpu_ns() - cpu;
	char line[200], bytes[40] = "";
	if (w->bytes)
		snprintf(bytes, sizeof bytes, " bytes=%llu", (unsigned long long)((uncounted + count) * w->bytes));
	int n = snprintf(line, sizeof line, "%llu %llu %llu %llu%s%s\n", (unsigned long long)count,
		(unsigned long long)begin, (unsigned long long)last, (unsigned long long)cpu, bytes, remark);
	if (write(to, line, (size_t)n) != n)
		die_errno("%s: the answer cannot be handed over", w->name);
}

void work_turns(const struct work *w, int from, int to)
{
	uint64_t batch = 1, microseconds;
	int ready = 0;
	for (;;) {
		ssize_t n = read(from, &microseconds, sizeof microseconds);
		if (n == 0)
			return;
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof microseconds)
			die_errno("%s: the turn cannot be read", w->name);
		if (!ready && w->setup)
			w->setup(w);
		ready = 1;
		one_turn(w, &batch, microseconds * 1000, to);
	}
}
