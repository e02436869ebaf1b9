/* syscall: a loop of cheap system calls. The default mix duplicates and closes
 * descriptor 0, asks for the process and user id and sets the file mask.
 *
 * Descriptor 0 is inherited, so all copies of a crew work on one open file and
 * contend for its reference count, as in UnixBench 5.1.3; --own gives each
 * copy a file of its own, as UnixBench 6 does. */
#define _GNU_SOURCE
#include "unix.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const variants[] = {"mix", "getpid", "close", "exec"};

void syscall_plan(const struct options *o)
{
	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
		if (*o->variant == 0 || strcmp(o->variant, variants[i]) == 0)
			return;
	die(EXIT_USAGE, "--variant %s: must be mix, getpid, close or exec", o->variant);
}

static void check_dup(int fd)
{
	int copy = dup(fd);
	if (copy < 0)
		die_errno("syscall: descriptor %d cannot be duplicated (is stdin closed?)", fd);
	if (close(copy) != 0)
		die_errno("syscall: duplicate of descriptor %d cannot be closed", fd);
	if (copy > 64)
		die(EXIT_BROKEN, "syscall: duplicate has the number %d: descriptors leak", copy);
}

void syscall_setup(struct run *r)
{
	int ends[2];
	r->fd[0] = STDIN_FILENO;
	if (r->opt->own) {
		if (pipe(ends) != 0 || close(ends[1]) != 0)
			die_errno("syscall: no pipe");
		r->fd[0] = ends[0];
	}
	check_dup(r->fd[0]);
}

/* The calls go to the kernel each time: getpid by number, for some C libraries
 * answer it from memory. Results are summed up and checked after the batch. */
static void mix(int fd, uint64_t n)
{
	long failed = 0;
	mode_t masks = 022;
	umask(022);
	for (uint64_t i = 0; i < n; i++) {
		failed |= close(dup(fd));
		failed |= syscall(SYS_getpid) <= 0;
		failed |= getuid() == (uid_t)-1;
		masks |= umask(022);
	}
	if (failed || masks != 022)
		die(EXIT_BROKEN, "syscall: a call in the mix failed or gave a wrong result");
}

static void only_getpid(uint64_t n)
{
	long self = getpid(), other = 0;
	for (uint64_t i = 0; i < n; i++)
		other |= syscall(SYS_getpid) ^ self;
	if (other)
		die(EXIT_BROKEN, "syscall: getpid gave a wrong result");
}

static void only_close(int fd, uint64_t n)
{
	int failed = 0;
	for (uint64_t i = 0; i < n; i++)
		failed |= close(dup(fd));
	if (failed)
		die_errno("syscall: close(dup) failed");
}

static void run_true(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		int status;
		pid_t p = fork();
		if (p == 0) {
			execl("/bin/true", "/bin/true", (char *)NULL);
			die_errno("syscall: /bin/true cannot be executed");
		}
		if (p < 0 || waitpid(p, &status, 0) != p)
			die_errno("syscall: no child process");
		if (status != 0)
			die(EXIT_BROKEN, "syscall: /bin/true ended with wait status 0x%x", status);
	}
}

void syscall_loop(struct run *r, uint64_t n)
{
	switch (r->opt->variant[0]) {
	case 'g': only_getpid(n); break;
	case 'c': only_close(r->fd[0], n); break;
	case 'e': run_true(n); break;
	default: mix(r->fd[0], n);
	}
}
