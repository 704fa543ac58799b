"""π by FLINT in all threads: Chudnovsky's series by binary splitting, as y-cruncher computes it.

It measures multiplication of very long integers in several threads, memory bandwidth and the scheduling of threads,
up to 500 million digits and more. It does not measure floating point alone.

Its trap is memory: two threads need 15 bytes per digit, and a guest that swaps measures its disk. More than the
guest has is refused before the run. FLINT is not y-cruncher, whose figures are several times as fast and cannot be
compared; a y-cruncher binary itself is run as a program of the study (docs/add-a-benchmark.md). The time is the
controller's, around the whole program; what the program says of computing alone, without the conversion to decimal
digits, is beside it; the last digits are compared with π's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from vtax.benchmarks import pi_digits
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
from vtax.benchmarks.checks import check_cpu, check_memory, check_threads, thread_warnings
from vtax.benchmarks.own_program import Report
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

_TOOL = "vtax-pi"
_START_BYTES = 16 * 1024**2
_BYTES_PER_DIGIT = (
    10,
    15,
    20,
)  # with 1, 2, more threads; measured at 10^7 digits: 9.2, 13.9, 16.4 (4), 19.3 (16)
_EXPECTED_S = 0.5  # of 10^6 digits in one thread
_CLOCK_ROOM = 1.05


class PiFlintParameters(Parameters):
    """Parameters that a study may fix or vary."""

    digits: int = Field(
        10_000_000,
        ge=pi_digits.FEWEST,
        le=10_000_000_000,
        description="digits of π after the decimal point",
    )
    threads: int | None = Field(
        None, ge=1, le=4096, description="threads; default the guest's virtual CPUs"
    )


@register_benchmark
class PiFlint(OwnProgram):
    name = "pi-flint"
    title = "π in all threads (FLINT, as y-cruncher)"
    tool = _TOOL
    resource = "cpu"
    packages = ("libflint19",)
    Parameters = PiFlintParameters
    work = Operations("run")
    metrics: Sequence[Metric] = (
        Metric(
            "time",
            "s",
            "lower",
            "time of the whole program, on the controller's clock",
            primary=True,
        ),
        Metric(
            "computing_time",
            "s",
            "lower",
            "time of the computation without that of decimal digits, by the guest's clock",
        ),
        Metric(
            "cpu_time",
            "s",
            "lower",
            "CPU time of all threads, as the guest's kernel accounts it",
            most="cpus",
        ),
    )

    def commands(self, parameters: PiFlintParameters, context: Context) -> Sequence[Command]:
        threads = _threads(parameters, context)
        check_threads(threads, context)
        per_digit = _BYTES_PER_DIGIT[min(threads, len(_BYTES_PER_DIGIT)) - 1]
        needed_bytes = _START_BYTES + per_digit * parameters.digits
        check_memory("digits", f"{parameters.digits} digits of pi", needed_bytes, context)
        return (Command("single", (_TOOL, str(parameters.digits), str(threads))),)

    def expected_s(self, parameters: PiFlintParameters, context: Context) -> float:
        """Estimate a trial: the work grows a little faster than the digits."""
        at_once = min(_threads(parameters, context), context.vcpus)
        return _EXPECTED_S * float((parameters.digits / 1e6) ** 1.15) / at_once + 0.1

    def parse(
        self, parameters: PiFlintParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        result, threads = results["single"], _threads(parameters, context)
        report = Report(_TOOL, results)
        report.matches({"digits": parameters.digits, "threads": threads})
        last = report.text("last")
        warnings = thread_warnings(threads, context) + pi_digits.warnings_of(
            "FLINT", parameters.digits, last
        )
        computed_s = report.positive("computed_s")
        if computed_s > result.inside_s * _CLOCK_ROOM + 0.01:
            raise BenchmarkError(
                f"{_TOOL} reports {computed_s:g} s, and the guest counted {result.inside_s:g} s"
            )
        check_cpu(_TOOL, result, context)
        values = {"time": result.outside_s, "computing_time": computed_s}
        if result.cpu_s > 0:  # else too short for the guest's accounting
            values["cpu_time"] = result.cpu_s
        effective = {"digits": parameters.digits, "threads": threads, "last_digits": last}
        return Outcome(values, effective, tuple(warnings))


def _threads(parameters: PiFlintParameters, context: Context) -> int:
    return parameters.threads or context.vcpus
