"""One trial: run the benchmark's commands where they belong, count around them, parse what they printed.

Whatever goes wrong inside a trial - a tool that fails, output that makes no sense, a guest that dies or lies - ends
as a failed trial with its reason and whatever raw output there is; it never ends the run (see runner.containment).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vtax.benchmarks.base import CPU_PER_GIGABYTE, Benchmark, Command, Context, Metric, Outcome, Place, Role
from vtax.counters import cost
from vtax.errors import BenchmarkError
from vtax.foreign_text import clean, cleaned
from vtax.guest.guest import CommandResult, Guest, skew_warning
from vtax.network.links import Links
from vtax.runner.containment import Failure, contained, parsing
from vtax.runner.counting import Counting, Endpoint, of_programs
from vtax.runner.plan import Cell

PREPARE_TIMEOUT_S = 120.0
SERVER_READY_TIMEOUT_S = 20.0
TRIAL_OUTPUT_LIMIT = 32 << 20  # characters kept of all outputs of one trial
_MAX_WARNINGS = 50  # of one trial


@dataclass(frozen=True)
class Lane:
    """One flow of a trial: where its commands run, and their context. Most trials have one."""

    context: Context
    places: Mapping[Place, Endpoint]


@dataclass(frozen=True)
class TrialResult:
    """Result of a trial.

    outcome: over all lanes. results: of the programs, by role, `client`, `client.1` and so on for further lanes.
    foreground: the first lane's measured program. error: why the trial failed, empty when it counts. traceback: see
    containment.Failure.
    """

    started_at: float
    outcome: Outcome
    results: Mapping[str, CommandResult]
    foreground: CommandResult | None
    counters: Mapping[tuple[str, str], float]
    warnings: tuple[tuple[str, str], ...]
    error: str = ""
    traceback: str = ""


def failed(failure: Failure) -> TrialResult:
    """A trial that could not start."""
    return TrialResult(time.time(), Outcome({}), {}, None, {}, (), failure.error, failure.traceback)


def run_trial(
    cell: Cell, lanes: Sequence[Lane], ends: Mapping[str, Endpoint], links: Links | None, timeout_s: float
) -> TrialResult:
    """Run one trial of a cell, all its lanes at once.

    ends: everything whose counters are read, by role. links: of its topology, None for no network. timeout_s: of a
    foreground command.
    """
    started_at = time.time()
    counted = Counting(ends, links)
    started: list[_Lane] = []
    failure, outcome = Failure(), Outcome({})
    with contained(failure):
        for lane in lanes:
            started.append(_Lane(lane, cell))
        _run_lanes(started, timeout_s, counted)
        outcome = combined([lane.parsed() for lane in started], cell.point.benchmark.metrics)
        if links is not None:
            cost = cpu_per_gigabyte(counted.differences, cell.point.benchmark.metrics)
            outcome = replace(
                outcome, values={**outcome.values, **cost}, effective={**outcome.effective, **links.effective}
            )
    results, cut = bounded_outputs(
        {
            role if number == 0 else f"{role}.{number}": result
            for number, lane in enumerate(started)
            for role, result in lane.results.items()
        }
    )
    foreground = results.get("single") or results.get("client")
    warnings = (
        *(("tool", clean(text)) for text in outcome.warnings),
        *(("link", text) for text in (links.warnings if links else ())),
        *counted.warnings,
        *_skew(foreground),
        *cut,
    )
    return TrialResult(
        started_at=started_at,
        outcome=outcome,
        results=results,
        foreground=foreground,
        counters={**counted.differences, **of_programs(one for lane in started if (one := lane.foreground))},
        warnings=tuple(dict.fromkeys(warnings))[:_MAX_WARNINGS],
        error=failure.error,
        traceback=failure.traceback,
    )


def bounded_outputs(
    results: Mapping[str, CommandResult], limit: int = TRIAL_OUTPUT_LIMIT
) -> tuple[dict[str, CommandResult], tuple[tuple[str, str], ...]]:
    """Results of which together at most `limit` characters are kept, and a warning for each that was cut."""
    kept: dict[str, CommandResult] = {}
    for role, result in results.items():
        stdout = result.stdout[:limit]
        stderr = result.stderr[: limit - len(stdout)]
        limit -= len(stdout) + len(stderr)
        is_cut = len(stdout) + len(stderr) < len(result.stdout) + len(result.stderr)
        kept[role] = replace(result, stdout=stdout, stderr=stderr, truncated=True) if is_cut else result
    return kept, tuple(
        ("truncated", f"the output of {role} is longer than what is kept of it")
        for role, result in kept.items()
        if result.truncated
    )


def combined(outcomes: Sequence[Outcome], metrics: Sequence[Metric]) -> Outcome:
    """One outcome of several flows that ran at once: each metric added up or averaged, as it declares.

    Samples of several flows are dropped: their intervals do not begin at the same moments.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    values = {}
    for metric in metrics:
        found = [outcome.values[metric.name] for outcome in outcomes if metric.name in outcome.values]
        if len(found) == len(outcomes):
            values[metric.name] = sum(found) / (len(found) if metric.over_flows == "mean" else 1)
    warnings = dict.fromkeys(text for outcome in outcomes for text in outcome.warnings)
    return Outcome(values, {**outcomes[0].effective, "flows": len(outcomes)}, tuple(warnings))


