/*
 * vtax-kernel-paths: what a program pays for one operation of its kernel.
 *
 * One operation is repeated a fixed number of times, so that a clock outside can time the whole. The loops are timed in
 * batches as well (at most MAX_BATCHES), for the distribution: a batch is one operation where there are few.
 *
 * syscall         getppid, by syscall(2): the C library cannot answer it itself
 * context_switch  a byte to another process and one back through two pipes, both on one CPU: two context switches
 * page_fault      first write to a page of fresh anonymous memory, with its share of mmap and munmap of 16 MiB
 * fork_exec       fork, exec of this program, which ends at once, and wait
 * mmap            mmap and munmap of 64 KiB that nothing touches
 * signal          a signal to itself, its handler, and the return from it
 * timer           a sleep of 1 ms (clock_nanosleep); the figure is how late it wakes up
 * futex           waking another thread and being woken by it, both on one CPU: two context switches
 *
 * Usage: vtax-kernel-paths OPERATION LOOPS
 * Output: lines of `key value`; exit status 1 when an operation fails, 2 for bad usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define VERSION "1.0"
#define MAX_BATCHES 10000
#define INTERVAL_NS 1000000L
static const size_t REGION_BYTES = 16 << 20, MAPPED_BYTES = 64 << 10;

static void need(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "vtax-kernel-paths: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Binds this process to the first CPU it may use; whether that worked. */
static int use_one_cpu(void)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
		return 0;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed)) {
			CPU_SET(cpu, &one);
			return sched_setaffinity(0, sizeof one, &one) == 0;
		}
	return 0;
}

static void run_syscall(size_t loops)
{
	for (size_t i = 0; i < loops; i++)
		syscall(SYS_getppid);
}

static int there[2], back[2];
static pid_t partner;

static void start_partner(void)
{
	char byte = 0;
	need(pipe(there) == 0 && pipe(back) == 0, "pipe");
	partner = fork();
	need(partner >= 0, "fork");
	if (partner > 0) {
		close(there[0]);
		close(back[1]);
		return;
	}
	close(there[1]);
	close(back[0]);
	while (read(there[0], &byte, 1) == 1)
		if (write(back[1], &byte, 1) != 1)
			break;
	_exit(0);
}

static void run_context_switch(size_t loops)
{
	char byte = 0;
	for (size_t i = 0; i < loops; i++)
		need(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1, "pipe to the other process");
}

static void stop_partner(void)
{
	close(there[1]);
	need(waitpid(partner, NULL, 0) == partner, "waitpid");
}

static char *region;
static size_t touched;

static void run_page_fault(size_t loops)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	for (size_t i = 0; i < loops; i++) {
		if (touched % REGION_BYTES == 0) {
			if (region)
				munmap(region, REGION_BYTES);
			region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			need(region != MAP_FAILED, "mmap");
			madvise(region, REGION_BYTES, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses this */
		}
		*(volatile char *)(region + touched % REGION_BYTES) = 1;
		touched += page;
	}
}

static void run_fork_exec(size_t loops)
{
	for (size_t i = 0; i < loops; i++) {
		int status;
		const pid_t child = fork();
		need(child >= 0, "fork");
		if (child == 0) {
			execl("/proc/self/exe", "vtax-kernel-paths", "--exit", (char *)NULL);
			_exit(127);
		}
		need(waitpid(child, &status, 0) == child, "waitpid");
		errno = ENOEXEC;
		need(status == 0, "exec of /proc/self/exe");
	}
}

static void run_mmap(size_t loops)
{
	for (size_t i = 0; i < loops; i++) {
		void *memory = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		need(memory != MAP_FAILED && munmap(memory, MAPPED_BYTES) == 0, "mmap");
	}
}

static volatile sig_atomic_t delivered;

static void on_signal(int number)
{
	(void)number;
	delivered = 1;
}

