"""The kernel's policy of transparent huge pages: set for some guests and restored afterwards.

The policy applies to the whole host: while it is set, all processes get huge pages where possible. Old values are
registered in the journal before new ones are written (Documentation/admin-guide/mm/transhuge.rst).
"""

from __future__ import annotations

from pathlib import Path

from vtax.errors import PlatformError
from vtax.host.journal import Journal, Registration
from vtax.host.resources import selected_option
from vtax.host.settings import change_settings

POLICY = Path("/sys/kernel/mm/transparent_hugepage")
_SETTINGS = ("enabled", "defrag", "shmem_enabled")
"""For anonymous memory; made at once rather than later; for memory that processes share, as gVisor's is."""


def available(policy: Path | None = None) -> bool:
    """Return whether this host's kernel has transparent huge pages."""
    return ((policy or POLICY) / "enabled").exists()


def turn_on(journal: Journal, policy: Path | None = None) -> list[Registration]:
    """Set the policy to huge pages everywhere; returns registrations that restore it, last first.

    Raises PlatformError when the kernel refuses, after restoring its values.
    """
    settings = []
    for name in _SETTINGS:
        path = (policy or POLICY) / name
        if path.exists():
            settings.append((path, selected_option(path.read_text()), "always"))
    return change_settings(
        journal,
        settings,
        lambda path, error: PlatformError(
            f"huge pages cannot be turned on: {error.strerror}", where=str(path)
        ),
    )


def bytes_of_process(pid: int) -> int:
    """Return bytes of a process' memory that are in huge pages, private and shared (proc(5), smaps); 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    fields = ("AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:")
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(fields))
