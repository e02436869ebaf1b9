/* A start barrier over one shared page. The page is a file that all crews have
 * mounted, so it works across containers; a crew alone uses a file in memory.
 *
 * Waiting sleeps in a futex with a short time-out instead of spinning: a copy
 * that spins would hold a CPU that the last arrival may need, and a futex does
 * not reach across kernels that are emulated (gVisor), where the time-out
 * makes it a poll. Nobody polls once the windows have begun. */
#define _GNU_SOURCE
#include "unix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAITING = 0, RELEASED = 1, ABORTED = 2 };
enum { PAGE = 4096, POLL_NS = 1000000 };

struct shared {
	_Atomic uint32_t arrived;
	_Atomic uint32_t state;
	_Atomic uint32_t parties; /* by who made the file, else by the first arrival */
	_Atomic uint32_t unused;
	_Atomic uint64_t opened; /* when the last arrived, on its CLOCK_MONOTONIC; before state */
};

struct barrier {
	struct shared *page;
	uint32_t parties;
	const char *name;
};

static const char *name_of(const char *file) { return file ? file : "of the crew"; }

/* The page as a descriptor that the copies inherit; file NULL: the crew's own. */
int barrier_page(const char *file)
{
	struct stat st;
	int fd = file ? open(file, O_RDWR | O_CREAT, 0666) : memfd_create("barrier", 0);
	if (fd < 0)
		die_errno("barrier %s cannot be opened for writing", name_of(file));
	if (fstat(fd, &st) != 0)
		die_errno("barrier %s cannot be read", name_of(file));
	/* Growing is the same for everyone who does it at once: zeroes. */
	if (st.st_size < PAGE && ftruncate(fd, PAGE) != 0)
		die_errno("barrier %s cannot be made one page long", name_of(file));
	return fd;
}

struct barrier *barrier_open(int page, const char *file, int parties)
{
	static struct barrier one; /* no heap: its mappings would weigh on every fork in the window */
	struct barrier *b = &one;
	/* Asked for near the program. Where the kernel puts mappings, below its own
	 * clock pages, the tables that a mapping needs stay after it for those, and
	 * every fork in the window would make them anew: two pages, a tenth of
	 * process-creation. */
	void *near = (char *)&one + 16 * PAGE;
	void *p = mmap(near, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
	if (p == MAP_FAILED)
		die_errno("barrier %s cannot be mapped", name_of(file));
	*b = (struct barrier){p, (uint32_t)parties, name_of(file)};
	if (parties == 0 && (b->parties = atomic_load(&b->page->parties)) == 0)
		die(EXIT_USAGE, "barrier %s does not say how many copies meet there; give --parties", b->name);
	return b;
}

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *t)
{
#ifdef SYS_futex_time64
	/* 32-bit systems with 64-bit time_t; none of ours so far. */
	if (sizeof(long) == 4)
		return syscall(SYS_futex_time64, word, op, value, t, NULL, 0);
#endif
	return syscall(SYS_futex, word, op, value, t, NULL, 0);
}

static void move_on(struct shared *page, uint32_t state)
{
	uint32_t waiting = WAITING;
	if (atomic_compare_exchange_strong(&page->state, &waiting, state)
	    && futex(&page->state, FUTEX_WAKE, INT_MAX, NULL) < 0)
		die_errno("barrier: the others cannot be woken");
}

static void arrive(struct barrier *b)
{
	struct shared *p = b->page;
	uint32_t agreed = 0;
	if (!atomic_compare_exchange_strong(&p->parties, &agreed, b->parties) && agreed != b->parties) {
		move_on(p, ABORTED);
		die(EXIT_BARRIER, "barrier %s: %u parties expected here, %u by an earlier arrival; give all the same --parties",
		    b->name, b->parties, agreed);
	}
	uint32_t n = atomic_fetch_add(&p->arrived, 1) + 1;
	if (n > b->parties)
		die(EXIT_BARRIER, "barrier %s: arrival %u of %u; use a fresh file for every run", b->name, n, b->parties);
	if (n == b->parties) {
		atomic_store(&p->opened, now());
		move_on(p, RELEASED);
	}
}

/* Gives the moment at which the barrier opened, or, where the last to arrive has
 * another clock, that at which this copy saw it. Ends the process when the others
 * do not come. */
uint64_t barrier_wait(struct barrier *b, double seconds)
{
	const struct timespec poll = {0, POLL_NS};
	uint64_t arrived = now(), deadline = arrived + (uint64_t)(seconds * 1e9);
	arrive(b);
	uint32_t state;
	while ((state = atomic_load(&b->page->state)) == WAITING) {
		if (now() > deadline)
			die(EXIT_BARRIER, "barrier %s: %u of %u copies arrived within %g s", b->name,
			    atomic_load(&b->page->arrived), b->parties, seconds);
		if (futex(&b->page->state, FUTEX_WAIT, WAITING, &poll) < 0
		    && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT)
			die_errno("barrier %s: waiting failed", b->name);
	}
	if (state != RELEASED)
		die(EXIT_BARRIER, "barrier %s: another copy failed before the start", b->name);
	uint64_t opened = atomic_load(&b->page->opened), seen = now();
	return opened >= arrived && opened <= seen ? opened : seen;
}

/* Whether all have arrived: the window has begun. */
int barrier_released(const struct barrier *b) { return atomic_load(&b->page->state) == RELEASED; }

/* Lets those who wait fail at once; without effect after the release. */
void barrier_abort(struct barrier *b) { move_on(b->page, ABORTED); }

/* Unmaps the page: a mapping more would weigh on every fork in the window. */
void barrier_close(struct barrier *b)
{
	if (munmap(b->page, PAGE) != 0)
		die_errno("barrier cannot be unmapped");
}
