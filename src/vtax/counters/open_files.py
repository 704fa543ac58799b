"""Files of /proc and /sys that are read around every trial, by descriptors that stay open.

Such a file is made anew at every pread(2) from its beginning. Opening one costs more than reading most of them. Files
of debugfs, such as KVM's counters, cannot seek: they are opened for every reading.
"""

from __future__ import annotations

import os
from pathlib import Path

_CHUNK = 1 << 16
_MOST = (
    128  # of the 1024 that a process may have as a rule; what is beyond is opened for every reading
)


class OpenFiles:
    """Descriptors by path. One that could not be opened is tried again at the next reading."""

    def __init__(self) -> None:
        self._open: dict[Path, int] = {}

    def read(self, path: Path) -> bytes | None:
        """Return the content of a file now, None when it cannot be read."""
        try:
            if path in self._open:
                return read_again(self._open[path])
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            return b"".join(iter(lambda: os.read(descriptor, _CHUNK), b""))
        except OSError:
            return None
        finally:
            if len(self._open) < _MOST and _can_seek(descriptor):
                self._open[path] = descriptor
            else:
                os.close(descriptor)

    def close(self) -> None:
        """Close all of them. May be called twice."""
        while self._open:
            os.close(self._open.popitem()[1])


def read_again(descriptor: int) -> bytes:
    """Return the content of an open file now, from its beginning. Raises OSError."""
    parts: list[bytes] = []
    position = 0
    while True:
        part = os.pread(descriptor, _CHUNK, position)
        if not part:
            return b"".join(parts)
        parts.append(part)
        position += len(part)


def _can_seek(descriptor: int) -> bool:
    try:
        os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True
