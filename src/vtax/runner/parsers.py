"""Parsers of benchmarks in a process of their own: what a tool printed costs at most its trial.

The process has what every benchmark is at its start, so that a plug-in's parser and the program of a study need
nothing for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from vtax.benchmarks.base import Benchmark, Context, Metric, Outcome, Role, metrics_of
from vtax.benchmarks.bounds import check_outcome
from vtax.benchmarks.printed import Printed
from vtax.errors import BenchmarkError, VtaxError
from vtax.foreign_text import clean, cleaned, one_line
from vtax.guest.results import CommandResult
from vtax.host.bounded_calls import BoundedCalls, CallEnded
from vtax.runner.containment import cause

TIMEOUT_S = 10.0
"""For the outputs of a trial together."""
_HINT = (
    "see vtax show RUN --raw; repetitions within repetitions and several '.*' make a pattern slow"
)


class ParserFailed(BenchmarkError):
    """A parser did not end in time, or ended otherwise than with an outcome or a BenchmarkError."""


class Parsers:
    """The process with the parsers, while it is open. readers: benchmarks with parameters of their trials; for
    others the process is forked again, once for all trials with equal ones."""

    def __init__(self, readers: Iterable[tuple[Benchmark, Any]] = ()) -> None:
        self._readers = list(readers)
        self._calls = BoundedCalls(self._parse_here)

    def __enter__(self) -> Self:
        self._calls.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.end()

    def outcome(
        self,
        benchmark: Benchmark,
        parameters: Any,
        context: Context,
        results: Mapping[Role, CommandResult],
        timeout_s: float = TIMEOUT_S,
    ) -> Outcome:
        """Return the benchmark's outcome of the tool's output, with possible values and storable settings.

        Raises BenchmarkError, whatever the output is: ParserFailed when the parser raised another error, or needed
        more than timeout_s or 1 GiB.
        """
        outcome: Outcome = self._call(
            benchmark, parameters, timeout_s, "parse", context, dict(results)
        )
        return outcome

    def version(self, benchmark: Benchmark, output: str) -> str:
        """Return the version in what the tool printed, on one line. Raises BenchmarkError as `outcome` does."""
        version: str = self._call(benchmark, None, TIMEOUT_S, "version_of", output)
        return version

    def _call(
        self, benchmark: Benchmark, parameters: Any, timeout_s: float, method: str, *arguments: Any
    ) -> Any:
        number = self._number(benchmark, parameters)
        try:
            answer = self._calls.call(number, method, *arguments, timeout_s=timeout_s)
        except CallEnded as error:
            raise ParserFailed(
                f"the parser of {benchmark.tool}'s output {error.what}", hint=_HINT
            ) from error
        if isinstance(answer, BenchmarkError):
            raise answer
        return answer

    def _number(self, benchmark: Benchmark, parameters: Any) -> int:
        """Return the position of a reader that the process has."""
        for number, (reader, own_parameters) in enumerate(self._readers):
            if reader is benchmark and (parameters is None or own_parameters == parameters):
                return number
        self._calls.end()
        self._readers.append((benchmark, parameters))
        return len(self._readers) - 1

    def _parse_here(self, number: int, method: str, *arguments: Any) -> Any:
        """Return the value of a parser, or its BenchmarkError; ParserFailed for any other exception. Runs in the process."""
        benchmark, parameters = self._readers[number]
        try:
            with _parsing(benchmark.tool):
                if method == "parse":
                    context, results = arguments
                    metrics = metrics_of(benchmark)
                    outcome = benchmark.parse(parameters, context, results)
                    outcome = check_outcome(benchmark, context, results, outcome)
                    return _storable(outcome, metrics)
                return one_line(benchmark.version_of(*arguments))
        except VtaxError as error:
            is_foreseen = isinstance(error, BenchmarkError) and not isinstance(error, ParserFailed)
            kind = BenchmarkError if is_foreseen else ParserFailed
            return kind(clean(error.what), where=clean(error.where), hint=clean(error.hint))


@contextmanager
def _parsing(tool: str) -> Iterator[None]:
    """Within the block, any exception of a parser becomes a BenchmarkError."""
    try:
        yield
    except (VtaxError, MemoryError):
        raise
    except Exception as error:
        raise ParserFailed(f"{tool}'s output could not be parsed: {cause(error)}") from error


def _storable(outcome: Outcome, metrics: Iterable[Metric]) -> Outcome:
    """Return an outcome of which every value is finite, and known to its resolution. Raises ValueError or TypeError for another one."""
    json.dumps(dict(outcome.effective), allow_nan=False)
    declared = {metric.name: metric.resolution for metric in metrics}
    values, resolutions = {}, {}
    for name, value in outcome.values.items():
        values[name] = _finite(name, value)
        step = _step(outcome, name, value, declared.get(name, 0.0))
        if step:
            resolutions[name] = step
    return replace(
        outcome,
        values=values,
        resolutions=resolutions,
        samples=_finite_lists(outcome.samples),
        histograms=_finite_lists(outcome.histograms),
        effective=cleaned(dict(outcome.effective)),
    )


def _finite_lists(lists: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    finite = {}
    for name, values in lists.items():
        finite[name] = [_finite(name, value) for value in values]
    return finite


def _step(outcome: Outcome, name: str, value: float, declared: float) -> float:
    """Return the smallest difference that a trial tells of a metric: the coarsest of all that is known; else 0."""
    printed = value.step if isinstance(value, Printed) else 0.0
    return _finite(name, max(printed, outcome.resolutions.get(name, 0.0), declared))


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}")
    return float(value)
