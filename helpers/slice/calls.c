/* Single system calls, names, and programs that replace themselves. */
#define _GNU_SOURCE
#include "slice.h"
#include "../unix/unix.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* By number, for some C libraries answer from memory. */
void getpid_loop(uint64_t n)
{
	long self_id = getpid(), other = 0;
	for (uint64_t i = 0; i < n; i++)
		other |= syscall(SYS_getpid) ^ self_id;
	if (other)
		die(EXIT_BROKEN, "getpid: a wrong result");
}

/* By the C library: without a system call where the kernel's vDSO serves it. */
void clock_loop(uint64_t n)
{
	struct timespec t, last = {0, 0};
	for (uint64_t i = 0; i < n; i++) {
		if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
			die_errno("clock: cannot be read");
		if (t.tv_sec < last.tv_sec || (t.tv_sec == last.tv_sec && t.tv_nsec < last.tv_nsec))
			die(EXIT_BROKEN, "clock: it runs backwards");
		last = t;
	}
}

void clock_call_loop(uint64_t n)
{
	struct timespec t;
	long failed = 0;
	for (uint64_t i = 0; i < n; i++)
		failed |= syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	if (failed)
		die_errno("clock-syscall: cannot be read");
}

void random_loop(uint64_t n)
{
	unsigned char bytes[16];
	for (uint64_t i = 0; i < n; i++)
		if (syscall(SYS_getrandom, bytes, sizeof bytes, 0) != (long)sizeof bytes)
			die_errno("getrandom: fewer bytes than asked for");
}

/* name-lookup: finds a user by name in /etc/passwd of the workbench, which no
 * engine replaces, as it does /etc/hosts; and no name server is asked. */
static const char user_name[] = "nobody";

void name_loop(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		const struct passwd *found = getpwnam(user_name);
		if (found == NULL || found->pw_uid != 65534)
			die_errno("name-lookup: /etc/passwd has no user %s with the id 65534", user_name);
	}
}

/* execl: a child replaces itself by itself, one image an iteration. */
void exec_loop(uint64_t n)
{
	char left[24];
	int status;
	snprintf(left, sizeof left, "%llu", (unsigned long long)n);
	pid_t p = fork();
	if (p == 0) {
		execl(self, self, "exec-step", left, (char *)NULL);
		die_errno("execl: %s cannot be executed", self);
	}
	if (p < 0 || waitpid(p, &status, 0) != p)
		die_errno("execl: no child process");
	if (status != 0)
		die(EXIT_BROKEN, "execl: the last image ended with wait status 0x%x", status);
}

/* One of the images: argv[2] counts those that are left, itself among them. */
int exec_step(int argc, char **argv)
{
	char *end, next[24];
	unsigned long long left = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
	if (left == 0 || *end)
		die(EXIT_BROKEN, "execl: the count did not arrive");
	if (left == 1)
		return EXIT_RAN;
	snprintf(next, sizeof next, "%llu", left - 1);
	execl(argv[0], argv[0], "exec-step", next, (char *)NULL);
	die_errno("execl: image %s of %s cannot be executed", argv[2], argv[0]);
}
