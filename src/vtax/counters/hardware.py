"""Hardware and software events of all CPUs, by perf_event_open(2), as `perf stat -a` counts them.

The events are opened once and count from then on, so a reading is one read(2) for each event and CPU. Where there are
more events than the processor has counters, the kernel takes turns, and a count is scaled by the time it was counted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Mapping, Sequence
from functools import cache

from vtax.counters import table
from vtax.messages import Note

_SYSCALL = {"x86_64": 298, "aarch64": 241}
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_ATTRIBUTES = struct.Struct("=IIQQQQQ")  # struct perf_event_attr up to its flags
_COUNT = struct.Struct("=QQQ")  # of a file: value, time enabled, time running
_SIZE = 112  # PERF_ATTR_SIZE_VER5; what follows is zero
_HARDWARE, _SOFTWARE, _CACHE = 0, 1, 3  # PERF_TYPE_*
_READ_MISS = 1 << 16  # PERF_COUNT_HW_CACHE_RESULT_MISS, of reads
_EVENTS = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache-misses": (_HARDWARE, 3),
    "branch-misses": (_HARDWARE, 5),
    "dTLB-load-misses": (_CACHE, 3 | _READ_MISS),
    "iTLB-load-misses": (_CACHE, 4 | _READ_MISS),
    "cpu-migrations": (_SOFTWARE, 4),
}
_WORDS = {
    errno.ENOENT: Note("no-hardware-counters"),
    errno.EOPNOTSUPP: Note("no-hardware-counters"),
    errno.EACCES: Note("perf-forbidden"),
    errno.EPERM: Note("perf-forbidden"),
    errno.ENOSYS: Note("no-perf"),
}


class Events:
    """Open events. unavailable: event -> why it cannot be counted here."""

    def __init__(self, names: tuple[str, ...] = tuple(_EVENTS)) -> None:
        self.unavailable: dict[str, str] = {}
        self._files: dict[str, list[int]] = {}
        cpus = sorted(range(os.cpu_count() or 1))
        for name in names:
            try:
                self._files[name] = _open_all(name, cpus)
            except OSError as error:
                self.unavailable[name] = _WORDS.get(error.errno or 0, error.strerror or str(error))

    def read(self) -> dict[str, list[bytes]]:
        """Read the counts since the events were opened, event -> for each CPU: see `counted`."""
        return {
            name: [os.read(fd, _COUNT.size) for fd in files] for name, files in self._files.items()
        }

    def counted(self, reading: Mapping[str, Sequence[bytes]]) -> dict[str, float]:
        """Return counts of a reading, all CPUs, by the names of counters.table."""
        counts = {}
        for name, of_cpus in reading.items():
            total = 0.0
            for value, enabled_ns, running_ns in map(_COUNT.unpack, of_cpus):
                total += value * (enabled_ns / running_ns) if running_ns else 0.0
            counts[table.HARDWARE[name].name] = total
        return counts

    def close(self) -> None:
        """Close all files."""
        for files in self._files.values():
            for fd in files:
                os.close(fd)
        self._files = {}


@cache
def events() -> Events:
    """Return the events of this process, opened at the first call."""
    return Events()


def _open_all(name: str, cpus: list[int]) -> list[int]:
    """Return a file for every CPU. Raises OSError, with none left open."""
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
    if max_files < len(_EVENTS) * len(cpus):
        reason = Note("too-many-files", files=len(_EVENTS) * len(cpus))
        raise OSError(errno.EMFILE, reason)
    files: list[int] = []
    try:
        for cpu in cpus:
            files.append(_open(name, cpu))
    except OSError:
        for fd in files:
            os.close(fd)
        raise
    return files


def _open(name: str, cpu: int) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"not known how to ask a {platform.machine()} kernel")
    kind, config = _EVENTS[name]
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(kind, _SIZE, config, 0, 0, _TIMES, 0), _SIZE
    )
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(number, attributes, -1, cpu, -1, ctypes.c_ulong(_CLOSE_ON_EXEC)))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd
