"""Memory latency: the time of a load that waits for the load before it, against the size of the working set.

It measures how long caches, memory and the translation of addresses (TLB, and a second level of page tables under
virtualization) make a load wait: 64-byte lines in random order, which no prefetcher guesses. It does not measure
bandwidth (`stream`), nor several CPUs at once.

Its trap is the size of pages: with small ones a large working set misses the TLB, which is where a virtual machine
pays. Huge pages may be requested (`pages`); what the kernel really gave is read back and recorded, and less than
was asked for is a warning. The time is the controller's, around a fixed number of loads; building the chain is
subtracted.

A short trial (`loads`, `trial_time`) also holds a round trip to the guest, by the controller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_memory
from vtax.benchmarks.own_program import Report, loops_outside_s, short_warnings
from vtax.guest.results import CommandResult
from vtax.messages import Note
from vtax.study.fields import Size
from vtax.units import about_size

_TOOL = "vtax-memory-latency"
_LINE_BYTES = 64
_REST_BYTES = 8 * 1024**2  # the program, and alignment to huge pages
_SMALL_BYTES = 1024**2  # caches answer in nanoseconds: more loads, for the same time
_LOADS_SMALL, _LOADS_LARGE = 100_000_000, 10_000_000
_ENOUGH_HUGE = 0.9  # of the working set
_EXPECTED_NS_SMALL, _EXPECTED_NS_LARGE = 4, 120


class MemoryLatencyParameters(Parameters):
    """Parameters that a study may fix or vary."""

    working_set: Size = Field(
        64 * 1024**2,
        ge=2 * _LINE_BYTES,
        multiple_of=_LINE_BYTES,
        description="bytes that are read, in 64-byte lines",
    )
    loads: int | None = Field(
        None, ge=1000, le=10**11, description="loads timed; default 10^8 up to 1 MiB, 10^7 above"
    )
    pages: Literal["small", "huge"] = Field(
        "small",
        description="small: huge pages are refused; huge: reserved huge pages, else transparent ones, as far as the "
        "guest's kernel has them",
    )


@register_benchmark
class MemoryLatency(OwnProgram):
    name = "memory-latency"
    title = "time of a dependent load (pointer chase)"
    tool = _TOOL
    resource = "memory"
    Parameters = MemoryLatencyParameters
    work = Operations("load", "loads", time="ns")
    counts = WorkParameter("loads", least=1000)
    metrics: Sequence[Metric] = (
        Metric(
            "latency",
            "ns",
            "lower",
            "time of one load, mean, on the controller's clock",
            primary=True,
            time_of=Operations("load", "loads"),
        ),
        Metric(
            "mean", "ns", "lower", "time of one load, mean, by the guest's clock", per_unit=True
        ),
        Metric("min", "ns", "lower", "fastest thousandth of the loads, by the guest's clock"),
        Metric("p50", "ns", "lower", "median of thousandths, by the guest's clock"),
        Metric("p99", "ns", "lower", "99th percentile of thousandths, by the guest's clock"),
    )

    def commands(self, parameters: MemoryLatencyParameters, context: Context) -> Sequence[Command]:
        size = parameters.working_set
        check_memory("working_set", f"chains of {about_size(size)}", size + _REST_BYTES, context)
        return (Command("single", (_TOOL, str(size), str(_loads(parameters)), parameters.pages)),)

    def expected_s(self, parameters: MemoryLatencyParameters, context: Context) -> float:
        """Estimate a trial: the chain is built, and followed once before it is timed."""
        each_ns = (
            _EXPECTED_NS_SMALL if parameters.working_set <= _SMALL_BYTES else _EXPECTED_NS_LARGE
        )
        lines = parameters.working_set / _LINE_BYTES
        return (_loads(parameters) + 3 * lines) * each_ns * 1e-9 + 0.1

    def parse(
        self,
        parameters: MemoryLatencyParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        report = Report(_TOOL, results)
        result, loads = results["single"], _loads(parameters)
        report.matches({"working_set": parameters.working_set, "loads": loads})
        loops_s = report.positive("seconds")
        outside_s = loops_outside_s(_TOOL, result, loops_s)
        check_cpu(_TOOL, result, context)
        values = {
            "latency": outside_s * 1e9 / loads,
            "mean": loops_s * 1e9 / loads,
            **{name: report.positive(f"{name}_ns") for name in ("min", "p50", "p99")},
        }
        huge_bytes = report.integer("huge_bytes")
        effective: dict[str, Any] = {
            "working_set": parameters.working_set,
            "loads": loads,
            "pages": parameters.pages,
            "huge_bytes": None if huge_bytes < 0 else huge_bytes,
        }
        return Outcome(
            values, effective, (*short_warnings(outside_s, "loads"), *_page_warnings(effective))
        )


def _page_warnings(effective: Mapping[str, Any]) -> list[str]:
    size, huge_bytes = effective["working_set"], effective["huge_bytes"]
    if effective["pages"] == "small":
        return []
    if huge_bytes is None:
        return [Note("huge-pages-unknown")]
    if huge_bytes < size * _ENOUGH_HUGE:
        return [Note("huge-pages-missing", part=about_size(huge_bytes), size=about_size(size))]
    return []


def _loads(parameters: MemoryLatencyParameters) -> int:
    return parameters.loads or (
        _LOADS_SMALL if parameters.working_set <= _SMALL_BYTES else _LOADS_LARGE
    )
