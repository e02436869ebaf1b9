//go:build ignore

/*
 * stacks: where the time of threads goes: what ran on which stack, seen by an
 * event that samples each CPU, and what was off its CPU on which stack and for
 * how long, seen when the scheduler takes it off and puts it back. How long
 * threads ran is the scheduler's word as well: samples only say where.
 *
 * Everything is summed up here, by stack, state and thread's name: nothing is
 * sent, so nothing can overrun. What finds no room is summed up as "other".
 */
#include "kernel.h"
#include "stack.h"
#include "select.h"

enum { ON_CPU = 0, ASLEEP = 1, RUNNABLE = 2, STATES = 3 };

enum { NAME = 16, USER_DEPTH = 32, MOST_USER_STACKS = 16384, MOST_OFF = 65536, MOST_SUMS = 32768 };

/* A program's frame, as the kernel writes it (struct bpf_stack_build_id): in
 * which file, so that what has ended can still be named. */
struct frame {
	s32 status; /* 1: build id and offset in the file; 2: only the address */
	u8 id[20];
	u64 at;
};

volatile u8 user_stacks_full, rows_full;

struct user_stack {
	struct frame frames[USER_DEPTH]; /* innermost first, the rest 0 */
};

struct {
	UINT(type, HASH);
	UINT(map_flags, NO_PREALLOC);
	UINT(max_entries, MOST_USER_STACKS);
	TYPE(key, u64);
	TYPE(value, struct user_stack);
} user_stacks SEC(".maps");

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, BUFFERS);
	TYPE(key, u32);
	TYPE(value, struct user_stack);
} user_buffers SEC(".maps");

struct row {
	u64 kernel; /* keys of the stacks; 0 for none */
	u64 user;
	u32 state;
	u32 owner;
	char name[NAME];
};

struct total {
	u64 count;
	u64 time; /* ns, of what was off its CPU */
};

struct {
	UINT(type, HASH);
	UINT(map_flags, NO_PREALLOC);
	UINT(max_entries, MOST_SUMS);
	TYPE(key, struct row);
	TYPE(value, struct total);
} rows SEC(".maps");

/* What finds no row of its own, by owner and state. */
struct {
	UINT(type, ARRAY);
	UINT(max_entries, OWNERS * STATES);
	TYPE(key, u32);
	TYPE(value, struct total);
} others SEC(".maps");

struct off {
	u64 since;
	struct row row;
};

/* Threads that are off their CPU, by thread. */
struct {
	UINT(type, HASH);
	UINT(map_flags, NO_PREALLOC);
	UINT(max_entries, MOST_OFF);
	TYPE(key, u32);
	TYPE(value, struct off);
} off_cpu SEC(".maps");

struct cpu {
	u64 since;       /* the last time that something was seen on this CPU */
	u64 ran[OWNERS]; /* ns that each owner's threads ran */
};

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct cpu);
} cpus SEC(".maps");

/* ran gives the time since this CPU was last looked at to whom it belongs. */
static inline void ran(u32 who, u64 at) {
	u32 zero = 0;
	struct cpu *c = lookup(&cpus, &zero);

	if (!c)
		return;
	if (c->since && who < OWNERS)
		c->ran[who] += at - c->since;
	c->since = at;
}

/* keep_user_stack walks the program's stack and returns its key, 0 where there is
 * none. The files of its frames are looked for (microseconds each) only when the
 * process has not been on this stack before. */
static inline u64 keep_user_stack(void *ctx, u32 buffer) {
	struct user_stack *s = lookup(&user_buffers, &buffer);
	u64 key = 14695981039346656037ULL ^ current_pid() >> 32, *address = (void *)s;
	long size;

	if (!s)
		return 0;
	size = get_stack(ctx, s, USER_DEPTH * sizeof *address, USER_STACK);
	if (size <= 0)
		return 0; /* a kernel thread's, or one whose memory has gone */
	for (int i = 0; i < USER_DEPTH && i * (long)sizeof *address < size; i++) {
		key = (key ^ address[i]) * 1099511628211ULL;
		key ^= key >> 29;
	}
	if (lookup(&user_stacks, &key))
		return key;
	if (user_stacks_full) {
		lose(LOST_STACK_FULL);
		return 0;
	}
	size = get_stack(ctx, s, sizeof *s, USER_STACK | USER_BUILD_ID);
	for (int i = 0; i < USER_DEPTH; i++)
		if (i * (long)sizeof(struct frame) >= size)
			s->frames[i].at = 0;
	if (!put(&user_stacks, &key, s, &user_stacks_full)) {
		lose(LOST_STACK_FULL);
		return 0;
	}
	return key;
}

/* fill writes down whose the current stacks are. */
static inline void fill(struct row *r, void *ctx, u32 buffer, u32 state, u32 who) {
	r->state = state;
	r->owner = who;
	if (state != RUNNABLE) { /* where a CPU was taken away is chance */
		r->kernel = keep_stack(ctx, buffer, 0);
		if (who != KERNEL)
			r->user = keep_user_stack(ctx, buffer);
	}
	current_comm(r->name, sizeof r->name);
}

static inline void sum_up(struct row *r, u64 time) {
	struct total fresh = {}, *t = lookup(&rows, r);
	u32 slot;

	if (!t && put(&rows, r, &fresh, &rows_full))
		t = lookup(&rows, r);
	if (!t) {
		lose(LOST_SUM_FULL);
		slot = r->owner * STATES + r->state;
		t = lookup(&others, &slot);
	}
	if (!t)
		return;
	__sync_fetch_and_add(&t->count, 1);
	__sync_fetch_and_add(&t->time, time);
}

/* Before Linux 5.14 a task's state had another name. */
struct task_struct___before_5_14 {
	long state;
} kernel_type;

static inline u32 state_of(struct task_struct *task) {
	struct task_struct___before_5_14 *old = (void *)task;

	if (__builtin_preserve_field_info(task->__state, 2)) /* it exists */
		return task->__state;
	return old->state;
}

/* back ends the time of a thread off its CPU; it is 0 where the thread was not off. */
static inline int back(u32 *thread, u64 at) {
	struct off *o = lookup(&off_cpu, thread);

	if (!o)
		return 0;
	sum_up(&o->row, at - o->since);
	delete(&off_cpu, thread);
	return 1;
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx) {
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 from = prev->pid, to = next->pid, state = state_of(prev), who;
	struct off o = { .since = now() };

	back(&to, o.since);
	/* Linux 6.18 does not trace every switch of an idle CPU to a thread that another
	 * CPU has woken: such a return lies between this switch and the CPU's one before. */
	if (from && back(&from, o.since))
		lose(LOST_END);
	who = from ? owner() : NOBODY; /* 0 is the idle task */
	ran(who, o.since);
	if (who == KERNEL || who == NOBODY || state & TASK_ENDED)
		return 0; /* kernel threads that sleep have nothing to do */
	fill(&o.row, ctx, IN_SWITCH, ctx[0] || !state ? RUNNABLE : ASLEEP, who);
	if (update(&off_cpu, &from, &o, ANY))
		lose(LOST_WAIT_FULL);
	return 0;
}

SEC("perf_event")
int on_sample(void *ctx) {
	u32 who = (u32)current_pid() ? owner() : NOBODY;
	struct row r = {};

	ran(who, now());
	if (who == NOBODY)
		return 0;
	fill(&r, ctx, IN_SAMPLE, ON_CPU, who);
	sum_up(&r, 0);
	return 0;
}
