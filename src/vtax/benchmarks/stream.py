"""STREAM: memory bandwidth of four simple loops, by vtax's own program after the published rules of STREAM.

It measures how many bytes per second long loops move, in any number of threads. It does not measure how long one load
waits (`memory-latency`), nor what a program with a small working set would see. Its trap is the size of the arrays.
The program (`vtax-stream`) is built with the image. The rules want each array at least four times as large as the
last-level cache; where the guest's memory does not allow that, the default array is as large as it can be, and every
result says so. The cache is the host's own: the size that a guest sees may be wrong. The rate is that of the best
repetition by the guest's clock, or, with clock = "outside", by the controller's: one second of the guest is then as
long as the whole program says, whose time both clocks take.

A short trial has two repetitions, of which one counts: making the arrays and touching them first is in no rate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vtax.benchmarks.base import (
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    OwnProgram,
    Parameters,
    Role,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_threads, successful_result
from vtax.benchmarks.printed import printed
from vtax.errors import BadInput, BenchmarkError, Problems, all_of
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.study.fields import Size
from vtax.units import format_size

KERNELS = ("copy", "scale", "add", "triad")
CACHE_MULTIPLE = 4
_ARRAYS = 3
_WORD_BYTES = 8
_MEBIBYTE = 1024**2
_DEFAULT_SHARE = (
    0.6  # of a small guest's memory for the three arrays: its kernel and the agent need the rest,
)
_REST_BYTES = 192 * _MEBIBYTE  # and no more than this of a large one's
_MAX_SHARE = 0.9
_MIN_S = 0.001
_WORDS_MOVED = 10  # of all four kernels, per element: 2 + 2 + 3 + 3
_EXPECTED_BYTES_PER_S = 5e9


class StreamParameters(Parameters):
    """Parameters that a study may fix or vary."""

    array_size: Size | None = Field(
        None,
        ge=8 * 1024,
        description="bytes of each of the three arrays; default four times the last-level cache, if memory allows",
    )
    repetitions: int = Field(
        10, ge=2, le=10_000, description="of every kernel; the first does not count, the best does"
    )
    threads: int | None = Field(
        None, ge=1, le=4096, description="threads; default the guest's virtual CPUs"
    )
    clock: Literal["guest", "outside"] = Field(
        "guest", description="whose seconds the rates are in"
    )


@cache
def last_level_cache_bytes(cpu: Path = Path("/sys/devices/system/cpu/cpu0")) -> int | None:
    """Return the bytes of the host's largest data cache; None when the kernel does not say. cpu: its directory in sysfs."""
    sizes = []
    for index in cpu.glob("cache/index*"):
        try:
            kind, text = (index / "type").read_text().strip(), (index / "size").read_text().strip()
        except OSError:
            continue
        match = re.fullmatch(r"(\d+)([KM]?)", text)
        if match and kind != "Instruction":
            sizes.append(int(match[1]) * {"": 1, "K": 1024, "M": _MEBIBYTE}[match[2]])
    return max(sizes, default=None)


