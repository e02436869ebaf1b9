//go:build ignore

/*
 * mark: says that the payload acted, then becomes the payload.
 *
 *     mark [-line] [-gate] [-hold | -exit CODE | -- CMD ARG...]
 *
 * It writes the twelve bytes NUL "tare:acted" NUL to standard output in one
 * write, then executes CMD, found by PATH, in the same process. The laboratory
 * stamps the write with its own clock and cuts the bytes out of the stream. A
 * container client that has returned proves nothing; a process that has written
 * from inside does. With -hold it then waits, with no file open, until SIGTERM or
 * SIGKILL ends it. With -exit it reads standard input up to a byte or its end, and ends
 * with CODE: what proofs of targets run, so that they need no program of this machine.
 *
 * -line is for a target that passes output on by lines: a newline follows the
 * mark in the same write. -gate is for one whose client attaches to the streams
 * only after the start: before CMD, each byte of standard input is written to
 * both outputs, up to and with the first EOT (4). The client sends bytes until
 * some come back on both streams; then it is attached, and sends the EOT.
 *
 * Exit codes as a shell's: 127 CMD not found, 126 found but not executable.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const char acted[] = "\0tare:acted\0\n"; /* and a NUL that is not written */

static const char eot = 4;

static void say(const char *s) {
	/* Nothing is left to try when standard error cannot be written. */
	if (write(2, s, strlen(s)) < 0)
		_exit(126);
}

static int fail(int code, const char *cmd, const char *why) {
	say("mark: ");
	say(cmd);
	say(": ");
	say(why);
	say("\n");
	return code;
}

/* why_not explains a file that exists and that the kernel would not execute. */
static int why_not(const char *file, int err) {
	char head[2] = { 0, 0 };
	int fd;

	switch (err) {
	case ENOENT: /* the file is there, so what it asks for is not */
		fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, head, 2) == 2 && head[0] == '#' && head[1] == '!')
			return fail(126, file, "its interpreter (the path after #!) does not exist here");
		return fail(126, file, "its dynamic loader does not exist here");
	case EACCES:
		return fail(126, file, "is not executable (no permission, or a directory)");
	case ENOEXEC:
		return fail(126, file, "is not an executable of this machine (other architecture, or no #! line)");
	case E2BIG:
		return fail(126, file, "arguments and environment are too long");
	case ENOMEM:
		return fail(126, file, "not enough memory to execute it");
	}
	return fail(126, file, "cannot be executed");
}

/* attempt executes file, and returns only where there is none of that name. */
static void attempt(const char *file, char **argv, char **envp) {
	int err;

	execve(file, argv, envp);
	err = errno;
	if ((err == ENOENT || err == ENOTDIR) && access(file, F_OK) != 0)
		return;
	_exit(why_not(file, err));
}

static const char *path_of(char **envp) {
	for (; *envp; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

static void search(char **argv, char **envp) {
	static char file[PATH_MAX];
	const char *dir = path_of(envp), *end;
	size_t name = strlen(argv[0]);

	for (;; dir = end + 1) {
		end = strchr(dir, ':');
		if (!end)
			end = dir + strlen(dir);
		size_t n = end - dir;
		if (n + name + 2 <= sizeof file) {
			memcpy(file, dir, n);
			if (n)
				file[n++] = '/';
			memcpy(file + n, argv[0], name + 1);
			attempt(file, argv, envp);
		}
		if (!*end)
			return;
	}
}

static void leave(int signal) {
	(void)signal;
	_exit(0);
}

/* hold waits for its end. Process 1 of a namespace gets no signal that it does
 * not handle, so an engine's polite stop needs the handler. */
static int hold(void) {
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (signal(SIGTERM, leave) == SIG_ERR)
		return 126;
	for (;;)
		pause();
}

/* number reads a decimal number from 0 to 255; -1 for anything else. */
static int number(const char *text) {
	int n = 0;

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || (n = 10 * n + *text - '0') > 255)
			return -1;
	}
	return n;
}

static int leave_with(const char *text) {
	int code = number(text);
	ssize_t n;
	char byte;

	if (code < 0)
		return fail(126, text, "is not an exit code from 0 to 255");
	do
		n = read(0, &byte, 1);
	while (n < 0 && errno == EINTR);
	return code;
}

/* gate waits until the client is attached to the streams. */
static int gate(void) {
	char c;

	do {
		if (read(0, &c, 1) != 1)
			return fail(126, "standard input", "ended before the client was attached");
		if (write(1, &c, 1) != 1 || write(2, &c, 1) != 1)
			return fail(126, "an output", "cannot be written");
	} while (c != eot);
	return 0;
}

/* option reports whether the next argument is this option, and steps over it. */
static int option(char ***argv, const char *name) {
	if (!(*argv)[0] || strcmp((*argv)[0], name) != 0)
		return 0;
	++*argv;
	return 1;
}

int main(int argc, char **argv, char **envp) {
	argv += argc > 0;
	ssize_t length = sizeof acted - (option(&argv, "-line") ? 1 : 2);

	/* Nobody reads the mark of a pod's sandbox, which holds: that may be no stream. */
	if (write(1, acted, length) != length && (!argv[0] || strcmp(argv[0], "-hold") != 0))
		return fail(126, "standard output", "cannot be written");
	if (option(&argv, "-gate") && gate() != 0)
		return 126;
	if (!argv[0])
		return 0;
	if (strcmp(argv[0], "-hold") == 0 && !argv[1])
		return hold();
	if (strcmp(argv[0], "-exit") == 0 && argv[1] && !argv[2])
		return leave_with(argv[1]);
	if (!option(&argv, "--"))
		return fail(126, argv[0], "usage: mark [-line] [-gate] [-hold | -exit CODE | -- CMD ARG...]");
	if (!argv[0])
		return 0;
	if (!*argv[0])
		return fail(127, "\"\"", "an empty command");
	if (strchr(argv[0], '/'))
		attempt(argv[0], argv, envp);
	else
		search(argv, envp);
	return fail(127, argv[0], "not found here");
}
