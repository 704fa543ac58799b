"""The machines that demonstrations and nested tests boot: one recipe each. A new one is another entry of MACHINES.

A machine is a whole Debian system with systemd, emulated by QEMU. It stands for a user's host that the development
machine is not: one with KVM, cgroup v2, a service manager, a Docker daemon of its own. Another hypervisor (Xen,
VirtualBox) is another recipe: its packages, its emulated CPU, and, where something else boots first, its `boot`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FORMAT_VERSION = 1
"""Raised when disks.py makes something else of the same recipe."""
HYPERVISOR = "hypervisor"
"""The file with what boots before Linux, beside the kernel of a machine that has such a package."""
FIRMWARE, VARIABLES = "firmware.fd", "variables.fd"
"""The files with a machine's UEFI and its variables, beside its kernel."""

_SYSTEM = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "util-linux", "procps", "python3", "linux-image-amd64"),
    *("iproute2", "iptables", "ethtool", "e2fsprogs"),
)
_RUNTIMES = ("docker.io", "apparmor", "podman", "runc", "lxc", "systemd-container", "qemu-system-x86", "qemu-utils",
             "openvswitch-switch")  # fmt: skip


CONSOLE = "hvc0"
"""Where the kernel of a machine writes its messages."""


@dataclass(frozen=True)
class Boot:
    """What QEMU loads by itself. kernel: a file. initrd: of -initrd, a file or multiboot modules with their command
    lines. append: the command line of what is loaded as kernel. serial: whether CONSOLE is the serial port."""

    kernel: Path
    initrd: str
    append: str
    serial: bool = False


@dataclass(frozen=True)
class Uefi:
    """Firmware that starts the boot loader on the machine's disk. firmware, variables: files of flash memory."""

    firmware: Path
    variables: Path


def boot_disk(kernel: Path, initrd: Path, append: str) -> None:
    """Nothing: the firmware starts the boot loader on the machine's disk, which stays the same when it reboots."""


def boot_uefi(kernel: Path, initrd: Path, append: str) -> Uefi:
    """Return the same by UEFI, whose variables stay the same too."""
    return Uefi(kernel.with_name(FIRMWARE), kernel.with_name(VARIABLES))


def boot_linux(kernel: Path, initrd: Path, append: str) -> Boot:
    """Return the machine's own kernel, with nothing before it."""
    return Boot(kernel, str(initrd), append)


def boot_xen(kernel: Path, initrd: Path, append: str, dom0_mib: int = 1280) -> Boot:
    """Xen, by multiboot, with the machine's kernel as its dom0."""
    dom0 = f"{kernel} {append},{initrd}"
    memory = f"dom0_mem={dom0_mib}M,max:{dom0_mib}M"
    hypervisor = f"console=com1 com1=115200,8n1 {memory} dom0_max_vcpus=1 dom0_vcpus_pin noreboot"
    return Boot(kernel.with_name(HYPERVISOR), dom0, f"{hypervisor} loglvl=warning", serial=True)


@dataclass(frozen=True)
class Machine:
    """One recipe.

    suite, components, packages: of the Debian system. disabled: units that must not start by themselves; tests start
    what they need. cpu, accel, vcpus, memory_mib: of the emulated hardware. words: more of the kernel command line.
    loader: the boot loader on its disk, of disks.LOADERS, which boots it; empty without one.
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
    boot: Callable[[Path, Path, str], Boot | Uefi | None] = boot_linux
    components: str = "main"
    loader: str = ""

    def key(self, *inputs: bytes) -> str:
        """Return names its disk: a hash of what decides the disk's files. inputs: what else does."""
        fields = [FORMAT_VERSION, self.suite, self.packages, self.disabled, self.disk_mib]
        fields += [self.components] if self.components != "main" else []
        fields += [self.loader] if self.loader else []
        recipe = json.dumps(fields).encode()
        return hashlib.sha256(b"\0".join((recipe, *inputs))).hexdigest()[:12]


_OFF = (
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

_XEN = ("xen-system-amd64", "xen-utils-4.17", "qemu-system-xen", "qemu-utils", "openvswitch-switch")
_XEN_CPU = "qemu64,+svm,+npt,+ssse3,+sse4.1,+sse4.2,+popcnt,+aes,+pclmulqdq,model-id=QEMU TCG CPU"
"""Not `max`: with SMAP dom0 dies, and PV guests crash. By its model name vtax knows an emulated CPU."""
_BY_INSTRUCTIONS = ("-accel", "tcg,thread=single", "-icount", "shift=2,sleep=on")
"""The machine's time passes with what it executes, 4 ns an instruction: a busy host makes no timeout of it expire."""

_MINIMAL = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "linux-image-amd64", "python3"),
    *("git", "ca-certificates", "sudo"),
)
"""A new machine: what Debian itself brings, what vtax's agent needs, and what README's first line does."""

_VIRTUALBOX = ("virtualbox", "virtualbox-dkms", "linux-headers-amd64", "isolinux", "syslinux-common", "xorriso")
"""Debian has VirtualBox in unstable only. Its kernel module is built when the package is installed."""
_VIRTUALBOX_CPU = "max,erms=off,fsrm=off,la57=off,smap=off,smep=off"
"""The CPU that guests of VirtualBox ran on. None was tried on `max` itself."""

MACHINES = {
    machine.name: machine
    for machine in (
        Machine("debian-12", "bookworm", (*_SYSTEM, *_RUNTIMES), _OFF),
        Machine(
            "xen", "bookworm", (*_SYSTEM, *_XEN), _OFF, cpu=_XEN_CPU, accel=_BY_INSTRUCTIONS, vcpus=2, boot=boot_xen
        ),
        Machine("fresh-12", "bookworm", _MINIMAL, _OFF, disk_mib=12288),
        Machine("fresh-13", "trixie", _MINIMAL, _OFF, disk_mib=12288),
        Machine("virtualbox", "sid", (*_SYSTEM, *_VIRTUALBOX), _OFF, cpu=_VIRTUALBOX_CPU, components="main contrib"),
        Machine(
            "grub",
            "bookworm",
            (*_SYSTEM, *_XEN[:-1], "grub-pc-bin", "grub2-common"),
            _OFF,
            cpu=_XEN_CPU,
            accel=_BY_INSTRUCTIONS,
            vcpus=1,
            boot=boot_disk,
            loader="grub",
        ),
        Machine(
            "systemd-boot",
            "bookworm",
            (*_SYSTEM, "systemd-boot", "ovmf", "gdisk", "dosfstools", "mtools"),
            _OFF,
            accel=_BY_INSTRUCTIONS,
            vcpus=1,
            memory_mib=2048,
            disk_mib=4096,
            boot=boot_uefi,
            loader="systemd-boot",
        ),
    )
}
