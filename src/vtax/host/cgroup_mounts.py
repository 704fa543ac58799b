"""The mounted cgroup file systems of this host: one on v2, one per controller on v1, or both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup file system. controllers: v1 names; empty on v2 and for a named v1 hierarchy."""

    mount: Path
    unified: bool
    controllers: frozenset[str] = frozenset()


def hierarchies(mountinfo: str | None = None) -> tuple[Hierarchy, ...]:
    """Return the cgroup hierarchies of this host. mountinfo: text of /proc/self/mountinfo (read when absent)."""
    text = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    by_mount: dict[Path, Hierarchy] = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind not in ("cgroup", "cgroup2"):
            continue
        mount = Path(before.split()[4].replace("\\040", " "))
        is_unified = kind == "cgroup2"
        names = frozenset(options.split()[-1].split(",")) - {"rw", "ro", "xattr", "clone_children"}
        if is_unified or any(name.startswith("name=") for name in names):
            names = frozenset()
        by_mount[mount] = Hierarchy(mount, is_unified, names)
    return tuple(by_mount.values())
