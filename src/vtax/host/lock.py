"""One measuring run per host at a time: a lock file that also says who holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vtax.errors import BadInput

HOST_LOCK = Path("/run/vtax.lock")  # of the host, not of a home: two homes would disturb each other as well


@contextmanager
def measuring_lock(name: str, path: Path = HOST_LOCK) -> Iterator[Callable[[str], None]]:
    """Hold the host's measuring lock while the block runs. The kernel drops it when the process dies.

    name: of what measures, shown to whoever is refused; the block is given a function that changes it, for when the
    run has its own name. Raises BadInput with the holder's name when it is taken.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another run"
            raise BadInput(
                f"{holder} is measuring on this host; two runs at once would disturb each other",
                cure="wait for it to end, or stop it with Ctrl-C",
            ) from error

        def rename(text: str) -> None:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{text} (process {os.getpid()})\n".encode(), 0)

        rename(name)
        yield rename
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def is_measuring(path: Path = HOST_LOCK) -> bool:
    """Whether a live process holds the measuring lock; needs no root, and says yes when it cannot be found out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
