"""The kernel's log of this host, as far as it may be read: what was killed for lack of memory, and in which cgroup."""

from __future__ import annotations

import os
import re
from pathlib import Path

LOG = Path("/dev/kmsg")
OUT_OF_MEMORY = "Out of memory: Killed process"
"""How a kernel says that it killed a process since its whole machine had no memory left (mm/oom_kill.c)."""
_RECORD_BYTES = 8192  # a reader must take whole records
_MOST_RECORDS = 100_000
_GROUP = re.compile(r"oom-kill:.*\btask_memcg=([^,]+)")


def kills_below(path: str, log: Path = LOG) -> int:
    """Return how many processes of a cgroup and its descendants were killed for lack of memory, by the kernel's log.

    The log still has them when the cgroup is gone, until it is overwritten. 0 where it cannot be read.
    path: of the cgroup below the mount of its hierarchy; the log names it from the root of the hierarchy.
    """
    count = 0
    for record in _records(log):
        match = _GROUP.search(record)
        if match and f"{path}/" in f"{match[1]}/":
            count += 1
    return count


def _records(log: Path) -> list[str]:
    records: list[str] = []
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return records
    try:
        while len(records) < _MOST_RECORDS:
            try:
                record = os.read(descriptor, _RECORD_BYTES)
            except BrokenPipeError:  # it was overwritten meanwhile: the next one is the oldest left
                continue
            if not record:
                break
            records.append(record.decode(errors="replace"))
    except OSError:  # there is no further record
        pass
    finally:
        os.close(descriptor)
    return records
