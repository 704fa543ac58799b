"""One measuring run per host at a time: a lock file that also says who holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtax.errors import BadInput


@contextmanager
def measuring_lock(path: Path, name: str) -> Iterator[None]:
    """Hold the host's measuring lock while the block runs. The kernel drops it when the process dies.

    name: of the run, shown to whoever is refused. Raises BadInput with the holder's name when it is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
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
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{name} (process {os.getpid()})\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
