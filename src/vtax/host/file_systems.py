"""Free room below a directory, and whether a disk or memory is there, by the mounts of this process (proc_pid_mountinfo(5))."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "rootfs"})
_MEMORY_DEVICE = re.compile(r"/dev/(?:ram|zram)\d+")
_LOOP_DEVICE = re.compile(r"/dev/(loop\d+)")
_DEEPEST = 4  # overlays and loop devices on one another


@dataclass(frozen=True)
class _Mount:
    point: Path
    kind: str
    source: str
    options: str


def free_bytes_below(directory: Path) -> int | None:
    """Return the free bytes where a directory is or will be; None when they cannot be seen."""
    for candidate in (directory, *directory.parents):
        with suppress(OSError):
            return shutil.disk_usage(candidate).free
    return None


def memory_below(directory: Path, root: Path = Path("/")) -> str:
    """Return what keeps a directory's files in memory, such as `tmpfs` or `/dev/zram0`.

    It is empty where a disk keeps them, or where that cannot be seen. An overlay writes to its upper directory, and a
    loop device to its file.

    directory: need not exist yet.
    root: of /proc and /sys.
    """
    mounts = _mounts(root)
    path = directory.resolve()
    for _ in range(_DEEPEST):
        mount = _mount_of(path, mounts)
        if mount is None:
            return ""
        if mount.kind in _IN_MEMORY:
            return mount.kind
        if _MEMORY_DEVICE.fullmatch(mount.source):
            return mount.source
        backing = _backing_path(mount, root)
        if backing is None:
            return ""
        path = backing
    return ""


def _mount_of(path: Path, mounts: list[_Mount]) -> _Mount | None:
    """Return the mount that a path is on: the last of the deepest, which hides those before it."""
    deepest: _Mount | None = None
    for mount in mounts:
        is_deeper = deepest is None or len(mount.point.parts) >= len(deepest.point.parts)
        if is_deeper and path.is_relative_to(mount.point):
            deepest = mount
    return deepest


def _backing_path(mount: _Mount, root: Path) -> Path | None:
    """Return where a mount keeps its files, if that is a path of this host; None for a device."""
    if mount.kind == "overlay":
        match = re.search(r"(?:^|,)upperdir=([^,]+)", mount.options)
        return Path(match[1]) if match else None
    if match := _LOOP_DEVICE.fullmatch(mount.source):
        with suppress(OSError):
            backing = root / "sys/block" / match[1] / "loop/backing_file"
            return Path(backing.read_text().strip())
    return None


def _mounts(root: Path) -> list[_Mount]:
    mounts: list[_Mount] = []
    with suppress(OSError):
        for line in (root / "proc/self/mountinfo").read_text(errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            fields, rest = before.split(), after.split()
            if len(fields) >= 5 and len(rest) >= 3:
                point = Path(_unescape(fields[4]))
                mounts.append(_Mount(point, rest[0], _unescape(rest[1]), rest[2]))
    return mounts


def _unescape(text: str) -> str:
    """Return a path of mountinfo, in which a space is \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
