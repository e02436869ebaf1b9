/* unix: the Unix workloads, one subcommand per test, in one static program. The same
 * source gives two dynamic ones: unix-gnu, which needs the C library alone, as most of
 * UnixBench's programs do, and whetstone-gnu, which needs libm besides.
 *
 * Each test does what the test of the same name in UnixBench 5.1.3 does, so
 * that its score can be put beside published ones; the code is our own. The
 * definitions and their sources are in docs/unix-index.md.
 *
 * A run is a crew of --copies processes. Each prepares, meets the others at
 * a barrier, works through a timed window and hands one outcome to the parent,
 * which prints it as one line of JSON.
 */
#ifndef TARE_UNIX_H
#define TARE_UNIX_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdnoreturn.h>

/* Exit codes of the program. A signal that ended the run gives 128+signal. */
enum {
	EXIT_RAN = 0,     /* every copy has printed its line */
	EXIT_BROKEN = 1,  /* a copy failed: the reason is on stderr */
	EXIT_USAGE = 2,   /* the command line is wrong */
	EXIT_BARRIER = 3, /* the others did not arrive in time, or one of them failed */
	EXIT_TIMEOUT = 4, /* the window did not end within --timeout */
};

enum { MOST_COPIES = 4096 };

/* What was asked for; the same in every copy. */
struct options {
	const char *name;    /* as it stands in the output: "shell-8" */
	double seconds;      /* length of the window; 0 when count rules */
	uint64_t count;      /* iterations to do; 0 when seconds rule */
	int copies;
	const char *dir;     /* where the work directory is made */
	const char *barrier; /* file, or NULL: the crew alone */
	int parties;         /* copies that meet at the barrier, over all crews; 0: the barrier's page says it */
	double barrier_seconds;
	double timeout;      /* of the whole run, from the barrier on */
	const char *shell;
	const char *variant; /* "" is the test's own default */
	int own;             /* 1: each copy has its own files (as UnixBench 6), 0: shared (as 5.1.3) */
	long buffer;         /* file-copy: bytes per read and write */
	long blocks;         /* file-copy: size of the file in KiB */
	int scripts;         /* shell: scripts at once */
};

/* What one copy found out. */
struct outcome {
	int32_t copy;
	int32_t ok; /* 1: measured and checked */
	uint64_t count;      /* iterations done, to the end of the last batch */
	double within;       /* those within the window: of the last batch a part */
	uint64_t start, end; /* CLOCK_MONOTONIC, ns */
	uint64_t first;      /* when its first iteration began; after start, where it waited for a CPU */
	double cpu;          /* seconds of this copy and its children, for all of count */
	double value;        /* in the test's unit, by wall time */
	double cpu_value;    /* the same by CPU time; 0 where a test has none */
	uint64_t readings;   /* of clocks in the window */
	double section[8];   /* whetstone: CPU seconds of each section */
};

/* One copy at work; its working directory is the crew's own. */
struct run {
	const struct options *opt;
	const struct test *test;
	struct outcome out;
	int report;            /* descriptor that takes the outcome */
	const char *program;   /* absolute path of this program, for execl */
	union {
		int fd[4];
		struct {
			int to, from;
			int slave;
		} pipes;
	};
};

/* One test. loop is the timed part; every other hook lies outside the clock
 * and may be NULL. All hooks end the process with die() when they fail. */
struct test {
	const char *name;
	const char *unit;
	double seconds;                               /* UnixBench's own length */
	uint64_t least_batch;                         /* ns: a batch is at least this long, and at most twice, so that its own timers do not weigh; 0 = none */
	void (*plan)(const struct options *);         /* checks the options, in the parent */
	void (*prepare)(const struct options *);      /* once, in the work directory, before the copies */
	void (*setup)(struct run *);                  /* in the copy, before the barrier */
	void (*loop)(struct run *, uint64_t n);       /* n iterations */
	void (*finish)(struct run *);                 /* after the window: end helpers, check results */
	void (*after)(const struct options *);        /* once, in the parent, when all copies have ended well */
	double (*value)(struct run *, double seconds); /* NULL: count / seconds */
	void (*replace)(struct run *);                /* instead of loop: a test that replaces its process */
};

extern const struct test tests[];

/* tests.c */
const struct test *find_test(const char *name, struct options *o);

/* clock.c: all times in ns, or seconds where double */
uint64_t now(void);
extern int clock_by_call; /* 1: read clocks by system call. The kernel's page for reading them without one, once
	touched, is copied by every fork: 4 % of process-creation. Set before the first reading. */
extern uint64_t clock_readings; /* so far, of this process */
double cpu_seconds(void);      /* this process and its reaped children */
double child_cpu_seconds(void); /* of reaped children */
double own_cpu_seconds(void);  /* this process alone */

/* pages.c */
void *pages(size_t size);

/* directory.c */
void each_entry(int directory, void (*visit)(const char *name, void *), void *);

/* window.c */
void timed_window(struct run *, uint64_t start);
int add_batch(struct outcome *, uint64_t n, uint64_t last, uint64_t t, uint64_t length);
void hand_in(struct run *);

/* barrier.c */
struct barrier;
int barrier_page(const char *file);
struct barrier *barrier_open(int page, const char *file, int parties);
uint64_t barrier_wait(struct barrier *, double seconds);
int barrier_released(const struct barrier *);
void barrier_abort(struct barrier *);
void barrier_close(struct barrier *);

/* crew.c */
int crew_run(const struct options *, const struct test *, char **argv);
noreturn void crew_copy(const struct options *, const struct test *, char **argv);
extern const char copy_word[]; /* as first argument: this image is a copy */
enum { COPY_ARGUMENTS = 5 };   /* that stand before those of the command line */

/* report.c */
noreturn void die(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
noreturn void die_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern void (*before_death)(void); /* what die must do first, or NULL */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_outcome(const struct options *, const struct test *, const struct outcome *);

/* the tests' hooks */
void dhrystone_setup(struct run *);
void dhrystone_loop(struct run *, uint64_t n);
void whetstone_plan(const struct options *);
void whetstone_setup(struct run *);
void whetstone_loop(struct run *, uint64_t n);
double whetstone_value(struct run *, double seconds);
void syscall_plan(const struct options *);
void syscall_setup(struct run *);
void syscall_loop(struct run *, uint64_t n);
void pipe_setup(struct run *);
void pipe_loop(struct run *, uint64_t n);
void pipe_finish(struct run *);
void switch_setup(struct run *);
void switch_loop(struct run *, uint64_t n);
void switch_finish(struct run *);
void spawn_setup(struct run *);
void spawn_loop(struct run *, uint64_t n);
void execl_replace(struct run *);
int execl_resume(int argc, char **argv);
void copy_plan(const struct options *);
void copy_setup(struct run *);
void copy_loop(struct run *, uint64_t n);
void copy_finish(struct run *);
double copy_value(struct run *, double seconds);
void shell_plan(const struct options *);
void shell_prepare(const struct options *);
void shell_setup(struct run *);
void shell_loop(struct run *, uint64_t n);
void shell_after(const struct options *);
double shell_value(struct run *, double seconds);

#endif
