/* The command line. */
#include "unix.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: unix TEST [options]      run a test, one line of JSON per copy\n"
	"       unix list                the tests with their units and lengths\n"
	"\n"
	"  --seconds S          length of the timed window (default: UnixBench's)\n"
	"  --count N            or: iterations to do\n"
	"  --copies N           copies at once (default 1)\n"
	"  --dir DIR            where temporary files go (default .)\n"
	"  --barrier FILE       start together with other crews that share FILE\n"
	"  --parties N          copies that meet there, over all crews (default: what FILE says)\n"
	"  --barrier-timeout S  how long to wait for them (default 60)\n"
	"  --timeout S          end the run S seconds after the start (default 3 x seconds + 60;\n"
	"                       3600 with --count)\n"
	"  --own                own files for each copy, as UnixBench 6; default: shared, as 5.1.3\n"
	"  --variant V          syscall: mix, getpid, close, exec; whetstone: kept, as-compiled\n"
	"  --buffer B           file-copy: bytes per read and write (1024)\n"
	"  --blocks K           file-copy: size of the file in KiB (2000)\n"
	"  --shell PATH         shell-N: the shell (/bin/sh)\n"
	"\n"
	"exit: 0 measured, 1 a copy failed, 2 usage, 3 barrier, 4 time-out, 128+n signal n\n";

enum { SECONDS = 256, COUNT, COPIES, DIR_, BARRIER, PARTIES, BARRIER_TIMEOUT, TIMEOUT, OWN, VARIANT, BUFFER, BLOCKS, SHELL };

static const struct option long_options[] = {
	{"seconds", 1, NULL, SECONDS}, {"count", 1, NULL, COUNT}, {"copies", 1, NULL, COPIES},
	{"dir", 1, NULL, DIR_}, {"barrier", 1, NULL, BARRIER}, {"parties", 1, NULL, PARTIES},
	{"barrier-timeout", 1, NULL, BARRIER_TIMEOUT}, {"timeout", 1, NULL, TIMEOUT}, {"own", 0, NULL, OWN},
	{"variant", 1, NULL, VARIANT}, {"buffer", 1, NULL, BUFFER}, {"blocks", 1, NULL, BLOCKS},
	{"shell", 1, NULL, SHELL}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0},
};

static double number(const char *option, double least, double most)
{
	char *end;
	errno = 0;
	double v = strtod(optarg, &end);
	if (errno || end == optarg || *end || !(v >= least && v <= most))
		die(EXIT_USAGE, "--%s %s: must be a number from %g to %g", option, optarg, least, most);
	return v;
}

static uint64_t whole(const char *option, double least, double most)
{
	double v = number(option, least, most);
	if (v != (double)(uint64_t)v)
		die(EXIT_USAGE, "--%s %s: must be a whole number", option, optarg);
	return (uint64_t)v;
}

static void take(struct options *o, int c)
{
	switch (c) {
	case SECONDS: o->seconds = number("seconds", 0.01, 86400); break;
	case COUNT: o->count = whole("count", 1, 1e15); break;
	case COPIES: o->copies = (int)whole("copies", 1, MOST_COPIES); break;
	case DIR_: o->dir = optarg; break;
	case BARRIER: o->barrier = optarg; break;
	case PARTIES: o->parties = (int)whole("parties", 1, 1e6); break;
	case BARRIER_TIMEOUT: o->barrier_seconds = number("barrier-timeout", 0.01, 86400); break;
	case TIMEOUT: o->timeout = number("timeout", 0.01, 864000); break;
	case OWN: o->own = 1; break;
	case VARIANT: o->variant = optarg; break;
	case BUFFER: o->buffer = (long)whole("buffer", 1, 1 << 20); break;
	case BLOCKS: o->blocks = (long)whole("blocks", 1, 1 << 20); break;
	case SHELL: o->shell = optarg; break;
	case 'h': exit(dprintf(STDOUT_FILENO, "%s", usage) < 0 ? EXIT_BROKEN : EXIT_RAN);
	default: dprintf(STDERR_FILENO, "%s", usage); exit(EXIT_USAGE);
	}
}

static void complete(struct options *o, const struct test *t)
{
	if (o->count && o->seconds > 0)
		die(EXIT_USAGE, "--seconds and --count exclude each other");
	if (!o->count && o->seconds == 0)
		o->seconds = t->seconds;
	if (o->timeout == 0)
		o->timeout = o->count ? 3600 : 3 * o->seconds + 60;
	if (o->parties == 0 && o->barrier == NULL)
		o->parties = o->copies;
	if (o->parties && o->parties < o->copies)
		die(EXIT_USAGE, "--parties %d: fewer than --copies %d", o->parties, o->copies);
	if (o->parties > o->copies && o->barrier == NULL)
		die(EXIT_USAGE, "--parties %d: needs --barrier FILE, where the others arrive", o->parties);
}

static int list(void)
{
	for (const struct test *t = tests; t->name; t++)
		if (dprintf(STDOUT_FILENO, "%s\t%s\t%g\n", t->name, t->unit, t->seconds) < 0)
			return EXIT_BROKEN;
	return EXIT_RAN;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "execl-next") == 0)
		return execl_resume(argc, argv);
	if (argc > 1 && strcmp(argv[1], "list") == 0)
		return list();
	if (argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--help") != 0)) {
		dprintf(STDERR_FILENO, "%s", usage);
		return EXIT_USAGE;
	}
	char **whole = argv;
	int is_copy = argc > COPY_ARGUMENTS && strcmp(argv[1], copy_word) == 0;
	if (is_copy) {
		argv += COPY_ARGUMENTS;
		argc -= COPY_ARGUMENTS;
	}
	struct options o = {.copies = 1, .dir = ".", .barrier_seconds = 60, .variant = "", .shell = "/bin/sh",
		.buffer = 1024, .blocks = 2000};
	for (int c; (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1;)
		take(&o, c);
	if (optind != argc - 1)
		die(EXIT_USAGE, "exactly one test is wanted, %d given", argc - optind);
	const struct test *t = find_test(argv[optind], &o);
	if (t == NULL)
		die(EXIT_USAGE, "there is no test \"%s\"; \"unix list\" names them", argv[optind]);
	complete(&o, t);
	if (is_copy)
		crew_copy(&o, t, whole);
	if (t->plan)
		t->plan(&o);
	return crew_run(&o, t, argv);
}
