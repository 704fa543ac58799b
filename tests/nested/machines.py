"""The machines that nested tests boot: one recipe each. A new machine is one more entry in MACHINES.

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

_SYSTEM = (
    *("systemd", "systemd-sysv", "dbus", "udev", "kmod", "util-linux", "procps", "python3", "linux-image-amd64"),
    *("iproute2", "iptables", "ethtool", "e2fsprogs"),
)
_RUNTIMES = ("docker.io", "apparmor", "podman", "runc", "lxc", "systemd-container", "qemu-system-x86", "qemu-utils")


@dataclass(frozen=True)
class Boot:
    """What QEMU loads by itself. kernel, initrd: files; append: the kernel's command line."""

    kernel: Path
    initrd: Path
    append: str


def boot_linux(kernel: Path, initrd: Path, append: str) -> Boot:
    """The machine's own kernel, with nothing before it."""
    return Boot(kernel, initrd, append)


@dataclass(frozen=True)
class Machine:
    """One recipe.

    suite, packages: of the Debian system. disabled: units that must not start by themselves; tests start what they
    need. cpu, vcpus, memory_mib: of the emulated hardware. words: more for the kernel's command line.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    disabled: tuple[str, ...] = ()
    cpu: str = "max"
    vcpus: int = 2
    memory_mib: int = 4096
    disk_mib: int = 8192
    words: str = "mitigations=off"
    boot: Callable[[Path, Path, str], Boot] = boot_linux

    def key(self, *inputs: bytes) -> str:
        """Names its disk: a hash of what decides the disk's files. inputs: what else does."""
        recipe = json.dumps([FORMAT_VERSION, self.suite, self.packages, self.disabled, self.disk_mib]).encode()
        return hashlib.sha256(b"\0".join((recipe, *inputs))).hexdigest()[:12]


_OFF = (
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

MACHINES = {machine.name: machine for machine in (Machine("debian-12", "bookworm", (*_SYSTEM, *_RUNTIMES), _OFF),)}
