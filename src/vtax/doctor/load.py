"""Load of the idle host: CPU time of other programs and steal time."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.counters.host import HostSample, busy_cpu_s
from vtax.host.process import cpu_s_of
from vtax.units import format_percent

_SHOWN = 3
_SHOWN_SHARE = 0.05


@dataclass(frozen=True)
class HostLoad:
    """Means over some seconds. steal: share of all CPU time. busiest: programs and their share of a CPU."""

    cpus: int
    busy_cpus: float
    steal: float
    busiest: tuple[str, ...] = ()


def sample_load(seconds: float = 1.0) -> HostLoad:
    """Sample the load over some seconds. CPU time of this process is excluded."""
    before, programs_before = HostSample.take(), _programs()
    time.sleep(seconds)
    after, programs_after = HostSample.take(), _programs()
    elapsed_s = after.monotonic_s - before.monotonic_s
    cpu_s_by_kind = after.cpu_s_since(before)
    others_s = busy_cpu_s(cpu_s_by_kind) - (after.controller_cpu_s - before.controller_cpu_s)
    shares = []
    for pid, (name, cpu_s) in programs_after.items():
        if pid != os.getpid():
            _, before_s = programs_before.get(pid, ("", 0.0))
            shares.append(((cpu_s - before_s) / elapsed_s, f"{name} ({pid})"))
    shares.sort(key=lambda share: -share[0])
    busiest = []
    for share, program in shares[:_SHOWN]:
        if share > _SHOWN_SHARE:
            busiest.append(f"{program} {format_percent(share, '.0f')}")
    cpus = os.cpu_count() or 1
    return HostLoad(
        cpus=cpus,
        # CPU time is counted in steps of 10 ms
        busy_cpus=min(cpus, max(0.0, others_s) / elapsed_s),
        steal=cpu_s_by_kind.get("steal", 0.0) / (sum(cpu_s_by_kind.values()) or 1.0),
        busiest=tuple(busiest),
    )


def _programs() -> dict[int, tuple[str, float]]:
    """Return name and CPU seconds of every process by PID (proc(5), stat)."""
    programs = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            stat = path.read_text()
            pid, _, name = stat.rpartition(")")[0].partition(" (")
            programs[int(pid)] = (name, cpu_s_of(stat))
    return programs
