"""A finished image as the rest of vtax sees it: an identity and the files of its exports."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vtax.host.walking import walk

MODULES = "modules"
"""Directory of an image with its unpacked kernel modules, from which another initrd can be made."""
OWN = "own"
"""File of an image with the user's files: the key of the image of the guests that serve it, whose kernel it has."""


@dataclass(frozen=True)
class Image:
    """One built image, with all of its exports. key: hash of the recipe. directory: of all its files."""

    key: str
    directory: Path

    @property
    def tree(self) -> Path:
        """The root file system as a directory. Read-only by convention: guests get an overlay over it."""
        return self.directory / "tree"

    @property
    def archive(self) -> Path:
        """The same files as a tar, for `docker import` and `podman import`."""
        return self.directory / "rootfs.tar"

    @property
    def disk(self) -> Path:
        """The same files as a raw ext4 disk (no partition table), sparse."""
        return self.directory / "disk.raw"

    @property
    def kernel(self) -> Path:
        """The kernel that hypervisors boot."""
        return self.directory / "vmlinuz"

    @property
    def elf_kernel(self) -> Path:
        """The same kernel unpacked, for hypervisors that enter it directly (PVH); absent when it cannot be."""
        return self.directory / "vmlinux"

    @property
    def initrd(self) -> Path:
        """The minimal initrd: virtio modules, busybox, and an init that mounts the disk and becomes the agent."""
        return self.directory / "initrd.cpio"

    @property
    def is_own(self) -> bool:
        """Whether its files are the user's; not for one that this user may not see."""
        with suppress(PermissionError):
            return (self.directory / OWN).exists()
        return False

    @property
    def of_peers(self) -> Image:
        """The image of guests that only serve a measurement: the base for one of the user's files, else itself."""
        if not self.is_own:
            return self
        key = (self.directory / OWN).read_text().strip()
        return Image(key, self.directory.parent / key)

    @property
    def manifest(self) -> Path:
        """JSON: recipe, package versions, kernel version, sizes, build time, and what a layer adds to its base."""
        return self.directory / "manifest.json"


def disk_usage_bytes(path: Path) -> int:
    """Return bytes that a file, or a directory with everything in it, occupies; holes occupy none."""
    total = path.lstat().st_blocks * 512
    if path.is_dir() and not path.is_symlink():
        for _, status in walk(path):
            total += status.st_blocks * 512
    return total
