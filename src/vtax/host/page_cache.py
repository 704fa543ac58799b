"""The host's page cache of some files: dropped for those files alone, and how much of them it holds.

Only the data of files is dropped, with posix_fadvise(2), which needs no right but to read them and touches no other
file. Their names and attributes stay in the kernel's dentry and inode caches, and so do metadata of the file system.
Data not written back yet are written first. Pages that a process has mapped stay: what stays is counted with
mincore(2). A guest may have made the files: pipes and links are left alone, and so is what is beyond MAX_FILES.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from vtax.host.walking import walk

MAX_FILES = 1_000_000
_MAX_BYTES = 64 << 30  # of a file that is looked at; a sparse one may be of any size
_LIBC = ctypes.CDLL(None, use_errno=True)


def drop(directory: Path) -> None:
    """Drop the cached data of every regular file in a directory and below it."""
    for descriptor, _ in _open_files(directory):
        with suppress(OSError):
            os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def resident_bytes(directory: Path) -> int:
    """Return bytes of the regular files in a directory and below it that are in the page cache."""
    return sum(_resident_bytes(descriptor, size) for descriptor, size in _open_files(directory))


def _open_files(directory: Path) -> Iterator[tuple[int, int]]:
    """Yield (descriptor, size in bytes) of every regular file with data; no symbolic link is followed."""
    for name, listed_status in islice(walk(directory, is_strict=False), MAX_FILES):
        if not stat.S_ISREG(listed_status.st_mode):
            continue
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOATIME
            descriptor = os.open(directory / name, flags)
            try:
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= _MAX_BYTES:
                    yield descriptor, status.st_size
            finally:
                os.close(descriptor)


def _resident_bytes(descriptor: int, size: int) -> int:
    """Return the resident bytes of an open file, by whole pages."""
    pages = -(-size // mmap.PAGESIZE)
    states = (ctypes.c_ubyte * pages)()
    with mmap.mmap(
        descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
    ) as mapping:
        view = ctypes.c_char.from_buffer(mapping)
        try:
            start = ctypes.c_void_p(ctypes.addressof(view))
            if _LIBC.mincore(start, ctypes.c_size_t(size), states):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        finally:
            del view
    return sum(state & 1 for state in states) * mmap.PAGESIZE
