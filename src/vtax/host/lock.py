"""Locks that only root can open, so that no other user can block vtax by holding one.

One measuring run per host at a time holds the lock file `HOST_LOCK`, which contains its name and home. Other users
cannot open it; they read from /proc/locks whether it is held.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from vtax.errors import BadInput, Busy, VtaxError
from vtax.host.home import Home
from vtax.host.trust import is_this_users
from vtax.host.waiting import wait_until

# One lock per host, not per home: runs of two homes disturb each other.
HOST_LOCK = Path("/run/vtax-measuring.lock")
_RECORD = struct.Struct("hhqqi0q")  # struct flock: type, whence, start, length (0: all), process
_POLL_S = 0.01
_MEASURING_POLL_S = 1.0
_QUIET_S = 0.2  # a wait without notification
_COMMAND_CHARS = 80


@contextmanager
def measuring_lock(
    name: str, path: Path | None = None, *, wait_s: float = 0.0
) -> Iterator[Callable[[str], None]]:
    """Hold the host's measuring lock while the block runs. The kernel drops it when the process dies.

    name: of the run, for the error of a refused run; the block gets a function that changes it once the run has a name.
    path: of the lock; of HOST_LOCK where None.
    wait_s: how long to wait for its holder.

    Raises Busy with the holder's name when it is taken, BadInput when the file cannot be opened.
    """
    descriptor = open_lock(path or HOST_LOCK)
    try:
        if not wait_until(partial(_take, descriptor), wait_s, _MEASURING_POLL_S):
            name, _, _ = os.pread(descriptor, 200, 0).decode(errors="replace").partition("\n")
            holder = name or holder_of(descriptor)
            raise Busy(
                f"{holder} has this host to itself; a second command would disturb its figures",
                hint="--wait 1h waits for its end; this exit status means: try again later",
            )

        with suppress(OSError):  # a file system without locks
            record = _RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, record)

        def rename(text: str) -> None:
            os.ftruncate(descriptor, 0)
            home = os.fsencode(Home.from_environment().root)
            os.pwrite(descriptor, f"{text} (process {os.getpid()})\n".encode() + home + b"\n", 0)

        rename(name)
        yield rename
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def is_measuring(path: Path | None = None) -> bool:
    """Return whether a running process holds the measuring lock; needs no root; true when unknown.

    Nothing is locked to learn it, so that no run is refused meanwhile: root asks for the record lock (fcntl(2),
    F_OFD_GETLK) that is held beside the other, which the kernel cannot be asked for.
    """
    path = path or HOST_LOCK
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except PermissionError:
        try:
            return _holder_pid(path.stat()) is not None
        except OSError:
            return True
    except OSError:
        return True
    try:
        question = _RECORD.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, question)
        return bool(_RECORD.unpack(answer)[0] != fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(descriptor)


def measuring_process(home: Home | None = None, path: Path | None = None) -> tuple[str, int | None]:
    """Return (name of the run that measures on this host, its process); ("", None) without one, or when unknown.

    home: only a run of that home, since homes may have runs of the same name.
    """
    path = path or HOST_LOCK
    try:
        pid = _holder_pid(path.stat())
        name, _, root = os.fsdecode(path.read_bytes()).partition("\n")
    except OSError:
        return "", None
    if pid is None or (home is not None and root.rstrip("\n") != str(home.root)):
        return "", None
    return name.rpartition(" (process ")[0], pid


def open_lock(path: Path) -> int:
    """Open (or create) a lock file that only this user can open. Raises BadInput."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BadInput(
            f"the lock file cannot be opened: {error.strerror}",
            where=str(path),
            hint="" if os.geteuid() == 0 else "run it again with sudo",
        ) from error
    if not is_this_users(os.fstat(descriptor)):
        os.close(descriptor)
        raise BadInput(
            "the lock file belongs to another user", where=str(path), hint=f"rm {path}, as root"
        )
    with suppress(OSError):  # whoever else could open it could hold it
        os.fchmod(descriptor, 0o600)
    return descriptor


def wait_for_lock(
    descriptor: int, does: str, notify: Callable[[str], None], timeout_s: float
) -> None:
    """Take the lock of an open file or directory; wait at most timeout_s for its holder.

    does: the holder's activity, as in `cleans up`. notify: called with a line before waiting. Raises VtaxError that
    names the holder.
    """
    take = partial(_take, descriptor)
    if wait_until(take, min(_QUIET_S, timeout_s), _POLL_S):
        return
    if timeout_s > _QUIET_S:
        notify(f"waiting for {holder_of(descriptor)}, which {does}")
    wait_until(
        take,
        timeout_s - _QUIET_S,
        _POLL_S,
        otherwise=lambda: VtaxError(
            f"{holder_of(descriptor)} {does} and still holds the lock after {timeout_s:g} s",
            hint="wait for it to end, or terminate that process, then try again",
        ),
    )


def holder_of(descriptor: int) -> str:
    """Return who holds the lock of an open file: `process 12 (vtax clean)`, or `another process`."""
    pid = None
    with suppress(OSError):
        pid = _holder_pid(os.fstat(descriptor))
    return _process(pid) if pid else "another process"


def locker_of(path: Path) -> str:
    """Return the other process with a record lock (fcntl(2)) on a file; empty when unknown."""
    with suppress(OSError):
        pid = _holder_pid(path.stat(), "POSIX", left_out=os.getpid())
        return _process(pid) if pid else ""
    return ""


def _process(pid: int) -> str:
    command = ""
    with suppress(OSError):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        command = arguments.decode(errors="replace").strip()[:_COMMAND_CHARS]
    command = "".join(letter if letter.isprintable() else "?" for letter in command)
    return f"process {pid} ({command})" if command else f"process {pid}"


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _holder_pid(status: os.stat_result, kind: str = "FLOCK", *, left_out: int = 0) -> int | None:
    """Return a process that holds a lock on a file, from /proc/locks (proc(5)), which everybody may read.

    status: of the file.
    kind: of the lock.
    left_out: a process that does not count.
    """
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == kind and fields[5] == file and int(fields[4]) != left_out:
            return int(fields[4])
    return None
