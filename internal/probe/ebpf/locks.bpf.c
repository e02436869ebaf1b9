//go:build ignore

/*
 * locks: who waits in the kernel, where, for how long.
 *
 * A wait for a lock lies between the tracepoints contention_begin and
 * contention_end (Linux 5.19). Other uninterruptible sleep (grace periods of
 * RCU, flushed work, I/O) is seen when the scheduler takes the task off its
 * CPU, and again when it puts it back. Both are summed up here, by lock, stack
 * and kind: nothing is sent, so nothing can overrun.
 *
 * The stack is walked when the wait begins, not when it ends: then the time for
 * it passes while the task would wait anyway, and not while it holds the lock.
 */
#include "kernel.h"
#include "stack.h"
#include "select.h"

enum { /* of contention_begin's flags, include/trace/events/lock.h */
	F_SPIN = 1,
	F_READ = 2,
	F_WRITE = 4,
	F_RT = 8,
	F_PERCPU = 16,
	F_MUTEX = 32,
};
enum { SLEEP = 0x100, MMAP_LOCK = 0x200 }; /* ours, in the same word */

enum { MOST_WAITING = 65536, MOST_SUMS = 8192 };

struct wait {
	u64 since;
	u64 lock; /* 0 for SLEEP */
	u64 stack;
	u32 kind;
	u32 owner;
};

/* Waits under way, by thread. A thread waits for one lock at a time; what it
 * contends for inside another's slow path belongs to that wait. */
struct {
	UINT(type, HASH);
	UINT(map_flags, NO_PREALLOC);
	UINT(max_entries, MOST_WAITING);
	TYPE(key, u32);
	TYPE(value, struct wait);
} waiting SEC(".maps"), sleeping SEC(".maps");

/* Whoever spins holds its CPU, and may be an interrupt's handler. */
struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct wait);
} spinning SEC(".maps");

struct key {
	u64 lock;
	u64 stack;
	u32 kind;
	u32 owner;
};

/* Bucket 0 is below 256 ns; then 8 for each power of two, up to 2^36 ns. */
enum { FIRST = 8, LAST = 36, PER_OCTAVE = 8, BUCKETS = 1 + (LAST - FIRST) * PER_OCTAVE };

struct sum {
	u64 count;
	u64 total; /* ns */
	u64 most;  /* ns */
	u32 histogram[BUCKETS];
	u32 unused; /* no padding: the kernel copies this from a map */
};

struct {
	UINT(type, HASH);
	UINT(map_flags, NO_PREALLOC);
	UINT(max_entries, MOST_SUMS);
	TYPE(key, struct key);
	TYPE(value, struct sum);
} sums SEC(".maps");

/* Slot 0 is what a new sum begins with. The others take what finds no room, by
 * owner and kind: a wait must not be counted for somebody else, nor as another. */
enum { KINDS = 128, SPARES = 1 + OWNERS * KINDS };

struct {
	UINT(type, ARRAY);
	UINT(max_entries, SPARES);
	TYPE(key, u32);
	TYPE(value, struct sum);
} spare SEC(".maps");

/* Not inlined nor static, so that the verifier looks at it once and not on every
 * path that leads to it: that took seconds, and most of the instructions it allows. */
__attribute__((noinline)) u32 bucket(u64 ns) {
	u32 exponent = FIRST;

	if (ns < 1 << FIRST)
		return 0;
	if (ns >> LAST)
		return BUCKETS - 1;
	for (int i = FIRST; i < LAST - 1; i++)
		if (ns >> (i + 1))
			exponent = i + 1;
	return 1 + (exponent - FIRST) * PER_OCTAVE + (ns >> (exponent - 3) & (PER_OCTAVE - 1));
}

static inline void add(struct sum *s, u64 ns) {
	u32 at = bucket(ns);

	__sync_fetch_and_add(&s->count, 1);
	__sync_fetch_and_add(&s->total, ns);
	if (at < BUCKETS)
		__sync_fetch_and_add(&s->histogram[at], 1);
	if (ns > s->most)
		s->most = ns; /* a race may keep the smaller of two that end together */
}

