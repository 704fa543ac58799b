/* What vtax's own programs share: their clock, their numbers, and the distribution of what they timed. */
#ifndef VTAX_PROGRAM_H
#define VTAX_PROGRAM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef FLAGS
#define FLAGS "unknown"
#endif

/* Seconds of the monotonic clock. */
static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ends the program with status 2: bad usage, no memory, or something that this system lacks. */
static inline void refuse(const char *what, const char *which)
{
	fprintf(stderr, "%s: %s\n", what, which);
	exit(2);
}

/* A whole number of at least `least` from a text. */
static inline size_t number(const char *text, long least)
{
	char *end;
	const long value = strtol(text, &end, 10);
	if (*text == '\0' || *end != '\0' || value < least)
		refuse("not a whole number, or too small", text);
	return (size_t)value;
}

static inline int is_version_request(int argc, char **argv, const char *name, const char *version)
{
	if (argc != 2 || strcmp(argv[1], "--version") != 0)
		return 0;
	printf("%s %s (gcc %s; %s)\n", name, version, __VERSION__, FLAGS);
	return 1;
}

static inline int by_size(const void *left, const void *right)
{
	const double a = *(const double *)left, b = *(const double *)right;
	return (a > b) - (a < b);
}

/* Nearest-rank quantiles of `count` values in ns, which are sorted in place; their mean is the caller's to know. */
static inline void print_distribution(double *values_ns, size_t count)
{
	static const struct {
		const char *name;
		size_t percent;
	} QUANTILES[] = {{"p50", 50}, {"p95", 95}, {"p99", 99}};
	qsort(values_ns, count, sizeof *values_ns, by_size);
	printf("min_ns %.3f\n", values_ns[0]);
	for (size_t i = 0; i < sizeof QUANTILES / sizeof *QUANTILES; i++)
		printf("%s_ns %.3f\n", QUANTILES[i].name, values_ns[(count * QUANTILES[i].percent + 99) / 100 - 1]);
	printf("max_ns %.3f\n", values_ns[count - 1]);
}

#endif
