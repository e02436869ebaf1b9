/* unixbench: runs a Unix test of tare, then the same test of a UnixBench that the user
 * has built, unchanged; or the other way round, at random.
 *
 *   unixbench [options] TEST -- PROGRAM [ARG...]
 *
 * PROGRAM prints its lines of JSON itself. Each copy of UnixBench's program gives one
 * more such line, with "build":"unixbench". Its result is what UnixBench's script Run
 * would make of the last COUNT|number|base|unit and TIME|seconds on its standard error.
 * Its rate by CPU time is known besides: the kernel counts the time of all processes
 * that it started, also of those that it left behind.
 */
#define _GNU_SOURCE
#include "../unix/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How UnixBench's script Run calls a test. */
struct their_test {
	const char *name;
	const char *program;
	const char *buffer, *blocks; /* of fstime */
	const char *scripts;         /* of looper */
	int least;                   /* seconds: a program that looks at whole seconds only */
	int own_length;              /* it takes no length */
};

static const struct their_test their_tests[] = {
	{.name = "dhrystone2", .program = "dhry2reg"},
	{.name = "whetstone", .program = "whetstone-double", .own_length = 1},
	{.name = "execl", .program = "execl", .least = 2},
	{.name = "file-copy-1024", .program = "fstime", .buffer = "1024", .blocks = "2000"},
	{.name = "file-copy-256", .program = "fstime", .buffer = "256", .blocks = "500"},
	{.name = "file-copy-4096", .program = "fstime", .buffer = "4096", .blocks = "8000"},
	{.name = "pipe-throughput", .program = "pipe"},
	{.name = "pipe-context-switch", .program = "context1"},
	{.name = "process-creation", .program = "spawn"},
	{.name = "shell-1", .program = "looper", .scripts = "1", .least = 2},
	{.name = "shell-8", .program = "looper", .scripts = "8", .least = 2},
	{.name = "syscall", .program = "syscall"},
	{.name = NULL},
};

/* CPU time of a program at a moment. */
struct moment {
	uint64_t at, cpu; /* ns */
};

enum { MOMENTS = 4096, MOST_OUTPUT = 64 << 10, MOST_ARGS = 16 };
enum { ORPHANS_MS = 30000 };

struct job {
	const struct their_test *test;
	const char *home;  /* holds pgms and testdir */
	const char *dir;   /* where the work directory is made */
	int seconds, copies;
	double timeout;
	char scratch[32];
	char bin[PATH_MAX];
};

/* What a program printed and used. */
struct result {
	char text[MOST_OUTPUT + 1];
	size_t length;
	struct moment moments[MOMENTS]; /* a ring */
	size_t seen;
	uint64_t begin, end;
	double cpu; /* seconds, of all that it started */
};

static sigset_t blocked;

static void block_signals(void)
{
	static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		sigaddset(&blocked, all[i]);
	if (sigprocmask(SIG_BLOCK, &blocked, NULL) != 0)
		die_errno("signals cannot be blocked");
}

/* In a child, before another program: it dies with its parent. */
static void become(pid_t parent)
{
	sigset_t none;
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		die_errno("a child cannot be prepared");
	if (getppid() != parent)
		_exit(EXIT_BROKEN);
}

/* Waits for the end of a child, at most until a deadline (ns; 0: none). Gives the signal
 * that asks this process to end, 0 where the child has ended, -1 past the deadline. */
static int await(pid_t child, uint64_t deadline)
{
	for (;;) {
		siginfo_t info = {0};
		if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
			return 0;
		if (deadline && now() > deadline)
			return -1;
		int s = sigtimedwait(&blocked, NULL, &(struct timespec){0, 100000000});
		if (s > 0 && s != SIGCHLD)
			return s;
	}
}

static int status_of(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child)
		die_errno("a child cannot be waited for");
	return status;
}

/* Our own program, which prints its lines itself. Gives its exit code. */
static int run_ours(char **argv)
{
	pid_t self = getpid(), p = fork();
	if (p < 0)
		die_errno("%s cannot be started", argv[0]);
	if (p == 0) {
		become(self);
		execv(argv[0], argv);
		die_errno("%s cannot be executed", argv[0]);
	}
	int caught = await(p, 0);
	if (caught)
		kill(p, caught);
	int status = status_of(p);
	return caught ? 128 + caught : WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BROKEN;
}

