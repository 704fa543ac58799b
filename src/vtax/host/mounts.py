"""Mount points of this mount namespace, from /proc/self/mountinfo."""

from __future__ import annotations

import re
from pathlib import Path

_ESCAPED = re.compile(r"\\([0-7]{3})")  # space, tab, newline, backslash (proc_pid_mountinfo(5))


def mounts_below(path: Path) -> list[str]:
    """Return the mount points at or below a path, deepest first."""
    top = str(path.resolve())
    points = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").split("\n"):
        if line:
            point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), line.split(" ")[4])
            if f"{point}/".startswith(f"{top}/"):
                points.append(point)
    return sorted(points, reverse=True)


def is_mount_point(path: Path) -> bool:
    """Return whether a file system is mounted exactly at a path."""
    return str(path.resolve()) in mounts_below(path)
