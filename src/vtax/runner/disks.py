"""Work of the host's disks while a tool worked on that of a guest: below the cache of the guest is another.

The counters are of the whole host, so other programs' reads and writes are in them: a ratio above 1 may be theirs,
or the journal of a file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vtax.benchmarks.base import Outcome
from vtax.counters.table import DISK_COLUMNS, HOST, HOST_DISK_RATIO
from vtax.messages import Note

_READ_BYTES, _WRITES, _WRITTEN_BYTES = (DISK_COLUMNS[column].name for column in (5, 7, 9))
_MIN_RATIO = 0.5  # below it, more than half of what went past the guest's cache stopped at another
_MIN_WRITES = 0.5  # per flush of new data, which is one write or more; below it, more than half reached no disk


def on_host(outcome: Outcome, counted: Mapping[tuple[str, str], float]) -> Outcome:
    """Return the outcome with the ratio of bytes on the host's disks, and warnings for what did not reach them.

    Unchanged for a tool of another kind. Where the host counts no disk, a cache below the guest is only suspected.
    """
    work = outcome.disk
    found = [counted.get((HOST, name)) for name in (_READ_BYTES, _WRITTEN_BYTES, _WRITES)]
    if work is None or work.moved_bytes <= 0:
        return outcome
    if None in found:
        return replace(outcome, warnings=(*outcome.warnings, *filter(None, [work.if_not_counted])))
    read_bytes, written_bytes, writes = (value or 0.0 for value in found)
    ratio = (read_bytes + written_bytes) / work.moved_bytes
    warnings = []
    if work.flushes * _MIN_WRITES > writes:
        flushes = Note("flushes-none", count=work.flushes)
        warnings.append(
            Note("flushes-short", count=work.flushes, writes=round(writes)) if writes else flushes
        )
    if work.is_direct and ratio < _MIN_RATIO:
        warnings.append(Note("disks-direct", share=ratio))
    elif work.if_not_counted and ratio < _MIN_RATIO:
        warnings.append(Note("disks-below", share=ratio))
    return replace(
        outcome,
        effective={**outcome.effective, HOST_DISK_RATIO: round(ratio, 3)},
        warnings=(*outcome.warnings, *warnings),
    )
