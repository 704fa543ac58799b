"""LINPACK: a dense system of linear equations, solved in one thread by vtax's own program after LINPACK's rules.

It measures floating-point multiplications and additions of one CPU on a matrix that fits its caches at small orders
(100 in single precision is 39 KiB), by LINPACK's own algorithm (gefa, gesl, axpy by columns). It does not measure
what the CPU can do at most: that takes a blocked algorithm and vector instructions.

Its trap is to compare figures of different solvers, orders or compilers, which differ more than platforms do:
compiler and flags are part of the recorded version. The residual is checked, and a wrong solution fails the trial.
The rate is by the guest's clock: where that differs from the controller's, the trial has a warning.

A short trial (`repetitions`, `trial_time`) also holds the first solution, whose memory is in no cache yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

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
from vtax.benchmarks.own_program import Report
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import CommandResult
from vtax.units import about_size

TOOL = "vtax-linpack"
PRECISION_BYTES = {"single": 4, "double": 8}
METRICS: Sequence[Metric] = (
    Metric(
        "rate",
        "Mflop/s",
        "higher",
        "operations of all solutions over their time",
        primary=True,
        average="harmonic",
    ),
    Metric(
        "best_rate",
        "Mflop/s",
        "higher",
        "operations over the time of the fastest solution",
        average="harmonic",
        per_unit=False,
    ),
    Metric("time", "s", "lower", "time of one solution, mean", per_unit=True),
)
_MAX_SHARE = 0.9
_MAX_SCALED_RESIDUAL = 16.0  # HPL's threshold
_MAX_SECONDS_ROOM = 1.05
_WORK = 1e9  # operations of a trial, by default
_MAX_REPETITIONS = 1_000_000
_EXPECTED_PER_S = 1.5e9
Precision = Literal["single", "double"]


class LinpackParameters(Parameters):
    """Parameters that a study may fix or vary."""

    order: int = Field(100, ge=2, le=20_000, description="equations, and unknowns")
    precision: Precision = Field("double", description="of the numbers: 4 or 8 bytes")
    repetitions: int | None = Field(
        None,
        ge=1,
        le=_MAX_REPETITIONS,
        description="solutions; default as many as make 10^9 operations",
    )


def operations(order: int) -> float:
    """Floating-point operations that a solution counts for: 2/3 n^3 + 2 n^2 (Dongarra et al., 2003)."""
    return 2 / 3 * order**3 + 2 * order**2


def default_repetitions(order: int) -> int:
    """As many solutions as make _WORK operations, at least one."""
    return min(max(round(_WORK / operations(order)), 1), _MAX_REPETITIONS)


def command(
    order: int, precision: Precision, repetitions: int | None, context: Context
) -> tuple[str, ...]:
    """Return the arguments of the program. Raises BadInput for a matrix that the guest's memory cannot hold."""
    matrix_bytes = order**2 * PRECISION_BYTES[precision]
    if matrix_bytes > context.memory_bytes * _MAX_SHARE:
        raise BadInput(
            f"a matrix of order {order} is {about_size(matrix_bytes)}, and the guest has "
            f"{about_size(context.memory_bytes)} of memory",
            where="order",
            hint="lower order, or raise memory in [guest]",
        )
    return (TOOL, str(order), precision, str(repetitions or default_repetitions(order)))


def outcome(
    argv: Sequence[str], context: Context, results: Mapping[Role, CommandResult]
) -> Outcome:
    """Return what the report of the program says, which ran with these arguments. See Benchmark.parse."""
    result = results["single"]
    if "invalid" in result.stdout.split():
        raise BenchmarkError(
            "LINPACK's solution is wrong: the guest computed or stored it wrongly",
            where=_tail(result),
        )
    report = Report(TOOL, results, end="valid")
    _, order, precision, repetitions = argv
    report.matches({"order": order, "precision": precision, "repetitions": repetitions})
    if (residual := report.number("scaled_residual")) >= _MAX_SCALED_RESIDUAL:
        raise BenchmarkError(
            f"LINPACK's scaled residual is {residual:g}, not below {_MAX_SCALED_RESIDUAL:g}"
        )
    total_s, best_s, count = (
        report.positive("seconds"),
        report.positive("best_s"),
        report.integer("repetitions"),
    )
    if total_s > result.inside_s * _MAX_SECONDS_ROOM + 0.01:
        raise BenchmarkError(
            f"{TOOL} reports {total_s:g} s, and the guest counted {result.inside_s:g} s"
        )
    check_cpu(TOOL, result, context)
    operations_m = operations(int(order)) / 1e6
    effective = {
        "order": int(order),
        "precision": precision,
        "solver": report.text("solver"),
        "repetitions": count,
        "threads": report.integer("threads"),
        "kernel": report.text("kernel"),
        "normalized_residual": report.number("normalized_residual"),
        "scaled_residual": residual,
    }
    values = {
        "rate": operations_m * count / total_s,
        "best_rate": operations_m / best_s,
        "time": total_s / count,
    }
    return Outcome(values, effective)


def expected_s(order: int, repetitions: int | None, rate_per_s: float) -> float:
    """Estimate a trial: the matrix is written anew for every solution."""
    return (repetitions or default_repetitions(order)) * (
        operations(order) / rate_per_s + order**2 * 1e-9
    ) + 0.1


def _tail(result: CommandResult) -> str:
    return "; ".join(result.stdout.splitlines()[-6:])


@register_benchmark
class Linpack(OwnProgram):
    name = "linpack"
    title = "linear equations, one thread (LINPACK rules)"
    tool = TOOL
    resource = "cpu"
    Parameters = LinpackParameters
    work = Operations("solution", "repetitions")
    counts = WorkParameter("repetitions")
    metrics = METRICS

    def commands(self, parameters: LinpackParameters, context: Context) -> Sequence[Command]:
        return (Command("single", self._argv(parameters, context)),)

    def expected_s(self, parameters: LinpackParameters, context: Context) -> float:
        return expected_s(parameters.order, parameters.repetitions, _EXPECTED_PER_S)

    def parse(
        self, parameters: LinpackParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        return outcome(self._argv(parameters, context), context, results)

    def _argv(self, parameters: LinpackParameters, context: Context) -> tuple[str, ...]:
        p = parameters
        return command(p.order, p.precision, p.repetitions, context)
