/* dhrystone2: the half of Dhrystone 2.1 that is called across units. See
 * dhrystone.h. */
#include "dhrystone.h"

#include <string.h>

static int func_3(enum ident value)
{
	enum ident local = value;
	return local == IDENT_3;
}

void proc_6(enum ident value, enum ident *result)
{
	*result = value;
	if (!func_3(value))
		*result = IDENT_4;
	switch (value) {
	case IDENT_1: *result = IDENT_1; break;
	case IDENT_2: *result = int_glob > 100 ? IDENT_1 : IDENT_4; break;
	case IDENT_3: *result = IDENT_2; break;
	case IDENT_4: break;
	case IDENT_5: *result = IDENT_3; break;
	}
}

void proc_7(int a, int b, int *result)
{
	int local = a + 2;
	*result = b + local;
}

void proc_8(array1 one, array2 two, int a, int b)
{
	register int index, local = a + 5;
	one[local] = b;
	one[local + 1] = one[local];
	one[local + 30] = local;
	for (index = local; index <= local + 1; ++index)
		two[local][index] = local;
	two[local][local - 1] += 1;
	two[local + 20][local] = one[local];
	int_glob = 5;
}

enum ident func_1(char a, char b)
{
	char first = a, second = first;
	if (second != b)
		return IDENT_1;
	ch_1_glob = first;
	return IDENT_2;
}

int func_2(string30 a, string30 b)
{
	register int index = 2;
	char letter = 'A';
	while (index <= 2)
		if (func_1(a[index], b[index + 1]) == IDENT_1) {
			letter = 'A';
			index += 1;
		}
	if (letter >= 'W' && letter < 'Z')
		index = 7;
	if (letter == 'R')
		return 1;
	if (strcmp(a, b) > 0) {
		index += 7;
		int_glob = index;
		return 1;
	}
	return 0;
}
