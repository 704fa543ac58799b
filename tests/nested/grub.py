"""GRUB on a machine's disk, for BIOS, written without loop mounts and without a running machine.

The entries are made by the distribution's own `update-grub`, in the machine: the disk comes with one, of the kernel
alone, to boot it a first time.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

from vtax.host.process import run

PARTITION = 1 << 20
"""Where the only partition begins, in bytes: what is before has room for GRUB."""
_SECTOR = 512
_CODE = 440  # bytes of the first sector before its table of partitions
_MODULES = (
    "biosdisk",
    "part_msdos",
    "ext2",
    "normal",
    "serial",
    "linux",
    "multiboot2",
    "loadenv",
    "gzio",
)
_OPTIONS = "console=ttyS0 net.ifnames=0 panic=-1 no_timer_check systemd.show_status=false mitigations=off quiet"
_XEN = "console=com1 com1=115200,8n1 dom0_mem=1280M,max:1280M dom0_max_vcpus=1 dom0_vcpus_pin loglvl=warning"
_DEFAULTS = f"""GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_RECORDFAIL_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_TERMINAL=serial
GRUB_DISABLE_LINUX_UUID=true
GRUB_DISABLE_OS_PROBER=true
GRUB_DISABLE_RECOVERY=true
XEN_OVERRIDE_GRUB_DEFAULT=0
GRUB_CMDLINE_LINUX_DEFAULT=
GRUB_CMDLINE_LINUX="{_OPTIONS}"
GRUB_CMDLINE_LINUX_XEN_REPLACE="{_OPTIONS.replace("ttyS0", "hvc0")}"
GRUB_CMDLINE_XEN="{_XEN}"
"""
_FIRST = f"""serial
terminal_input serial
terminal_output serial
set timeout=0
menuentry 'first' {{
    linux /boot/vmlinuz-VERSION root=/dev/vda1 ro {_OPTIONS}
    initrd /boot/initrd.img-VERSION
}}
"""


def install(tree: Path, version: str, initrd: Path) -> None:
    """Put GRUB, its defaults and a first entry into a tree. version: of its kernel. initrd: in place of its own."""
    boot = tree / "boot/grub"
    boot.mkdir(exist_ok=True)
    shutil.copytree(tree / "usr/lib/grub/i386-pc", boot / "i386-pc", dirs_exist_ok=True)
    run(
        [
            "chroot",
            tree,
            "grub-mkimage",
            "-O",
            "i386-pc",
            "-p",
            "(hd0,msdos1)/boot/grub",
            "-o",
            "/boot/grub/core.img",
            *_MODULES,
        ]
    )
    run(["chroot", tree, "grub-editenv", "/boot/grub/grubenv", "create"])
    (boot / "grub.cfg").write_text(_FIRST.replace("VERSION", version))
    (tree / "etc/default/grub").write_text(_DEFAULTS)
    shutil.copyfile(initrd, tree / f"boot/initrd.img-{version}")


def make_bootable(disk: Path, tree: Path) -> None:
    """Write GRUB and a table with one partition before the file system of a disk.

    GRUB's first sector loads the second of the disk, where `core.img` begins; that knows its own length.
    """
    core = (tree / "boot/grub/core.img").read_bytes()
    if len(core) > PARTITION - _SECTOR:
        raise ValueError(f"GRUB has {len(core)} bytes, more than are free before the partition")
    first, count = PARTITION // _SECTOR, (disk.stat().st_size - PARTITION) // _SECTOR
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", first, count)
    code = (tree / "usr/lib/grub/i386-pc/boot.img").read_bytes()[:_CODE]
    with disk.open("r+b") as file:
        file.write(code.ljust(_CODE + 6, b"\0") + entry.ljust(64, b"\0") + b"\x55\xaa" + core)
