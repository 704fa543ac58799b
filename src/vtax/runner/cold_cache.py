"""Cold trials: before one, the host's page cache loses the data of all files that the guest under test has written.

Those of its private directory: the disk of a virtual machine, or the upper layer of a container's file system. Where
host and guest have one page cache, it is that one. Dropping them needs no right in the guest, and slows no other
program of the host, as /proc/sys/vm/drop_caches does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vtax.benchmarks.base import Outcome
from vtax.host import page_cache
from vtax.messages import Note
from vtax.units import about_size

LEFT = "host_cache_left_bytes"
"""Data of the guest's files that stayed in the host's page cache: an effective setting of cold trials."""
_MIN_LEFT_BYTES = 1 << 20  # that is worth a warning


def drop_guest_files(directory: Path) -> int:
    """Drop the cached data of what a guest wrote below its directory. Returns the bytes that stayed."""
    page_cache.drop(directory)
    return page_cache.resident_bytes(directory)


def with_cold_cache(outcome: Outcome, left_bytes: int | None) -> Outcome:
    """Return the outcome of a cold trial; unchanged where left_bytes is None, of other trials."""
    if left_bytes is None:
        return outcome
    warnings = outcome.warnings
    if left_bytes >= _MIN_LEFT_BYTES:
        warnings = (*warnings, Note("cache-left", size=about_size(left_bytes)))
    return replace(outcome, effective={**outcome.effective, LEFT: left_bytes}, warnings=warnings)
