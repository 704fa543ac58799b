"""Measures the frequency of the CPU's time stamp counter.

An emulated CPU hands its guest this very counter, and a guest that must find out its rate by itself, with emulated
timers on a busy host, finds it slowly and inexactly; some machine types have no timer for it.
vtax therefore passes the rate to the guest.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from functools import cache
from pathlib import Path

from vtax.host.architecture import HOST, X86_64
from vtax.host.emulated_cpu import is_emulated

_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
_BASE_LINE_S = 0.03
_TRIES = 20


@cache
def frequency_khz() -> int | None:
    """Return the rate against CLOCK_MONOTONIC, good to about 0.01 %; None when it is not constant or cannot be read.

    The counter of a CPU that QEMU emulates is that of its host, and constant where that is, though its flags do not
    say so. Takes 30 ms, once in a process.
    """
    if HOST is not X86_64:
        return None
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
        flags = set(cpuinfo.partition("flags")[2].partition("\n")[0].split())
        if not ({"constant_tsc", "nonstop_tsc"} <= flags or is_emulated(cpuinfo)):
            return None
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    code.write(_RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    started_ns, start_ticks = _pair(read)
    time.sleep(_BASE_LINE_S)
    ended_ns, ended_ticks = _pair(read)
    return round((ended_ticks - start_ticks) * 1e6 / (ended_ns - started_ns))


def _pair(read: ctypes._FuncPointer) -> tuple[float, int]:
    """Clock and counter at one moment: the closest of several readings."""
    readings = []
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        ticks = read()
        after = time.monotonic_ns()
        readings.append((after - before, (before + after) / 2, ticks))
    _, clock_ns, ticks = min(readings)
    return clock_ns, ticks
