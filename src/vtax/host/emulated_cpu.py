"""How long to wait on this host: where its own processor is emulated, all that starts takes ten times as long."""

from __future__ import annotations

from functools import cache
from pathlib import Path

EMULATED_FACTOR = 10.0


@cache
def timeout_factor() -> float:
    """What to multiply the time with that something may take to start: 1 on real and on virtual processors."""
    return EMULATED_FACTOR if is_emulated(Path("/proc/cpuinfo").read_text()) else 1.0


def is_emulated(cpuinfo: str) -> bool:
    """Whether QEMU plays the processor, by the name it gives it (target/i386/cpu.c), in the text of /proc/cpuinfo."""
    return "QEMU TCG CPU" in cpuinfo.partition("model name")[2].partition("\n")[0]