static int their_args(const struct job *j, char *args[MOST_ARGS], char seconds[16], char paths[2][PATH_MAX + 32])
{
	const struct their_test *t = j->test;
	int n = 0;
	snprintf(seconds, 16, "%d", j->seconds);
	snprintf(paths[0], PATH_MAX + 32, "%s/%s", j->bin, t->program);
	args[n++] = paths[0];
	if (t->buffer) {
		char *copy[] = {"-c", "-t", seconds, "-d", ".", "-b", (char *)t->buffer, "-m", (char *)t->blocks};
		memcpy(args + n, copy, sizeof copy);
		n += (int)(sizeof copy / sizeof *copy);
	} else if (!t->own_length) {
		args[n++] = seconds;
	}
	if (t->scripts) {
		snprintf(paths[1], PATH_MAX + 32, "%s/multi.sh", j->bin);
		args[n++] = paths[1];
		args[n++] = (char *)t->scripts;
	}
	args[n] = NULL;
	return n;
}

static pid_t start_theirs(const struct job *j, int to)
{
	char *args[MOST_ARGS], seconds[16];
	static char paths[2][PATH_MAX + 32];
	their_args(j, args, seconds, paths);
	pid_t self = getpid(), p = fork();
	if (p < 0)
		die_errno("%s cannot be started", args[0]);
	if (p > 0)
		return p;
	become(self);
	setpgid(0, 0);
	int null = open("/dev/null", O_WRONLY);
	if (null < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(to, STDERR_FILENO) < 0)
		die_errno("%s: output cannot be redirected", j->test->program);
	close(null);
	close(to);
	execv(args[0], args);
	die_errno("%s cannot be executed", args[0]);
}

/* Takes what is there to be read. Gives 0 at the end of the output. */
static int take_output(struct result *r, int from)
{
	char rest[4096];
	for (;;) {
		size_t room = MOST_OUTPUT - r->length;
		ssize_t n = room ? read(from, r->text + r->length, room) : read(from, rest, sizeof rest);
		if (n == 0)
			return 0;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (room)
			r->length += (size_t)n;
	}
}

