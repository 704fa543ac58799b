"""A native probe of this host: how long a few fixed pieces of work last here, without a guest, for some seconds.

Hosts of a campaign are compared by it before they measure. It says whether one is unlike the others, not why, and
nothing of a platform.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.host.process import find_program

MAX_S = 120.0
READINGS = 100
"""Readings that are kept of each kind, at most: evenly over the time."""
_HASHED_BYTES = 1 << 20
_COPIED_BYTES = 32 << 20
_LONG_ENOUGH_S = 1e-9


@dataclass(frozen=True)
class NativeProbe:
    """Durations of fixed work on a host. readings: kind -> seconds, in the order of time."""

    seconds: Annotated[float, Means("how long it took", unit="s")]
    readings: Annotated[
        Mapping[str, tuple[float, ...]],
        Means(
            "`cpu`: SHA-256 of 1 MiB; `memory`: copy of 32 MiB; `process`: start and end of a program",
            unit="s",
        ),
    ]


def native_probe(seconds: float) -> NativeProbe:
    """Do each kind of work in turn for some seconds; at least once."""
    started = time.perf_counter()
    work = {"cpu": _cpu(), "memory": _memory(), "process": _process()}
    found: dict[str, list[float]] = {kind: [] for kind in work}
    while not found["process"] or time.perf_counter() - started < seconds:
        for kind, does in work.items():
            before = time.perf_counter()
            does()
            found[kind].append(max(time.perf_counter() - before, _LONG_ENOUGH_S))
    return NativeProbe(
        round(time.perf_counter() - started, 3),
        {kind: _thinned(each) for kind, each in found.items()},
    )


def _thinned(values: list[float]) -> tuple[float, ...]:
    count = min(len(values), READINGS)
    return tuple(round(values[i * len(values) // count], 9) for i in range(count))


def _cpu() -> Callable[[], object]:
    data = bytes(_HASHED_BYTES)
    return lambda: hashlib.sha256(data).digest()


def _memory() -> Callable[[], object]:
    source, target = bytearray(b"v" * _COPIED_BYTES), memoryview(bytearray(_COPIED_BYTES))
    return lambda: target.__setitem__(slice(None), source)


def _process() -> Callable[[], object]:
    program = [find_program("true") or "/bin/true"]
    return lambda: subprocess.run(program, stdin=subprocess.DEVNULL, check=False)
