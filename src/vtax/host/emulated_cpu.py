"""Whether this host's CPU is emulated or virtual. An emulated one is about ten times slower: timeouts are longer."""

from __future__ import annotations

from functools import cache
from pathlib import Path

EMULATED_FACTOR = 10.0
_CPUINFO = Path("/proc/cpuinfo")


@cache
def timeout_factor() -> float:
    """Return by how much timeouts of starts are longer: 1 on physical and virtualized CPUs, more on emulated ones."""
    return EMULATED_FACTOR if is_emulated() else 1.0


def is_virtual(cpuinfo: str | None = None) -> bool:
    """Return whether a host is itself a virtual machine, by its CPU flag `hypervisor`.

    cpuinfo: the text of its /proc/cpuinfo; this host's if None.
    """
    cpuinfo = _CPUINFO.read_text() if cpuinfo is None else cpuinfo
    return "hypervisor" in cpuinfo.partition("flags")[2].partition("\n")[0].split()


def is_emulated(cpuinfo: str | None = None) -> bool:
    """Return whether QEMU emulates the CPU of a host (target/i386/cpu.c).

    cpuinfo: the text of its /proc/cpuinfo; this host's if None.
    """
    cpuinfo = _CPUINFO.read_text() if cpuinfo is None else cpuinfo
    return "QEMU TCG CPU" in cpuinfo.partition("model name")[2].partition("\n")[0]
