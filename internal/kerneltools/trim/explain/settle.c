/*
 * Reads a kernel tree's Kconfig with the tree's own parser, and settles
 * configurations as make olddefconfig does: for each line of standard input it
 * reads the first file, writes the second, and prints a line. To read the
 * Kconfig takes a second, to settle a configuration some milliseconds.
 */
#include <stdio.h>

#include "lkc.h"

int main(int argc, char **argv)
{
	char line[16];

	if (argc != 4)
		return 2;
	conf_set_message_callback(NULL);
	conf_parse(argv[1]);
	while (fgets(line, sizeof(line), stdin)) {
		if (conf_read(argv[2]) != 0 || conf_write(argv[3]) != 0)
			return 1;
		puts("settled");
		fflush(stdout);
	}
	return 0;
}
