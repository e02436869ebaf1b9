/* Stands in for the programs of a UnixBench: called by one of their names it takes the
 * same arguments, does some work until its time is over and reports in the same words. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long count;
static volatile sig_atomic_t over;
static int base = 1;
static const char *unit = "lps";

static void finish(int s)
{
	(void)s;
	over = 1;
	fprintf(stderr, "COUNT|%lu|%d|%s\n", count, base, unit);
	exit(0);
}

static double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Prints its rate itself, as fstime and whetstone-double do. */
static int by_rate(double seconds, const char *of)
{
	double begin = seconds_now(), end;
	while ((end = seconds_now()) < begin + seconds)
		count++;
	printf("a table that nobody reads\n");
	fprintf(stderr, "COUNT|%.3f|0|%s\nTIME|%.3f\n", (double)count / (end - begin), of, end - begin);
	return 0;
}

static int loop_over(char **command)
{
	for (;;) {
		int status;
		pid_t p = fork();
		if (p == 0) {
			execvp(command[0], command);
			_exit(99);
		}
		if (wait(&status) != p || status != 0)
			return 2;
		count++;
	}
}

/* As execl of UnixBench: whole seconds, and the count in its arguments. */
static int replace_itself(int argc, char **argv)
{
	char next[24], start[24], path[4096];
	int first = argc == 2;
	unsigned long n = first ? 0 : strtoul(argv[3], NULL, 10);
	long began = first ? (long)time(NULL) : strtol(argv[4], NULL, 10);
	const char *length = first ? argv[1] : argv[2];
	snprintf(next, sizeof next, "%lu", n + 1);
	snprintf(start, sizeof start, "%ld", began);
	snprintf(path, sizeof path, "%s/execl", getenv("UB_BINDIR"));
	if ((long)time(NULL) - began >= atol(length)) {
		fprintf(stderr, "COUNT|%lu|1|lps\n", n + 1);
		return 0;
	}
	execl(path, path, "0", length, next, start, (char *)NULL);
	return 1;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
	if (strcmp(name, "whetstone-double") == 0)
		return argc == 1 ? by_rate(1, "MWIPS") : 2;
	if (strcmp(name, "fstime") == 0) {
		for (int i = 1; i + 1 < argc; i++)
			if (strcmp(argv[i], "-t") == 0) {
				fprintf(stderr, "COUNT|7|0|KBps\nTIME|9\n"); /* of its writing, which does not count */
				usleep(500000);
				return by_rate(atof(argv[i + 1]), "KBps");
			}
		return 2;
	}
	if (argc < 2)
		return 2;
	if (strcmp(name, "execl") == 0)
		return replace_itself(argc, argv);
	if (strcmp(name, "looper") == 0) {
		base = 60;
		unit = "lpm";
	}
	signal(SIGALRM, finish);
	alarm((unsigned)atoi(argv[1]));
	if (strcmp(name, "looper") == 0)
		return loop_over(argv + 2);
	if (strcmp(name, "context1") == 0 && fork() == 0) { /* its other end outlives it for a moment */
		sleep((unsigned)atoi(argv[1]));
		usleep(50000);
		return 0;
	}
	for (;;) {
		close(dup(0));
		count++;
	}
}