static void note_moment(struct result *r, clockid_t clock)
{
	struct timespec t;
	if (clock_gettime(clock, &t) != 0)
		return; /* it has just ended */
	r->moments[r->seen++ % MOMENTS] = (struct moment){now(), (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec};
}

/* CPU seconds that the program had used when its last so many seconds began. */
static double used_before(const struct result *r, double last)
{
	double used = 0;
	size_t first = r->seen > MOMENTS ? r->seen - MOMENTS : 0;
	for (size_t i = first; i < r->seen; i++) {
		const struct moment *m = &r->moments[i % MOMENTS];
		if ((double)m->at <= (double)r->end - last * 1e9)
			used = (double)m->cpu / 1e9;
	}
	return used;
}

/* Waits for the program and for what it leaves behind: the other end of a pipe, the
 * script that the end of the time cuts off. */
static void attend(const struct job *j, struct result *r, pid_t p, int from)
{
	clockid_t clock;
	int known = clock_getcpuclockid(p, &clock) == 0;
	uint64_t deadline = now() + (uint64_t)(j->timeout * 1e9);
	uint64_t pause = (uint64_t)j->seconds * 1000000000u / (MOMENTS / 2);
	if (pause < 20000000)
		pause = 20000000;
	siginfo_t info = {0};
	while (waitid(P_PID, (id_t)p, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != p) {
		if (known)
			note_moment(r, clock);
		take_output(r, from);
		if (now() > deadline) {
			kill(-p, SIGKILL);
			die(EXIT_TIMEOUT, "UnixBench's %s did not end within %g s", j->test->program, j->timeout);
		}
		sigtimedwait(&blocked, NULL, &(struct timespec){(time_t)(pause / 1000000000u), (long)(pause % 1000000000u)});
	}
	r->end = now();
	int status;
	if (waitpid(p, &status, 0) != p)
		die_errno("UnixBench's %s cannot be waited for", j->test->program);
	for (int waited = 0; waitpid(-1, NULL, WNOHANG) >= 0; waited++) {
		take_output(r, from);
		if (waited == ORPHANS_MS)
			kill(-p, SIGKILL);
		sigtimedwait(&blocked, NULL, &(struct timespec){0, 1000000});
	}
	take_output(r, from);
	r->text[r->length] = 0;
	if (status != 0)
		die(EXIT_BROKEN, "UnixBench's %s ended with wait status 0x%x: %.200s", j->test->program, status, r->text);
}

/* What follows the last KEY| that begins a line. */
static const char *last_line(const char *text, const char *key)
{
	const char *found = NULL;
	size_t length = strlen(key);
	for (const char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
		if (strncmp(at, key, length) == 0)
			found = at + length;
	return found;
}

static int unit_known(const char *unit)
{
	return strcmp(unit, "lps") == 0 || strcmp(unit, "lpm") == 0 || strcmp(unit, "KBps") == 0 || strcmp(unit, "MWIPS") == 0;
}

/* As Run has it: a count by the time, in units of base seconds; with base 0 the count is
 * the rate already. By CPU time such a rate is what it would be with a whole CPU in the
 * time that it was measured in. */
static void print_result(const struct job *j, const struct result *r, int copy)
{
	const char *line = last_line(r->text, "COUNT|"), *time = last_line(r->text, "TIME|");
	double count, base, seconds = (double)(r->end - r->begin) / 1e9, value, by_cpu;
	char unit[8] = "";
	if (line == NULL || sscanf(line, "%lf|%lf|%7[A-Za-z]", &count, &base, unit) != 3 || !unit_known(unit)
	    || !(count > 0 && count < 1e18 && base >= 0 && base <= 3600))
		die(EXIT_BROKEN, "UnixBench's %s printed no COUNT|number|base|unit: %.200s", j->test->program, r->text);
	if (time)
		seconds = strtod(time, NULL);
	if (!(seconds > 0 && seconds < 1e6))
		die(EXIT_BROKEN, "UnixBench's %s printed no time: %.200s", j->test->program, r->text);
	if (base > 0) {
		value = count * base / seconds;
		by_cpu = (count + (j->test->scripts ? 1 : 0)) * base / r->cpu; /* the round that is cut off, too */
	} else {
		value = by_cpu = count;
		double used = r->cpu - used_before(r, seconds + (j->test->buffer ? 0.2 : 0)); /* it sleeps before it copies */
		if (j->test->buffer || r->cpu < seconds) /* else it was a rate by CPU time already: whetstone of 5.1.3 */
			by_cpu = count * seconds / used;
	}
	if (!isfinite(by_cpu) || by_cpu <= 0)
		die(EXIT_BROKEN, "UnixBench's %s used no CPU time", j->test->program);
	char out[1024];
	int n = snprintf(out, sizeof out, "{\"test\":\"%s\",\"build\":\"unixbench\",\"copy\":%d,\"count\":%.10g,\"seconds\":%.9f,"
		"\"cpu_seconds\":%.6f,\"unit\":\"%s\",\"value\":%.6g,\"cpu_value\":%.6g,\"start\":%llu,\"first\":%llu,\"end\":%llu,\"check\":\"ok\"}\n",
		j->test->name, copy, count, seconds, r->cpu, unit, value, by_cpu,
		(unsigned long long)r->begin, (unsigned long long)r->begin, (unsigned long long)r->end);
	if (write(STDOUT_FILENO, out, (size_t)n) != n)
		die_errno("the outcome cannot be written to stdout");
}

/* One copy, in a process of its own, to which come the orphans of the program. */
static noreturn void be_copy(const struct job *j, int copy, int gate)
{
	static struct result r;
	int ends[2];
	char go;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		die_errno("copy %d cannot be prepared", copy);
	if (read(gate, &go, 1) != 0)
		die_errno("copy %d cannot wait for the others", copy);
	close(gate);
	r.begin = now();
	pid_t p = start_theirs(j, ends[1]);
	close(ends[1]);
	attend(j, &r, p, ends[0]);
	r.cpu = child_cpu_seconds();
	print_result(j, &r, copy);
	_exit(EXIT_RAN);
}

static void enter_scratch(struct job *j)
{
	char text[PATH_MAX + 32];
	strcpy(j->scratch, "unixbench-XXXXXX");
	if (chdir(j->dir) != 0 || mkdtemp(j->scratch) == NULL || chdir(j->scratch) != 0)
		die_errno("a work directory cannot be made in %s", j->dir);
	snprintf(text, sizeof text, "%s/testdir/sort.src", j->home);
	if (j->test->scripts && symlink(text, "sort.src") != 0)
		die_errno("sort.src cannot be linked");
}

static void remove_file(const char *name, void *unused)
{
	(void)unused;
	unlink(name);
}

static int leave_scratch(const struct job *j)
{
	int d = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d >= 0) {
		each_entry(d, remove_file, NULL);
		close(d);
	}
	if (chdir("..") == 0 && rmdir(j->scratch) == 0)
		return EXIT_RAN;
	complain("work directory %s/%s cannot be removed: %s", j->dir, j->scratch, strerror(errno));
	return EXIT_BROKEN;
}

/* All copies at once; gives the exit code. A copy that ends badly, or a signal, ends all. */
static int run_theirs(struct job *j)
{
	pid_t *pid = calloc((size_t)j->copies, sizeof *pid), self = getpid();
	int gate[2], code = EXIT_RAN, begun = 0;
	if (pid == NULL || pipe2(gate, O_CLOEXEC) != 0)
		die_errno("no room for %d copies", j->copies);
	enter_scratch(j);
	for (; begun < j->copies && code == EXIT_RAN; begun++) {
		if ((pid[begun] = fork()) == 0) {
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
				_exit(EXIT_BROKEN);
			close(gate[1]);
			be_copy(j, begun, gate[0]);
		}
		if (pid[begun] < 0) {
			complain("copy %d of %d cannot be started: %s", begun, j->copies, strerror(errno));
			code = EXIT_BROKEN;
			break;
		}
	}
	close(gate[0]);
	if (code == EXIT_RAN)
		close(gate[1]); /* all begin */
	for (int i = 0; i < begun; i++) {
		int caught = code == EXIT_RAN ? await(pid[i], 0) : 0;
		if (caught)
			code = 128 + caught;
		if (code != EXIT_RAN)
			kill(pid[i], SIGKILL); /* and the program with it */
		int status = status_of(pid[i]);
		if (code == EXIT_RAN && status != 0)
			code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BROKEN;
	}
	while (waitpid(-1, NULL, 0) > 0) /* what was killed may still make a file until it is gone */
		;
	int removed = leave_scratch(j);
	free(pid);
	return code ? code : removed;
}

/* Whether UnixBench's program is first, as a coin has it. */
static int theirs_first(void)
{
	unsigned char coin = 0;
	if (syscall(SYS_getrandom, &coin, sizeof coin, 0) != sizeof coin)
		die_errno("no random number");
	return coin & 1;
}

static const char usage[] =
	"usage: unixbench [options] TEST -- PROGRAM [ARG...]\n"
	"\n"
	"  --home DIR    holds UnixBench's pgms and testdir\n"
	"  --seconds S   of the timed part, rounded up to whole seconds\n"
	"  --copies N    copies at once (1)\n"
	"  --dir DIR     where temporary files go (.)\n"
	"  --after       UnixBench's program always comes last: PROGRAM begins together with others\n"
	"  --timeout S   ends UnixBench's program (600)\n";

static double number(const char *option, double least, double most)
{
	char *end;
	double v = strtod(optarg, &end);
	if (end == optarg || *end || !(v >= least && v <= most))
		die(EXIT_USAGE, "--%s %s: must be a number from %g to %g", option, optarg, least, most);
	return v;
}

int main(int argc, char **argv)
{
	enum { HOME = 256, SECONDS, COPIES, DIR_, AFTER, TIMEOUT };
	static const struct option options[] = {{"home", 1, NULL, HOME}, {"seconds", 1, NULL, SECONDS}, {"copies", 1, NULL, COPIES},
		{"dir", 1, NULL, DIR_}, {"after", 0, NULL, AFTER}, {"timeout", 1, NULL, TIMEOUT}, {NULL, 0, NULL, 0}};
	struct job j = {.dir = ".", .seconds = 1, .copies = 1, .timeout = 600};
	int after = 0;
	for (int c; (c = getopt_long(argc, argv, "+", options, NULL)) != -1;)
		switch (c) {
		case HOME: j.home = optarg; break;
		case SECONDS: j.seconds = (int)ceil(number("seconds", 0.01, 86400)); break;
		case COPIES: j.copies = (int)number("copies", 1, MOST_COPIES); break;
		case DIR_: j.dir = optarg; break;
		case AFTER: after = 1; break;
		case TIMEOUT: j.timeout = number("timeout", 1, 864000); break;
		default: die(EXIT_USAGE, "%s", usage);
		}
	if (argc - optind < 3 || strcmp(argv[optind + 1], "--") != 0 || j.home == NULL)
		die(EXIT_USAGE, "%s", usage);
	for (j.test = their_tests; j.test->name && strcmp(j.test->name, argv[optind]) != 0;)
		j.test++;
	if (j.test->name == NULL)
		die(EXIT_USAGE, "UnixBench has no test \"%s\"", argv[optind]);
	if (j.seconds < j.test->least)
		j.seconds = j.test->least;
	if (snprintf(j.bin, sizeof j.bin, "%s/pgms", j.home) >= (int)sizeof j.bin || setenv("UB_BINDIR", j.bin, 1) != 0)
		die(EXIT_USAGE, "--home %s: too long", j.home);
	block_signals();
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		die_errno("orphans cannot be taken over");
	int first = !after && theirs_first(), code = first ? run_theirs(&j) : run_ours(argv + optind + 2);
	if (code == EXIT_RAN)
		code = first ? run_ours(argv + optind + 2) : run_theirs(&j);
	return code;
}
