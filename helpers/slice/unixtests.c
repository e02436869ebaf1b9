/* The loops of the Unix tests (helpers/unix), as workloads that take turns. */
#include "slice.h"
#include "../unix/unix.h"

#include <string.h>

static struct run run;
static struct options options;

void unix_setup(const struct work *w)
{
	options = (struct options){.copies = 1, .dir = ".", .variant = "", .shell = "/bin/sh", .own = own_files, .buffer = w->buffer, .blocks = w->blocks};
	const struct test *t = find_test(w->test, &options);
	if (t == NULL)
		die(EXIT_BROKEN, "%s: no Unix test has the name %s", w->name, w->test);
	run = (struct run){.opt = &options, .test = t, .report = -1, .program = self};
	run.out.copy = copy;
	if (t->plan)
		t->plan(&options);
	if (t->prepare)
		t->prepare(&options);
	if (t->setup)
		t->setup(&run);
	if (strcmp(w->test, "pipe-context-switch") == 0)
		helper = run.pipes.slave;
}

void unix_loop(uint64_t n)
{
	run.test->loop(&run, n);
	run.out.count += n;
}
