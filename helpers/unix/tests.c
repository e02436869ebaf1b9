/* The list of tests. */
#include "unix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Window lengths are those of UnixBench's Run script. */
const struct test tests[] = {
	{.name = "dhrystone2", .unit = "lps", .seconds = 10, .setup = dhrystone_setup, .loop = dhrystone_loop},
#ifndef WITHOUT_WHETSTONE
	{.name = "whetstone", .unit = "MWIPS", .seconds = 10, .least_batch = 20000000, /* 33 clock readings a batch: eight sections, two clocks */
	 .plan = whetstone_plan, .setup = whetstone_setup, .loop = whetstone_loop, .value = whetstone_value},
#endif
	{.name = "execl", .unit = "lps", .seconds = 30, .replace = execl_replace},
	{.name = "file-copy", .unit = "KBps", .seconds = 30, .plan = copy_plan, .setup = copy_setup,
	 .loop = copy_loop, .finish = copy_finish, .value = copy_value},
	{.name = "pipe-throughput", .unit = "lps", .seconds = 10, .setup = pipe_setup, .loop = pipe_loop,
	 .finish = pipe_finish},
	{.name = "pipe-context-switch", .unit = "lps", .seconds = 10, .setup = switch_setup, .loop = switch_loop,
	 .finish = switch_finish},
	{.name = "process-creation", .unit = "lps", .seconds = 30, .least_batch = 500000, /* clocks by system call */
	 .setup = spawn_setup, .loop = spawn_loop},
	{.name = "shell-1", .unit = "lpm", .seconds = 60, .plan = shell_plan, .prepare = shell_prepare,
	 .setup = shell_setup, .loop = shell_loop, .after = shell_after, .value = shell_value},
	{.name = "shell-8", .unit = "lpm", .seconds = 60, .plan = shell_plan, .prepare = shell_prepare,
	 .setup = shell_setup, .loop = shell_loop, .after = shell_after, .value = shell_value},
	{.name = "syscall", .unit = "lps", .seconds = 10, .plan = syscall_plan, .setup = syscall_setup,
	 .loop = syscall_loop},
	{.name = NULL},
};

/* Finds a test and completes the options that its name decides. The name in
 * the output says which file-copy and which variant was run. */
const struct test *find_test(const char *name, struct options *o)
{
	static char full[64];
	const struct test *t = tests;
	while (t->name && strcmp(t->name, name) != 0)
		t++;
	if (t->name == NULL)
		return NULL;
	if (strncmp(name, "shell-", 6) == 0)
		o->scripts = atoi(name + 6);
	snprintf(full, sizeof full, "%s", name);
	if (strcmp(name, "file-copy") == 0)
		snprintf(full, sizeof full, "%s-%ld", name, o->buffer);
	else if (*o->variant)
		snprintf(full, sizeof full, "%s-%.40s", name, o->variant);
	o->name = full;
	return t;
}
