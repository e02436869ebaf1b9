/* process-creation: fork a child that ends at once, and wait for it.
 * execl: a program that replaces itself by itself, over and over. */
#define _GNU_SOURCE
#include "unix.h"

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

/* What the next image must know travels in its arguments: there is no other
 * state in this test. Order: program, "execl-next", then these. */
enum { STEP = 2, LIMIT_NS, LIMIT_COUNT, START, FIRST, CPU, REPORT, COPY, LAST, ARGC };
enum { DIGITS = 24, PAGE = 4096 };

/* An image of UnixBench's program writes to two pages of static data, one of them
 * its numbers'. Here these have a page of the stack to themselves: static data of
 * more than a page would be one more region for process-creation to copy. */
static void next_image(const char *program, uint64_t step, char *limit_ns, char *limit_count,
                       char *start, char *first, char *cpu, char *report, char *copy, uint64_t last_ns)
{
	char count[PAGE], last[DIGITS];
	snprintf(count, DIGITS, "%llu", (unsigned long long)step);
	snprintf(last, sizeof last, "%llu", (unsigned long long)last_ns);
	execl(program, program, "execl-next", count, limit_ns, limit_count, start, first, cpu, report, copy, last, (char *)NULL);
	die_errno("execl: image %s of %s cannot be executed", count, program);
}

void execl_replace(struct run *r)
{
	char ns[DIGITS], limit[DIGITS], start[DIGITS], first[DIGITS], cpu[DIGITS], report[DIGITS], copy[DIGITS];
	snprintf(ns, sizeof ns, "%llu", (unsigned long long)(r->opt->seconds * 1e9));
	snprintf(limit, sizeof limit, "%llu", (unsigned long long)r->opt->count);
	snprintf(report, sizeof report, "%d", r->report);
	snprintf(copy, sizeof copy, "%d", r->out.copy);
	snprintf(cpu, sizeof cpu, "%.9f", cpu_seconds());
	snprintf(start, sizeof start, "%llu", (unsigned long long)r->out.start);
	snprintf(first, sizeof first, "%llu", (unsigned long long)r->out.first);
	next_image(r->program, 1, ns, limit, start, first, cpu, report, copy, r->out.start);
}

static uint64_t arg(char **argv, int i)
{
	char *end;
	unsigned long long v = strtoull(argv[i], &end, 10);
	if (*argv[i] == 0 || *end)
		die(EXIT_BROKEN, "execl: argument %d arrived as \"%s\"", i, argv[i]);
	return v;
}

static int execl_end(char **argv, uint64_t step, uint64_t t)
{
	static const struct options o = {.name = "execl"};
	struct run r = {.opt = &o, .report = (int)arg(argv, REPORT)};
	r.out = (struct outcome){.copy = (int32_t)arg(argv, COPY), .ok = 1, .start = arg(argv, START), .first = arg(argv, FIRST),
		.cpu = cpu_seconds() - strtod(argv[CPU], NULL)};
	r.out.count = step - 1;
	r.out.readings = step; /* one an image, and this one's */
	add_batch(&r.out, 1, arg(argv, LAST), t, arg(argv, LIMIT_COUNT) ? UINT64_MAX : arg(argv, LIMIT_NS));
	r.out.value = r.out.within / ((double)(r.out.end - r.out.start) / 1e9);
	hand_in(&r);
	return EXIT_RAN;
}

/* One of the images: ends the window or starts the next image. */
int execl_resume(int argc, char **argv)
{
	if (argc != ARGC)
		die(EXIT_BROKEN, "execl: %d arguments arrived, %d were sent", argc, ARGC);
	uint64_t step = arg(argv, STEP), limit = arg(argv, LIMIT_COUNT), t = now();
	if (limit ? step >= limit : t - arg(argv, START) >= arg(argv, LIMIT_NS))
		return execl_end(argv, step, t);
	next_image(argv[0], step + 1, argv[LIMIT_NS], argv[LIMIT_COUNT], argv[START], argv[FIRST], argv[CPU],
		argv[REPORT], argv[COPY], t);
	return EXIT_BROKEN;
}