static void start_signal(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	need(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
}

static void run_signal(size_t loops)
{
	const pid_t self = getpid();
	for (size_t i = 0; i < loops; i++) {
		delivered = 0;
		need(kill(self, SIGUSR1) == 0 && delivered, "kill"); /* kill(2): delivered before it returns */
	}
}

static void run_timer(size_t loops)
{
	const struct timespec interval = {0, INTERVAL_NS};
	for (size_t i = 0; i < loops; i++)
		need(clock_nanosleep(CLOCK_MONOTONIC, 0, &interval, NULL) == 0, "clock_nanosleep");
}

enum { MINE, YOURS, END };
static atomic_int turn = MINE;
static pthread_t thread;

static void pass_to(int next)
{
	atomic_store(&turn, next);
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int wait_while(int value)
{
	while (atomic_load(&turn) == value)
		syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
	return atomic_load(&turn);
}

static void *answer(void *unused)
{
	while (wait_while(MINE) == YOURS)
		pass_to(MINE);
	return unused;
}

static void start_thread(void)
{
	need(pthread_create(&thread, NULL, answer, NULL) == 0, "pthread_create");
}

static void run_futex(size_t loops)
{
	for (size_t i = 0; i < loops; i++) {
		pass_to(YOURS);
		wait_while(YOURS);
	}
}

static void stop_thread(void)
{
	pass_to(END);
	pthread_join(thread, NULL);
}

static const struct operation {
	const char *name;
	int on_one_cpu;
	void (*start)(void);
	void (*run)(size_t loops);
	void (*stop)(void);
	double subtracted_ns; /* what is waited for on purpose */
} OPERATIONS[] = {
	{"syscall", 0, NULL, run_syscall, NULL, 0},
	{"context_switch", 1, start_partner, run_context_switch, stop_partner, 0},
	{"page_fault", 0, NULL, run_page_fault, NULL, 0},
	{"fork_exec", 0, NULL, run_fork_exec, NULL, 0},
	{"mmap", 0, NULL, run_mmap, NULL, 0},
	{"signal", 0, start_signal, run_signal, NULL, 0},
	{"timer", 0, NULL, run_timer, NULL, (double)INTERVAL_NS},
	{"futex", 1, start_thread, run_futex, stop_thread, 0},
};

static const struct operation *find(const char *name)
{
	for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++)
		if (strcmp(OPERATIONS[i].name, name) == 0)
			return &OPERATIONS[i];
	refuse("no such operation", name);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--exit") == 0)
		return 0;
	if (is_version_request(argc, argv, "vtax-kernel-paths", VERSION))
		return 0;
	if (argc != 3)
		refuse("usage", "vtax-kernel-paths OPERATION LOOPS");
	const struct operation *operation = find(argv[1]);
	const size_t loops = number(argv[2], 1), batches = loops < MAX_BATCHES ? loops : MAX_BATCHES;
	double *values_ns = calloc(batches, sizeof *values_ns);
	if (!values_ns)
		refuse("no memory for batches", argv[2]);
	const int is_on_one_cpu = operation->on_one_cpu && use_one_cpu();
	if (operation->start)
		operation->start();
	operation->run(1); /* the first one pays for pages and files that the others find */

	const double start = now();
	double before = start;
	for (size_t batch = 0; batch < batches; batch++) {
		const size_t count = loops / batches + (batch < loops % batches);
		operation->run(count);
		const double after = now();
		values_ns[batch] = 1e9 * (after - before) / (double)count - operation->subtracted_ns;
		before = after;
	}
	const double seconds = before - start;
	if (operation->stop)
		operation->stop();

	printf("vtax-kernel-paths %s\noperation %s\nloops %zu\nbatches %zu\n", VERSION, operation->name, loops, batches);
	printf("one_cpu %d\nsubtracted_ns %.0f\nseconds %.9f\n", is_on_one_cpu, operation->subtracted_ns, seconds);
	print_distribution(values_ns, batches);
	printf("complete\n");
	return 0;
}
