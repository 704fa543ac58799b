"""Processor architectures that images are built for and machines are emulated of: all that differs, in one place."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """A processor architecture.

    machine: its name in uname(2).
    debian: its name in dpkg.
    kernel_package: Debian's package of the kernel.
    elf_machine: e_machine of its programs.
    qemu, qemu_package: the program that emulates it, and Debian's package of that.
    qemu_machines: types of machines, the default first.
    qemu_flags: of the default type.
    emulated_cpu: value of qemu -cpu with tcg.
    old_disk: the oldest controller that the default type has.
    console: first serial line.
    has_boot_program: whether QEMU is probed by a program of a few bytes, or else by a guest.
    """

    machine: str
    debian: str
    kernel_package: str
    elf_machine: int
    qemu: str
    qemu_package: str
    qemu_machines: tuple[str, ...]
    qemu_flags: str
    emulated_cpu: str
    old_disk: str
    console: str
    has_boot_program: bool


X86_64 = Architecture(
    machine="x86_64",
    debian="amd64",
    kernel_package="linux-image-amd64",
    elf_machine=62,
    qemu="qemu-system-x86_64",
    qemu_package="qemu-system-x86",
    qemu_machines=("pc", "q35", "microvm"),
    qemu_flags="usb=off",
    emulated_cpu="max,erms=off,fsrm=off,la57=off",
    old_disk="ide",
    console="ttyS0",
    has_boot_program=True,
)
"""emulated_cpu is all that QEMU can emulate, but three things. With ERMS and FSRM, kernels and C libraries copy and
clear memory by single-byte string instructions, which hardware does fast and QEMU byte by byte; with LA57, every walk
of the page tables is a step longer, on a host that seldom has it."""
ARM64 = Architecture(
    machine="aarch64",
    debian="arm64",
    kernel_package="linux-image-arm64",
    elf_machine=183,
    qemu="qemu-system-aarch64",
    qemu_package="qemu-system-arm",
    qemu_machines=("virt",),
    qemu_flags="gic-version=max",
    emulated_cpu="max,pauth-impdef=on",
    old_disk="sata",
    console="ttyAMA0",
    has_boot_program=False,
)
"""With pauth-impdef, pointers are signed by a hash that QEMU computes fast, not by the cipher of the reference."""
KNOWN: Mapping[str, Architecture] = {X86_64.machine: X86_64, ARM64.machine: ARM64}
HOST = KNOWN.get(platform.machine(), X86_64)
"""The architecture of this host; on a host of any other kind nothing is built and no machine is started."""
