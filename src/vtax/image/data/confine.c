/* vtax-confine [GRANT...] -- PROGRAM [ARGUMENT...]

   The first program of a guest that shares its host's kernel. It joins a session keyring of its own, gives up gaining
   privileges and every capability that it has not in effect now, and allows itself the system calls of one list only,
   whatever filter the container's runtime has set already; then it becomes PROGRAM. What a kernel newer than the list knows fails with ENOSYS, everything else that is
   not listed with EPERM. A GRANT (asynchronous-io) adds calls that a benchmark asked for.

   It fails, and starts nothing, where the kernel has no filters of system calls. */
#define _GNU_SOURCE /* CLONE_NEW... */
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define JOIN_SESSION_KEYRING 1 /* keyctl(2) */
#define NUMBERS 1024 /* more than any architecture has */
#define NEW_NAMESPACES                                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* The number of a call as text; its own name where this architecture has no such call. */
#define TEXT(number) #number
#define NUMBER(number) TEXT(number)
#define CALL(name) NUMBER(__NR_##name)

static const char *const ALLOWED[] = {
	CALL(accept), CALL(accept4), CALL(access), CALL(adjtimex), CALL(alarm), CALL(arch_prctl), CALL(bind),
	CALL(brk), CALL(cachestat), CALL(capget), CALL(capset), CALL(chdir), CALL(chmod), CALL(chown), CALL(chroot),
	CALL(clock_getres), CALL(clock_gettime), CALL(clock_nanosleep), CALL(close), CALL(close_range),
	CALL(connect), CALL(copy_file_range), CALL(creat), CALL(dup), CALL(dup2), CALL(dup3), CALL(epoll_create),
	CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_pwait), CALL(epoll_pwait2), CALL(epoll_wait),
	CALL(eventfd), CALL(eventfd2), CALL(execve), CALL(execveat), CALL(exit), CALL(exit_group), CALL(faccessat),
	CALL(faccessat2), CALL(fadvise64), CALL(fallocate), CALL(fchdir), CALL(fchmod), CALL(fchmodat),
	CALL(fchmodat2), CALL(fchown), CALL(fchownat), CALL(fcntl), CALL(fdatasync), CALL(fgetxattr),
	CALL(flistxattr), CALL(flock), CALL(fork), CALL(fremovexattr), CALL(fsetxattr), CALL(fstat), CALL(fstatfs),
	CALL(fsync), CALL(ftruncate), CALL(futex), CALL(futex_requeue), CALL(futex_wait), CALL(futex_waitv),
	CALL(futex_wake), CALL(futimesat), CALL(get_mempolicy), CALL(get_robust_list), CALL(getcpu), CALL(getcwd),
	CALL(getdents), CALL(getdents64), CALL(getegid), CALL(geteuid), CALL(getgid), CALL(getgroups),
	CALL(getitimer), CALL(getpeername), CALL(getpgid), CALL(getpgrp), CALL(getpid), CALL(getppid),
	CALL(getpriority), CALL(getrandom), CALL(getresgid), CALL(getresuid), CALL(getrlimit), CALL(getrusage),
	CALL(getsid), CALL(getsockname), CALL(getsockopt), CALL(gettid), CALL(gettimeofday), CALL(getuid),
	CALL(getxattr), CALL(getxattrat), CALL(inotify_add_watch), CALL(inotify_init), CALL(inotify_init1),
	CALL(inotify_rm_watch), CALL(io_cancel), CALL(io_destroy), CALL(io_getevents), CALL(io_pgetevents),
	CALL(io_setup), CALL(io_submit), CALL(ioctl), CALL(ioprio_get), CALL(ioprio_set), CALL(kcmp), CALL(kill),
	CALL(landlock_add_rule), CALL(landlock_create_ruleset), CALL(landlock_restrict_self), CALL(lchown),
	CALL(lgetxattr), CALL(link), CALL(linkat), CALL(listen), CALL(listxattr), CALL(listxattrat),
	CALL(llistxattr), CALL(lremovexattr), CALL(lseek), CALL(lsetxattr), CALL(lsm_get_self_attr),
	CALL(lsm_list_modules), CALL(lstat), CALL(madvise), CALL(map_shadow_stack), CALL(mbind), CALL(membarrier),
	CALL(memfd_create), CALL(memfd_secret), CALL(migrate_pages), CALL(mincore), CALL(mkdir), CALL(mkdirat),
	CALL(mknod), CALL(mknodat), CALL(mlock), CALL(mlock2), CALL(mlockall), CALL(mmap), CALL(move_pages),
	CALL(mprotect), CALL(mq_getsetattr), CALL(mq_notify), CALL(mq_open), CALL(mq_timedreceive),
	CALL(mq_timedsend), CALL(mq_unlink), CALL(mremap), CALL(mseal), CALL(msgctl), CALL(msgget), CALL(msgrcv),
	CALL(msgsnd), CALL(msync), CALL(munlock), CALL(munlockall), CALL(munmap), CALL(nanosleep), CALL(newfstatat),
	CALL(open), CALL(openat), CALL(openat2), CALL(pause), CALL(pidfd_getfd), CALL(pidfd_open),
	CALL(pidfd_send_signal), CALL(pipe), CALL(pipe2), CALL(pkey_alloc), CALL(pkey_free), CALL(pkey_mprotect),
	CALL(poll), CALL(ppoll), CALL(prctl), CALL(pread64), CALL(preadv), CALL(preadv2), CALL(prlimit64),
	CALL(process_madvise), CALL(process_mrelease), CALL(process_vm_readv), CALL(process_vm_writev),
	CALL(pselect6), CALL(ptrace), CALL(pwrite64), CALL(pwritev), CALL(pwritev2), CALL(read), CALL(readahead),
	CALL(readlink), CALL(readlinkat), CALL(readv), CALL(recvfrom), CALL(recvmmsg), CALL(recvmsg),
	CALL(remap_file_pages), CALL(removexattr), CALL(removexattrat), CALL(rename), CALL(renameat),
	CALL(renameat2), CALL(restart_syscall), CALL(rmdir), CALL(rseq), CALL(rt_sigaction), CALL(rt_sigpending),
	CALL(rt_sigprocmask), CALL(rt_sigqueueinfo), CALL(rt_sigreturn), CALL(rt_sigsuspend), CALL(rt_sigtimedwait),
	CALL(rt_tgsigqueueinfo), CALL(sched_get_priority_max), CALL(sched_get_priority_min),
	CALL(sched_getaffinity), CALL(sched_getattr), CALL(sched_getparam), CALL(sched_getscheduler),
	CALL(sched_rr_get_interval), CALL(sched_setaffinity), CALL(sched_setattr), CALL(sched_setparam),
	CALL(sched_setscheduler), CALL(sched_yield), CALL(seccomp), CALL(select), CALL(semctl), CALL(semget),
	CALL(semop), CALL(semtimedop), CALL(sendfile), CALL(sendmmsg), CALL(sendmsg), CALL(sendto),
	CALL(set_mempolicy), CALL(set_mempolicy_home_node), CALL(set_robust_list), CALL(set_tid_address),
	CALL(setdomainname), CALL(setfsgid), CALL(setfsuid), CALL(setgid), CALL(setgroups), CALL(sethostname),
	CALL(setitimer), CALL(setpgid), CALL(setpriority), CALL(setregid), CALL(setresgid), CALL(setresuid),
	CALL(setreuid), CALL(setrlimit), CALL(setsid), CALL(setsockopt), CALL(setuid), CALL(setxattr),
	CALL(setxattrat), CALL(shmat), CALL(shmctl), CALL(shmdt), CALL(shmget), CALL(shutdown), CALL(sigaltstack),
	CALL(signalfd), CALL(signalfd4), CALL(socketpair), CALL(splice), CALL(stat), CALL(statfs), CALL(statx),
	CALL(symlink), CALL(symlinkat), CALL(sync), CALL(sync_file_range), CALL(sync_file_range2), CALL(syncfs),
	CALL(sysinfo), CALL(tee), CALL(tgkill), CALL(time), CALL(timer_create), CALL(timer_delete),
	CALL(timer_getoverrun), CALL(timer_gettime), CALL(timer_settime), CALL(timerfd_create),
	CALL(timerfd_gettime), CALL(timerfd_settime), CALL(times), CALL(tkill), CALL(truncate), CALL(umask),
	CALL(uname), CALL(unlink), CALL(unlinkat), CALL(utime), CALL(utimensat), CALL(utimes), CALL(vfork),
	CALL(vmsplice), CALL(wait4), CALL(waitid), CALL(write), CALL(writev),
};

