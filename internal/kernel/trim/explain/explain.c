/*
 * Reads a kernel tree's Kconfig with the tree's own parser, and a .config, and
 * says of each symbol that standard input names what decides on it: one block
 * a symbol, which begins with a line "= NAME VALUE" (VALUE is "?" for a symbol
 * that the tree does not have) and goes on as menuconfig's search shows it.
 */
#include <stdio.h>
#include <string.h>

#include "lkc.h"

int main(int argc, char **argv)
{
	char name[256];

	if (argc != 2)
		return 2;
	conf_parse(argv[1]);
	if (conf_read(NULL) != 0)
		return 1;
	while (fgets(name, sizeof(name), stdin)) {
		struct symbol *found[2] = { NULL, NULL };
		struct gstr text;

		name[strcspn(name, "\n")] = 0;
		found[0] = sym_find(name);
		if (!found[0] || found[0]->type == S_UNKNOWN) {
			printf("= %s ?\n", name);
			continue;
		}
		sym_calc_value(found[0]);
		printf("= %s %s\n", name, sym_get_string_value(found[0]));
		text = get_relations_str(found, NULL);
		puts(str_get(&text));
		str_free(&text);
	}
	return 0;
}