def cpu_per_gigabyte(counted: Mapping[tuple[str, str], float], metrics: Sequence[Metric]) -> dict[str, float]:
    """The metric CPU_PER_GIGABYTE where a benchmark lists it; nothing when too little was moved to divide by."""
    found = cost.per_gigabyte(*cost.carried(counted, cost.under_test_cpu_s(counted)))
    return {} if found is None or CPU_PER_GIGABYTE not in metrics else {CPU_PER_GIGABYTE.name: found}


def parsed(benchmark: Benchmark, parameters: Any, context: Context, results: Mapping[Role, CommandResult]) -> Outcome:
    """The benchmark's outcome of the tool's output, with finite values and storable settings.

    Raises BenchmarkError, whatever the output is.
    """
    with parsing(benchmark.tool):
        outcome = benchmark.parse(parameters, context, results)
        json.dumps(dict(outcome.effective), allow_nan=False)
        values = {name: _finite(name, value) for name, value in outcome.values.items()}
        samples = {name: [_finite(name, value) for value in found] for name, found in outcome.samples.items()}
        return replace(outcome, values=values, samples=samples, effective=cleaned(dict(outcome.effective)))


def _finite(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}")
    return float(value)


def _run_lanes(lanes: Sequence[_Lane], timeout_s: float, counted: Counting) -> None:
    """Servers first, then the foreground commands between two readings of the counters, then servers down."""
    try:
        for lane in lanes:
            lane.start_servers()
        for lane in lanes:
            lane.prepare()
        with counted.around():
            if len(lanes) == 1:
                lanes[0].run(timeout_s)
            else:
                for lane in lanes:
                    lane.launch()
                for lane in lanes:
                    lane.finish(timeout_s)
        for lane in lanes:
            lane.tidy()
    finally:
        for lane in lanes:
            lane.stop_servers()


class _Lane:
    """The programs of one flow while they run."""

    def __init__(self, lane: Lane, cell: Cell) -> None:
        self._lane = lane
        self._point = cell.point
        commands = cell.point.benchmark.commands(cell.point.parameters, lane.context)
        self._measured = next(c for c in commands if c.role != "server")
        self._server_commands = [c for c in commands if c.role == "server"]
        self._servers: list[tuple[Guest, int]] = []
        self._handle = 0
        self.results: dict[Role, CommandResult] = {}

    def start_servers(self) -> None:
        for command in self._server_commands:
            guest = self._guest(command)
            _put(guest, command)
            _prepare(guest, command.before)
            handle = guest.start(command.argv, environment=command.environment)
            self._servers.append((guest, handle))
            if command.ready_port is not None:
                guest.wait_port(command.ready_port, timeout_s=SERVER_READY_TIMEOUT_S, handle=handle)

    def prepare(self) -> None:
        _put(self._guest(self._measured), self._measured)
        _prepare(self._guest(self._measured), self._measured.before)

    def run(self, timeout_s: float) -> None:
        command = self._measured
        timeout_s = command.timeout_s or timeout_s
        result = self._guest(command).run(command.argv, environment=command.environment, timeout_s=timeout_s)
        self._keep(result, timeout_s)

    def launch(self) -> None:
        command = self._measured
        self._handle = self._guest(command).start(command.argv, environment=command.environment)

    def finish(self, timeout_s: float) -> None:
        guest = self._guest(self._measured)
        timeout_s = self._measured.timeout_s or timeout_s
        self._keep(guest.finish(self._handle, argv=self._measured.argv, timeout_s=timeout_s), timeout_s)

    def tidy(self) -> None:
        _prepare(self._guest(self._measured), self._measured.after)

    def stop_servers(self) -> None:
        while self._servers:
            guest, handle = self._servers.pop()
            if not guest.lost:
                self.results["server"] = guest.stop(handle)

    @property
    def foreground(self) -> CommandResult | None:
        return self.results.get(self._measured.role)

    def parsed(self) -> Outcome:
        return parsed(self._point.benchmark, self._point.parameters, self._lane.context, self.results)

    def _guest(self, command: Command) -> Guest:
        return self._lane.places[command.place].guest

    def _keep(self, result: CommandResult, timeout_s: float) -> None:
        self.results[self._measured.role] = result
        if result.timed_out:
            raise BenchmarkError(
                f"{self._measured.argv[0]} was killed after {timeout_s:g} s",
                hint="raise timeout in [design], or of the program, if the tool is only slow here",
            )


def _put(guest: Guest, command: Command) -> None:
    for file in command.files:
        guest.put(file.path, file.data, mode=file.mode)


def _prepare(guest: Guest, commands: tuple[tuple[str, ...], ...]) -> None:
    for argv in commands:
        result = guest.run(argv, timeout_s=PREPARE_TIMEOUT_S)
        if result.status != 0:
            raise BenchmarkError(
                f"{' '.join(argv)} failed with status {result.status}: {result.stderr.strip()[-300:]}"
            )


def _skew(foreground: CommandResult | None) -> tuple[tuple[str, str], ...]:
    """The guest's clock against the outside one over the foreground command."""
    text = skew_warning(foreground) if foreground else None
    return (("clock-skew", text),) if text else ()
