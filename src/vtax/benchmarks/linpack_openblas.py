"""LINPACK n x n by OpenBLAS: a dense system of linear equations, solved by LAPACK's gesv in all threads.

It measures what a guest's CPUs do at most in floating point, with vector instructions and blocks that fit the caches;
at large orders nothing else counts. It does not measure memory bandwidth, nor several machines as HPL does.

Its trap: OpenBLAS chooses its kernel by what the (virtual) CPU says of itself (CPUID). A guest with another CPU model
runs another program, and its figure shows that choice. The kernel is recorded with every trial, and platforms that
differ in it are a warning of the run. The residual is checked by HPL's rule, and a wrong solution fails the trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from vtax.benchmarks import linpack
from vtax.benchmarks.base import Command, Context, Outcome, Parameters, Resource, Role
from vtax.benchmarks.linpack import METRICS, TOOL, Precision
from vtax.benchmarks.local import thread_warnings
from vtax.benchmarks.own_program import version_in
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

_EXPECTED_PER_S = 2e10
_MAX_THREADS = 128  # Debian's OpenBLAS is built for no more


class LinpackOpenblasParameters(Parameters):
    """What a study may fix or vary."""

    order: int = Field(1000, ge=2, le=200_000, description="equations, and unknowns")
    precision: Precision = Field("double", description="of the numbers: 4 or 8 bytes")
    repetitions: int | None = Field(
        None, ge=1, le=1_000_000, description="solutions; default as many as make 10^9 operations"
    )
    threads: int | None = Field(None, ge=1, le=_MAX_THREADS, description="threads; default the guest's virtual CPUs")
    kernel: str | None = Field(
        None,
        pattern="^[A-Za-z0-9_]{1,40}$",
        description="kernel of OpenBLAS to use, such as Haswell (OPENBLAS_CORETYPE); default by the CPU",
    )


class LinpackOpenblas:
    """See the module."""

    name = "linpack-openblas"
    title = "linear equations, all threads (LAPACK of OpenBLAS)"
    tool = TOOL
    needs_network = False
    resource: Resource = "cpu"
    packages = ("libopenblas0-pthread",)
    same_everywhere = ("kernel",)
    Parameters = LinpackOpenblasParameters
    metrics = METRICS
    version_argv = (TOOL, "--version", "openblas")

    def version_of(self, output: str) -> str:
        """See Benchmark.version_of. OpenBLAS, compiler and flags belong to it."""
        return version_in(TOOL, output)

    def commands(self, parameters: LinpackOpenblasParameters, context: Context) -> Sequence[Command]:
        """See Benchmark.commands."""
        environment = {"OPENBLAS_NUM_THREADS": str(_threads(parameters, context))}
        if parameters.kernel:
            environment["OPENBLAS_CORETYPE"] = parameters.kernel
        return (Command("single", self._argv(parameters, context), environment=environment),)

    def expected_s(self, parameters: LinpackOpenblasParameters, context: Context) -> float:
        """See Benchmark.expected_s."""
        at_once = min(_threads(parameters, context), context.vcpus)
        return linpack.expected_s(parameters.order, parameters.repetitions, _EXPECTED_PER_S * at_once)

    def parse(
        self, parameters: LinpackOpenblasParameters, context: Context, results: Mapping[Role, CommandResult]
    ) -> Outcome:
        """See Benchmark.parse."""
        found = linpack.outcome(self._argv(parameters, context), context, results)
        threads, kernel = found.effective["threads"], found.effective["kernel"]
        if threads != _threads(parameters, context):
            raise BenchmarkError(
                f"OpenBLAS used {threads} threads where {_threads(parameters, context)} were requested"
            )
        warnings = thread_warnings(threads, context)
        if parameters.kernel and kernel.lower() != parameters.kernel.lower():
            warnings.append(f"OpenBLAS used its kernel {kernel} where {parameters.kernel} was requested")
        return Outcome(found.values, found.effective, tuple(warnings))

    def _argv(self, parameters: LinpackOpenblasParameters, context: Context) -> tuple[str, ...]:
        p = parameters
        return linpack.command(self.name, p.order, p.precision, p.repetitions, "openblas", context)


def _threads(parameters: LinpackOpenblasParameters, context: Context) -> int:
    return parameters.threads or context.vcpus


BENCHMARK = LinpackOpenblas()
