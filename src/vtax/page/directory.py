"""The directory of a server's results below the temporary one, and those that killed servers left there.

A server holds a lock (flock(2)) on its directory, which the kernel drops when the server dies. So a directory of this
user that nobody holds, and that is not just being made, was left.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vtax.host.removal import remove_tree

PREFIX = "vtax-page-"
_MIN_AGE_S = 3600.0


class Directory:
    """A new directory, which is this server's until `remove`."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def remove(self) -> None:
        """Remove it with everything in it."""
        with suppress(OSError):
            remove_tree(self.path)
        os.close(self._descriptor)


def remove_abandoned() -> list[Path]:
    """Remove what killed servers of this user left; returns it. What cannot be removed stays."""
    removed_paths = []
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        with suppress(OSError), _unheld(path):
            remove_tree(path)
            removed_paths.append(path)
    return removed_paths


@contextmanager
def _unheld(path: Path) -> Iterator[None]:
    """Hold an abandoned directory while the block runs. Raises OSError for any other."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _MIN_AGE_S:
            raise PermissionError(f"{path} is in use")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
