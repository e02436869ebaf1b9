//go:build ignore

/*
 * starts: the bare loop that starts a second are compared with.
 *
 *     starts N WIDTH REAPED CMD ARG...
 *
 * It forks CMD N times, at most WIDTH of them under way at once; in every ARG the
 * number of the start stands for {}. REAPED is how many processes of a start it
 * has to see end: 1 for a command that lasts as long as what it starts, 2 for one
 * that ends before it (runc run --detach): what is left behind is adopted by this
 * process, as a container's monitor adopts it. Standard input and output of CMD are
 * on /dev/null. It prints the nanoseconds from the first fork to the last end, and those
 * of CPU time that it took itself.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

extern char **environ;

/* numbered is arg with every {} replaced by i; the caller never frees it. */
static char *numbered(const char *arg, int i) {
	size_t room = strlen(arg) * 6 + 1;
	char *out = malloc(room), *to = out;

	must(out ? 0 : ENOMEM, "memory");
	while (*arg) {
		if (arg[0] == '{' && arg[1] == '}') {
			to += sprintf(to, "%d", i);
			arg += 2;
		} else {
			*to++ = *arg++;
		}
	}
	*to = 0;
	return out;
}

int main(int argc, char **argv) {
	posix_spawn_file_actions_t files;
	int n = argc > 4 ? atoi(argv[1]) : 0;
	int width = argc > 4 ? atoi(argv[2]) : 0;
	int each = argc > 4 ? atoi(argv[3]) : 0;
	int begun = 0, ended = 0, adopted = 0;
	pid_t *own = calloc(n > 0 ? n : 1, sizeof *own);
	char ***commands = calloc(n > 0 ? n : 1, sizeof *commands);
	struct rusage own_use;
	int64_t start;

	if (n <= 0 || width <= 0 || each < 1 || each > 2 || !own || !commands) {
		fprintf(stderr, "usage: starts N WIDTH REAPED CMD ARG...\n");
		return 2;
	}
	must(prctl(PR_SET_CHILD_SUBREAPER, 1) ? errno : 0, "subreaper");
	must(posix_spawn_file_actions_init(&files), "file actions");
	must(posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0), "file actions");
	must(posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0), "file actions");
	for (int i = 0; i < n; i++) { /* before the clock, as a laboratory prepares */
		commands[i] = calloc(argc - 3, sizeof *commands[i]);
		must(commands[i] ? 0 : ENOMEM, "memory");
		for (int k = 4; k < argc; k++)
			commands[i][k - 4] = numbered(argv[k], i);
	}
	start = now();
	while (ended < n || (each == 2 && adopted < n)) {
		int over = each == 2 ? (adopted < ended ? adopted : ended) : ended;
		int status, mine = 0;
		pid_t pid;

		if (begun < n && begun - over < width) {
			must(posix_spawnp(&own[begun], commands[begun][0], &files, NULL, commands[begun], environ), argv[4]);
			begun++;
			continue;
		}
		pid = waitpid(-1, &status, 0);
		must(pid < 0 ? errno : 0, "wait");
		for (int i = 0; i < begun && !mine; i++)
			mine = own[i] == pid;
		if (status != 0) {
			fprintf(stderr, "starts: a process of %s ended with status %#x\n", argv[4], status);
			return 1;
		}
		if (mine)
			ended++;
		else
			adopted++;
	}
	printf("%lld\n", (long long)(now() - start));
	must(getrusage(RUSAGE_SELF, &own_use) ? errno : 0, "getrusage");
	printf("%lld\n", 1000LL * (1000000LL * (own_use.ru_utime.tv_sec + own_use.ru_stime.tv_sec) + own_use.ru_utime.tv_usec + own_use.ru_stime.tv_usec));
	return 0;
}
