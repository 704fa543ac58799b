/*
 * vtax-stream: memory bandwidth after the published rules of the STREAM benchmark (J. D. McCalpin, "Memory Bandwidth
 * and Machine Balance in Current High Performance Computers", IEEE TCCA Newsletter, 1995, and its run rules).
 *
 * This is a program of vtax's own, not STREAM's source; its figures are "after the STREAM rules".
 * What it keeps of the rules: the four kernels copy, scale, add and triad on arrays of doubles; bytes counted as the
 * kernels name them (16 or 24 per element: no write-allocate traffic); every kernel repeated, the first repetition
 * left out, the best of the rest reported; 1 MB = 10^6 bytes; results checked against the values the arithmetic must
 * give. The caller chooses the arrays (each at least four times the last-level cache, by the rules) and repetitions.
 * The scalar is sqrt(2) - 1, with which one round of the four kernels maps a to (2s + s^2) a = a: values stay in
 * range for any number of repetitions.
 *
 * Usage: vtax-stream ELEMENTS REPETITIONS     threads by OMP_NUM_THREADS
 * Output: lines of `key value...`; exit status 1 when the check fails, 2 for bad usage or no memory.
 */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VERSION "1.0"
#ifndef FLAGS
#define FLAGS "unknown"
#endif

enum { COPY, SCALE, ADD, TRIAD, KERNELS };
static const char *const NAMES[KERNELS] = {"copy", "scale", "add", "triad"};
static const int WORDS[KERNELS] = {2, 2, 3, 3};
static const double ALIGNMENT = 2 << 20; /* a huge page, so that pages fall alike in every run */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double *array(size_t elements)
{
	void *memory = NULL;
	if (posix_memalign(&memory, (size_t)ALIGNMENT, elements * sizeof(double)) != 0) {
		fprintf(stderr, "vtax-stream: no memory for an array of %zu elements\n", elements);
		exit(2);
	}
	return memory;
}

static double run_kernel(int kernel, size_t n, double s, double *restrict a, double *restrict b, double *restrict c)
{
	const double start = now();
	switch (kernel) {
	case COPY:
#pragma omp parallel for schedule(static)
		for (size_t i = 0; i < n; i++)
			c[i] = a[i];
		break;
	case SCALE:
#pragma omp parallel for schedule(static)
		for (size_t i = 0; i < n; i++)
			b[i] = s * c[i];
		break;
	case ADD:
#pragma omp parallel for schedule(static)
		for (size_t i = 0; i < n; i++)
			c[i] = a[i] + b[i];
		break;
	default:
#pragma omp parallel for schedule(static)
		for (size_t i = 0; i < n; i++)
			a[i] = b[i] + s * c[i];
	}
	return now() - start;
}

/* Largest relative difference between an array and the value all its elements must have. */
static double error_of(const double *x, size_t n, double expected)
{
	double worst = 0;
#pragma omp parallel for schedule(static) reduction(max : worst)
	for (size_t i = 0; i < n; i++) {
		const double error = fabs((x[i] - expected) / expected);
		if (!(error <= worst))
			worst = isnan(error) ? INFINITY : error;
	}
	return worst;
}

static double check(size_t n, int repetitions, double s, const double *a, const double *b, const double *c)
{
	double ea = 1, eb = 2, ec = 0;
	for (int k = 0; k < repetitions; k++) {
		ec = ea;
		eb = s * ec;
		ec = ea + eb;
		ea = eb + s * ec;
	}
	return fmax(error_of(a, n, ea), fmax(error_of(b, n, eb), error_of(c, n, ec)));
}

static void report(int kernel, const double *times, int repetitions, size_t n)
{
	double least = DBL_MAX, most = 0, sum = 0;
	for (int k = 1; k < repetitions; k++) {
		least = fmin(least, times[k]);
		most = fmax(most, times[k]);
		sum += times[k];
	}
	const double bytes = (double)WORDS[kernel] * sizeof(double) * (double)n;
	printf("%s %.1f %.9f %.9f %.9f\n", NAMES[kernel], 1e-6 * bytes / least, sum / (repetitions - 1), least, most);
}

static long number(const char *text, long least)
{
	char *end;
	const long value = strtol(text, &end, 10);
	if (*text == '\0' || *end != '\0' || value < least) {
		fprintf(stderr, "vtax-stream: not a whole number of at least %ld: %s\n", least, text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("vtax-stream %s (gcc %s; %s)\n", VERSION, __VERSION__, FLAGS);
		return 0;
	}
	if (argc != 3) {
		fprintf(stderr, "usage: vtax-stream ELEMENTS REPETITIONS\n");
		return 2;
	}
	const size_t n = (size_t)number(argv[1], 1);
	const int repetitions = (int)number(argv[2], 2);
	const double s = sqrt(2.0) - 1.0;
	double *a = array(n), *b = array(n), *c = array(n);
	double *times[KERNELS];
	for (int kernel = 0; kernel < KERNELS; kernel++)
		times[kernel] = calloc((size_t)repetitions, sizeof(double));

#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < n; i++) {
		a[i] = 1;
		b[i] = 2;
		c[i] = 0;
	}
	for (int k = 0; k < repetitions; k++)
		for (int kernel = 0; kernel < KERNELS; kernel++)
			times[kernel][k] = run_kernel(kernel, n, s, a, b, c);

	printf("vtax-stream %s\n", VERSION);
	printf("threads %d\narray_bytes %zu\nrepetitions %d\n", omp_get_max_threads(), n * sizeof(double), repetitions);
	printf("# kernel best_mb_s average_s least_s most_s\n");
	for (int kernel = 0; kernel < KERNELS; kernel++)
		report(kernel, times[kernel], repetitions, n);
	const double error = check(n, repetitions, s, a, b, c);
	printf("largest_error %.3e\n%s\n", error, error < 1e-12 ? "valid" : "invalid");
	return error < 1e-12 ? 0 : 1;
}
