"""Mount points of this mount namespace, from /proc/self/mountinfo."""

from __future__ import annotations

import re
from pathlib import Path

_ESCAPED = re.compile(r"\\([0-7]{3})")  # space, tab, newline, backslash (proc_pid_mountinfo(5))


def mounts_below(path: Path) -> list[str]:
    """Mount points at or below a path, deepest first."""
    prefix = str(path.resolve())
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").split("\n")
    fields = [line.split(" ")[4] for line in lines if line]
    points = [_ESCAPED.sub(lambda found: chr(int(found[1], 8)), field) for field in fields]
    return sorted((p for p in points if p == prefix or p.startswith(prefix + "/")), reverse=True)


def is_mount_point(path: Path) -> bool:
    """Return whether something is mounted exactly there."""
    return str(path.resolve()) in mounts_below(path)
