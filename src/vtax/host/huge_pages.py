"""The kernel's policy of transparent huge pages: set for some guests and restored afterwards.

The policy applies to the whole host: while it is set, all processes get huge pages where possible. Old values are
registered in the journal before new ones are written (Documentation/admin-guide/mm/transhuge.rst).
"""

from __future__ import annotations

from pathlib import Path

from vtax.errors import PlatformError
from vtax.host.journal import Journal, Registration
from vtax.host.resources import chosen
from vtax.host.settings import change

POLICY = Path("/sys/kernel/mm/transparent_hugepage")
_ALWAYS = ("enabled", "defrag", "shmem_enabled")
"""For anonymous memory; made at once rather than later; for memory that processes share, which is gVisor's."""


def available(policy: Path | None = None) -> bool:
    """Return whether this host's kernel has transparent huge pages."""
    return ((policy or POLICY) / "enabled").exists()


def always(journal: Journal, policy: Path | None = None) -> list[Registration]:
    """Set the policy to huge pages everywhere; returns registrations that restore it, last first.

    Raises PlatformError when the kernel refuses, after restoring its values.
    """
    there = [path for name in _ALWAYS if (path := (policy or POLICY) / name).exists()]
    return change(
        journal,
        ((path, chosen(path.read_text()), "always") for path in there),
        lambda path, error: PlatformError(
            f"huge pages cannot be turned on: {error.strerror}", where=str(path)
        ),
    )


def of_process(pid: int) -> int:
    """Return bytes of a process' memory that are in huge pages, private and shared (proc(5), smaps). 0 when it is
    gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    wanted = ("AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:")
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(wanted))
