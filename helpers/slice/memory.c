/* Memory: bandwidth, latency, page faults, mappings. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 1 << 20, BUFFER = 32 << 20, HUGE = 2 << 20, FAULTS = 64, HUGES = 4 };

static void *map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die_errno("%zu KiB cannot be mapped", size >> 10);
	return p;
}

/* A mapping of huge pages, where the kernel has them. Of 4 KiB pages each instance
 * gets other physical ones, which made equal instances differ by 10 %. */
static void *map_huge(size_t size)
{
	void *p = map(size);
	madvise(p, size, MADV_HUGEPAGE); /* refused: it works with small ones */
	return p;
}

/* memory-bandwidth: copies 1 MiB an iteration, around a buffer that is larger
 * than the caches of one core. */
static unsigned char *buffer;
static size_t at;

void bandwidth_setup(const struct work *w)
{
	(void)w;
	buffer = map_huge(BUFFER);
	for (size_t i = 0; i < BUFFER / PIECE; i++)
		memset(buffer + i * PIECE, (int)i, PIECE);
}

void bandwidth_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		size_t to = (at + BUFFER / 2) % BUFFER;
		memcpy(buffer + to, buffer + at, PIECE);
		if (buffer[to] != buffer[at] || buffer[to + PIECE - 1] != buffer[at + PIECE - 1])
			die(EXIT_BROKEN, "memory-bandwidth: the copy differs");
		at = (at + PIECE) % BUFFER;
	}
}

/* memory-latency: follows pointers through one random cycle of cache lines, 16
 * MiB in all; an iteration is one step. */
enum { LINE_BYTES = 64, LINES = (16 << 20) / LINE_BYTES };
static void **chain;

void latency_setup(const struct work *w)
{
	(void)w;
	unsigned char *lines = map_huge((size_t)LINES * LINE_BYTES);
	uint32_t *order = map(LINES * sizeof *order), state = 20061;
	for (uint32_t i = 0; i < LINES; i++)
		order[i] = i;
	for (uint32_t i = LINES - 1; i > 0; i--) { /* Sattolo's: one cycle */
		state = state * 1664525u + 1013904223u;
		uint32_t j = (uint32_t)((uint64_t)state * i >> 32), swap = order[i];
		order[i] = order[j];
		order[j] = swap;
	}
	for (uint32_t i = 0; i < LINES; i++)
		*(void **)(lines + (size_t)i * LINE_BYTES) = lines + (size_t)order[i] * LINE_BYTES;
	munmap(order, LINES * sizeof *order);
	chain = (void **)lines;
}

void latency_loop(uint64_t n)
{
	void **p = chain;
	for (uint64_t i = 0; i < n; i++)
		p = (void **)*p;
	if (p == NULL)
		die(EXIT_BROKEN, "memory-latency: the chain is broken");
	chain = p;
}

/* page-fault: first writes to pages of 4 KiB; an iteration is one page. The
 * pages are given back after every 64, and that is part of the price. */
static unsigned char *region;
static size_t page;

void fault_setup(const struct work *w)
{
	(void)w;
	page = (size_t)getpagesize();
	region = map(FAULTS * page);
	/* Kernels without huge pages refuse this, and then there is nothing to switch off. */
	madvise(region, FAULTS * page, MADV_NOHUGEPAGE);
}

static void give_back(size_t size)
{
	if (madvise(region, size, MADV_DONTNEED) != 0)
		die_errno("pages cannot be given back");
}

static void touch(size_t offset)
{
	volatile unsigned char *p = region + offset;
	*p = 1; /* the fault */
	if (p[1] != 0)
		die(EXIT_BROKEN, "a new page is not zero");
}

void fault_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (i % FAULTS == 0)
			give_back(FAULTS * page);
		touch(i % FAULTS * page);
	}
	give_back(FAULTS * page);
}

/* page-fault-huge: the same with pages of 2 MiB, where the kernel has them. */
void huge_setup(const struct work *w)
{
	unsigned char *p = map((HUGES + 1) * (size_t)HUGE);
	region = p + (HUGE - (uintptr_t)p % HUGE) % HUGE;
	if (madvise(region, HUGES * (size_t)HUGE, MADV_HUGEPAGE) != 0)
		die_errno("%s: the kernel has no transparent huge pages", w->name);
}

void huge_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (i % HUGES == 0)
			give_back(HUGES * (size_t)HUGE);
		touch(i % HUGES * (size_t)HUGE);
	}
	give_back(HUGES * (size_t)HUGE);
}

/* mmap: maps 64 KiB, writes to one page, and unmaps it. */
void map_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		volatile unsigned char *p = map(64 << 10);
		*p = 1;
		if (munmap((void *)p, 64 << 10) != 0)
			die_errno("mmap: cannot be unmapped");
	}
}
