"""The machines of nested tests: those of `vtax demo`, and others that only tests boot."""

from __future__ import annotations

from pathlib import Path

from nested import grub

from vtax.demo import machines
from vtax.demo.machines import BY_INSTRUCTIONS, OFF, SYSTEM, XEN, XEN_CPU, MachineRecipe, Words


def boot_disk(kernel: Path, initrd: Path, append: str) -> Words:
    """The boot loader on the machine's disk, which stays the same when it reboots."""
    return ("-boot", "c")


_MINIMAL = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "linux-image-amd64", "python3"),
    *("git", "ca-certificates", "sudo"),
)
"""A new machine: what Debian itself brings, what vtax's agent needs, and what README's first line does."""

_VIRTUALBOX = (
    "virtualbox",
    "virtualbox-dkms",
    "linux-headers-amd64",
    "isolinux",
    "syslinux-common",
    "xorriso",
)
"""Debian has VirtualBox in unstable only. Its kernel module is built when the package is installed."""
_VIRTUALBOX_CPU = "max,erms=off,fsrm=off,la57=off,smap=off,smep=off"
"""The CPU that guests of VirtualBox ran on. None was tried on `max` itself."""

_REBOOTED = ("grub-pc-bin", "grub2-common", "openssh-server", "zstd", "podman", "runc")
"""A host that a campaign reboots and prepares, and one of the platforms that it measures."""

MACHINES = machines.MACHINES | {
    machine.name: machine
    for machine in (
        MachineRecipe("fresh-12", "bookworm", _MINIMAL, OFF, disk_mib=12288),
        MachineRecipe("fresh-13", "trixie", _MINIMAL, OFF, disk_mib=12288),
        MachineRecipe(
            "virtualbox",
            "sid",
            (*SYSTEM, *_VIRTUALBOX),
            OFF,
            cpu=_VIRTUALBOX_CPU,
            components="main contrib",
        ),
        MachineRecipe(
            "grub",
            "bookworm",
            (*SYSTEM, *XEN[:-1], *_REBOOTED),
            OFF,
            cpu=XEN_CPU,
            accel=BY_INSTRUCTIONS,
            vcpus=1,
            boot=boot_disk,
            serial=True,
            loader=grub,
        ),
    )
}
