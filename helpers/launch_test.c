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

/* A child that has ended before its signal is watched for: without pidfds nothing else
 * would tell its end. */
static void ended_before_watched(void) {
	int tester = fork(), status = 0;

	if (tester == 0) {
		int pid = fork(), go[2];

		if (pid == 0)
			_exit(0);
		alarm(10);
		if (pipe(go) || dup2(go[0], GO) < 0 || waitid(P_PID, pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT))
			_exit(2);
		watch_children();
		_exit(guard(-1, pid));
	}
	expect(waitpid(tester, &status, 0) == tester && status == 0, "guard sees a child that has ended before");
}

/* The walk below a root, which stands for openat2's RESOLVE_IN_ROOT before Linux 5.6:
 * links are followed inside. */
static void links_stay_inside(void) {
	char name[] = "/tmp/tare-launch-test-XXXXXX";
	int top, fd;

	expect(mkdtemp(name) != NULL, name);
	top = open(name, O_PATH | O_DIRECTORY);
	expect(top >= 0 && !mkdirat(top, "etc", 0755) && !symlinkat("/etc", top, "absolute") &&
		!symlinkat("../../../../../../etc", top, "up") && !symlinkat("/proc/self/root/etc", top, "magic"), "make the links");
	fd = openat(top, "etc/only-here", O_CREAT | O_WRONLY, 0600);
	expect(fd >= 0, "make the file");
	close(fd);
	expect((fd = in_tree(top, "absolute/only-here", AS_IT_IS, 1)) >= 0, "an absolute link leads inside");
	close(fd);
	expect((fd = in_tree(top, "up/only-here", AS_IT_IS, 1)) >= 0, "\"..\" stays inside");
	close(fd);
	expect(in_tree(top, "absolute/passwd", AS_IT_IS, 1) < 0, "an absolute link does not lead out");
	expect(in_tree(top, "magic/passwd", AS_IT_IS, 1) < 0, "a link of /proc does not lead out");
	expect(in_tree(top, "absolute/only-here", AS_IT_IS, 0) < 0, "no link is followed where none may be");
	unlinkat(top, "etc/only-here", 0);
	unlinkat(top, "etc", AT_REMOVEDIR);
	unlinkat(top, "absolute", 0);
	unlinkat(top, "up", 0);
	unlinkat(top, "magic", 0);
	rmdir(name);
	close(top);
}

int main(void) {
	ended_before_watched();
	links_stay_inside();
	long_list();
	unreadable_end();
	return failed;
}
