/* The command line, and the process that hands turns to the workers. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORKS = 64, LINE = 256 };
enum { LEAST_MICROSECONDS = 100, MOST_MICROSECONDS = 100000000 };

const char *self;

static struct worker {
	pid_t pid; /* 0 before the first turn */
	int to, from;
} workers[MOST_WORKS];

/* The kernel hands a program's path to it; /proc need not be mounted. */
static void find_self(void)
{
	static char path[PATH_MAX];
	const char *name = (const char *)getauxval(AT_EXECFN);
	if (name == NULL || (self = realpath(name, path)) == NULL)
		die_errno("this program's own path is not known");
}

static char scratch[PATH_MAX];

static void make_scratch(const char *dir)
{
	if (snprintf(scratch, sizeof scratch, "%s/slice.XXXXXX", dir) >= (int)sizeof scratch)
		die(EXIT_USAGE, "%.64s...: the path is too long", dir);
	if (mkdtemp(scratch) == NULL || chdir(scratch) != 0)
		die_errno("no directory can be made in %s", dir);
}

static void remove_entry(const char *name, void *with)
{
	(void)with;
	if (unlink(name) != 0)
		complain("%s/%s is left: %s", scratch, name, strerror(errno));
}

static void remove_scratch(void)
{
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (here < 0)
		return;
	each_entry(here, remove_entry, NULL);
	close(here);
	if (chdir("/") != 0 || rmdir(scratch) != 0)
		complain("%s is left: %s", scratch, strerror(errno));
}

/* Ends with the process that made it, also where that one is killed. */
static void die_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(EXIT_BROKEN);
}

static void start_worker(struct worker *w, const struct work *work)
{
	int there[2], back[2];
	if (pipe(there) != 0 || pipe(back) != 0)
		die_errno("%s: no pipes for its worker", work->name);
	pid_t parent = getpid();
	w->pid = fork();
	if (w->pid < 0)
		die_errno("%s: no worker", work->name);
	if (w->pid == 0) {
		before_death = NULL;
		die_with(parent);
		for (int i = 0; works[i].name; i++)
			if (workers[i].pid && &workers[i] != w) {
				close(workers[i].to);
				close(workers[i].from);
			}
		close(there[1]);
		close(back[0]);
		work_turns(work, there[0], back[1]);
		_exit(EXIT_RAN);
	}
	close(there[0]);
	close(back[1]);
	w->to = there[1];
	w->from = back[0];
}

/* Reads one line, without what read(2) would take beyond it. 0 at the end. */
static int read_line(int fd, char *line, size_t size)
{
	size_t n = 0;
	for (;;) {
		ssize_t got = read(fd, line + n, 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			die_errno("the next line cannot be read");
		if (got == 0)
			return n > 0 ? die(EXIT_BROKEN, "the last line has no end"), 0 : 0;
		if (line[n] == '\n') {
			line[n] = 0;
			return 1;
		}
		if (++n == size)
			die(EXIT_BROKEN, "a line is longer than %zu bytes", size - 1);
	}
}

static void answer(const char *line)
{
	char whole[LINE + 1];
	int n = snprintf(whole, sizeof whole, "%s\n", line);
	if (write(STDOUT_FILENO, whole, (size_t)n) != n)
		die_errno("the answer cannot be written");
}

static int parse_turn(char *line, uint64_t *microseconds)
{
	char *blank = strchr(line, ' '), *end;
	if (blank == NULL)
		return -1;
	*blank = 0;
	errno = 0;
	*microseconds = strtoull(blank + 1, &end, 10);
	if (errno || *end || end == blank + 1 || *microseconds < LEAST_MICROSECONDS || *microseconds > MOST_MICROSECONDS)
		return -1;
	for (int i = 0; works[i].name; i++)
		if (strcmp(works[i].name, line) == 0)
			return i;
	return -2;
}

/* One turn: its worker's answer is passed on. */
static void turn(char *line)
{
	char reply[LINE], error[LINE];
	uint64_t microseconds;
	int i = parse_turn(line, &microseconds);
	if (i < 0) {
		snprintf(error, sizeof error, i == -1 ? "error: \"%.80s\": want NAME MICROSECONDS (100 to 100000000)"
			: "error: \"%.80s\" is no workload of this program; \"slice list\" prints them", line);
		answer(error);
		return;
	}
	struct worker *w = &workers[i];
	if (w->pid == 0)
		start_worker(w, &works[i]);
	if (write(w->to, &microseconds, sizeof microseconds) != sizeof microseconds || !read_line(w->from, reply, sizeof reply)) {
		int status = 0;
		waitpid(w->pid, &status, 0);
		w->pid = 0;
		close(w->to);
		close(w->from);
		snprintf(reply, sizeof reply, "error: the worker of %s ended with wait status 0x%x; see standard error", works[i].name, status);
	}
	answer(reply);
}

/* Lets every worker end and finds out whether its last checks held. */
static int end_workers(void)
{
	int code = EXIT_RAN;
	for (int i = 0; works[i].name; i++) {
		if (workers[i].pid == 0)
			continue;
		int status;
		close(workers[i].to);
		if (waitpid(workers[i].pid, &status, 0) != workers[i].pid || status != 0)
			code = EXIT_BROKEN;
	}
	return code;
}

static int list(void)
{
	for (const struct work *w = works; w->name; w++)
		if (dprintf(STDOUT_FILENO, "%s\n", w->name) < 0)
			return EXIT_BROKEN;
	return EXIT_RAN;
}

int main(int argc, char **argv)
{
	char line[LINE];
	if (argc > 1 && strcmp(argv[1], "exec-step") == 0)
		return exec_step(argc, argv);
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	if (argc > 2 || (argc == 2 && argv[1][0] == '-'))
		die(EXIT_USAGE, "usage: slice [DIR] | slice list");
	signal(SIGPIPE, SIG_IGN); /* a worker that has died is an answer, not an end */
	find_self();
	make_scratch(argc == 2 ? argv[1] : "/tmp");
	before_death = remove_scratch;
	while (read_line(STDIN_FILENO, line, sizeof line))
		turn(line);
	int code = end_workers();
	remove_scratch();
	return code;
}
