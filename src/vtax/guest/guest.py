"""Calls into a guest: what the runner and the drivers use; the protocol below them is guest.protocol."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CommandResult:
    """A program that ended in a guest.

    status: exit status, or minus the signal. stdout, stderr: as text, bounded (truncated says so).
    outside_s: wall time by the controller's monotonic clock, the one that is judged. inside_s: by the guest's.
    user_s, system_s, max_rss_bytes, page_faults, context_switches: from the kernel's rusage of the program.
    timed_out: it was killed at its timeout.
    """

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    outside_s: float
    inside_s: float
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_bytes: int = 0
    page_faults: int = 0
    context_switches: int = 0
    timed_out: bool = False
    truncated: bool = False
    extra: dict[str, float] = field(default_factory=dict)
