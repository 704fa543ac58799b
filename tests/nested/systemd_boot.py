"""systemd-boot on a machine's disk, for UEFI, written without loop mounts and without a running machine.

The disk has a GPT: the machine's file system first, as with GRUB, and behind it the EFI system partition with
systemd-boot, the kernel and two entries that start it with different command lines. The tools and the firmware
(OVMF) are those of the machine's own packages.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from nested.grub import PARTITION

from vtax.host.process import run

FIRMWARE, VARIABLES = "firmware.fd", "variables.fd"
"""The files with a machine's UEFI and its variables, beside its kernel."""
MOUNTED = "/boot/efi"
"""Where the machine mounts its EFI system partition, as Debian's installer has it."""
ENTRIES = ("one", "two")
"""Each an entry NAME.conf, which starts Linux with vtax.boot=NAME; the first is the default."""
_EFI_MIB = 96
_TABLE_MIB = 1  # for the second copy of the table, at the end
_SECTORS = 2048  # in one MiB
_LOADER = "default one.conf\ntimeout 0\n"
_OPTIONS = "root=/dev/vda1 rw console=ttyS0 net.ifnames=0 panic=-1 no_timer_check systemd.show_status=false"
_ENTRY = f"""title Debian, boot NAME
linux /debian/linux
initrd /debian/initrd
options {_OPTIONS} mitigations=off quiet vtax.boot=NAME
"""
_EFI = "usr/lib/systemd/boot/efi/systemd-bootx64.efi"


def install(tree: Path, version: str, initrd: Path) -> None:
    """Put the initrd and the mount point of the EFI system partition into a tree. version: of its kernel."""
    shutil.copyfile(initrd, tree / f"boot/initrd.img-{version}")
    _partition(tree).mkdir()
    (tree / "etc/fstab").write_text(f"/dev/vda2 {MOUNTED} vfat umask=0077 0 1\n")


def make_bootable(disk: Path, tree: Path) -> None:
    """Write the table and the EFI system partition behind the file system of a disk, and take out the firmware."""
    size_mib = disk.stat().st_size >> 20
    with disk.open("r+b") as file:
        file.truncate((size_mib + _EFI_MIB + _TABLE_MIB) << 20)
    (tree / "disk.raw").hardlink_to(disk)
    first, efi, end = (f"{mib * _SECTORS}" for mib in (PARTITION >> 20, size_mib, size_mib + _EFI_MIB))
    _in(tree, "sgdisk", "--clear", f"--new=1:{first}:{int(efi) - 1}", f"--new=2:{efi}:{int(end) - 1}",
        "--typecode=2:ef00", "/disk.raw")  # fmt: skip
    _in(tree, "mkfs.vfat", "-F", "32", "-s", "1", f"--offset={efi}", "/disk.raw", f"{_EFI_MIB << 10}")
    _fill(tree)
    names = sorted(path.name for path in _partition(tree).iterdir())
    _in(tree, "mcopy", "-s", "-i", f"/disk.raw@@{size_mib}M", *(f"{MOUNTED}/{name}" for name in names), "::/")
    for name, source in ((FIRMWARE, "CODE"), (VARIABLES, "VARS")):
        shutil.copyfile(tree / f"usr/share/OVMF/OVMF_{source}_4M.fd", disk.with_name(name))


def _fill(tree: Path) -> None:
    """Put what the EFI system partition has below its mount point, once the other partition is written."""
    partition, boot = _partition(tree), tree / "boot"
    for name in ("EFI/BOOT", "EFI/systemd", "loader/entries", "debian"):
        (partition / name).mkdir(parents=True)
    for name in ("EFI/BOOT/BOOTX64.EFI", "EFI/systemd/systemd-bootx64.efi"):
        shutil.copyfile(tree / _EFI, partition / name)
    shutil.copyfile(next(boot.glob("vmlinuz-*")), partition / "debian/linux")
    shutil.copyfile(next(boot.glob("initrd.img-*")), partition / "debian/initrd")
    (partition / "loader/loader.conf").write_text(_LOADER)
    for name in ENTRIES:
        (partition / f"loader/entries/{name}.conf").write_text(_ENTRY.replace("NAME", name))


def _partition(tree: Path) -> Path:
    return tree / MOUNTED.lstrip("/")


def _in(tree: Path, *argv: str) -> None:
    run(["chroot", tree, *argv])
