//go:build ignore

/*
 * spawn: the floor of the host target: a bare posix_spawn and wait.
 *
 *     spawn N PAUSE CMD ARG...
 *
 * It starts CMD N times, one after the other, PAUSE microseconds apart, and prints
 * the time of each from before posix_spawn until waitpid has returned, in
 * nanoseconds, one a line. CMD has its standard output and error on /dev/null.
 *
 * The pause is that between two trials: a loop without one measures a processor
 * whose caches hold nothing but the loop.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void must(int err, const char *what) {
	if (!err)
		return;
	fprintf(stderr, "spawn: %s: %s\n", what, strerror(err));
	exit(1);
}

int main(int argc, char **argv) {
	posix_spawn_file_actions_t files;
	int n = argc > 3 ? atoi(argv[1]) : 0;

	if (n <= 0) {
		fprintf(stderr, "usage: spawn N PAUSE CMD ARG...\n");
		return 2;
	}
	must(posix_spawn_file_actions_init(&files), "file actions");
	must(posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0), "file actions");
	must(posix_spawn_file_actions_adddup2(&files, 1, 2), "file actions");
	for (int i = 0; i < n; i++) {
		pid_t pid;
		int status;
		usleep(atoi(argv[2]));
		int64_t start = now();

		must(posix_spawn(&pid, argv[3], &files, NULL, argv + 3, environ), argv[3]);
		if (waitpid(pid, &status, 0) != pid || status != 0) {
			fprintf(stderr, "spawn: %s ended with status %#x\n", argv[3], status);
			return 1;
		}
		printf("%lld\n", (long long)(now() - start));
	}
	return 0;
}