static inline void finish(struct wait *w) {
	struct key key = { w->lock, w->stack, w->kind, w->owner };
	u64 ns = now() - w->since;
	struct sum *s = lookup(&sums, &key);
	u32 slot = 0;

	if (!s) {
		void *fresh = lookup(&spare, &slot);

		if (!fresh)
			return;
		update(&sums, &key, fresh, NOEXIST);
		s = lookup(&sums, &key);
	}
	if (!s) {
		lose(LOST_SUM_FULL);
		slot = 1 + w->owner * KINDS + (w->kind & SLEEP ? KINDS - 1 : w->kind & (KINDS - 1));
		s = lookup(&spare, &slot);
		if (!s)
			return;
	}
	add(s, ns);
}

/* kind_of leaves out how a mutex is waited for: it spins first, then sleeps. */
static inline u32 kind_of(u32 flags, u64 lock) {
	struct task_struct *task = current_task();
	struct mm_struct *mm = task->mm;

	if (flags & F_MUTEX)
		return flags & ~F_SPIN;
	if (!(flags & F_SPIN) && mm && (u64)&mm->mmap_lock == lock)
		return flags | MMAP_LOCK;
	return flags;
}

static inline int spins(u32 flags) { return (flags & (F_SPIN | F_MUTEX)) == F_SPIN; }

SEC("tp_btf/contention_begin")
int on_begin(u64 *ctx) {
	u64 lock = ctx[0];
	u32 flags = ctx[1], pid = current_pid(), zero = 0;
	struct wait *spin = NULL, w = { .since = now(), .lock = lock };

	if (spins(flags)) {
		spin = lookup(&spinning, &zero);
		if (!spin || spin->lock)
			return 0;
	} else if (lookup(&waiting, &pid)) {
		return 0; /* a mutex begins twice: spinning, then asleep */
	}
	w.owner = owner();
	if (w.owner == NOBODY)
		return 0;
	w.kind = kind_of(flags, lock);
	w.stack = keep_stack(ctx, IN_LOCK, 0);
	if (spin)
		*spin = w;
	else if (update(&waiting, &pid, &w, ANY))
		lose(LOST_WAIT_FULL);
	return 0;
}

SEC("tp_btf/contention_end")
int on_end(u64 *ctx) {
	u64 lock = ctx[0];
	u32 pid = current_pid(), zero = 0;
	struct wait *w = lookup(&spinning, &zero);

	if (w && w->lock == lock) {
		finish(w);
		w->lock = 0;
		return 0;
	}
	w = lookup(&waiting, &pid);
	if (!w || w->lock != lock)
		return 0;
	finish(w);
	delete(&waiting, &pid);
	return 0;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx) {
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 from = prev->pid, to = next->pid, state = prev->__state;
	struct wait *ended = lookup(&sleeping, &to), w = { .since = now(), .kind = SLEEP };
	u32 zero = 0;
	struct wait *spin = lookup(&spinning, &zero);

	/* Nobody leaves the CPU who spins: the end was not seen, because it came in an
	 * interrupt of this program's own. The slot would stay taken for ever. */
	if (spin && spin->lock) {
		spin->lock = 0;
		lose(LOST_END);
	}
	if (ended) {
		finish(ended);
		delete(&sleeping, &to);
	}
	if (ctx[0] || !(state & TASK_UNINTERRUPTIBLE) || state & (TASK_ENDED | TASK_NOLOAD) || lookup(&waiting, &from))
		return 0; /* preempted, or asleep for a lock, which has a row already */
	w.owner = owner();
	if (w.owner == NOBODY)
		return 0;
	w.stack = keep_stack(ctx, IN_SWITCH, 0);
	if (update(&sleeping, &from, &w, ANY))
		lose(LOST_WAIT_FULL);
	return 0;
}
