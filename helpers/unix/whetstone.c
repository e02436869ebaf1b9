/* whetstone: the loop mix of Curnow and Wichmann (A synthetic benchmark, The
 * Computer Journal 19(1), 1976) in double precision, with the loop counts and
 * the arrangement in eight sections that UnixBench took from R. Longbottom's C
 * version (1996). One pass is 100 times the mix, 10 million Whetstone
 * instructions.
 *
 * Current compilers see that three of the sections (conditional jumps, integer
 * arithmetic, array references) compute constants and leave most of them out;
 * what a score then says depends on the compiler. Here ("kept") every statement
 * stays: values pass through an empty asm between the statements, which adds
 * no instruction. "as-compiled" is the same without it, to be put beside a
 * UnixBench built by the same compiler. */
#include "unix.h"

#include <math.h>
#include <string.h>

enum { X100 = 100, SECTIONS = 8, REPEAT_1 = 10 };
enum {
	N1 = 12 * X100, N2 = 14 * X100, N3 = 345 * X100, N4 = 210 * X100,
	N5 = 32 * X100, N6 = 899 * X100, N7 = 616 * X100, N8 = 93 * X100,
};
static const double T = 0.49999975, T1 = 0.50000025, T2 = 2.0;

/* Totals of this copy: section 1 runs ten times as often, for it is short, and
 * its time counts a tenth. */
static double wall[SECTIONS], cpu[SECTIONS];
static double wall_all; /* undivided */
static uint64_t wall_from;
static double cpu_from;

static void begin(void)
{
	cpu_from = own_cpu_seconds();
	wall_from = now();
}

static void end(int section, int repeat)
{
	uint64_t t = now();
	double seconds = (double)(t - wall_from) / 1e9;
	wall_all += seconds;
	wall[section] += seconds / repeat;
	cpu[section] += (own_cpu_seconds() - cpu_from) / repeat;
}

#define KEEP(v) do { if (kept) __asm__ volatile("" : "+r"(v)); } while (0)
#define KEEP_MEMORY(p) do { if (kept) __asm__ volatile("" : : "r"(p) : "memory"); } while (0)
#define INLINE static inline __attribute__((always_inline))

INLINE double array_elements(double e[4], uint64_t passes)
{
	double t = T;
	begin();
	for (uint64_t p = 0; p < passes; p++) {
		for (long i = 0; i < N1 * REPEAT_1; i++) {
			e[0] = (e[0] + e[1] + e[2] - e[3]) * t;
			e[1] = (e[0] + e[1] - e[2] + e[3]) * t;
			e[2] = (e[0] - e[1] + e[2] + e[3]) * t;
			e[3] = (-e[0] + e[1] + e[2] + e[3]) * t;
		}
		t = 1.0 - t;
	}
	end(0, REPEAT_1);
	return e[3];
}

static void step_array(double e[4], double t, double t2)
{
	for (long j = 0; j < 6; j++) {
		e[0] = (e[0] + e[1] + e[2] - e[3]) * t;
		e[1] = (e[0] + e[1] - e[2] + e[3]) * t;
		e[2] = (e[0] - e[1] + e[2] + e[3]) * t;
		e[3] = (-e[0] + e[1] + e[2] + e[3]) / t2;
	}
}

INLINE double array_as_parameter(double e[4], uint64_t passes)
{
	double t = T;
	begin();
	for (uint64_t p = 0; p < passes; p++) {
		for (long i = 0; i < N2; i++)
			step_array(e, t, T2);
		t = 1.0 - t;
	}
	end(1, 1);
	return e[3];
}

INLINE double conditional_jumps(uint64_t passes, int kept)
{
	long j = 1;
	begin();
	for (uint64_t p = 0; p < passes; p++)
		for (long i = 0; i < N3; i++) {
			if (j == 1) j = 2; else j = 3;
			KEEP(j);
			if (j > 2) j = 0; else j = 1;
			KEEP(j);
			if (j < 1) j = 1; else j = 0;
			KEEP(j);
		}
	end(2, 1);
	return (double)j;
}

INLINE double integer_arithmetic(double e[4], uint64_t passes, int kept)
{
	long j = 1, k = 2, l = 3;
	begin();
	for (uint64_t p = 0; p < passes; p++)
		for (long i = 0; i < N4; i++) {
			KEEP(j);
			KEEP(k);
			KEEP(l);
			j = j * (k - j) * (l - k);
			k = l * k - (l - j) * k;
			l = (l - k) * (k + j);
			e[l - 2] = (double)(j + k + l);
			e[k - 2] = (double)(j * k * l);
			KEEP_MEMORY(e);
		}
	end(3, 1);
	return e[0] + e[1];
}

INLINE double trigonometry(uint64_t passes)
{
	double x = 0.5, y = 0.5, t = T;
	begin();
	for (uint64_t p = 0; p < passes; p++) {
		for (long i = 1; i < N5; i++) {
			x = t * atan(T2 * sin(x) * cos(x) / (cos(x + y) + cos(x - y) - 1.0));
			y = t * atan(T2 * sin(y) * cos(y) / (cos(x + y) + cos(x - y) - 1.0));
		}
		t = 1.0 - t;
	}
	end(4, 1);
	return y;
}

static void step_three(double *x, double *y, double *z, double t, double t1, double t2)
{
	*x = *y;
	*y = *z;
	*x = t * (*x + *y);
	*y = t1 * (*x + *y);
	*z = (*x + *y) / t2;
}