static const char *const IO_URING[] = {CALL(io_uring_enter), CALL(io_uring_register), CALL(io_uring_setup)};

static struct sock_filter program[4 * NUMBERS];
static unsigned short size;

static void emit(unsigned short code, unsigned operand, unsigned char if_true, unsigned char if_false)
{
	program[size++] = (struct sock_filter)BPF_JUMP(code, operand, if_true, if_false);
}

static void load(size_t offset)
{
	emit(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

static void end(unsigned action)
{
	emit(BPF_RET | BPF_K, action, 0, 0);
}

static void fail(const char *what)
{
	fprintf(stderr, "vtax-confine: %s: %s\n", what, strerror(errno));
	exit(125);
}

static void allow(unsigned char *is_allowed, const char *const *calls, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (calls[i][0] >= '0' && calls[i][0] <= '9')
			is_allowed[atoi(calls[i])] = 1;
}

/* Allows runs of consecutive numbers; what a run does not hold falls through. */
static void allow_listed(const unsigned char *is_allowed)
{
	for (unsigned first = 0; first < NUMBERS; first++) {
		unsigned last = first;
		if (!is_allowed[first])
			continue;
		while (last + 1 < NUMBERS && is_allowed[last + 1])
			last++;
		emit(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2);
		emit(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0);
		end(SECCOMP_RET_ALLOW);
		first = last;
	}
}

/* Calls that depend on an argument: its low 32 bits, which are all that the kernel reads of these. */
static void decide_by_arguments(void)
{
	const unsigned refused = SECCOMP_RET_ERRNO | EPERM;
	const unsigned char of_first = offsetof(struct seccomp_data, args[0]);

	emit(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 4);
	load(of_first);
	emit(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1);
	end(refused);
	end(SECCOMP_RET_ALLOW);

	emit(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 8);
	load(of_first);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 5, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 4, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 3, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 2, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, AF_PACKET, 1, 0);
	end(SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	end(SECCOMP_RET_ALLOW);

	/* execution domains of Linux, with and without the 2.6 version number, and the question for the current one */
	emit(BPF_JMP | BPF_JEQ | BPF_K, __NR_personality, 0, 8);
	load(of_first);
	emit(BPF_JMP | BPF_JEQ | BPF_K, PER_LINUX, 5, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, PER_LINUX32, 4, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, UNAME26, 3, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, UNAME26 | PER_LINUX32, 2, 0);
	emit(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 1, 0);
	end(refused);
	end(SECCOMP_RET_ALLOW);
}

static void build(int grants, char **names)
{
	static unsigned char is_allowed[NUMBERS];
	unsigned newest = 0;

	allow(is_allowed, ALLOWED, sizeof ALLOWED / sizeof *ALLOWED);
	for (int i = 0; i < grants; i++)
		if (strcmp(names[i], "asynchronous-io") == 0)
			allow(is_allowed, IO_URING, sizeof IO_URING / sizeof *IO_URING);
	for (unsigned number = 0; number < NUMBERS; number++)
		if (is_allowed[number])
			newest = number;

	load(offsetof(struct seccomp_data, arch));
	emit(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	end(SECCOMP_RET_ERRNO | ENOSYS); /* 32-bit calls */
	load(offsetof(struct seccomp_data, nr));
	allow_listed(is_allowed);
	emit(BPF_JMP | BPF_JGT | BPF_K, newest, 0, 1); /* and those of x32 */
	end(SECCOMP_RET_ERRNO | ENOSYS);
	emit(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1); /* its flags are in memory: the C library takes clone then */
	end(SECCOMP_RET_ERRNO | ENOSYS);
	decide_by_arguments();
	end(SECCOMP_RET_ERRNO | EPERM);
}

/* What its runtime has left in other sets goes: a program that it starts could have it in effect again. A root that may
   not change the bounding set has no capability at all. */
static void give_up_capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

	if (syscall(__NR_capget, &header, sets) != 0)
		fail("its capabilities");
	for (unsigned number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++)
		if (!(sets[number / 32].permitted >> number % 32 & 1))
			(void)prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
		sets[i].inheritable = 0;
	if (syscall(__NR_capset, &header, sets) != 0)
		fail("its capabilities");
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

int main(int argc, char **argv)
{
	int separator = 1;

	while (separator < argc && strcmp(argv[separator], "--") != 0)
		separator++;
	if (separator + 1 >= argc) {
		fputs("usage: vtax-confine [GRANT...] -- PROGRAM [ARGUMENT...]\n", stderr);
		return 2;
	}
	build(separator - 1, argv + 1);

	/* a runtime whose own filter refuses it has given the guest a keyring already, or keeps all keys from it */
	(void)syscall(__NR_keyctl, JOIN_SESSION_KEYRING, NULL);
	give_up_capabilities();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		fail("no_new_privs");
	const struct sock_fprog filter = {size, program};
	/* without the mitigation of speculative stores, which kernels before 5.16 turn on with a filter: the runtimes have none */
	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter) != 0 &&
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		fail("the filter of system calls");
	execv(argv[separator + 1], argv + separator + 1);
	fail(argv[separator + 1]);
}
