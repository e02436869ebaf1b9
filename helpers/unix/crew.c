/* The crew: a parent that starts the copies, collects their outcomes, and ends
 * everything that belongs to them on an error, a time-out or a signal. */
#define _GNU_SOURCE
#include "unix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct crew {
	const struct options *opt;
	const struct test *test;
	struct barrier *barrier;
	int page;           /* descriptor of the barrier */
	char **argv;        /* the command line */
	int base;           /* descriptor of --dir */
	char scratch[16];   /* the work directory's name in it */
	const char *program;
	pid_t *pid; /* 0 once reaped; each copy leads a process group of its own */
	int left;   /* copies not reaped */
	int got;    /* outcomes printed */
	int code;   /* of the run so far */
	int pipe[2];
	sigset_t waiting; /* signals let in while the parent waits */
};

static volatile sig_atomic_t caught;

static void on_signal(int s)
{
	if (s != SIGCHLD)
		caught = s;
}

/* Signals reach the parent only inside ppoll, so none is lost between a test
 * and a wait. Handlers are installed also because PID 1 ignores the defaults. */
static void catch_signals(struct crew *c)
{
	static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
	struct sigaction act = {.sa_handler = on_signal};
	sigset_t block;
	sigemptyset(&block);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		sigaddset(&block, all[i]);
		if (sigaction(all[i], &act, NULL) != 0)
			die_errno("signal %d cannot be handled", all[i]);
	}
	if (sigprocmask(SIG_BLOCK, &block, &c->waiting) != 0)
		die_errno("signals cannot be blocked");
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		sigdelset(&c->waiting, all[i]);
}

static void restore_signals(void)
{
	static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
	sigset_t none;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		signal(all[i], SIG_DFL);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) != 0)
		die_errno("signals cannot be unblocked");
}

/* The program's own path, without /proc: the kernel hands it to every process.
 * A relative one is completed before the directory changes. */
static void find_program(struct crew *c)
{
	const char *name = (const char *)getauxval(AT_EXECFN);
	c->program = name;
	if (name == NULL)
		die(EXIT_BROKEN, "the program's own path is not in the auxiliary vector");
	if (*name == '/')
		return;
	char *joined = pages(PATH_MAX);
	if (syscall(SYS_getcwd, joined, PATH_MAX) < 0) /* the C library's takes a heap, see directory.c */
		die_errno("the working directory has no name");
	size_t n = strlen(joined);
	if (n + 1 + strlen(name) >= PATH_MAX)
		die(EXIT_USAGE, "the program's path %s/%s is too long", joined, name);
	joined[n] = '/';
	memcpy(joined + n + 1, name, strlen(name) + 1);
	c->program = joined;
}

/* The work directory: all copies of a crew share it, as UnixBench's do. Paths
 * are kept relative, for a buffer of PATH_MAX on the stack stays resident and
 * every fork in a window would copy its pages. */
