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
    """Return how many processes in a cgroup and below it were killed for lack of memory, by what the log still has;
    0 where it cannot be read. It has them when the cgroup is gone.

    path: of the cgroup below its hierarchy, which may be mounted from a cgroup of the log's.
    """
    groups = [match[1] for match in map(_GROUP.search, _records(log)) if match]
    return sum(f"{path}/" in f"{group}/" for group in groups)


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
