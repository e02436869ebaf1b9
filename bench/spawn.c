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
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

extern char **environ;

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
