"""π by CLN's `pi`: a long computation with whole numbers in one thread, as Super Pi is.

It measures multiplication of very long integers (fast Fourier transforms and GMP's kernels) in one thread, in a
working set that grows with the digits: caches first, then memory. It does not measure several CPUs, for which there
is `pi-flint`, nor floating point. The default of 2^22 digits is what mauricio2013 measured with Super Pi.

Its trap: the program is its library, so figures of another version of CLN or GMP are of another program, and cannot
be compared with Super Pi's. A Super Pi binary itself is run as a program of the study (docs/add-a-benchmark.md). The
time is the controller's, around the whole program; the last digits are compared with π's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from vtax.benchmarks import pi_digits
from vtax.benchmarks.base import (
    Benchmark,
    Command,
    Context,
    Metric,
    Operations,
    Outcome,
    Parameters,
    Role,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, check_memory, successful_result
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

_START_BYTES = 6 * 1024**2
_BYTES_PER_DIGIT = 10  # measured: 9.0 from 10^6 to 10^7 digits
_EXPECTED_S = 1.0  # of 10^6 digits
_REPORT = re.compile(rf"(\d{{{pi_digits.SHOWN}}})\n(\d+)\n?")
# The digits go into a file: a pipe would make the program wait, and all of them would cross the guest's stream.
_SCRIPT = f'pi "$1" > "$2" && tail -c {pi_digits.SHOWN + 1} "$2" && wc -c < "$2"'


class PiParameters(Parameters):
    """Parameters that a study may fix or vary."""

    digits: int = Field(
        4_194_304,
        ge=pi_digits.FEWEST,
        le=1_000_000_000,
        description="digits of π after the decimal point",
    )


@register_benchmark
class Pi(Benchmark):
    name = "pi"
    title = "π in one thread (CLN, as Super Pi)"
    tool = "pi"
    resource = "cpu"
    packages = ("pi",)
    Parameters = PiParameters
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
            "cpu_time",
            "s",
            "lower",
            "CPU time of the program, as the guest's kernel accounts it",
            most="cpus",
        ),
    )
    version_argv = ("pi", "--version")
    version_pattern = r"\Api \((CLN \S+)\)"

    def commands(self, parameters: PiParameters, context: Context) -> Sequence[Command]:
        """Return the commands of a trial; the program counts the 3 as a digit."""
        needed_bytes = _START_BYTES + _BYTES_PER_DIGIT * parameters.digits
        check_memory("digits", f"{parameters.digits} digits of pi", needed_bytes, context)
        path = f"{context.scratch}/vtax-pi-{context.flow}"
        argv = ("sh", "-c", _SCRIPT, "vtax-pi", str(parameters.digits + 1), path)
        return (Command("single", argv, makes=(path,)),)

    def expected_s(self, parameters: PiParameters, context: Context) -> float:
        """Estimate a trial: the work grows a little faster than the digits."""
        return _EXPECTED_S * float((parameters.digits / 1e6) ** 1.15) + 0.1

    def parse(
        self, parameters: PiParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        result = successful_result("pi", results)
        match = _REPORT.fullmatch(result.stdout)
        if not match:
            raise BenchmarkError("pi printed no digits that vtax knows", where=result.stdout[-200:])
        if int(match[2]) != parameters.digits + 3:  # with `3.` and the end of the line
            raise BenchmarkError(
                f"pi printed {int(match[2]) - 3} digits where {parameters.digits} were requested"
            )
        warnings = pi_digits.warnings_of("pi", parameters.digits, match[1])
        check_cpu("pi", result, context)
        values = {"time": result.outside_s}
        if result.cpu_s > 0:  # else too short for the guest's accounting
            values["cpu_time"] = result.cpu_s
        effective = {"digits": parameters.digits, "last_digits": match[1]}
        return Outcome(values, effective, tuple(warnings))
