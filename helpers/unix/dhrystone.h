/* Dhrystone 2.1: the types and the data that both halves share.
 *
 * The program is R. P. Weicker's (Dhrystone Benchmark: Rationale for Version 2
 * and Measurement Rules, SIGPLAN Notices 23(8), 1988): the statements, their
 * order, the names of the procedures and the split in two compilation units
 * are part of its definition, which forbids merging the units. */
#ifndef TARE_DHRYSTONE_H
#define TARE_DHRYSTONE_H

enum ident { IDENT_1, IDENT_2, IDENT_3, IDENT_4, IDENT_5 };

typedef char string30[31];
typedef int array1[50];
typedef int array2[50][50];

struct record {
	struct record *next;
	enum ident discr;
	union {
		struct {
			enum ident kind;
			int number;
			string30 text;
		} one;
		struct {
			enum ident kind;
			string30 text;
		} two;
		struct {
			char first, second;
		} three;
	} variant;
};

/* Globals with external linkage, so that a compiler must store to them. */
extern int int_glob;
extern char ch_1_glob;

/* dhrystone_far.c */
void proc_6(enum ident value, enum ident *result);
void proc_7(int a, int b, int *result);
void proc_8(array1 one, array2 two, int a, int b);
enum ident func_1(char a, char b);
int func_2(string30 a, string30 b);

#endif
