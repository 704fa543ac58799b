"""Python imports: an interpreter that starts, imports a fixed set of modules of its standard library, and ends.

It measures the cold start of a program that is made of many small files: about 200 are looked for, opened, read and
unmarshalled, one after the other, by one process that then ends. They come from the guest's root, so a layered or
shared file system there is part of the figure. It does not measure a disk: one untimed start comes before the timed
ones, and the files are in the page cache then.

Its trap is another interpreter. On machines that use their own Python the same names are other files: version and
number of files are recorded, and platforms that differ in one of them have a warning. Where the library has no
compiled files (`__pycache__`), each start compiles them.

The time is the controller's, around all starts, so a short trial also holds a round trip to the guest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
    WorkParameter,
    register_benchmark,
)
from vtax.benchmarks.checks import check_cpu, successful_result
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult

_TOOL = "python3"
_MODULES = (
    "argparse",
    "asyncio",
    "concurrent.futures",
    "configparser",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "email.message",
    "http.client",
    "http.server",
    "importlib.metadata",
    "json",
    "logging.config",
    "multiprocessing",
    "pathlib",
    "pickle",
    "random",
    "sqlite3",
    "ssl",
    "statistics",
    "subprocess",
    "tempfile",
    "typing",
    "unittest.mock",
    "urllib.request",
    "uuid",
    "xml.etree.ElementTree",
    "zipfile",
)
_PROGRAM = f"""
import sys
import {", ".join(_MODULES)}
files = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None)]
print(len(files))
"""
_LOOP = """
n=0
while [ "$n" -lt "$1" ]; do
    python3 -IBS -c "$2" || exit 1
    n=$((n + 1))
done
"""
"""Isolated from the environment and the user's packages; writes no compiled files."""
_EXPECTED_START_S = 0.3


class PythonImportsParameters(Parameters):
    """Parameters that a study may fix or vary."""

    starts: int = Field(
        5, ge=1, le=10_000, description="interpreters that are started, one after the other"
    )


@register_benchmark
class PythonImports(Benchmark):
    name = "python-imports"
    title = "start of a program of many small files (Python imports)"
    tool = _TOOL
    same_everywhere = ("files",)
    Parameters = PythonImportsParameters
    work = Operations("start", "starts")
    counts = WorkParameter("starts")
    metrics: Sequence[Metric] = (
        Metric(
            "time",
            "ms",
            "lower",
            "time of one start with its imports, mean, on the controller's clock",
            primary=True,
            time_of=Operations("start", "starts"),
        ),
        Metric(
            "cpu_time",
            "ms",
            "lower",
            "CPU time of one start with its imports, mean, as the guest's kernel accounts it",
            most="cpus",
            per_unit=True,
        ),
    )
    version_argv = (_TOOL, "--version")
    version_pattern = r"\APython (\S+)\s*\Z"

    def commands(self, parameters: PythonImportsParameters, context: Context) -> Sequence[Command]:
        loop = ("sh", "-c", _LOOP, "sh")
        warm_up = (*loop, "1", _PROGRAM)
        return (Command("single", (*loop, str(parameters.starts), _PROGRAM), before=(warm_up,)),)

    def expected_s(self, parameters: PythonImportsParameters, context: Context) -> float:
        return parameters.starts * _EXPECTED_START_S

    def parse(
        self,
        parameters: PythonImportsParameters,
        context: Context,
        results: Mapping[Role, CommandResult],
    ) -> Outcome:
        result = successful_result(_TOOL, results)
        reports = result.stdout.splitlines()
        if len(reports) != parameters.starts:
            raise BenchmarkError(
                f"{len(reports)} interpreters reported where {parameters.starts} were started",
                where=result.stdout[-200:],
            )
        if len(set(reports)) > 1 or not re.fullmatch(r"[1-9]\d{0,5}", reports[0]):
            raise BenchmarkError(
                "the interpreters printed no number of files, or not the same one",
                where=result.stdout[-200:],
            )
        check_cpu(_TOOL, result, context)
        each_ms = 1000 / parameters.starts
        values = {"time": result.outside_s * each_ms}
        if result.cpu_s > 0:  # else too short for the guest's accounting
            values["cpu_time"] = result.cpu_s * each_ms
        return Outcome(values, {"starts": parameters.starts, "files": int(reports[0])})
