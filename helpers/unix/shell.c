/* shell-N: a script that starts N scripts at once and waits for them; each
 * sorts a text, dumps and sorts the dump, counts the lines that hold a word,
 * and removes its files. The programs are the target's own sh, sort, od, grep,
 * tee, wc and rm. */
#define _GNU_SOURCE
#include "unix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* One round of work, as UnixBench's tst.sh does it. */
static const char work_script[] =
	"sort >sorted.$$ <text\n"
	"od sorted.$$ | sort -n -k 1 >dump.$$\n"
	"grep the sorted.$$ | tee found.$$ | wc >counted.$$\n"
	"rm sorted.$$ found.$$ dump.$$ counted.$$\n";

/* N rounds at once, as its multi.sh does it: the counting is done by expr, a
 * program of its own, in 5.1.3, and by the shell in 6 (--own). */
static const char start_script[] =
	"#!%s\n"
	"round=1\n"
	"while [ $round -le $1 ]; do\n"
	"\t%s work.sh &\n"
	"\tround=%s\n"
	"done\n"
	"wait\n";

/* The round once more, outside the window, with results that can be checked. */
static const char check_script[] =
	"sort >sorted.check <text && od sorted.check | sort -n -k 1 >dump.check && "
	"grep the sorted.check | tee found.check | wc >counted.check && "
	"[ $(wc -l <sorted.check) -eq %d ] && [ $(wc -l <found.check) -eq %d ] && "
	"[ $(wc -l <dump.check) -ge %d ] && rm sorted.check dump.check found.check counted.check\n";

/* The text has the size of UnixBench's: 362 lines, 8546 bytes, 35 of the lines
 * with "the". It is made here, from a fixed sequence. */
enum { LINES = 362, BYTES = 8546, THE_LINES = 35 };

static void put_file(const char *name, const char *text, size_t size, mode_t mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0 || write(fd, text, size) != (ssize_t)size || close(fd) != 0)
		die_errno("shell: %s cannot be written", name);
}

static size_t make_text(char *out)
{
	uint32_t state = 20061;
	size_t n = 0;
	for (int line = 0; line < LINES; line++) {
		size_t end = (size_t)BYTES * (size_t)(line + 1) / LINES - 1;
		if (line * THE_LINES / LINES != (line + 1) * THE_LINES / LINES)
			n += (size_t)sprintf(out + n, "the ");
		while (n < end) {
			state = state * 1664525u + 1013904223u;
			unsigned pick = state >> 24;
			out[n++] = pick % 6 == 0 ? ' ' : (char)('a' + pick % 7 + (pick >> 5)); /* a..n: no "the" by chance */
		}
		out[n++] = '\n';
	}
	return n;
}

void shell_plan(const struct options *o)
{
	if (access(o->shell, X_OK) != 0)
		die_errno("%s: --shell %s cannot be executed", o->name, o->shell);
}

void shell_prepare(const struct options *o)
{
	char text[BYTES + 64], script[1024];
	put_file("text", text, make_text(text), 0644);
	put_file("work.sh", work_script, sizeof work_script - 1, 0644);
	int n = snprintf(script, sizeof script, start_script, o->shell, o->shell,
		o->own ? "$((round + 1))" : "`expr $round + 1`");
	if (n >= (int)sizeof script)
		die(EXIT_USAGE, "%s: --shell %s is too long", o->name, o->shell);
	put_file("start.sh", script, (size_t)n, 0755);
}

/* Runs argv and fails unless it ends well. */
static void run_program(const char *name, char *const argv[])
{
	int status;
	pid_t p = fork();
	if (p == 0) {
		execv(argv[0], argv);
		die_errno("%s: %s cannot be executed", name, argv[0]);
	}
	if (p < 0)
		die_errno("%s: fork failed", name);
	if (waitpid(p, &status, 0) != p)
		die_errno("%s: the script cannot be waited for", name);
	if (status != 0)
		die(EXIT_BROKEN, "%s: the script %s ended with wait status 0x%x (are sh, sort, od, grep, tee, wc, rm and expr there?)",
		    name, argv[1] ? argv[1] : argv[0], status);
}

/* Shows that the programs do what they should before anything is timed. */
static void try_programs(const struct run *r)
{
	char script[1024];
	snprintf(script, sizeof script, check_script, LINES, THE_LINES, BYTES / 16);
	char *const args[] = {(char *)r->opt->shell, "-c", script, NULL};
	run_program(r->opt->name, args);
}

void shell_setup(struct run *r)
{
	if (r->out.copy == 0)
		try_programs(r);
}

void shell_loop(struct run *r, uint64_t n)
{
	char scripts[16];
	snprintf(scripts, sizeof scripts, "%d", r->opt->scripts);
	char *const args[] = {"./start.sh", scripts, NULL};
	for (uint64_t i = 0; i < n; i++)
		run_program(r->opt->name, args);
}

/* The scripts hide their exit codes behind "&", but one that died on its way has
 * left files behind. A program that failed within one that lived is not seen. Called in the parent, when all copies have ended. */
static void must_be_ours(const char *name, void *test)
{
	static const char *const ours[] = {"text", "work.sh", "start.sh"};
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (strcmp(name, ours[i]) == 0)
			return;
	die(EXIT_BROKEN, "%s: a script left %s behind, so it did not run to its end", (const char *)test, name);
}

void shell_after(const struct options *o)
{
	int d = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d < 0)
		die_errno("%s: the work directory cannot be opened", o->name);
	each_entry(d, must_be_ours, (void *)o->name);
	close(d);
}

double shell_value(struct run *r, double seconds) { return r->out.within * 60 / seconds; }
