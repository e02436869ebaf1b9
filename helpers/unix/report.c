/* Words: errors to stderr, outcomes to stdout. */
#include "unix.h"

#ifndef PROGRAM
#define PROGRAM "unix" /* whose errors these are */
#endif

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*before_death)(void);

/* One write per line, so that the lines of several copies do not mix. */
static void put_error(const char *reason, const char *format, va_list args)
{
	char line[1024];
	int n = snprintf(line, sizeof line, PROGRAM ": ");
	n += vsnprintf(line + n, sizeof line - (size_t)n, format, args);
	if (n > (int)sizeof line - 2)
		n = (int)sizeof line - 2;
	n += snprintf(line + n, sizeof line - (size_t)n, "%s%s\n", reason ? ": " : "", reason ? reason : "");
	if (n > (int)sizeof line - 1)
		n = (int)sizeof line - 1;
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody is left to tell; the exit code still says it */
}

void complain(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	put_error(NULL, format, args);
	va_end(args);
}

noreturn void die(int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	put_error(NULL, format, args);
	va_end(args);
	if (before_death)
		before_death();
	_exit(code);
}

noreturn void die_errno(const char *format, ...)
{
	const char *reason = strerror(errno);
	va_list args;
	va_start(args, format);
	put_error(reason, format, args);
	va_end(args);
	if (before_death)
		before_death();
	_exit(EXIT_BROKEN);
}

/* Without stdout's buffer, which would be static data (see pages.c). */
static void print(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (vdprintf(STDOUT_FILENO, format, args) < 0)
		die_errno("the outcome cannot be written to stdout");
	va_end(args);
}

void print_outcome(const struct options *o, const struct test *t, const struct outcome *r)
{
	print("{\"test\":\"%s\",\"copy\":%d,\"count\":%.10g,\"whole\":%llu,\"seconds\":%.9f,\"cpu_seconds\":%.6f,"
	       "\"unit\":\"%s\",\"value\":%.6g",
	       o->name, r->copy, r->within, (unsigned long long)r->count, (double)(r->end - r->start) / 1e9, r->cpu,
	       t->unit, r->value);
	if (r->cpu_value > 0) {
		print(",\"cpu_value\":%.6g,\"sections\":[", r->cpu_value);
		for (int i = 0; i < 8; i++)
			print("%s%.6f", i ? "," : "", r->section[i]);
		print("]");
	}
	print(",\"clock_readings\":%llu,\"start\":%llu,\"first\":%llu,\"end\":%llu,\"check\":\"ok\"}\n",
	       (unsigned long long)r->readings, (unsigned long long)r->start, (unsigned long long)r->first, (unsigned long long)r->end);
}
