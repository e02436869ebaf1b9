/* Clocks: the monotonic one for windows, the process's own for CPU time. */
#define _GNU_SOURCE
#include "unix.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_by_call;
uint64_t clock_readings;

static int read_id(clockid_t id, struct timespec *t)
{
	return clock_by_call ? (int)syscall(SYS_clock_gettime, id, t) : clock_gettime(id, t);
}

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;
	clock_readings++;
	if (read_id(id, &t) != 0)
		die_errno("clock %d cannot be read", (int)id);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t now(void) { return read_clock(CLOCK_MONOTONIC); }

double own_cpu_seconds(void) { return (double)read_clock(CLOCK_PROCESS_CPUTIME_ID) / 1e9; }

double cpu_seconds(void) { return own_cpu_seconds() + child_cpu_seconds(); }

double child_cpu_seconds(void)
{
	struct rusage u;
	if (getrusage(RUSAGE_CHILDREN, &u) != 0)
		die_errno("CPU time of children cannot be read");
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec)
		+ (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
