"""Names a lack of memory where it is why a trial failed: the kernel kills a process, which says nothing itself.

What is killed may be the tool, its server, or the agent, whose guest then is gone. The host counts kills of a guest's
cgroup; a guest with a kernel of its own counts them there, and writes them to its console. Looking into cgroups takes
longer than a gap between two trials should, so it waits until the host's kernel has killed something, or a trial
has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vtax.counters.open_files import OpenFiles
from vtax.counters.table import VMSTAT
from vtax.messages import Note
from vtax.runner.counting import Counted, Endpoint
from vtax.units import about_size

_KILLS = VMSTAT["oom_kill"].name
_VMSTAT = Path("/proc/vmstat")
_ON_HOST = re.compile(rb"^oom_kill ([0-9]+)$", re.MULTILINE)
_files = OpenFiles()


@dataclass(frozen=True)
class KilledProcesses:
    """Processes of a guest that were killed for lack of memory.

    role: of the guest.
    count: processes.
    memory: the limit.
    """

    role: str
    count: int
    memory: str

    def explain(self, error: str) -> Note:
        """Return an error with the lack of memory, which explains it."""
        killed = {"role": self.role, "memory": self.memory, "count": self.count}
        return Note("out-of-memory", what=error, **killed)

    @property
    def warning(self) -> Note:
        """The warning of a trial that went on without what was killed."""
        return Note("killed-in-trial", role=self.role, memory=self.memory, count=self.count)


@dataclass(frozen=True)
class Kills:
    """Kills for lack of memory in a trial. counts: by the role of a guest; none where nothing was killed."""

    ends: Mapping[str, Endpoint]
    counts: Mapping[str, int]

    def processes(self, counted: Counted, memory_bytes: int) -> Iterator[KilledProcesses]:
        """Yield the guests in which something was killed.

        counted: counters of the trial.
        memory_bytes: of a guest, where its platform does not know the limit in force.
        """
        for role, end in self.ends.items():
            count = self.counts.get(role, 0)
            if end.running.is_machine:
                count = max(count, int(counted.get((role, _KILLS), 0)))
            if count > 0:
                limit = end.running.limits_in_force().get("limit.memory")
                size = limit if isinstance(limit, int) else memory_bytes
                yield KilledProcesses(role, count, about_size(size))


class MemoryWatch:
    """Counts the kills for lack of memory in guests from one trial to the next."""

    def __init__(self, ends: Mapping[str, Endpoint]) -> None:
        """Count those before the first trial of these guests."""
        self._ends = ends
        self._on_host = host_kills()
        self._counts = self._count(has_failed=False)

    def look(self, *, has_failed: bool) -> Kills:
        """Return the kills since it looked last.

        has_failed: whether the trial did: then the kernel's log is read, too, which outlives a guest.
        """
        on_host = host_kills()
        if on_host is not None and on_host == self._on_host and not has_failed:
            return Kills(self._ends, {})
        before, self._counts = self._counts, self._count(has_failed=has_failed)
        self._on_host = on_host
        counts = {role: count - before[role] for role, count in self._counts.items()}
        return Kills(self._ends, counts)

    def _count(self, *, has_failed: bool) -> dict[str, int]:
        counts = {}
        for role, end in self._ends.items():
            counts[role] = end.running.oom_kills(has_ended=has_failed) or 0
        return counts


def host_kills() -> int | None:
    """Return how many processes the host's kernel has killed for lack of memory; None where it does not count them."""
    found = _ON_HOST.search(_files.read(_VMSTAT) or b"")
    return int(found[1]) if found else None
