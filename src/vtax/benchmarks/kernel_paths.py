"""Kernel paths: what a program pays for one operation of its kernel, by a small program of vtax's own.

It measures one path, again and again, with everything it needs in the caches: a system call, a switch between
processes (pipe) or threads (futex), a page fault, fork with exec, mmap, a signal, or how late a sleeper wakes up. It
does not measure what an application does between them, nor the cost of a path whose caches others have filled.

Its trap is the guest's clock, which may be emulated and is read at a cost of its own. So a fixed number of loops is
timed as a whole on the controller's clock: that is `time`. The distribution is by the guest's clock, over batches: of
one operation where loops are at most 10 000, else of loops/10 000, whose extremes are means of a few operations. One
reading of the clock (about 30 ns natively) is part of every batch, so measure system calls with many loops.

A short trial (`loops`, `trial_time`) also holds a round trip to the guest, by the controller's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

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
from vtax.benchmarks.checks import check_cpu
from vtax.benchmarks.own_program import Report, loops_outside_s, short_warnings
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.messages import Note

_TOOL = "vtax-kernel-paths"
Operation = Literal[
    "syscall", "context_switch", "page_fault", "fork_exec", "mmap", "signal", "timer", "futex"
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
DEFAULT_LOOPS: Mapping[Operation, int] = {
    "syscall": 1_000_000,
    "context_switch": 50_000,
    "page_fault": 200_000,
    "fork_exec": 500,
    "mmap": 200_000,
    "signal": 200_000,
    "timer": 500,
    "futex": 50_000,
}
"""About a quarter of a second each on a CPU of the 2020s, half a second for the timer, which waits."""
_EXPECTED_NS: Mapping[Operation, float] = {
    "syscall": 250,
    "context_switch": 8000,
    "page_fault": 1500,
    "fork_exec": 800_000,
    "mmap": 3000,
    "signal": 2000,
    "timer": 1_100_000,
    "futex": 6000,
}
_ON_ONE_CPU: tuple[Operation, ...] = ("context_switch", "futex")


class KernelPathsParameters(Parameters):
    """Parameters that a study may fix or vary."""

    operation: Operation = Field(
        "syscall",
        description="syscall: getppid; context_switch: a byte to another process and one back through pipes, on one "
        "CPU; page_fault: first write to a page; fork_exec: fork, exec of a small program, wait; mmap: mmap and "
        "munmap of 64 KiB; signal: one to itself with its handler; timer: lateness after a sleep of 1 ms; futex: "
        "waking another thread and being woken by it, on one CPU",
    )
    loops: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="operations; default by operation, about a quarter of a second natively",
    )


@register_benchmark
class KernelPaths(OwnProgram):
    name = "kernel-paths"
    title = "one operation of the kernel (system call, switch, fault, ...)"
    tool = _TOOL
    resource = "kernel"
    Parameters = KernelPathsParameters
    work = Operations("operation", "loops", time="ns")
    counts = WorkParameter("loops")
    metrics: Sequence[Metric] = (
        Metric(
            "time",
            "ns",
            "lower",
            "time of one operation, mean, on the controller's clock",
            primary=True,
            time_of=Operations("operation", "loops"),
        ),
        Metric(
            "mean",
            "ns",
            "lower",
            "time of one operation, mean, by the guest's clock",
            per_unit=True,
        ),
        Metric("min", "ns", "lower", "fastest batch, by the guest's clock"),
        Metric("p50", "ns", "lower", "median of batches, by the guest's clock"),
        Metric("p95", "ns", "lower", "95th percentile of batches, by the guest's clock"),
        Metric("p99", "ns", "lower", "99th percentile of batches, by the guest's clock"),
        Metric("max", "ns", "lower", "slowest batch, by the guest's clock"),
    )

    def commands(self, parameters: KernelPathsParameters, context: Context) -> Sequence[Command]:
        return (Command("single", (_TOOL, parameters.operation, str(_loops(parameters)))),)

    def expected_s(self, parameters: KernelPathsParameters, context: Context) -> float:
        return _loops(parameters) * _EXPECTED_NS[parameters.operation] * 1e-9 + 0.1

    def parse(
        self,
        parameters: KernelPathsParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        report = Report(_TOOL, results)
        result, loops = results["single"], _loops(parameters)
        report.matches({"operation": parameters.operation, "loops": loops})
        loops_s, subtracted_ns = report.positive("seconds"), report.number("subtracted_ns")
        outside_s = loops_outside_s(_TOOL, result, loops_s)
        check_cpu(_TOOL, result, context)
        values = {
            "time": outside_s * 1e9 / loops - subtracted_ns,
            "mean": loops_s * 1e9 / loops - subtracted_ns,
            **{name: report.number(f"{name}_ns") for name in ("min", "p50", "p95", "p99", "max")},
        }
        if values["time"] <= 0 or values["min"] < 0:
            problem = "no time passed in the guest: its clock stands still"
            if subtracted_ns:
                asleep = f"{subtracted_ns / 1e6:g} ms"
                problem = f"the guest woke up before its {asleep} were over: its clock is wrong"
            raise BenchmarkError(problem, hint="see vtax doctor for the clock")
        effective = {
            "operation": parameters.operation,
            "loops": loops,
            "batches": report.integer("batches"),
            "one_cpu": report.text("one_cpu") == "1",
        }
        warnings = short_warnings(outside_s, "loops")
        if parameters.operation in _ON_ONE_CPU and not effective["one_cpu"]:
            warnings.append(Note("two-cpus"))
        return Outcome(values, effective, tuple(warnings))


def _loops(parameters: KernelPathsParameters) -> int:
    return parameters.loops or DEFAULT_LOOPS[parameters.operation]
