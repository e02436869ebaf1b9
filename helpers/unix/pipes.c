/* pipe-throughput: one process writes 512 bytes into a pipe and reads them back.
 * pipe-context-switch: two processes hand a growing number back and forth
 * through two pipes; one round trip is one count. */
#define _GNU_SOURCE
#include "unix.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 512 };

void pipe_setup(struct run *r)
{
	if (pipe(r->fd) != 0)
		die_errno("pipe-throughput: no pipe");
}

void pipe_loop(struct run *r, uint64_t n)
{
	char buffer[CHUNK];
	for (int i = 0; i < CHUNK; i++)
		buffer[i] = (char)(i * 7 + (int)(r->out.count & 0x7f));
	char sent[CHUNK];
	memcpy(sent, buffer, CHUNK);
	for (uint64_t i = 0; i < n; i++) {
		if (write(r->fd[1], buffer, CHUNK) != CHUNK)
			die_errno("pipe-throughput: write of %d bytes failed", CHUNK);
		if (read(r->fd[0], buffer, CHUNK) != CHUNK)
			die_errno("pipe-throughput: read of %d bytes failed", CHUNK);
	}
	if (memcmp(sent, buffer, CHUNK) != 0)
		die(EXIT_BROKEN, "pipe-throughput: other bytes came back than were sent");
}

/* Nothing may be left in the pipe: every chunk written was read. */
void pipe_finish(struct run *r)
{
	char rest;
	if (close(r->fd[1]) != 0)
		die_errno("pipe-throughput: close failed");
	if (read(r->fd[0], &rest, 1) != 0)
		die(EXIT_BROKEN, "pipe-throughput: the pipe was not empty at the end");
}

static noreturn void be_slave(int from, int to)
{
	uint64_t expected = 0, got;
	for (;; expected++) {
		ssize_t n = read(from, &got, sizeof got);
		if (n == 0)
			_exit(0); /* the master has closed its end: done */
		if (n != sizeof got)
			die_errno("pipe-context-switch: slave cannot read");
		if (got != expected)
			die(EXIT_BROKEN, "pipe-context-switch: slave expected %llu, got %llu",
			    (unsigned long long)expected, (unsigned long long)got);
		if (write(to, &expected, sizeof expected) != sizeof expected)
			die_errno("pipe-context-switch: slave cannot write");
	}
}

void switch_setup(struct run *r)
{
	int there[2], back[2];
	if (pipe(there) != 0 || pipe(back) != 0)
		die_errno("pipe-context-switch: no pipes");
	pid_t self = getpid(), p = fork();
	if (p < 0)
		die_errno("pipe-context-switch: no slave");
	if (p == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
			_exit(EXIT_BROKEN);
		close(there[1]);
		close(back[0]);
		close(r->report);
		be_slave(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	r->pipes.to = there[1];
	r->pipes.from = back[0];
	r->pipes.slave = p;
}

void switch_loop(struct run *r, uint64_t n)
{
	for (uint64_t i = r->out.count; i < r->out.count + n; i++) {
		uint64_t got;
		if (write(r->pipes.to, &i, sizeof i) != sizeof i)
			die_errno("pipe-context-switch: master cannot write");
		if (read(r->pipes.from, &got, sizeof got) != sizeof got)
			die_errno("pipe-context-switch: master cannot read (did the slave die?)");
		if (got != i)
			die(EXIT_BROKEN, "pipe-context-switch: master expected %llu, got %llu",
			    (unsigned long long)i, (unsigned long long)got);
	}
}

void switch_finish(struct run *r)
{
	int status;
	if (close(r->pipes.to) != 0)
		die_errno("pipe-context-switch: close failed");
	if (waitpid(r->pipes.slave, &status, 0) != r->pipes.slave)
		die_errno("pipe-context-switch: slave cannot be waited for");
	if (status != 0)
		die(EXIT_BROKEN, "pipe-context-switch: slave ended with wait status 0x%x", status);
}
