"""sysbench cpu: how fast a guest computes. Every event looks for the prime numbers up to a limit by trial division.

The figure is events per second over a fixed time, or over a fixed number of events when `events` is given. The
seconds of CPU per 1000 events come from the kernel's accounting and hardly depend on other load.

It measures integer division and square roots in a loop that needs no memory. It does not measure caches, vector
instructions or the kernel. Its trap is the version: sysbench 0.4 and 1.x do different work per event and print other
reports, so their figures cannot be compared. The version is recorded, and a report of 0.4 is refused. The limit of
primes matters as much: an event up to 200 000 is about thirty times the work of one up to 20 000.

A short trial (`events`, `trial_time`) also holds the start of its threads, which the tool's own clock times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from vtax.benchmarks.base import (
    Benchmark,
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    Tail,
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.checks import (
    check_cpu,
    check_threads,
    number_in,
    successful_result,
    thread_warnings,
)
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note

_NUMBER = r"[ \t]*([0-9]+(?:\.[0-9]+)?)"
_LINES = {
    "events_per_s": rf"(?:events per second|events/s \(eps\)):{_NUMBER}",
    "events": rf"total number of events:{_NUMBER}",
    "total_s": rf"(?:total time|time elapsed):{_NUMBER}s",
    "latency_min": rf"min:{_NUMBER}",
    "latency_avg": rf"avg:{_NUMBER}",
    "latency_max": rf"max:{_NUMBER}",
    "latency_p95": rf"95th percentile:{_NUMBER}",
    "threads": rf"Number of threads:{_NUMBER}",
    "cpu_max_prime": rf"Prime numbers limit:{_NUMBER}",
}
_EFFECTIVE = ("events", "threads", "cpu_max_prime")
_FEW_EVENTS = 20
_EVENT_S = 0.001  # with the default limit, on a CPU of the 2020s


class SysbenchCpuParameters(Parameters):
    """Parameters that a study may fix or vary."""

    threads: int | None = Field(
        None, ge=1, le=4096, description="threads; default the guest's virtual CPUs"
    )
    cpu_max_prime: int = Field(
        20000, ge=3, le=10**9, description="upper limit of the primes one event looks for"
    )
    duration_s: int = Field(
        10, ge=1, le=86400, description="whole seconds measured, unless events is given"
    )
    events: int | None = Field(
        None, ge=1, description="number of events to do, however long they take"
    )


@register_benchmark
class SysbenchCpu(Benchmark):
    name = "sysbench-cpu"
    title = "integer computation (sysbench cpu)"
    tool = "sysbench"
    resource = "cpu"
    Parameters = SysbenchCpuParameters
    work = Operations("event", "events", time="µs")
    counts = WorkParameter("events")
    metrics: Sequence[Metric] = (
        Metric(
            "events_per_s",
            "events/s",
            "higher",
            "events per second",
            primary=True,
            fixed_work="events",
        ),
        Metric("time", "s", "lower", "time for the fixed number of events"),
        Metric("latency_avg", "ms", "lower", "time of one event, average", per_unit=True),
        Metric(
            "latency_p95",
            "ms",
            "lower",
            "time of one event, 95th percentile",
            tail=Tail("latency", 0.95),
        ),
        Metric("latency_min", "ms", "lower", "time of one event, min"),
        Metric("latency_max", "ms", "lower", "time of one event, max"),
        Metric(
            "cpu_per_1000_events",
            "s",
            "lower",
            "CPU time of 1000 events, as the guest's kernel accounts it",
            most="unknown",
            per_unit=False,  # the start of the program is in it
        ),
    )
    version_argv = ("sysbench", "--version")
    version_pattern = r"\Asysbench (\S+)"

    def version_of(self, output: str) -> str:
        version = super().version_of(output)
        _refuse_old(output)
        return version

    def commands(self, parameters: SysbenchCpuParameters, context: Context) -> Sequence[Command]:
        threads = parameters.threads or context.vcpus
        check_threads(threads, context)
        argv = (
            "sysbench",
            "cpu",
            f"--threads={threads}",
            f"--cpu-max-prime={parameters.cpu_max_prime}",
            f"--time={parameters.duration_s if parameters.events is None else 0}",
            f"--events={parameters.events or 0}",
            "run",
        )
        return (Command("single", argv),)

    def expected_s(self, parameters: SysbenchCpuParameters, context: Context) -> float:
        """Estimate a trial: trial division of n takes sqrt(n) steps, so work grows as the 1.5th power."""
        if parameters.events is None:
            return parameters.duration_s + 0.1
        at_once = min(parameters.threads or context.vcpus, context.vcpus)
        event_s = _EVENT_S * float((parameters.cpu_max_prime / 20000) ** 1.5)
        return parameters.events * event_s / at_once + 0.1

    def parse(
        self,
        parameters: SysbenchCpuParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        result = successful_result("sysbench", results)
        _refuse_old(result.stdout)
        read = {
            name: number_in("sysbench", pattern, result.stdout, is_indented=True)
            for name, pattern in _LINES.items()
        }
        if "forced shutdown" in result.stdout or read["events"] < 1 or read["events_per_s"] <= 0:
            raise BenchmarkError("sysbench finished no event", where=" ".join(result.argv))
        if parameters.events is not None and read["events"] != parameters.events:
            raise BenchmarkError(
                f"sysbench completed {read['events']:g} events where {parameters.events} were requested"
            )
        check_cpu("sysbench", result, context)
        effective: dict[str, Any] = {name: int(read.pop(name)) for name in _EFFECTIVE}
        total_s = read.pop("total_s")
        values = dict(read)
        if parameters.events is not None:
            values["time"] = total_s
        if result.cpu_s > 0:
            values["cpu_per_1000_events"] = result.cpu_s * 1000 / effective["events"]
        request_counts = {"latency": [float(effective["events"])]}
        return Outcome(
            values,
            effective,
            tuple(_warnings(effective, parameters, context)),
            histograms=request_counts,
        )


def _refuse_old(output: str) -> None:
    """Raise BenchmarkError for sysbench 0.x, by the first line that it prints with every report."""
    if match := re.match(r"sysbench (0\.\d+[\d.]*)", output):
        raise BenchmarkError(
            f"this is sysbench {match[1]}, whose events are other work than those of 1.x: they do not compare",
            hint="install sysbench 1.0 or later",
        )


def _warnings(
    effective: Mapping[str, int], parameters: SysbenchCpuParameters, context: Context
) -> list[str]:
    """Return the warnings of a trial. Few events are one of a fixed time, which cuts the last of them off."""
    warnings = thread_warnings(effective["threads"], context)
    if parameters.events is None and effective["events"] < _FEW_EVENTS:
        warnings.append(Note("few-events", found=effective["events"]))
    return warnings
