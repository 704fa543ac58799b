"""The root file system in the forms that platforms take: a tar archive and a raw ext4 disk, made without mounting."""

from __future__ import annotations

from pathlib import Path

from vtax.host.process import run

DISK_BYTES = 2 * 1024**3
"""Size of the disk as the guest sees it; the file is sparse. What the tree leaves free is scratch space."""

_UUID = "76746178-0000-4000-8000-000000000001"
_EXPORT_TIMEOUT_S = 600.0


def write_archive(tree: Path, target: Path) -> None:
    """A tar with numeric owners and file capabilities; without device nodes, which every runtime makes itself."""
    run(
        [
            *("tar", "--create", f"--file={target}", f"--directory={tree}", "--sort=name", "--numeric-owner"),
            *("--xattrs", "--xattrs-include=security.capability", "--exclude=./dev/*", "."),
        ],
        timeout_s=_EXPORT_TIMEOUT_S,
    )


def write_disk(tree: Path, target: Path, size_bytes: int = DISK_BYTES) -> None:
    """A sparse ext4 file system, no partition table, nothing left to initialise while a guest measures.

    size_bytes: of the disk, a multiple of 4096.
    """
    run(
        [
            *("mke2fs", "-q", "-t", "ext4", "-d", tree, "-L", "vtax", "-U", _UUID, "-m", "0"),
            *("-E", f"hash_seed={_UUID},lazy_itable_init=0,lazy_journal_init=0"),
            *(target, f"{size_bytes // 1024}k"),
        ],
        timeout_s=_EXPORT_TIMEOUT_S,
    )
