"""Names a lack of memory where it is why a trial failed: the kernel kills a process, which says nothing itself.

What is killed may be the tool, its server, or the agent, whose guest then is gone. The host counts kills of a guest's
cgroup; a guest with a kernel of its own counts them there, and writes them to its console.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vtax.counters.table import VMSTAT
from vtax.messages import Note
from vtax.runner.counting import Counted, Endpoint
from vtax.units import about_size

_KILLS = VMSTAT["oom_kill"].name


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


class MemoryWatch:
    """Kills for lack of memory in the guests of a trial: from when it was made on until it looked last."""

    def __init__(self, ends: Mapping[str, Endpoint]) -> None:
        self._ends = ends
        self._before = {role: end.running.oom_kills() or 0 for role, end in ends.items()}
        self._after = self._before

    def look(self, *, has_failed: bool) -> None:
        """Count anew. has_failed: whether the trial did: then the kernel's log is read, too, which outlives a guest."""
        self._after = {}
        for role, end in self._ends.items():
            self._after[role] = end.running.oom_kills(has_ended=has_failed) or 0

    def killed(self, counted: Counted, memory_bytes: int) -> Iterator[KilledProcesses]:
        """Yield the guests in which something was killed.

        counted: counters of the trial.
        memory_bytes: of a guest, where its platform does not know the limit in force.
        """
        for role, end in self._ends.items():
            count = self._after[role] - self._before[role]
            if end.running.has_own_kernel:
                count = max(count, int(counted.get((role, _KILLS), 0)))
            if count > 0:
                limit = end.running.limits_in_force().get("limit.memory")
                size = limit if isinstance(limit, int) else memory_bytes
                yield KilledProcesses(role, count, about_size(size))
