"""Load of the idle host: CPU time of other programs and steal time."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.counters.host import HostSample
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
    spent = {
        kind: after.cpu_s[kind] - cpu_s
        for kind, cpu_s in before.cpu_s.items()
        if kind in after.cpu_s
    }
    busy_s = sum(spent.get(kind, 0.0) for kind in ("user", "nice", "system"))
    own_s = after.controller_cpu_s - before.controller_cpu_s
    used = {
        f"{name} ({pid})": (cpu_s - programs_before.get(pid, ("", 0.0))[1]) / elapsed_s
        for pid, (name, cpu_s) in programs_after.items()
        if pid != os.getpid()
    }
    top = sorted(used.items(), key=lambda item: -item[1])[:_SHOWN]
    cpus = os.cpu_count() or 1
    return HostLoad(
        cpus=cpus,
        busy_cpus=min(
            cpus, max(0.0, busy_s - own_s) / elapsed_s
        ),  # CPU time is counted in steps of 10 ms
        steal=spent.get("steal", 0.0) / (sum(spent.values()) or 1.0),
        busiest=tuple(
            f"{program} {format_percent(share, '.0f')}"
            for program, share in top
            if share > _SHOWN_SHARE
        ),
    )


def _programs() -> dict[int, tuple[str, float]]:
    """Name and CPU seconds of every process by PID (proc(5), stat)."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            start, _, rest = path.read_text().rpartition(")")
            fields = rest.split()
            pid, _, name = start.partition(" (")
            found[int(pid)] = (name, (int(fields[11]) + int(fields[12])) / ticks)
    return found
