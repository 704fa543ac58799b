"""CPU time of the virtualization layer of a guest by part: virtual CPUs, I/O threads, vhost, sentry, daemon.

What the guest's own programs spend is in no part; the guest's cgroup counts all together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.counters import table

_NANOSECONDS = 1e9
_MOST_BYTES = 1 << 13  # of a file of a process


@dataclass(frozen=True)
class Part:
    """A part of a virtualization layer.

    name: before the names of its counters. process, thread: regular expressions of the whole names that the kernel
    shows of its processes (their main threads') and of their threads.
    """

    name: str
    process: str
    thread: str = ".*"


class LayerParts:
    """Reads the parts of one layer. Counts only grow: what a thread spent until its end stays in them."""

    def __init__(self, parts: Sequence[Part], proc: Path = Path("/proc")) -> None:
        """parts: a thread belongs to the first that matches."""
        self._parts = tuple(parts)
        self._proc = proc
        self._threads: dict[tuple[str, str, str], tuple[float, float, float]] = {}

    def read(self, pids: Iterable[int]) -> dict[str, float]:
        """Return counters by the names of counters.table. pids: processes of which some belong to the layer."""
        peaks: dict[str, float] = {}
        for pid in pids:
            with suppress(OSError, ValueError):
                self._process(str(pid), peaks)
        counters = {table.PART_MEMORY.of(part): value for part, value in peaks.items()}
        kinds = (table.PART_CPU, table.PART_WAIT, table.PART_SLICES)
        for (part, _, _), values in self._threads.items():
            for kind, value in zip(kinds, values, strict=True):
                name = kind.of(part)
                counters[name] = counters.get(name, 0.0) + value
        return counters

    def _process(self, pid: str, peaks: dict[str, float]) -> None:
        """Read the threads that belong to a part. peaks: that of the process is added to its main thread's part."""
        directory = f"{self._proc}/{pid}"
        process = _name(directory)
        parts = [part for part in self._parts if re.fullmatch(part.process, process)]
        if not parts:
            return
        has_thread_names = len(parts) > 1 or parts[0].thread != ".*"
        with os.scandir(f"{directory}/task") as entries:
            tasks = list(entries)
        for task in tasks:
            with suppress(OSError, ValueError):
                name = _name(task.path) if has_thread_names else ""
                part = _part_of(name, parts)
                if part is None:
                    continue
                run, wait, slices = map(float, _read(f"{task.path}/schedstat").split()[:3])
                times = (run / _NANOSECONDS, wait / _NANOSECONDS, slices)
                self._threads[part, pid, task.name] = times
                if task.name == pid:
                    peak = _peak_bytes(_read(f"{directory}/status"))
                    peaks[part] = peaks.get(part, 0.0) + peak


def _part_of(thread: str, parts: Sequence[Part]) -> str | None:
    """Return the name of the first part that a thread belongs to."""
    for part in parts:
        if re.fullmatch(part.thread, thread):
            return part.name
    return None


def _name(directory: str) -> str:
    return _read(f"{directory}/comm").rstrip("\n")


def _read(path: str) -> str:
    """Return a short file of a process: a daemon has dozens of threads, for which pathlib is slow."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)


def _peak_bytes(status: str) -> float:
    """Return VmHWM of the text of /proc/PID/status (proc(5), in kB); 0 for a thread of the kernel."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    return 0.0
