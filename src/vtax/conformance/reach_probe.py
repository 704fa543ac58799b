"""Runs in a guest as its root and prints what it can reach of its host, as a JSON list of short texts.

`reach_probe NAME NUMBER make` runs on the host before: until its input ends, it keeps a process with NAME in its command
line, a key and an abstract socket of that name, and shared memory and a message queue of that number. `reach_probe NAME
NUMBER` looks for them, and takes the name backwards, so that no command line of the guest has it. Standard library
only, on Linux of x86-64 or arm64. It changes nothing but itself: files are
opened and closed, calls have arguments that the kernel refuses after its check of permission.
"""

import ctypes
import errno
import json
import os
import platform
import re
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator

CLOSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
ROOTS = ("/proc", "/sys", "/dev")
NULL_DEVICE = os.makedev(1, 3)
OWN_DEVICES = frozenset(
    {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console", "core", "shm", "mqueue"}
)
NOT_OPENED = re.compile(r"/dev/(watchdog|vsock|vhost-vsock)|/dev/pts/")
PROCESS_KEYRING, USER_KEYRING = -2, -4
CAPABILITY_SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
NEW = {"user": 0x10000000, "mount": 0x20000, "network": 0x40000000, "PID": 0x20000000}
NUMBERS = {  # of x86-64 and arm64, <asm/unistd.h>
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clone": (56, 220),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "ioprio_set": (251, 30),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "msgget": (68, 186),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "reboot": (169, 142),
    "setns": (308, 268),
    "shmget": (29, 194),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}

libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Make a system call; its result, or minus the number of its error."""
    number = NUMBERS[name][platform.machine() != "x86_64"]
    if number is None:
        return -errno.ENOSYS
    result = libc.syscall(number, *arguments)
    return result if result >= 0 else -ctypes.get_errno()


def is_open(result: int) -> bool:
    """Return whether a call passed its check of permission, even where it failed after that."""
    return -result not in CLOSED


def in_child(act: Callable[[], bool]) -> bool:
    """Return whether act succeeds in a process of its own, which it may change."""
    pid = os.fork()
    if pid == 0:
        result = False
        try:
            result = act()
        finally:
            os._exit(0 if result else 1)
    return os.waitpid(pid, 0)[1] == 0


def calls() -> Iterator[str]:
    """Yield system calls that this process may make."""
    zeros = ctypes.create_string_buffer(256)
    attribute = ctypes.create_string_buffer(struct.pack("=IIQ", 1, 128, 0) + bytes(112), 128)
    pid = os.getpid()
    results = {
        "bpf": call("bpf", 11, zeros, 128),
        "perf_event_open": call("perf_event_open", attribute, -1, 0, -1, 0),
        "syslog": call("syslog", 10, None, 0),
        "kexec_load": call("kexec_load", 0, 1, None, 0xDEAD),
        "init_module": call("init_module", None, 0, b""),
        "delete_module": call("delete_module", b"vtax-no-such-module", 0x800),
        "reboot": call("reboot", 0, 0, 0, None),
        "swapon": call("swapon", b"/vtax-no-such-file", 0),
        "acct": call("acct", b"/vtax-no-such-file"),
        "pivot_root": call("pivot_root", b"/vtax-no-such-file", b"/vtax-no-such-file"),
        "umount2": call("umount2", b"/etc", 0),
        "mount": call("mount", b"none", b"/etc", b"vtax-no-such-kind", 0, None),
        "fsopen": call("fsopen", b"tmpfs", 0),
        "open_tree": call("open_tree", -100, b"/", 1),
        "setns": call("setns", os.open("/proc/self/ns/net", os.O_RDONLY), NEW["network"]),
        "userfaultfd": max(call("userfaultfd", 0), call("userfaultfd", 1)),
        "io_uring_setup": call("io_uring_setup", 0, zeros),
        "fanotify_init": max(call("fanotify_init", 0, 0), call("fanotify_init", 0x200, 0)),
        "ioperm": call("ioperm", 0x80, 1, 1),
        "real-time priority": _errno_of(os.sched_setscheduler, pid, 1, os.sched_param(1)),
        "nice -20": _errno_of(os.setpriority, 0, pid, -20),
        "real-time I/O": call("ioprio_set", 1, pid, 1 << 13),
    }
    yield from (name for name, result in results.items() if is_open(result))
    for kind, flag in NEW.items():
        if in_child(lambda flag=flag: call("unshare", flag) == 0):  # type: ignore[misc]
            yield f"unshare ({kind} namespace)"
    if call("clone", NEW["user"] | 17, None, None, None, None) >= 0:
        os._exit(0) if os.getppid() == pid else os.wait()
        yield "clone (user namespace)"
    yield from sockets()


def _errno_of(act: Callable[..., object], *arguments: object) -> int:
    try:
        act(*arguments)
    except OSError as error:
        return -(error.errno or errno.EPERM)
    return 0


def sockets() -> Iterator[str]:
    """Yield raw sockets and the kernel's audit, where they can be opened."""
    kinds = (
        ("raw packets", socket.AF_PACKET, 0, 0),
        ("raw IP", socket.AF_INET, socket.IPPROTO_ICMP, 0),
        ("kernel audit", socket.AF_NETLINK, 9, 1),
    )
    for name, family, protocol, group in kinds:
        try:
            with socket.socket(family, socket.SOCK_RAW, protocol) as raw_socket:
                if group:
                    raw_socket.bind((0, group))
            yield name
        except OSError:
            pass


def handles() -> Iterator[str]:
    """Yield file systems of which a file handle opens a directory: their root, whatever of them is mounted here."""
    root = struct.pack("=IiII", 8, 1, 2, 0)
    with open("/proc/self/mountinfo") as file:
        places = {line.split()[4] for line in file}
    for place in sorted(places):
        try:
            mount_fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        result = call("open_by_handle_at", mount_fd, root, os.O_RDONLY)
        if is_open(result) and result != -errno.EOPNOTSUPP:
            yield f"open_by_handle_at ({place})"
        os.close(mount_fd)


def files() -> Iterator[str]:
    """Yield files of /proc (but of processes), /sys and /dev that something can write, and that open for it.

    Files without a writer, which only root's capabilities open, and files in a tmpfs of the guest's own count for
    nothing.
    """
    own_cgroup = _below_own_cgroup()
    directories = [*ROOTS, *own_cgroup]
    identities = set()
    while directories:
        directory = directories.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            if (
                entry.path in identities
                or _is_own(directory, entry.name)
                or NOT_OPENED.match(entry.path)
            ):
                continue
            identities.add(entry.path)
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.path)
            elif _is_written(entry) and _opens(entry.path, os.O_WRONLY):
                yield entry.path
            elif _is_roots(entry) and _opens(entry.path, os.O_RDONLY):
                yield f"{entry.path} (read)"
    if _opens("/dev/kmsg", os.O_RDONLY):
        yield "kernel log"


def _is_written(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        return status.st_rdev != NULL_DEVICE  # which runtimes put over what they hide
    is_kernels = stat.S_ISREG(status.st_mode) and not entry.path.startswith("/dev/")
    return is_kernels and bool(status.st_mode & 0o222)


def _is_roots(entry: os.DirEntry[str]) -> bool:
    """Return whether root alone may read a file of the kernel: some act when they are read. Its network's are its own."""
    mode = entry.stat(follow_symlinks=False).st_mode
    is_roots = stat.S_ISREG(mode) and mode & 0o404 == 0o400
    return is_roots and not entry.path.startswith(("/dev/", "/proc/sys/net/"))


def _below_own_cgroup() -> list[str]:
    with open("/proc/self/cgroup") as file:
        paths = [line.rstrip("\n").split(":", 2) for line in file]
    return [f"/sys/fs/cgroup/{names}{path}".rstrip("/") for _, names, path in paths if names]


def _is_own(directory: str, name: str) -> bool:
    if directory == "/proc":
        return name.isdigit() or name in ("self", "thread-self")
    return directory == "/dev" and name in OWN_DEVICES


def _opens(path: str, flags: int) -> bool:
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def make(name: str, number: int) -> None:
    """Make what a guest looks for, and remove it at the end of the input."""
    key = call("add_key", b"user", name.encode(), b"secret", 6, USER_KEYRING)
    memory = call("shmget", number, 4096, 0o1600)
    messages = call("msgget", number, 0o1600)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        try:
            assert min(key, memory, messages) >= 0, (key, memory, messages)
            print("made", flush=True)
            sys.stdin.read()
        finally:
            libc.shmctl(memory, 0, None)
            libc.msgctl(messages, 0, None)
            call("keyctl", 9, key, USER_KEYRING)


def objects(wanted: str, number: int) -> Iterator[str]:
    """Yield what the host has made and this guest finds."""
    # linked to a keyring of its own, it may be read
    key = call("keyctl", 10, USER_KEYRING, b"user", wanted.encode(), PROCESS_KEYRING)
    content = ctypes.create_string_buffer(64)
    if key >= 0 and call("keyctl", 11, key, content, 64) >= 0:
        yield "keys of the host's root"
    with socket.socket(socket.AF_UNIX) as client:
        if client.connect_ex("\0" + wanted) == 0:
            yield "abstract sockets of the host"
    if call("shmget", number, 0, 0) >= 0:
        yield "shared memory of the host"
    if call("msgget", number, 0) >= 0:
        yield "message queues of the host"
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                is_host = wanted.encode() in file.read()
        except OSError:
            continue
        if is_host and int(name) != os.getpid():
            yield "processes of the host"
            local = struct.pack("=QQ", 0, 0)
            if is_open(call("process_vm_readv", int(name), local, 1, local, 1, 0)):
                yield "memory of the host's processes"
            return


def nodes() -> Iterator[str]:
    """Yield device nodes and immutable files, where they can be made."""
    for place in ("/scratch", "/tmp", "/dev/shm"):
        path = f"{place}/vtax-reach"
        try:
            os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        except OSError:
            continue
        os.unlink(path)
        yield "mknod"
        break
    path = "/scratch/vtax-reach"
    with open(path, "w") as file:
        flags = bytearray(struct.pack("=l", 0x10))  # FS_IMMUTABLE_FL
        if libc.ioctl(file.fileno(), 0x40086602, bytes(flags)) == 0:
            libc.ioctl(file.fileno(), 0x40086602, bytes(4))
            yield "immutable files"
    os.unlink(path)


def capabilities() -> Iterator[str]:
    """Yield the numbers of capabilities in any set."""
    bits = 0
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in CAPABILITY_SETS:
                bits |= int(value, 16)
    yield from (f"capability {number}" for number in range(64) if bits >> number & 1)


if __name__ == "__main__":
    NAME, NUMBER = sys.argv[1], int(sys.argv[2])
    if sys.argv[3:] == ["make"]:
        make(NAME, NUMBER)
    else:
        found = [
            *capabilities(),
            *objects(NAME[::-1], NUMBER),
            *nodes(),
            *handles(),
            *files(),
            *calls(),
        ]
        print(json.dumps(found))
