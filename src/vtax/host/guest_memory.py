"""Memory of a guest by the host's account: by its processes, and by its control group."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KSM = Path("/sys/kernel/mm/ksm")


@dataclass(frozen=True)
class GuestMemory:
    """Bytes of memory that the host spends on a guest now; None where it does not know.

    pss_bytes: of its processes, the virtualization layer's included. A page that several processes map, even of other
        guests or merged by KSM, counts by its share (Pss of /proc/PID/smaps_rollup, proc_pid_smaps(5)), so that the
        sum over guests counts it once. Kernel memory is not in it, nor is page cache that no process maps.
    cgroup_bytes: charged to its control group, page cache and kernel memory included. A shared page is charged once,
        to the group that touched it first.
    """

    pss_bytes: int | None = None
    cgroup_bytes: int | None = None


def pss_bytes(pids: Iterable[int]) -> int | None:
    """Return the bytes of processes, by their shares of pages; None when no process can be read.

    Processes that ended meanwhile are left out.
    """
    total = None
    for pid in pids:
        with suppress(OSError, ValueError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total = (total or 0) + int(line.split()[1]) * 1024
    return total


def merged_bytes() -> int:
    """Return how many bytes KSM saves on the whole host now (`pages_sharing`); 0 where it is off."""
    with suppress(OSError, ValueError):
        return int((KSM / "pages_sharing").read_text()) * resource.getpagesize()
    return 0