def default_array_bytes(memory_bytes: int, cache_bytes: int | None) -> int:
    """Return four times the last-level cache where three such arrays fit in the guest, else what fits; whole MiB."""
    rest_stays = max(memory_bytes * _DEFAULT_SHARE, memory_bytes - _REST_BYTES)
    largest_array = int(min(rest_stays, memory_bytes * _MAX_SHARE) / _ARRAYS)
    cache_multiple = largest_array if cache_bytes is None else CACHE_MULTIPLE * cache_bytes
    return max(min(cache_multiple, largest_array) // _MEBIBYTE, 1) * _MEBIBYTE


@register_benchmark
class StreamBenchmark(OwnProgram):
    name = "stream"
    title = "memory bandwidth (STREAM rules)"
    tool = "vtax-stream"
    resource = "memory"
    Parameters = StreamParameters
    work = Operations("GB", "moved_bytes", 1e9)
    no_count = "the best of its repetitions counts, so that their number is the same everywhere: give repetitions"
    metrics: Sequence[Metric] = tuple(
        Metric(
            kernel,
            "MB/s",
            "higher",
            f"{kernel} bandwidth",
            primary=kernel == "triad",
            average="harmonic",
        )
        for kernel in KERNELS
    )

    def commands(self, parameters: StreamParameters, context: Context) -> Sequence[Command]:
        array_bytes = _array_bytes(parameters, context)
        problems = Problems()
        problems.of(lambda: check_threads(parameters.threads or context.vcpus, context))
        problems.of(lambda: _check_arrays(array_bytes, context))
        if problems.found:
            raise all_of(
                problems.found, where="", hint="vtax benchmarks stream explains every parameter"
            )
        return (
            Command(
                "single",
                ("vtax-stream", str(array_bytes // _WORD_BYTES), str(parameters.repetitions)),
                environment={
                    "OMP_NUM_THREADS": str(parameters.threads or context.vcpus),
                    "OMP_DYNAMIC": "false",
                    "OMP_PROC_BIND": "true",
                },
            ),
        )

    def expected_s(self, parameters: StreamParameters, context: Context) -> float:
        moved_bytes = (
            _array_bytes(parameters, context) * _WORDS_MOVED * (parameters.repetitions + 1)
        )
        return moved_bytes / _EXPECTED_BYTES_PER_S + 0.1

    def parse(
        self, parameters: StreamParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        result = results["single"]
        if "invalid" in result.stdout.split():
            raise BenchmarkError(
                "STREAM's arrays hold wrong values: the guest computed or stored them wrongly"
            )
        report = successful_result("vtax-stream", results).stdout.splitlines()
        lines: dict[str, list[str]] = {}
        for line in filter(str.strip, report):
            words = line.split()
            lines[words[0]] = words[1:]
        effective: dict[str, Any] = {}
        values: dict[str, float] = {}
        try:
            for name in ("threads", "array_bytes", "repetitions"):
                effective[name] = int(lines[name][0])
            for kernel in KERNELS:
                values[kernel] = printed(lines[kernel][0])
            shortest_s = min(float(lines[kernel][2]) for kernel in KERNELS)
            lines["valid"]
        except (KeyError, IndexError, ValueError) as error:
            raise BenchmarkError(f"vtax-stream's report is not complete: {error}") from error
        if not all(math.isfinite(value) and value > 0 for value in values.values()):
            raise BenchmarkError("vtax-stream measured no time at all", hint="raise array_size")
        check_cpu("vtax-stream", result, context)
        if parameters.clock == "outside":
            effective["clock"] = "outside"
            for kernel in KERNELS:
                values[kernel] = values[kernel] * result.inside_s / result.outside_s
        moved_bytes = effective["array_bytes"] * _WORDS_MOVED * effective["repetitions"]
        effective["moved_bytes"] = moved_bytes
        effective["last_level_cache_bytes"] = last_level_cache_bytes()
        return Outcome(values, effective, tuple(_warnings(effective, shortest_s)))


def _check_arrays(array_bytes: int, context: Context) -> None:
    """Raise BadInput for arrays that the memory of the guest does not hold."""
    if array_bytes * _ARRAYS > context.memory_bytes * _MAX_SHARE:
        raise BadInput(
            f"three arrays of {format_size(array_bytes)} do not fit a guest of {format_size(context.memory_bytes)}",
            where="array_size",
            hint="lower array_size, or raise memory in [guest]",
        )


def _array_bytes(parameters: StreamParameters, context: Context) -> int:
    requested = parameters.array_size or default_array_bytes(
        context.memory_bytes, last_level_cache_bytes()
    )
    return requested // _WORD_BYTES * _WORD_BYTES


def _warnings(effective: Mapping[str, Any], shortest_s: float) -> list[str]:
    warnings = list[str]()
    cache_bytes = effective["last_level_cache_bytes"]
    if cache_bytes is None:
        warnings.append(Note("cache-size-unknown"))
    elif effective["array_bytes"] < CACHE_MULTIPLE * cache_bytes:
        size = f"{effective['array_bytes'] // _MEBIBYTE} MiB"
        cache = f"{cache_bytes // _MEBIBYTE} MiB"
        warnings.append(Note("array-in-cache", times=CACHE_MULTIPLE, size=size, cache=cache))
    if shortest_s < _MIN_S:
        warnings.append(Note("kernel-short"))
    return warnings
