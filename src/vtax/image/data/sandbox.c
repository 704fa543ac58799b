/* vtax-sandbox [MECHANISM...] -- PROGRAM [ARGUMENT...]

   Isolates itself by single mechanisms of the kernel, in the order in which a container's runtime does, and becomes PROGRAM:

   user                  a user namespace in which every id is what it is outside
   pid                   a PID namespace with a /proc of its own; PROGRAM is its first process
   ipc, uts, cgroup      namespaces of these kinds
   capabilities=N,...    no capabilities but these, in any set
   no-new-privileges     no program gains privileges

   Without a mechanism it only becomes PROGRAM. */
#define _GNU_SOURCE /* CLONE_NEW... */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *name;
	unsigned long flag;
} NAMESPACES[] = {
	{"user", CLONE_NEWUSER | CLONE_NEWNS}, /* whose mounts are its own, so that it may mount */
	{"pid", CLONE_NEWPID | CLONE_NEWNS},
	{"ipc", CLONE_NEWIPC},
	{"uts", CLONE_NEWUTS},
	{"cgroup", CLONE_NEWCGROUP},
};

static void fail(const char *what)
{
	fprintf(stderr, "vtax-sandbox: %s: %s\n", what, strerror(errno));
	exit(125);
}

static unsigned long flag_of(const char *name)
{
	for (size_t i = 0; i < sizeof NAMESPACES / sizeof *NAMESPACES; i++)
		if (strcmp(NAMESPACES[i].name, name) == 0)
			return NAMESPACES[i].flag;
	return 0;
}

/* Gives the process ids that are the same inside and outside: all that this process has itself. */
static void map_ids(pid_t process, const char *kind)
{
	char own[64], path[64], text[4096];
	unsigned inside, outside, count;
	size_t size = 0;
	FILE *file;

	snprintf(own, sizeof own, "/proc/self/%s", kind);
	snprintf(path, sizeof path, "/proc/%d/%s", process, kind);
	if (!(file = fopen(own, "r")))
		fail(own);
	while (fscanf(file, "%u %u %u", &inside, &outside, &count) == 3 && size < sizeof text - 64)
		size += (size_t)snprintf(text + size, sizeof text - size, "%u %u %u\n", inside, inside, count);
	fclose(file);
	if (!(file = fopen(path, "w")) || fwrite(text, 1, size, file) != size || fclose(file) != 0)
		fail(path);
}

/* Returns in the first process of the namespaces; the one outside waits for it, and ends as it ends. */
static void enter(unsigned long flags)
{
	int ready[2], status;
	char byte;

	if (pipe(ready) != 0)
		fail("a pipe");
	const long child = syscall(__NR_clone, flags | SIGCHLD, NULL, NULL, NULL, 0);
	if (child < 0)
		fail("namespaces");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			exit(125); /* the ids could not be given */
		close(ready[0]);
		return;
	}
	if (flags & CLONE_NEWUSER) {
		map_ids((pid_t)child, "uid_map");
		map_ids((pid_t)child, "gid_map");
	}
	if (write(ready[1], "", 1) != 1)
		fail("a pipe");
	for (int file = 0; file < 3; file++)
		close(file);
	close(ready[0]);
	close(ready[1]);
	while (waitpid((pid_t)child, &status, 0) < 0)
		if (errno != EINTR)
			exit(125);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void keep_capabilities(const char *numbers)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	unsigned kept[_LINUX_CAPABILITY_U32S_3] = {0};
	char *rest = (char *)numbers;

	while (*rest) {
		const unsigned long number = strtoul(rest, &rest, 10);
		if (number / 32 < _LINUX_CAPABILITY_U32S_3)
			kept[number / 32] |= 1U << number % 32;
		while (*rest == ',')
			rest++;
	}
	for (unsigned number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++)
		if (!(kept[number / 32] >> number % 32 & 1) && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0)
			fail("the bounding set of capabilities");
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(__NR_capget, &header, sets) != 0)
		fail("its capabilities");
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		sets[i].permitted &= kept[i];
		sets[i].effective = sets[i].permitted;
		sets[i].inheritable = 0;
	}
	if (syscall(__NR_capset, &header, sets) != 0)
		fail("its capabilities");
}

int main(int argc, char **argv)
{
	static const char CAPABILITIES[] = "capabilities=";
	const char *capabilities = NULL;
	unsigned long flags = 0;
	int gains_nothing = 0, next = 1;

	for (; next < argc && strcmp(argv[next], "--") != 0; next++) {
		const unsigned long flag = flag_of(argv[next]);
		flags |= flag;
		if (strncmp(argv[next], CAPABILITIES, sizeof CAPABILITIES - 1) == 0)
			capabilities = argv[next] + sizeof CAPABILITIES - 1;
		else if (strcmp(argv[next], "no-new-privileges") == 0)
			gains_nothing = 1;
		else if (!flag)
			break;
	}
	if (next + 1 >= argc || strcmp(argv[next], "--") != 0) {
		fputs("usage: vtax-sandbox [MECHANISM...] -- PROGRAM [ARGUMENT...]\n", stderr);
		return 2;
	}
	if (flags)
		enter(flags);
	if (flags & CLONE_NEWPID && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		fail("mounting /proc");
	if (capabilities)
		keep_capabilities(capabilities);
	if (gains_nothing && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		fail("no_new_privs");
	execv(argv[next + 1], argv + next + 1);
	fail(argv[next + 1]);
}
