"""The machines of nested tests: one recipe each.

A machine is a whole Debian system with systemd, emulated by QEMU. It stands for a user's host that the development
machine is not: one with KVM, cgroup v2, a service manager, a Docker daemon of its own. Another hypervisor is another
recipe: its packages, its emulated CPU, and, where something else boots first, its `boot`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nested import grub

FORMAT_VERSION = 1
"""Raised when disks.py makes something else of the same recipe."""
HYPERVISOR = "hypervisor"
"""The file with what boots before Linux, beside the kernel of a machine that has such a package."""
CONSOLE = "hvc0"
"""Where the kernel of a machine writes its messages, unless its console is serial."""
Words = tuple[str | Path, ...]
"""Words of QEMU's command line."""

SYSTEM = (
    *(
        "systemd",
        "systemd-sysv",
        "dbus",
        "udev",
        "kmod",
        "util-linux",
        "procps",
        "python3",
        "linux-image-amd64",
    ),
    *("iproute2", "iptables", "ethtool", "e2fsprogs"),
)
_RUNTIMES = (
    *("docker.io", "apparmor", "podman", "runc", "crun", "lxc", "systemd-container"),
    *("qemu-system-x86", "qemu-utils", "openvswitch-switch"),
)


class LoaderModule(Protocol):
    """A module that puts a boot loader onto a disk. PARTITION: where the machine's partition begins, in bytes."""

    __name__: str
    __file__: str
    PARTITION: int

    def install(self, tree: Path, version: str, initrd: Path) -> None:
        """Put what it needs into a tree. version: of its kernel. initrd: in place of its own."""

    def make_bootable(self, disk: Path, tree: Path) -> None:
        """Write what is outside of the partition. tree: what the partition has."""


def boot_linux(kernel: Path, initrd: Path, append: str) -> Words:
    """Return how QEMU loads the machine's own kernel, with nothing before it. append: its command line."""
    return ("-no-reboot", "-kernel", kernel, "-initrd", initrd, "-append", append)


def boot_xen(kernel: Path, initrd: Path, append: str, dom0_mib: int = 1280) -> Words:
    """Return how QEMU loads Xen, by multiboot, with the machine's kernel as its dom0."""
    memory = f"dom0_mem={dom0_mib}M,max:{dom0_mib}M"
    hypervisor = f"console=com1 com1=115200,8n1 {memory} dom0_max_vcpus=1 dom0_vcpus_pin noreboot loglvl=warning"
    modules = f"{kernel} {append},{initrd}"
    return (
        "-no-reboot",
        "-kernel",
        kernel.with_name(HYPERVISOR),
        "-initrd",
        modules,
        "-append",
        hypervisor,
    )


def boot_disk(kernel: Path, initrd: Path, append: str) -> Words:
    """The boot loader on the machine's disk, which stays the same when it reboots."""
    return ("-boot", "c")


@dataclass(frozen=True)
class MachineRecipe:
    """One recipe.

    suite, components, packages: of the Debian system. disabled: units that must not start by themselves; tests start
    what they need. cpu, accel, vcpus, memory_mib: of the emulated hardware. words: more of the kernel command line.
    boot: from kernel, initrd and command line to what QEMU starts. serial: whether its console is the serial port.
    nic: of QEMU's option. loader: of the boot loader on its disk, which boots it.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    disabled: tuple[str, ...] = ()
    cpu: str = "max"
    accel: tuple[str, ...] = ("-accel", "tcg,thread=multi")
    vcpus: int = 2
    memory_mib: int = 4096
    disk_mib: int = 8192
    words: str = "mitigations=off"
    boot: Callable[[Path, Path, str], Words] = boot_linux
    serial: bool = False
    nic: str = "none"
    components: str = "main"
    loader: LoaderModule | None = None

    def key(self, *inputs: bytes) -> str:
        """Return names its disk: a hash of what decides the disk's files. inputs: what else does."""
        fields = [FORMAT_VERSION, self.suite, self.packages, self.disabled, self.disk_mib]
        fields += [self.components] if self.components != "main" else []
        fields += [self.loader.__name__] if self.loader else []
        recipe = json.dumps(fields).encode()
        return hashlib.sha256(b"\0".join((recipe, *inputs))).hexdigest()[:12]


OFF = (
    *("openvswitch-switch.service", "ovs-record-hostname.service"),
    *("docker.service", "docker.socket", "containerd.service", "lxc.service", "lxc-net.service"),
    *(
        "podman.service",
        "podman.socket",
        "podman-auto-update.timer",
        "podman-restart.service",
        "podman-auto-update.service",
    ),
    *(
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "dpkg-db-backup.timer",
        "fstrim.timer",
        "e2scrub_all.timer",
        "e2scrub_reap.service",
    ),
)

XEN = ("xen-system-amd64", "xen-utils-4.17", "qemu-system-xen", "qemu-utils", "openvswitch-switch")
XEN_CPU = "qemu64,+svm,+npt,+ssse3,+sse4.1,+sse4.2,+popcnt,+aes,+pclmulqdq,model-id=QEMU TCG CPU"
"""Not `max`: with SMAP dom0 dies, and PV guests crash. By its model name vtax knows an emulated CPU."""
BY_INSTRUCTIONS = ("-accel", "tcg,thread=single", "-icount", "shift=2,sleep=on")
"""The machine's time passes with what it executes, 4 ns an instruction: a busy host makes no timeout of it expire."""

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

MACHINES = {
    machine.name: machine
    for machine in (
        MachineRecipe("debian-12", "bookworm", (*SYSTEM, *_RUNTIMES), OFF),
        MachineRecipe(
            "xen",
            "bookworm",
            (*SYSTEM, *XEN),
            OFF,
            cpu=XEN_CPU,
            accel=BY_INSTRUCTIONS,
            boot=boot_xen,
            serial=True,
        ),
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
