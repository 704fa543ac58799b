/*
 * vtax-memory-latency: how long a load takes that depends on the load before, in a working set of a given size.
 *
 * The working set is divided into lines of 64 bytes. Each holds the address of another one; together they are one
 * cycle in random order (Sattolo's algorithm, 1986), so no prefetcher can guess the next address. After one whole
 * round that is not timed, a fixed number of loads follows the chain.
 *
 * Usage: vtax-memory-latency BYTES LOADS huge|small
 *        huge: pages that the administrator reserved (MAP_HUGETLB), else transparent huge pages (MADV_HUGEPAGE)
 *        small: no huge pages (MADV_NOHUGEPAGE)
 * Output: lines of `key value`; huge_bytes is what the kernel says of the working set, -1 where it says nothing.
 *         Exit status 2 for bad usage or no memory.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#include "program.h"

#define VERSION "1.0"
#define BATCHES 1000
#define LINE_BYTES 64
#define HUGE_PAGE_BYTES (2UL << 20)

typedef struct line {
	struct line *next;
	char unused[LINE_BYTES - sizeof(struct line *)];
} line;

/* Marsaglia's xorshift64 (2003): the same order in every run. */
static uint64_t random_number(void)
{
	static uint64_t state = 88172645463325252ULL;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static line *working_set(size_t bytes, int is_huge)
{
	const size_t rounded = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *memory = MAP_FAILED;
	if (is_huge)
		memory = mmap(NULL, rounded, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
	if (memory != MAP_FAILED)
		return (line *)memory;
	memory = mmap(NULL, rounded + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (memory == MAP_FAILED)
		refuse("no memory for the working set", "mmap failed");
	memory += HUGE_PAGE_BYTES - (uintptr_t)memory % HUGE_PAGE_BYTES;
	madvise(memory, rounded, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* read back below, not believed */
	return (line *)memory;
}

/* Bytes of huge pages in the mapping that holds an address; -1 where the kernel does not say. */
static long huge_bytes(const void *address)
{
	FILE *file = fopen("/proc/self/smaps", "r");
	char text[512];
	long found = -1;
	int inside = 0;
	while (file && fgets(text, sizeof text, file)) {
		unsigned long first, last;
		long kib;
		if (sscanf(text, "%lx-%lx ", &first, &last) == 2)
			inside = first <= (uintptr_t)address && (uintptr_t)address < last;
		else if (inside && (sscanf(text, "AnonHugePages: %ld kB", &kib) == 1 || sscanf(text, "Private_Hugetlb: %ld kB", &kib) == 1))
			found = (found < 0 ? 0 : found) + kib * 1024;
	}
	if (file)
		fclose(file);
	return found;
}

static void make_cycle(line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lines[i].next = &lines[i];
	for (size_t i = count - 1; i > 0; i--) {
		const size_t j = random_number() % i;
		line *const other = lines[j].next;
		lines[j].next = lines[i].next;
		lines[i].next = other;
	}
}

static line *follow(line *at, size_t loads)
{
	for (size_t i = 0; i < loads; i++)
		at = *(line *volatile *)&at->next;
	return at;
}

int main(int argc, char **argv)
{
	if (is_version_request(argc, argv, "vtax-memory-latency", VERSION))
		return 0;
	if (argc != 4 || (strcmp(argv[3], "huge") != 0 && strcmp(argv[3], "small") != 0))
		refuse("usage", "vtax-memory-latency BYTES LOADS huge|small");
	const size_t bytes = number(argv[1], 2 * LINE_BYTES), count = bytes / LINE_BYTES, loads = number(argv[2], BATCHES);
	line *const lines = working_set(bytes, strcmp(argv[3], "huge") == 0);
	make_cycle(lines, count);
	if (follow(lines, count) != lines)
		refuse("the chain is not one cycle", "the memory holds wrong values");

	static double values_ns[BATCHES];
	line *at = lines;
	const double start = now();
	double before = start;
	for (size_t batch = 0; batch < BATCHES; batch++) {
		const size_t batch_loads = loads / BATCHES + (batch < loads % BATCHES);
		at = follow(at, batch_loads);
		const double after = now();
		values_ns[batch] = 1e9 * (after - before) / (double)batch_loads;
		before = after;
	}
	const double seconds = before - start;
	if (at != follow(lines, loads % count))
		refuse("the chain ended elsewhere", "the memory holds wrong values");

	printf("vtax-memory-latency %s\nworking_set %zu\nloads %zu\n", VERSION, count * LINE_BYTES, loads);
	printf("huge_bytes %ld\nseconds %.9f\n", huge_bytes(lines), seconds);
	print_distribution(values_ns, BATCHES);
	printf("complete\n");
	return 0;
}