static void enter_scratch(struct crew *c)
{
	strcpy(c->scratch, "unix-XXXXXX");
	if ((c->base = open(c->opt->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 || fchdir(c->base) != 0)
		die_errno("--dir %s", c->opt->dir);
	if (mkdtemp(c->scratch) == NULL)
		die_errno("a work directory cannot be made in %s", c->opt->dir);
	if (chdir(c->scratch) != 0)
		die_errno("work directory %s/%s cannot be entered", c->opt->dir, c->scratch);
}

static void remove_file(const char *name, void *scratch)
{
	if (unlink(name) != 0 && errno != ENOENT)
		complain("%s/%s cannot be removed: %s", (const char *)scratch, name, strerror(errno));
}

/* Files only: no test makes a directory in it. */
static int remove_scratch(struct crew *c)
{
	int d = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d >= 0) {
		each_entry(d, remove_file, c->scratch);
		close(d);
	}
	if (fchdir(c->base) == 0 && rmdir(c->scratch) == 0)
		return EXIT_RAN;
	complain("work directory %s/%s cannot be removed: %s", c->opt->dir, c->scratch, strerror(errno));
	return EXIT_BROKEN;
}

const char copy_word[] = "copy";

/* A copy is an image of its own, as each program of UnixBench is. A mere fork
 * of the crew would have the crew's memory below its own: the kernel then does
 * more for every fork in the window, which made process-creation 5 % slower.
 * The arguments before the command line's: number, descriptors, parent. */
static noreturn void become_copy(const struct crew *c, int i, pid_t parent)
{
	char number[12], report[12], page[12];
	int given = 0;
	before_death = NULL;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		die_errno("copy %d cannot be bound to its parent's life", i);
	if (getppid() != parent)
		_exit(EXIT_BROKEN); /* the parent died before the line above */
	restore_signals();
	snprintf(number, sizeof number, "%d", i);
	snprintf(report, sizeof report, "%d", c->pipe[1]);
	snprintf(page, sizeof page, "%d", c->page);
	while (c->argv[given])
		given++;
	char **args = pages((size_t)(COPY_ARGUMENTS + given + 1) * sizeof *args);
	char *const own[COPY_ARGUMENTS + 1] = {(char *)c->program, (char *)copy_word, number, report, page, c->argv[0]};
	memcpy(args, own, sizeof own);
	memcpy(args + COPY_ARGUMENTS + 1, c->argv + 1, (size_t)given * sizeof *args);
	execv(c->program, args);
	die_errno("copy %d: %s cannot be executed", i, c->program);
}

/* The copy's image, in the work directory. */
noreturn void crew_copy(const struct options *o, const struct test *t, char **argv)
{
	struct run r = {.opt = o, .test = t, .program = argv[0], .report = atoi(argv[3]), .out.copy = atoi(argv[2])};
	int page = atoi(argv[4]);
	struct barrier *barrier = barrier_open(page, o->barrier, o->parties);
	if (close(page) != 0)
		die_errno("copy %d: barrier cannot be closed", r.out.copy);
	if (!t->replace && fcntl(r.report, F_SETFD, FD_CLOEXEC) != 0)
		die_errno("copy %d: pipe cannot be kept from programs", r.out.copy);
	if (t->setup)
		t->setup(&r);
	uint64_t start = barrier_wait(barrier, o->barrier_seconds);
	barrier_close(barrier);
	timed_window(&r, start);
	hand_in(&r);
	_exit(EXIT_RAN);
}

static void start_copies(struct crew *c)
{
	pid_t self = getpid();
	for (int i = 0; i < c->opt->copies; i++) {
		pid_t p = fork();
		if (p == 0) {
			setpgid(0, 0); /* the parent does it too; whoever comes first */
			become_copy(c, i, self);
		}
		if (p < 0) {
			complain("copy %d of %d cannot be started: %s", i, c->opt->copies, strerror(errno));
			c->code = EXIT_BROKEN;
			barrier_abort(c->barrier);
			break;
		}
		setpgid(p, p);
		c->pid[i] = p;
		c->left++;
	}
	if (close(c->pipe[1]) != 0 || close(c->page) != 0)
		die_errno("pipe and barrier cannot be closed");
}

/* The whole process group: also what a copy's own children started. */
static void kill_copies(struct crew *c)
{
	for (int i = 0; i < c->opt->copies; i++)
		if (c->pid[i] > 0 && kill(-c->pid[i], SIGKILL) != 0)
			kill(c->pid[i], SIGKILL);
}

static void ended(struct crew *c, int copy, int status)
{
	c->pid[copy] = 0;
	c->left--;
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_RAN)
		return;
	barrier_abort(c->barrier);
	if (WIFSIGNALED(status) && c->code == 0)
		complain("%s: copy %d was killed by signal %d", c->opt->name, copy, WTERMSIG(status));
	if (c->code == 0)
		c->code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BROKEN;
}

static int copy_of(const struct crew *c, pid_t p)
{
	for (int i = 0; i < c->opt->copies; i++)
		if (c->pid[i] == p)
			return i;
	return -1;
}

/* Takes every process that has ended; strangers too, for PID 1 inherits them. */
static void reap(struct crew *c)
{
	siginfo_t info = {0};
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
		int copy = copy_of(c, info.si_pid), status;
		if (copy >= 0)
			kill(-info.si_pid, SIGKILL); /* what it left behind; not yet reaped, so the group is still its own */
		if (waitpid(info.si_pid, &status, 0) < 0)
			die_errno("an ended process cannot be reaped");
		if (copy >= 0)
			ended(c, copy, status);
		info.si_pid = 0;
	}
}

