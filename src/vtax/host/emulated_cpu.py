"""The factor of start timeouts on this host: an emulated CPU is about ten times slower."""

from __future__ import annotations

from functools import cache
from pathlib import Path

EMULATED_FACTOR = 10.0


@cache
def timeout_factor() -> float:
    """Factor of timeouts for starts: 1 on physical and virtualized CPUs, more on emulated ones."""
    return EMULATED_FACTOR if is_emulated(Path("/proc/cpuinfo").read_text()) else 1.0


def is_emulated(cpuinfo: str) -> bool:
    """Whether the text of /proc/cpuinfo names a CPU that QEMU emulates (target/i386/cpu.c)."""
    return "QEMU TCG CPU" in cpuinfo.partition("model name")[2].partition("\n")[0]
