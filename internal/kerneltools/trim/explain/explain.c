/*
 * Reads a kernel tree's Kconfig with the tree's own parser, and a .config, and
 * says of each symbol that standard input names what decides on it: one block
 * a symbol, which begins with a line "= NAME VALUE" (VALUE is "?" for a symbol
 * that the tree does not have), has a line "Unmet: TERM" for each term of its
 * dependencies that is off, and goes on as menuconfig's search shows it.
 */
#include <stdio.h>
#include <string.h>

#include "lkc.h"

/* unmet prints the terms of a conjunction that are off: an alternative is one
 * term, and of it nothing is off while one side is on. */
static void unmet(struct expr *e)
{
	struct gstr text;

	if (!e || expr_calc_value(e) != no)
		return;
	if (e->type == E_AND) {
		unmet(e->left.expr);
		unmet(e->right.expr);
		return;
	}
	text = str_new();
	expr_gstr_print(e, &text);
	printf("Unmet: %s\n", str_get(&text));
	str_free(&text);
}

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
		unmet(found[0]->dir_dep.expr);
		text = get_relations_str(found, NULL);
		puts(str_get(&text));
		str_free(&text);
	}
	return 0;
}
