/* dhrystone2: the half of Dhrystone 2.1 that holds the main loop. Register
 * variables are declared as in UnixBench's "dhry2reg". See dhrystone.h. */
#include "dhrystone.h"
#include "unix.h"

#include <string.h>

struct record *ptr_glob, *next_ptr_glob;
int int_glob, bool_glob;
char ch_1_glob, ch_2_glob;
int *arr_1_glob;       /* array1 */
int (*arr_2_glob)[50]; /* array2; both outside the program's data, see pages() */

static struct record records[2];

static void proc_3(struct record **result)
{
	if (ptr_glob != NULL)
		*result = ptr_glob->next;
	proc_7(10, int_glob, &ptr_glob->variant.one.number);
}

static void proc_1(register struct record *p)
{
	register struct record *next = p->next;
	*p->next = *ptr_glob;
	p->variant.one.number = 5;
	next->variant.one.number = p->variant.one.number;
	next->next = p->next;
	proc_3(&next->next);
	if (next->discr == IDENT_1) {
		next->variant.one.number = 6;
		proc_6(p->variant.one.kind, &next->variant.one.kind);
		next->next = ptr_glob->next;
		proc_7(next->variant.one.number, 10, &next->variant.one.number);
	} else {
		*p = *p->next;
	}
}

static void proc_2(int *number)
{
	int local = *number + 10;
	enum ident kind = IDENT_2;
	do
		if (ch_1_glob == 'A') {
			local -= 1;
			*number = local - int_glob;
			kind = IDENT_1;
		}
	while (kind != IDENT_1);
}

static void proc_4(void)
{
	int is_a = ch_1_glob == 'A';
	bool_glob = is_a | bool_glob;
	ch_2_glob = 'B';
}

static void proc_5(void)
{
	ch_1_glob = 'A';
	bool_glob = 0;
}

static void reset(void)
{
	next_ptr_glob = &records[0];
	ptr_glob = &records[1];
	memset(arr_1_glob, 0, sizeof(array1));
	memset(arr_2_glob, 0, sizeof(array2));
	*ptr_glob = (struct record){.next = next_ptr_glob, .discr = IDENT_1};
	ptr_glob->variant.one.kind = IDENT_3;
	ptr_glob->variant.one.number = 40;
	strcpy(ptr_glob->variant.one.text, "DHRYSTONE PROGRAM, SOME STRING");
	arr_2_glob[8][7] = 10;
}

/* The final values that Weicker's program prints with "should be". Texts are compared
 * by memcmp: strcmp would teach the processor's predictor of branches that its loop
 * ends elsewhere, which the timed loop then pays for during a millisecond. */
static int globals_ok(uint64_t n)
{
	const struct record *p = ptr_glob, *q = next_ptr_glob;
	return int_glob == 5 && bool_glob == 1 && ch_1_glob == 'A' && ch_2_glob == 'B'
		&& arr_1_glob[8] == 7 && arr_2_glob[8][7] == (int)n + 10
		&& p->next == q && p->discr == IDENT_1 && p->variant.one.kind == IDENT_3 && p->variant.one.number == 17
		&& memcmp(p->variant.one.text, "DHRYSTONE PROGRAM, SOME STRING", sizeof(string30)) == 0
		&& q->next == q && q->discr == IDENT_1 && q->variant.one.kind == IDENT_2 && q->variant.one.number == 18
		&& memcmp(q->variant.one.text, "DHRYSTONE PROGRAM, SOME STRING", sizeof(string30)) == 0;
}

static int locals_ok(int a, int b, int c, enum ident kind, const char *one, const char *two)
{
	return a == 5 && b == 13 && c == 7 && kind == IDENT_2
		&& memcmp(one, "DHRYSTONE PROGRAM, 1'ST STRING", sizeof(string30)) == 0
		&& memcmp(two, "DHRYSTONE PROGRAM, 2'ND STRING", sizeof(string30)) == 0;
}

void dhrystone_setup(struct run *r)
{
	(void)r;
	arr_1_glob = pages(sizeof(array1));
	arr_2_glob = pages(sizeof(array2));
}

void dhrystone_loop(struct run *r, uint64_t n)
{
	int int_1 = 0, int_3 = 0;
	register int int_2 = 0;
	register char index;
	enum ident kind = IDENT_1;
	string30 one, two;
	register uint64_t i;

	reset();
	strcpy(one, "DHRYSTONE PROGRAM, 1'ST STRING");
	for (i = 1; i <= n; i++) {
		proc_5();
		proc_4();
		int_1 = 2;
		int_2 = 3;
		strcpy(two, "DHRYSTONE PROGRAM, 2'ND STRING");
		kind = IDENT_2;
		bool_glob = !func_2(one, two);
		while (int_1 < int_2) { /* once */
			int_3 = 5 * int_1 - int_2;
			proc_7(int_1, int_2, &int_3);
			int_1 += 1;
		}
		proc_8(arr_1_glob, arr_2_glob, int_1, int_3);
		proc_1(ptr_glob);
		for (index = 'A'; index <= ch_2_glob; ++index) /* twice */
			if (kind == func_1(index, 'C')) { /* never */
				proc_6(IDENT_1, &kind);
				strcpy(two, "DHRYSTONE PROGRAM, 3'RD STRING");
				int_2 = (int)i;
				int_glob = (int)i;
			}
		int_2 = int_2 * int_1;
		int_1 = int_2 / int_3;
		int_2 = 7 * (int_2 - int_3) - int_1;
		proc_2(&int_1);
	}
	if (!globals_ok(n) || !locals_ok(int_1, int_2, int_3, kind, one, two))
		die(EXIT_BROKEN, "%s: the final values are not those of the published program", r->opt->name);
}