static void take_outcomes(struct crew *c)
{
	struct outcome o;
	ssize_t n;
	while ((n = read(c->pipe[0], &o, sizeof o)) == (ssize_t)sizeof o) {
		if (!o.ok)
			continue;
		print_outcome(c->opt, c->test, &o);
		c->got++;
	}
}

/* Waits until every copy has ended; past the deadline or after a signal it
 * ends them itself. */
static void attend(struct crew *c)
{
	uint64_t deadline = now() + (uint64_t)((c->opt->barrier_seconds + c->opt->timeout) * 1e9);
	int begun = 0;
	while (c->left > 0) {
		uint64_t t = now();
		if (!begun && barrier_released(c->barrier)) {
			begun = 1;
			deadline = t + (uint64_t)(c->opt->timeout * 1e9);
		}
		if (caught && c->code != 128 + caught) {
			c->code = 128 + caught;
			kill_copies(c);
		} else if (t > deadline && c->code != EXIT_TIMEOUT) {
			complain("%s: not done %g s after the start; ended", c->opt->name, c->opt->timeout);
			c->code = EXIT_TIMEOUT;
			kill_copies(c);
		}
		struct timespec wait = {1, 0};
		struct pollfd p = {.fd = c->pipe[0], .events = POLLIN};
		if (deadline > t && deadline - t < 1000000000u)
			wait = (struct timespec){0, (long)(deadline - t)};
		if (ppoll(&p, 1, &wait, &c->waiting) < 0 && errno != EINTR)
			die_errno("waiting for the copies failed");
		take_outcomes(c);
		reap(c);
		if (p.revents & POLLHUP && !(p.revents & POLLIN))
			nanosleep(&(struct timespec){0, 1000000}, NULL); /* all have handed in and are about to end */
	}
	take_outcomes(c);
}

/* What was killed may still make a file until it is gone: the orphans of the copies come
 * to this process. At most ORPHAN_MS are waited for them. */
enum { ORPHAN_MS = 5000 };

static void outlive_orphans(void)
{
	for (int waited = 0; waited < ORPHAN_MS;) {
		pid_t p = waitpid(-1, NULL, WNOHANG);
		if (p < 0)
			return; /* there are none */
		if (p == 0) {
			nanosleep(&(struct timespec){0, 1000000}, NULL);
			waited++;
		}
	}
}

static struct crew *the_crew; /* one a process; for leave() */

static void leave(void)
{
	before_death = NULL;
	kill_copies(the_crew);
	outlive_orphans();
	remove_scratch(the_crew);
}

int crew_run(const struct options *o, const struct test *t, char **argv)
{
	struct crew *c = the_crew = pages(sizeof *c); /* no static data: see pages.c */
	c->opt = o;
	c->test = t;
	c->pid = pages(MOST_COPIES * sizeof *c->pid);
	/* Orphans of a copy come to us, so that none outlives the run. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		die_errno("orphans cannot be taken over");
	find_program(c);
	c->argv = argv;
	c->page = barrier_page(o->barrier);
	c->barrier = barrier_open(c->page, o->barrier, o->parties);
	if (pipe(c->pipe) != 0 || fcntl(c->pipe[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(c->pipe[0], F_SETFD, FD_CLOEXEC) != 0)
		die_errno("no pipe for the outcomes");
	catch_signals(c);
	enter_scratch(c);
	before_death = leave;
	if (t->prepare)
		t->prepare(o);
	start_copies(c);
	attend(c);
	if (c->code == 0 && t->after)
		t->after(o);
	before_death = NULL;
	outlive_orphans();
	int removed = remove_scratch(c);
	if (c->code == 0)
		c->code = removed;
	if (c->code == 0 && c->got != o->copies) {
		complain("%s: %d of %d copies gave an outcome", o->name, c->got, o->copies);
		c->code = EXIT_BROKEN;
	}
	return c->code;
}