INLINE double procedure_calls(uint64_t passes)
{
	double x = 1.0, y = 1.0, z = 1.0;
	begin();
	for (uint64_t p = 0; p < passes; p++)
		for (long i = 0; i < N6; i++)
			step_three(&x, &y, &z, T, T1, T2);
	end(5, 1);
	return z;
}

INLINE double array_references(double e[4], uint64_t passes, int kept)
{
	long j = 0, k = 1, l = 2;
	e[0] = 1.0;
	e[1] = 2.0;
	e[2] = 3.0;
	begin();
	for (uint64_t p = 0; p < passes; p++)
		for (long i = 0; i < N7; i++) {
			KEEP(j);
			KEEP(k);
			KEEP(l);
			e[j] = e[k];
			e[k] = e[l];
			e[l] = e[j];
			KEEP_MEMORY(e);
		}
	end(6, 1);
	return e[2];
}

/* This section's x goes on from batch to batch: it nears 1, where log and exp
 * are quick, and most of UnixBench's ten seconds are spent there. So the score
 * rises by up to a tenth with the length of the window. */
static double x_of_8 = 0.75;

INLINE double standard_functions(uint64_t passes)
{
	double x = x_of_8;
	begin();
	for (uint64_t p = 0; p < passes; p++)
		for (long i = 0; i < N8; i++)
			x = sqrt(exp(log(x) / T1));
	end(7, 1);
	x_of_8 = x;
	return x;
}

INLINE void all_sections(double result[SECTIONS], uint64_t n, int kept)
{
	double e[4] = {1.0, -1.0, -1.0, -1.0};
	result[0] = array_elements(e, n);
	result[1] = array_as_parameter(e, n);
	result[2] = conditional_jumps(n, kept);
	result[3] = integer_arithmetic(e, n, kept);
	result[4] = trigonometry(n);
	result[5] = procedure_calls(n);
	result[6] = array_references(e, n, kept);
	result[7] = standard_functions(n);
}

static void run_sections(const struct run *r, double result[SECTIONS], uint64_t n)
{
	if (r->opt->variant[0] == 'a')
		all_sections(result, n, 0);
	else
		all_sections(result, n, 1);
}

static void expect(const struct run *r, const double got[SECTIONS], const double want[SECTIONS], double tolerance)
{
	for (int i = 0; i < SECTIONS; i++)
		if (!(fabs(got[i] - want[i]) <= tolerance))
			die(EXIT_BROKEN, "%s: section %d gives %.17g, not %.17g", r->opt->name, i + 1, got[i], want[i]);
}

/* The results of one pass, as Longbottom's program prints them in double
 * precision on every machine. */
static const double after_one_pass[SECTIONS] = {
	-1.12398255667391900, -1.12187079889284400, 1.0, 12.0,
	0.49902937281515140, 0.99999987890802820, 3.0, 0.75100163018457870,
};

void whetstone_plan(const struct options *o)
{
	if (*o->variant && strcmp(o->variant, "kept") != 0 && strcmp(o->variant, "as-compiled") != 0)
		die(EXIT_USAGE, "--variant %s: must be kept or as-compiled", o->variant);
}

/* One pass before the window shows that this build computes right. */
void whetstone_setup(struct run *r)
{
	double result[SECTIONS];
	run_sections(r, result, 1);
	expect(r, result, after_one_pass, 1e-9);
	wall_all = 0;
	memset(wall, 0, sizeof wall);
	memset(cpu, 0, sizeof cpu);
	x_of_8 = 0.75;
}

/* After n more passes the results have moved on. Sections 3, 4 and 7 repeat;
 * section 8 shrinks log x by 1/(2 T1) every time, which has a closed form over
 * all passes of the window. */
static void check_passes(const struct run *r, const double got[SECTIONS], uint64_t n)
{
	double want[SECTIONS];
	memcpy(want, got, sizeof want);
	want[2] = n * N3 % 2 == 0 ? 1 : 0;
	want[3] = after_one_pass[3];
	want[6] = after_one_pass[6];
	want[7] = exp(log(0.75) * pow(1 / (2 * T1), (double)(r->out.count + n) * N8));
	expect(r, got, want, 1e-7);
	for (int i = 0; i < SECTIONS; i++)
		if (!isfinite(got[i]))
			die(EXIT_BROKEN, "%s: section %d is not finite after %llu passes", r->opt->name, i + 1,
			    (unsigned long long)n);
}

void whetstone_loop(struct run *r, uint64_t n)
{
	double result[SECTIONS];
	run_sections(r, result, n);
	check_passes(r, result, n);
}

static double sum(const double seconds[SECTIONS])
{
	double s = 0;
	for (int i = 0; i < SECTIONS; i++)
		s += seconds[i];
	return s;
}

/* Millions of Whetstone instructions a second: ten to a pass. */
double whetstone_value(struct run *r, double seconds)
{
	double once = sum(wall) / wall_all; /* of the window without what section 1 repeats */
	memcpy(r->out.section, cpu, sizeof cpu);
	/* Where the clock of CPU time only ticks, and ticks were lost (an emulated
	 * machine on a busy host), it may have stood still: then there is no value. */
	double used = sum(cpu);
	r->out.cpu_value = used > 0 ? (double)r->out.count * 10 / used : 0;
	return r->out.within * 10 / (seconds * once);
}
