"""CPU time of the virtualization layer of a guest by part: virtual CPUs, I/O threads, vhost, sentry, daemon.

What the guest's own programs spend is in no part; the guest's cgroup counts all together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.counters import table

_NANOSECONDS = 1e9


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
        """Counters by the names of counters.table. pids: processes of which some belong to the layer."""
        peaks: dict[str, float] = {}
        for pid in pids:
            with suppress(OSError, ValueError):
                self._process(self._proc / str(pid), peaks)
        found = {table.PART_MEMORY.of(part): value for part, value in peaks.items()}
        for (part, _, _), values in self._threads.items():
            for counter, value in zip(
                (table.PART_CPU, table.PART_WAIT, table.PART_SLICES), values, strict=True
            ):
                found[counter.of(part)] = found.get(counter.of(part), 0.0) + value
        return found

    def _process(self, directory: Path, peaks: dict[str, float]) -> None:
        """Read the threads that belong to a part. peaks: that of the process is added to its main thread's part."""
        process = _name(directory)
        parts = [part for part in self._parts if re.fullmatch(part.process, process)]
        for task in (directory / "task").iterdir() if parts else ():
            with suppress(OSError, ValueError):
                name = _name(task) if len(parts) > 1 or parts[0].thread != ".*" else ""
                part = next((each.name for each in parts if re.fullmatch(each.thread, name)), None)
                if part is None:
                    continue
                run, wait, slices = map(float, (task / "schedstat").read_text().split()[:3])
                self._threads[part, directory.name, task.name] = (
                    run / _NANOSECONDS,
                    wait / _NANOSECONDS,
                    slices,
                )
                if task.name == directory.name:
                    peaks[part] = peaks.get(part, 0.0) + _peak_bytes(
                        (directory / "status").read_text()
                    )


def _name(directory: Path) -> str:
    return (directory / "comm").read_text(errors="replace").rstrip("\n")


def _peak_bytes(status: str) -> float:
    """VmHWM of the text of /proc/PID/status (proc(5), in kB); 0 for a thread of the kernel."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    return 0.0
