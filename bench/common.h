/* What spawn and starts have in common: a clock and the end on an error. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* now is CLOCK_MONOTONIC in nanoseconds. */
static int64_t now(void) {
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* must ends the program where err, an errno, says that what has failed. */
static void must(int err, const char *what) {
	if (!err)
		return;
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(err));
	exit(1);
}
