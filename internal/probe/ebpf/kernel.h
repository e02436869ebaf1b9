/*
 * What the programs of this folder use of the kernel: its helpers and constants,
 * and of its structs the few members that are read. Declared by hand, because a
 * dump of all of the kernel's types is 3 MB; the loader relocates the members'
 * offsets to those of the running kernel (CO-RE), so only names and types count.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define inline inline __attribute__((always_inline))
#define kernel_type __attribute__((preserve_access_index))
#define NULL ((void *)0)

/* How map definitions are written down (the loader reads them as types). */
#define UINT(name, value) int(*name)[value]
#define TYPE(name, type) type *name

enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6 };       /* enum bpf_map_type */
enum { NO_PREALLOC = 1 };                             /* BPF_F_NO_PREALLOC */
enum { ANY = 0, NOEXIST = 1 };                        /* of an update */
enum { E2BIG = 7 };                                   /* it would exceed max_entries */
enum { USER_STACK = 1 << 8, USER_BUILD_ID = 1 << 11 }; /* of bpf_get_stack */

/* include/uapi/linux/bpf.h, by number */
static void *(*lookup)(void *map, const void *key) = (void *)1;
static long (*update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*delete)(void *map, const void *key) = (void *)3;
static u64 (*now)(void) = (void *)5;
static u64 (*current_pid)(void) = (void *)14; /* tgid << 32 | pid */
static long (*current_comm)(void *to, u32 size) = (void *)16;
static long (*get_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static u64 (*ancestor_cgroup)(int level) = (void *)123;
static struct task_struct *(*current_task)(void) = (void *)158;

/* put adds an entry where there is none, and tells whether there is one now. A map
 * that is full is remembered, for to try again takes longer than all else; a want of
 * memory (maps are not preallocated, and an interrupt cannot wait for any) passes. */
static inline int put(void *map, const void *key, const void *value, volatile u8 *full) {
	long error;

	if (lookup(map, key))
		return 1;
	if (*full)
		return 0;
	error = update(map, key, value, NOEXIST);
	if (error == -E2BIG)
		*full = 1;
	return !error || lookup(map, key);
}

struct rw_semaphore {};

struct mm_struct {
	struct rw_semaphore mmap_lock;
} kernel_type;

struct counter {
	int counter;
} kernel_type;

struct signal_struct {
	struct counter live; /* threads; an atomic_t */
} kernel_type;

struct task_struct {
	unsigned int __state; /* "state" before Linux 5.14, which has no lock tracepoints */
	unsigned int flags;
	int pid;
	int tgid;
	struct mm_struct *mm;
	struct signal_struct *signal;
} kernel_type;

enum {
	TASK_INTERRUPTIBLE = 0x1,
	TASK_UNINTERRUPTIBLE = 0x2,
	TASK_ENDED = 0x10 | 0x20 | 0x80, /* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD */
	TASK_NOLOAD = 0x400,             /* an idle worker */
	PF_KTHREAD = 0x200000,
};

/* Most helpers are for programs under the GPL alone; this one may be used under either. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
