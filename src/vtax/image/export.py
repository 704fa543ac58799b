"""The root file system in the forms that platforms take: a tar archive and a raw ext4 disk, made without mounting.

Of one tree both are the same to the last bit, whenever and wherever they are made by one version of tar and of
e2fsprogs: an image that was carried to another host has its disk made there. So what the kernel alone sets (the time
of a change), and what reading changes (that of an access), is the same for all files, and defaults of ext4 are vtax's
own, not the host's /etc/mke2fs.conf.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from vtax.errors import BadInput
from vtax.host.file_systems import free_bytes_below
from vtax.host.process import run
from vtax.units import about_size

DISK_BYTES = 2 * 1024**3
"""Size of the disk as the guest sees it, unless a study sets it; the file is sparse. What the tree leaves free is
scratch space."""

_UUID = "76746178-0000-4000-8000-000000000001"
_EXPORT_TIMEOUT_S = 600.0
_PAX = "--pax-option=delete=atime,delete=ctime,exthdr.name=%d/PaxHeaders/%f"  # names without a PID
_TIME = 1735689600  # 2025-01-01, of all that has no time of its own
_FIXED = {
    "atime": f"@{_TIME}",
    "ctime": f"@{_TIME}",
    "atime_extra": "0",
    "ctime_extra": "0",
    "mtime_extra": "0",
}
_ROOT_INODE, _FIRST_INODE = 2, 11
"""The root, and the first inode that is not reserved; those after it are taken in order."""
_SUPERBLOCK = 1024
"""Bytes from the start of the disk (Linux, Documentation/filesystems/ext4/super.rst)."""
_RESERVED_BLOCKS = 4096  # that ext4 keeps for its own metadata (fs/ext4/super.c, s_resv_clusters)


def write_archive(tree: Path, target: Path) -> None:
    """Write a tar with numeric owners and file capabilities; no device nodes: every runtime makes them."""
    tar = ["tar", "--create", f"--file={target}", f"--directory={tree}", "--sort=name"]
    tar += ["--numeric-owner", "--xattrs", "--xattrs-include=security.capability", _PAX]
    run([*tar, "--exclude=./dev/*", "."], timeout_s=_EXPORT_TIMEOUT_S)


def write_disk(tree: Path, target: Path, size_bytes: int = DISK_BYTES) -> str:
    """Write a sparse ext4 file system, no partition table, nothing left to initialise while a guest measures.

    tree: its files.
    target: the disk.
    size_bytes: of the disk, a multiple of 4096.

    Returns the version of mke2fs that made it.
    """
    environment = {
        "E2FSPROGS_FAKE_TIME": str(_TIME),
        "MKE2FS_CONFIG": str(files("vtax.image").joinpath("data", "mke2fs.conf")),
    }
    run(
        [
            *("mke2fs", "-q", "-t", "ext4", "-d", tree, "-L", "vtax", "-U", _UUID, "-m", "0"),
            *("-E", f"hash_seed={_UUID},lazy_itable_init=0,lazy_journal_init=0"),
            *(target, f"{size_bytes // 1024}k"),
        ],
        timeout_s=_EXPORT_TIMEOUT_S,
        environment=environment,
    )
    commands = []
    for inode in (_ROOT_INODE, *range(_FIRST_INODE, _used_inodes(target) + 1)):
        for field, value in _FIXED.items():
            commands.append(f"set_inode_field <{inode}> {field} {value}\n")
    run(
        ["debugfs", "-w", "-f", "/dev/stdin", target],
        timeout_s=_EXPORT_TIMEOUT_S,
        environment=environment,
        input_text="".join(commands),
    )
    return disk_maker()


def disk_maker() -> str:
    """Return the version of mke2fs on this host, such as `mke2fs 1.47.0`."""
    return " ".join(run(["mke2fs", "-V"], check=False).stderr.split()[:2])


def free_bytes(disk: Path) -> int:
    """Return bytes for files in the ext4 file system of a disk that `write_disk` made. Raises OSError."""
    block = _superblock(disk)
    free_blocks = _u32(block, 0x158) << 32 | _u32(block, 0xC)
    return max(free_blocks - _RESERVED_BLOCKS, 0) * (1 << _u32(block, 0x18)) * 1024


def _used_inodes(disk: Path) -> int:
    """Return how many inodes are in use, reserved ones too."""
    block = _superblock(disk)
    return _u32(block, 0x0) - _u32(block, 0x10)


def _u32(block: bytes, at: int) -> int:
    return int.from_bytes(block[at : at + 4], "little")


def _superblock(disk: Path) -> bytes:
    with disk.open("rb") as file:
        file.seek(_SUPERBLOCK)
        block = file.read(1024)
    if len(block) < 1024:
        raise OSError(f"{disk} has no superblock")
    return block


def check_host_has(size_bytes: int, directory: Path) -> None:
    """Raise BadInput, with both numbers, for a disk larger than what the host has free for it.

    It is sparse, and a guest may fill it. directory: where disks are or will be.
    """
    free = free_bytes_below(directory)
    if free is not None and size_bytes > free:
        raise BadInput(
            f"a disk of {about_size(size_bytes)} is requested for virtual machines, and this host has "
            f"{about_size(free)} free",
            where=str(directory),
            hint="lower disk, make room, or set VTAX_HOME to a directory on a larger disk",
        )
