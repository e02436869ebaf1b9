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

enum { MOST_WORKS = 64, LINE = 256, WORDS = 40 };
enum { LEAST_MICROSECONDS = 100, MOST_MICROSECONDS = 100000000 };

const char *self;
int own_files = 1;
static int copies = 1;

/* The copies of a work; NULL before its first turn. */
static struct worker {
	pid_t pid;
	int to, from;
} *workers[MOST_WORKS];

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

static void forget_others(void)
{
	for (int i = 0; works[i].name; i++)
		for (int k = 0; workers[i] && k < copies && workers[i][k].pid; k++) {
			close(workers[i][k].to);
			close(workers[i][k].from);
		}
}

static void start_worker(struct worker *w, const struct work *work, int number)
{
	int there[2], back[2];
	if (pipe(there) != 0 || pipe(back) != 0)
		die_errno("%s: no pipes for its worker", work->name);
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid < 0)
		die_errno("%s: no worker", work->name);
	if (pid == 0) {
		before_death = NULL;
		die_with(parent);
		forget_others();
		copy = number;
		close(there[1]);
		close(back[0]);
		work_turns(work, there[0], back[1]);
		if (before_death)
			before_death();
		_exit(EXIT_RAN);
	}
	close(there[0]);
	close(back[1]);
	*w = (struct worker){pid, there[1], back[0]};
}

static void start_workers(int work)
{
	workers[work] = calloc((size_t)copies, sizeof *workers[work]);
	if (workers[work] == NULL)
		die_errno("%s: no memory for its workers", works[work].name);
	for (int k = 0; k < copies; k++)
		start_worker(&workers[work][k], &works[work], k);
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

/* Ends what is left of a work's copies, one of which has ended by itself. Its wait
 * status is returned. */
static int drop_workers(int work, int broken)
{
	int status = 0, other;
	for (int k = 0; k < copies; k++) {
		struct worker *w = &workers[work][k];
		close(w->to);
		close(w->from);
		if (k != broken)
			kill(w->pid, SIGKILL);
		waitpid(w->pid, k == broken ? &status : &other, 0);
	}
	free(workers[work]);
	workers[work] = NULL;
	return status;
}

/* What all copies did in a turn. */
struct together {
	uint64_t count, begin, cpu, bytes;
	double rate; /* per ns, the sum of theirs */
	char words[WORDS];
};

/* Adds one copy's answer; 0 where it is none. */
static int add(struct together *t, const char *reply)
{
	unsigned long long count, begin, end, cpu, bytes;
	int at = 0, more = 0;
	if (sscanf(reply, "%llu %llu %llu %llu%n", &count, &begin, &end, &cpu, &at) != 4 || end <= begin)
		return 0;
	if (sscanf(reply + at, " bytes=%llu%n", &bytes, &more) == 1)
		t->bytes += bytes;
	snprintf(t->words, sizeof t->words, "%s", reply + at + more);
	t->count += count;
	t->cpu += cpu;
	t->rate += (double)count / (double)(end - begin);
	if (t->begin == 0 || begin < t->begin)
		t->begin = begin;
	return 1;
}

/* The answer of all copies, with the time in which the sum of their rates gives the
 * sum of their counts. */
static void answer_together(const struct together *t)
{
	char reply[LINE], bytes[WORDS] = "";
	uint64_t took = t->rate > 0 ? (uint64_t)((double)t->count / t->rate) : 1;
	if (t->bytes)
		snprintf(bytes, sizeof bytes, " bytes=%llu", (unsigned long long)t->bytes);
	snprintf(reply, sizeof reply, "%llu %llu %llu %llu%s%s", (unsigned long long)t->count, (unsigned long long)t->begin,
		(unsigned long long)(t->begin + (took ? took : 1)), (unsigned long long)t->cpu, bytes, t->words);
	answer(reply);
}

/* One turn: what its workers answer is passed on. */
static void turn(char *line)
{
	char reply[LINE], error[LINE];
	struct together all = {0};
	uint64_t microseconds;
	int i = parse_turn(line, &microseconds);
	if (i < 0) {
		snprintf(error, sizeof error, i == -1 ? "error: \"%.80s\": want NAME MICROSECONDS (100 to 100000000)"
			: "error: \"%.80s\" is no workload of this program; \"slice list\" prints them", line);
		answer(error);
		return;
	}
	if (workers[i] == NULL)
		start_workers(i);
	int broken = -1;
	for (int k = 0; k < copies && broken < 0; k++)
		if (write(workers[i][k].to, &microseconds, sizeof microseconds) != sizeof microseconds)
			broken = k;
	for (int k = 0; k < copies && broken < 0; k++)
		if (!read_line(workers[i][k].from, reply, sizeof reply) || !add(&all, reply))
			broken = k;
	if (broken >= 0) {
		snprintf(error, sizeof error, "error: the worker of %s ended with wait status 0x%x; see standard error", works[i].name, drop_workers(i, broken));
		answer(error);
		return;
	}
	answer_together(&all);
}

/* Lets every worker end and finds out whether its last checks held. */
static int end_workers(void)
{
	int code = EXIT_RAN;
	for (int i = 0; works[i].name; i++) {
		for (int k = 0; workers[i] && k < copies; k++)
			close(workers[i][k].to);
		for (int k = 0; workers[i] && k < copies; k++) {
			int status;
			if (waitpid(workers[i][k].pid, &status, 0) != workers[i][k].pid || status != 0)
				code = EXIT_BROKEN;
		}
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

/* The directory of the command line, whose options are read. */
static const char *options(int argc, char **argv)
{
	const char *dir = "/tmp";
	char *end;
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--copies=", 9) == 0) {
			long n = strtol(argv[i] + 9, &end, 10);
			if (*end || end == argv[i] + 9 || n < 1 || n > MOST_COPIES)
				die(EXIT_USAGE, "%s: must be 1 to %d", argv[i], MOST_COPIES);
			copies = (int)n;
		} else if (strcmp(argv[i], "--shared") == 0) {
			own_files = 0;
		} else if (argv[i][0] == '-' || i != argc - 1) {
			die(EXIT_USAGE, "usage: slice [--copies=N] [--shared] [DIR] | slice list");
		} else {
			dir = argv[i];
		}
	}
	return dir;
}

int main(int argc, char **argv)
{
	char line[LINE];
	if (argc > 1 && strcmp(argv[1], "exec-step") == 0)
		return exec_step(argc, argv);
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	const char *dir = options(argc, argv);
	signal(SIGPIPE, SIG_IGN); /* a worker that has died is an answer, not an end */
	find_self();
	make_scratch(dir);
	before_death = remove_scratch;
	while (read_line(STDIN_FILENO, line, sizeof line))
		turn(line);
	int code = end_workers();
	remove_scratch();
	return code;
}
