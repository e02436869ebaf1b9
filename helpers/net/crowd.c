/* The containers on a network that nobody measures: they do nothing, send a little, or
 * do a measured command again and again. */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* runs says so, in the words of a server that listens. */
static void runs(void) {
	if (puts("net: listening") == EOF || fflush(stdout))
		die("standard output");
}

int do_nothing(char **a) {
	(void)a;
	runs();
	for (;;)
		pause();
}

enum { CHATTER_MS = 100, CHATTER_BYTES = 64 };

/* chatter sends ten datagrams a second, each of which may be lost. */
int send_a_little(char **a) {
	struct timespec every = { 0, CHATTER_MS * 1000000L };
	char datagram[CHATTER_BYTES] = { 0 };
	struct place at;

	parse_place(a[0], &at);
	int fd = connect_to(&at, SOCK_DGRAM);
	for (runs();; nanosleep(&every, NULL))
		if (write(fd, datagram, sizeof datagram) < 0 && errno != ECONNREFUSED && errno != EAGAIN && errno != EHOSTUNREACH && errno != ENOBUFS)
			die("send");
}

enum { PAUSE_MS = 5, FAILURES = 2000 }; /* ten seconds, in which the other end starts again */

/* again runs a command until it is killed. One that fails is run again too, because the
 * other end may be between two of its own, but not for long. */
int do_again(char **a) {
	struct timespec pause = { 0, PAUSE_MS * 1000000L };
	int failures = 0, said = 0, null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!a[0] || strcmp(a[0], "--") != 0 || !a[1])
		return -1;
	if (null < 0)
		die("/dev/null");
	for (;;) {
		int status;
		pid_t pid = fork();
		if (pid < 0)
			die("fork");
		if (pid == 0) {
			if (prctl(PR_SET_PDEATHSIG, SIGKILL))
				die("prctl");
			if (dup2(null, 1) < 0) /* what it prints would stand between lines of ours */
				die("/dev/null");
			execvp(a[1], a + 1);
			die(a[1]);
		}
		if (!said++)
			runs();
		while (waitpid(pid, &status, 0) < 0)
			if (errno != EINTR)
				die("wait");
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			failures = 0;
			continue;
		}
		if (++failures == FAILURES)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		nanosleep(&pause, NULL);
	}
}
