//go:build ignore

/*
 * The launcher's functions that no payload can bring into the state that matters.
 * helpers_test.go compiles this with the machine's compiler and runs it.
 */
#define main launcher_main
#define kill recorded_kill
#define LIST_BYTES 32
static int recorded_kill(int pid, int signal);
#include "launch.c"
#undef main

static int killed[64], kills;

static int recorded_kill(int pid, int signal) {
	(void)signal;
	killed[kills++] = pid;
	return 0;
}

static int failed;

static void expect(int ok, const char *what) {
	if (!ok) {
		fprintf(stderr, "failed: %s\n", what);
		failed = 1;
	}
}

/* A list of children that is longer than what is read of it: at a2ee321 the last
 * number was cut, and the process of the shorter one killed. */
static void long_list(void) {
	static const char list[] = "10001 10002 10003 10004 10005 10006 10007 ";
	char name[] = "/tmp/tare-launch-test-XXXXXX";

	children = mkstemp(name);
	expect(children >= 0 && write(children, list, sizeof list - 1) == sizeof list - 1, name);
	unlink(name);
	expect(kill_children() == 5 && kills == 5, "five whole numbers fit into 31 bytes");
	for (int i = 0; i < kills; i++)
		expect(killed[i] == 10001 + i, "only processes of the list are killed");
	close(children);
	children = -1;
}

/* At a2ee321 a descriptor 3 that cannot be read kept finish busy for ever. */
static void unreadable_end(void) {
	int pid = fork(), status = 0;

	if (pid == 0) {
		alarm(10);
		if (dup2(open("/tmp", O_RDONLY | O_DIRECTORY), GO) < 0)
			_exit(2);
		finish();
		_exit(0);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0, "finish ends where descriptor 3 cannot be read");
}

int main(void) {
	long_list();
	unreadable_end();
	return failed;
}
