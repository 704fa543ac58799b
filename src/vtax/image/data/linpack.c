/*
 * vtax-linpack: solves a dense system of linear equations, after the LINPACK benchmark (J. J. Dongarra, J. R. Bunch,
 * C. B. Moler, G. W. Stewart, "LINPACK Users' Guide", SIAM 1979, appendix B; J. J. Dongarra, P. Luszczek, A. Petitet,
 * "The LINPACK Benchmark: past, present and future", 2003).
 *
 * This is a program of vtax's own, not LINPACK's source. What it keeps: gefa and gesl with axpy by columns and partial
 * pivoting; the matrix of the 100 x 100 benchmark; 2/3 n^3 + 2 n^2 operations, whatever was executed; the residual
 * divided by n max|a| max|x| epsilon. Orders above 128 have numbers of another generator: LINPACK's repeats itself
 * after 16384, which makes columns equal.
 *
 * The verdict is HPL's: the residual divided by epsilon (||A|| ||x|| + ||b||) n, in the maximum norm, is below 16.
 *
 * Usage: vtax-linpack ORDER single|double REPETITIONS
 * Output: lines of `key value`; exit status 1 when the check fails, 2 for bad usage or no memory.
 */
#define _GNU_SOURCE
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "program.h"

#define VERSION "1.0"
#define LARGEST_PUBLISHED 128
static const double LARGEST_SCALED = 16.0;

struct solution {
	double total_s, best_s, residual, normalized, scaled, first, last;
};

static int is_published;
static int published_state;
static uint64_t state;

static void start_numbers(size_t n)
{
	is_published = n <= LARGEST_PUBLISHED;
	published_state = 1325;
	state = 88172645463325252ULL;
}

/* In [-2, 2): LINPACK's, or Marsaglia's xorshift64 (2003). */
static double next_number(void)
{
	if (is_published) {
		published_state = 3125 * published_state % 65536;
		return (published_state - 32768.0) / 16384.0;
	}
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) * 0x1p-51 - 2.0;
}

static void *memory(size_t bytes)
{
	void *found = NULL;
	if (posix_memalign(&found, 64, bytes) != 0)
		refuse("no memory for the matrix", "lower the order");
	return found;
}

#define REAL double
#define NAME(x) d##x
#define EPSILON DBL_EPSILON
#include "linpack_solve.h"
#undef REAL
#undef NAME
#undef EPSILON
#define REAL float
#define NAME(x) s##x
#define EPSILON (double)FLT_EPSILON
#include "linpack_solve.h"

int main(int argc, char **argv)
{
	if (is_version_request(argc, argv, "vtax-linpack", VERSION))
		return 0;
	if (argc != 4 || (strcmp(argv[2], "single") != 0 && strcmp(argv[2], "double") != 0))
		refuse("usage", "vtax-linpack ORDER single|double REPETITIONS");
	const size_t n = number(argv[1], 2);
	const int is_double = strcmp(argv[2], "double") == 0, repetitions = (int)number(argv[3], 1);
	if (n > 1000000)
		refuse("the order is above 1000000", argv[1]);
	printf("vtax-linpack %s\norder %zu\nprecision %s\nsolver reference\nrepetitions %d\n", VERSION, n, argv[2], repetitions);
	printf("kernel reference\nthreads 1\n");
	const struct solution found = is_double ? dmeasure(n, repetitions) : smeasure(n, repetitions);
	const double operations = 2.0 / 3.0 * (double)n * (double)n * (double)n + 2.0 * (double)n * (double)n;
	printf("operations %.0f\nseconds %.9f\nbest_s %.9f\n", operations, found.total_s, found.best_s);
	printf("residual %.8e\nnormalized_residual %.8e\nscaled_residual %.8e\n", found.residual, found.normalized, found.scaled);
	printf("first_x %.8e\nlast_x %.8e\n", found.first, found.last);
	const int is_valid = found.scaled < LARGEST_SCALED;
	printf("%s\n", is_valid ? "valid" : "invalid");
	return !is_valid;
}
