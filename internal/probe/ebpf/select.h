/* Whose events count: those of processes below some cgroups of the version 2
 * tree, or of some processes and their descendants; and apart from both, those
 * of kernel threads, which work for everybody, and of an engine that others use
 * too, with all that it starts outside of those cgroups. */

enum { OWN = 0, KERNEL = 1, SHARED = 2, OWNERS = 3, NOBODY = OWNERS };

enum { LEVELS = 16, MOST_CGROUPS = 8192, MOST_PROCESSES = 65536 };

const volatile u32 cgroup_levels; /* bit n: some cgroup of the set has depth n */
const volatile u8 by_process;     /* the set of processes is used */
const volatile u8 kernel_threads; /* they are recorded */
const volatile u8 everybody;      /* no selection: the whole machine */

struct {
	UINT(type, HASH);
	UINT(max_entries, MOST_CGROUPS);
	TYPE(key, u64); /* the cgroup's id: its inode */
	TYPE(value, u8);
} cgroups SEC(".maps");

struct {
	UINT(type, HASH);
	UINT(map_flags, NO_PREALLOC);
	UINT(max_entries, MOST_PROCESSES);
	TYPE(key, u32); /* tgid */
	TYPE(value, u8); /* whose it is */
} processes SEC(".maps");

static inline int in_cgroups(void) {
	for (int level = 1; level < LEVELS; level++) {
		u64 id;

		if (!(cgroup_levels >> level & 1))
			continue;
		id = ancestor_cgroup(level);
		if (!id)
			return 0; /* the task's own cgroup lies higher */
		if (lookup(&cgroups, &id))
			return 1;
	}
	return 0;
}

/* owner tells whose events the current task's are. */
static inline u32 owner(void) {
	struct task_struct *task = current_task();
	u32 tgid = task->tgid;
	u8 *who;

	if (task->flags & PF_KTHREAD)
		return kernel_threads ? KERNEL : NOBODY;
	if (everybody || (cgroup_levels && in_cgroups()))
		return OWN;
	who = by_process ? lookup(&processes, &tgid) : NULL;
	if (!who)
		return NOBODY;
	return *who == SHARED ? SHARED : OWN;
}

SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx) {
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid;
	u8 *who = from != to ? lookup(&processes, &from) : NULL, whose;

	if (!who)
		return 0;
	whose = *who;
	if (update(&processes, &to, &whose, ANY))
		lose(LOST_PROCESS);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int on_exit(u64 *ctx) {
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = task->tgid;

	if (!task->signal->live.counter) /* its last thread: the first one may end before others */
		delete(&processes, &tgid);
	return 0;
}
