/* Stacks are kept once each, under a hash of their frames: unlike the kernel's
 * own map of stacks, this one loses none to a collision of buckets. */

enum { DEPTH = 64, MOST_STACKS = 16384 };

struct stack {
	u64 frames[DEPTH]; /* innermost first, the rest 0 */
};

struct {
	UINT(type, HASH);
	UINT(map_flags, NO_PREALLOC);
	UINT(max_entries, MOST_STACKS);
	TYPE(key, u64);
	TYPE(value, struct stack);
} stacks SEC(".maps");

volatile u8 stacks_full;

/* One buffer for each program that may interrupt another on a CPU. */
enum { IN_LOCK, IN_SWITCH, IN_SAMPLE, BUFFERS };

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, BUFFERS);
	TYPE(key, u32);
	TYPE(value, struct stack);
} buffers SEC(".maps");

/* What was lost, by reason; the names are in maps.go. */
enum { LOST_STACK, LOST_STACK_FULL, LOST_WAIT_FULL, LOST_SUM_FULL, LOST_END, LOST_PROCESS, LOST_REASONS };

struct {
	UINT(type, PERCPU_ARRAY);
	UINT(max_entries, LOST_REASONS);
	TYPE(key, u32);
	TYPE(value, u64);
} lost SEC(".maps");

static inline void lose(u32 reason) {
	u64 *n = lookup(&lost, &reason);

	if (n)
		*n += 1;
}

/* keep_stack walks the current stack and returns its key, 0 where it is lost. */
static inline u64 keep_stack(void *ctx, u32 buffer, u64 flags) {
	struct stack *s = lookup(&buffers, &buffer);
	u64 key = 14695981039346656037ULL; /* FNV-1a, over words */
	long size;

	if (!s)
		return 0;
	size = get_stack(ctx, s, sizeof *s, flags);
	if (size <= 0) {
		if (buffer != IN_SAMPLE) /* a program that runs has none in the kernel */
			lose(LOST_STACK);
		return 0;
	}
	for (int i = 0; i < DEPTH; i++) {
		if (i * 8 >= size) {
			s->frames[i] = 0;
			continue;
		}
		key = (key ^ s->frames[i]) * 1099511628211ULL;
		key ^= key >> 29;
	}
	if (!put(&stacks, &key, s, &stacks_full)) {
		lose(LOST_STACK_FULL);
		return 0;
	}
	return key;
}
