/*
 * vtax-pi: digits of pi by FLINT, with threads (its arb_const_pi: Chudnovsky's series by binary splitting).
 *
 * FLINT is opened when the program runs, so that the image needs it only where a study does. Of its interface this
 * uses functions alone; an arb_t is six words, and gets more.
 *
 * Usage: vtax-pi DIGITS THREADS      digits after the decimal point
 * Output: lines of `key value`, the last digits among them; exit status 2 for bad usage or no library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>

#include "program.h"

#define VERSION "1.0"
#define SHOWN 50
#define GUARD_DIGITS 20
#define NO_RADIUS 2UL /* ARB_STR_NO_RADIUS */

static const char *const LIBRARIES[] = {"libflint.so.19", "libflint.so.20", "libflint.so.21", "libflint.so.22"};

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);
	if (!found)
		refuse("FLINT has no function", name);
	return found;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") != 0)
		refuse("usage", "vtax-pi DIGITS THREADS");
	void *library = NULL;
	for (size_t i = 0; !library && i < sizeof LIBRARIES / sizeof *LIBRARIES; i++)
		library = dlopen(LIBRARIES[i], RTLD_NOW);
	if (!library)
		refuse("no FLINT (Debian package libflint19)", dlerror());
	const char *const flint = symbol(library, "flint_version");
	if (argc == 2) {
		printf("vtax-pi %s (FLINT %s; gcc %s; %s)\n", VERSION, flint, __VERSION__, FLAGS);
		return 0;
	}
	if (argc != 3)
		refuse("usage", "vtax-pi DIGITS THREADS");
	const size_t digits = number(argv[1], SHOWN), threads = number(argv[2], 1);
	((void (*)(int))symbol(library, "flint_set_num_threads"))((int)threads);

	long value[16] = {0};
	const double start = now();
	((void (*)(long *))symbol(library, "arb_init"))(value);
	const long bits = (long)ceil((double)(digits + GUARD_DIGITS) * 3.32192809488736235) + 64;
	((void (*)(long *, long))symbol(library, "arb_const_pi"))(value, bits);
	const double computed = now();
	const char *const text = ((char *(*)(long *, long, unsigned long))symbol(library, "arb_get_str"))(
		value, (long)(digits + 1 + GUARD_DIGITS / 2), NO_RADIUS);
	const double converted = now();
	if (strlen(text) < 2 + digits || strncmp(text, "3.14159", 7) != 0)
		refuse("FLINT printed something else than pi", text[0] ? "wrong digits" : "nothing");
	printf("vtax-pi %s\nflint %s\ndigits %zu\nthreads %zu\n", VERSION, flint, digits, threads);
	printf("computed_s %.6f\nconverted_s %.6f\n", computed - start, converted - computed);
	printf("last %.*s\n", SHOWN, text + 2 + digits - SHOWN);
	printf("complete\n");
	return 0;
}
