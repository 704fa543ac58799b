"""Runs in a guest as any program of a benchmark and prints what it finds there, as JSON: facts by name, short texts.

Of what a program does not ask for, and what makes it fast or slow, or able to do its work: limits, priorities, its
environment, how names are resolved. Standard library only.
"""

import ctypes
import json
import os
import resource
import signal
import socket
import time

SETTINGS = {
    "clock source": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "huge pages": "/sys/kernel/mm/transparent_hugepage/enabled",
    "kernel": "/proc/sys/kernel/osrelease",
    "connections that wait": "/proc/sys/net/core/somaxconn",
    "TCP congestion control": "/proc/sys/net/ipv4/tcp_congestion_control",
    "TCP receive buffer": "/proc/sys/net/ipv4/tcp_rmem",
    "TCP send buffer": "/proc/sys/net/ipv4/tcp_wmem",
    "chance to be killed": "/proc/self/oom_score_adj",
    "servers of names": "/etc/resolv.conf",
    "names of hosts": "/etc/hosts",
}
OF_STATUS = {
    "Speculation_Store_Bypass": "speculative stores",
    "SpeculationIndirectBranch": "speculative branches",
}
SIGNALS = range(1, 32)  # beyond are those that C libraries keep for themselves
PR_GET_TIMERSLACK, PR_GET_THP_DISABLE = 30, 42  # prctl(2)
IOPRIO_GET = {"x86_64": 252, "aarch64": 31}  # <asm/unistd.h>
TAG = "VTAX_MARK"  # by which vtax finds processes of this host

libc = ctypes.CDLL(None)


def settings() -> dict[str, str]:
    """Return what files say, in one line each; a file that is not there, such as one of /sys, says nothing."""
    texts = {}
    for name, path in SETTINGS.items():
        try:
            with open(path) as file:
                texts[name] = " ".join(file.read().split())
        except OSError:
            continue
    return texts


def limits() -> dict[str, str]:
    """Return all resource limits by their names, soft and hard."""
    texts = {}
    for name in dir(resource):
        if not name.startswith("RLIMIT_") or name == "RLIMIT_OFILE":
            continue
        values = resource.getrlimit(getattr(resource, name))
        words = ["none" if value == resource.RLIM_INFINITY else str(value) for value in values]
        texts[f"limit {name.removeprefix('RLIMIT_')}"] = " ".join(words)
    return texts


def process() -> dict[str, str]:
    """Return what a process has from the one that started it."""
    mask = os.umask(0)
    os.umask(mask)
    status = {}
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            status[name] = value.strip()
    ignored = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
    blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if name != TAG)
    return {
        "umask": f"{mask:03o}",
        "nice value": str(os.getpriority(os.PRIO_PROCESS, 0)),
        "scheduling policy": str(os.sched_getscheduler(0)),
        "I/O priority": str(libc.syscall(IOPRIO_GET[os.uname().machine], 1, 0)),
        "timer slack": str(libc.prctl(PR_GET_TIMERSLACK)),
        "huge pages kept from it": str(libc.prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0)),
        "ignored signals": " ".join(map(str, ignored)),
        "blocked signals": " ".join(str(int(number)) for number in blocked),
        "directory": os.getcwd(),
        "environment": " ".join(variables),
        "time zone": " ".join(time.tzname),
        **{title: status.get(name, "") for name, title in OF_STATUS.items()},
    }


def places() -> dict[str, str]:
    """Return what there is beside its own directory: processors, shared memory, file systems."""
    shm = os.statvfs("/dev/shm")
    runs = "" if shm.f_flag & os.ST_NOEXEC == 0 else ", no programs"
    with open("/proc/self/mountinfo") as file:
        rows = [line.split() for line in file]
    kinds = {row[4]: row[row.index("-") + 1] for row in rows}
    return {
        "usable CPUs": str(len(os.sched_getaffinity(0))),
        "CPUs": str(os.sysconf("SC_NPROCESSORS_ONLN")),
        "/dev/shm": f"{shm.f_blocks * shm.f_frsize} bytes{runs}",
        "/scratch": kinds.get("/scratch", kinds["/"]),
        "/tmp in memory": str(kinds.get("/tmp") == "tmpfs"),
    }


def localhost() -> str:
    """Return the addresses of the own machine, the first to be tried first."""
    try:
        answers = socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"({error.strerror})"
    return " ".join(str(address[0]) for *_, address in answers)


if __name__ == "__main__":
    print(json.dumps({**limits(), **process(), **places(), **settings(), "localhost": localhost()}))
