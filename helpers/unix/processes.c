/* process-creation: fork a child that ends at once, and wait for it.
 * execl: a program that replaces itself by itself, over and over. */
#define _GNU_SOURCE
#include "unix.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void spawn_setup(struct run *r)
{
	(void)r;
	clock_by_call = 1;
}

/* As in UnixBench the child ends by the C library's exit, and the rounds are
 * counted in static memory: a page that the child shares, so each round pays
 * for a copy of it. */
void spawn_loop(struct run *r, uint64_t n)
{
	static volatile uint64_t rounds;
	(void)r;
	for (uint64_t i = 0; i < n; i++) {
		int status;
		pid_t p = fork();
		if (p == 0)
			exit(0);
		if (p < 0)
			die_errno("process-creation: fork failed");
		if (wait(&status) != p)
			die_errno("process-creation: child cannot be waited for");
		if (status != 0)
			die(EXIT_BROKEN, "process-creation: child ended with wait status 0x%x", status);
		rounds++;
	}
}

/* What the next image must know travels in its arguments: there is no other state in
 * this test. As many as UnixBench's program gives: the program, "execl-next", the
 * count, what stays the same, and when the last image began. */
enum { STEP = 2, SAME, LAST, ARGC };
/* What stays the same: numbers with a space before each. */
enum { LIMIT_NS, LIMIT_COUNT, START, FIRST, CPU_NS, REPORT, COPY, NUMBERS };
enum { DIGITS = 24 };

/* An image of UnixBench's program has zeroed static data in a region of its own, and
 * writes to it. Here that region is made by the image: static data of more than a page
 * would be one more region for process-creation to copy. */
static void next_image(const char *program, uint64_t step, const char *same, uint64_t last_ns)
{
	enum { AS_MANY = 11 * 4096 }; /* bytes, as of UnixBench's execl (readelf -l) */
	char *count = pages(AS_MANY), last[DIGITS];
	snprintf(count, DIGITS, "%llu", (unsigned long long)step);
	snprintf(last, sizeof last, "%llu", (unsigned long long)last_ns);
	execl(program, program, "execl-next", count, same, last, (char *)NULL);
	die_errno("execl: image %s of %s cannot be executed", count, program);
}

static uint64_t ns(double seconds) { return (uint64_t)(seconds * 1e9); }

void execl_replace(struct run *r)
{
	const uint64_t number[NUMBERS] = {ns(r->opt->seconds), r->opt->count, r->out.start, r->out.first, ns(cpu_seconds()),
		(uint64_t)r->report, (uint64_t)r->out.copy};
	char same[NUMBERS * DIGITS], *end = same;
	for (int i = 0; i < NUMBERS; i++)
		end += snprintf(end, DIGITS, " %llu", (unsigned long long)number[i]);
	next_image(r->program, 1, same, r->out.start);
}

/* Reads numbers that fill an argument, as many as are wanted. */
static void numbers(char **argv, int i, uint64_t *number, int wanted)
{
	char *at = argv[i], *end;
	int k = 0;
	for (; k < wanted; k++, at = end) {
		int length = 0;
		if (sscanf(at, "%" SCNu64 "%n", &number[k], &length) != 1) /* as UnixBench's program reads its start */
			break;
		end = at + length;
	}
	if (k < wanted || *at)
		die(EXIT_BROKEN, "execl: argument %d arrived as \"%s\"", i, argv[i]);
}

static int execl_end(const uint64_t *same, uint64_t step, uint64_t last, uint64_t t)
{
	static const struct options o = {.name = "execl"};
	struct run r = {.opt = &o, .report = (int)same[REPORT]};
	r.out = (struct outcome){.copy = (int32_t)same[COPY], .ok = 1, .start = same[START], .first = same[FIRST],
		.cpu = cpu_seconds() - (double)same[CPU_NS] / 1e9};
	r.out.count = step - 1;
	r.out.readings = step; /* one an image, and this one's */
	add_batch(&r.out, 1, last, t, same[LIMIT_COUNT] ? UINT64_MAX : same[LIMIT_NS]);
	r.out.value = r.out.within / ((double)(r.out.end - r.out.start) / 1e9);
	hand_in(&r);
	return EXIT_RAN;
}

/* One of the images: ends the window or starts the next image. */
int execl_resume(int argc, char **argv)
{
	if (argc != ARGC)
		die(EXIT_BROKEN, "execl: %d arguments arrived, %d were sent", argc, ARGC);
	uint64_t t = now(), step, last, same[NUMBERS];
	numbers(argv, STEP, &step, 1);
	numbers(argv, SAME, same, NUMBERS);
	if (same[LIMIT_COUNT] ? step >= same[LIMIT_COUNT] : t - same[START] >= same[LIMIT_NS]) {
		numbers(argv, LAST, &last, 1);
		return execl_end(same, step, last, t);
	}
	next_image(argv[0], step + 1, argv[SAME], t);
	return EXIT_BROKEN;
}
