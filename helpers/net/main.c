#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void die(const char *what) {
	if (errno)
		fprintf(stderr, "net: %s: %s\n", what, strerror(errno));
	else
		fprintf(stderr, "net: %s\n", what);
	exit(1);
}

long number(const char *text, long low, long high) {
	char *end;

	errno = 0;
	long n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < low || n > high) {
		errno = EINVAL;
		die(text);
	}
	return n;
}

/* pin takes the first of the CPUs that may be used, or for a server that is to
 * be apart the second. */
void pin(const char *role, const char *how) {
	cpu_set_t allowed, one;
	int skip = strcmp(how, "apart") == 0 && strcmp(role, "server") == 0;

	if (strcmp(how, "free") == 0)
		return;
	errno = EINVAL;
	if (strcmp(how, "apart") != 0 && strcmp(how, "same") != 0)
		die(how);
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		die("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || skip-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof one, &one))
			die("sched_setaffinity");
		return;
	}
	errno = 0;
	die("two ends that are to be apart need two CPUs, and only one may be used");
}

static int as(char **a) {
	if (!a[0] || !a[1] || !a[2] || strcmp(a[2], "--") != 0 || !a[3])
		return -1;
	pin(a[0], a[1]);
	execvp(a[3], a + 3);
	die(a[3]);
}

static const struct {
	const char *name;
	int nargs; /* exactly; -1: checked by itself */
	int (*run)(char **);
} commands[] = {
	{ "as", -1, as },
	{ "both", -1, both },
	{ "ready", -1, ready },
	{ "serve", 1, serve },
	{ "rtt", 4, rtt },
	{ "connect", 2, connections },
	{ "packets", 3, packets },
	{ "stream", 3, stream },
	{ "open", 10, open_loop },
	{ "relay", 3, relay },
	{ "idle", 0, do_nothing },
	{ "chatter", 1, send_a_little },
	{ "again", -1, do_again },
};

int main(int argc, char **argv) {
	signal(SIGPIPE, SIG_IGN); /* a peer that went away is an error of write */
	for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		if (commands[i].nargs >= 0 && argc - 2 != commands[i].nargs)
			break;
		int code = commands[i].run(argv + 2);
		if (code >= 0)
			return fflush(stdout) ? 1 : code;
	}
	fprintf(stderr, "usage: net as|both|ready|serve|rtt|connect|packets|stream|open|relay|idle|chatter|again ARG...\n");
	return 2;
}
