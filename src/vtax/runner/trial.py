"""One trial: run the benchmark's commands where they belong, count around them, parse what they printed.

Whatever goes wrong inside a trial - a tool that fails, output that makes no sense, a guest that dies or lies - ends
as a failed trial with its reason and whatever raw output there is; it never ends the run (see runner.containment).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from vtax.benchmarks.base import (
    CPU_PER_GIGABYTE,
    PACKET_BYTES,
    WIRE_SHARE,
    Context,
    Metric,
    OneAtATime,
    Outcome,
    Parameters,
)
from vtax.benchmarks.histograms import merge_by_name
from vtax.counters import cost, packets
from vtax.guest.results import CommandResult, skew_warning
from vtax.host.guest_memory import merged_bytes
from vtax.limits import OUTPUTS
from vtax.messages import Note, quoted
from vtax.network import wire
from vtax.network.links import Links
from vtax.network.settings import LinkSettings
from vtax.runner import density, disk_room
from vtax.runner.cold_cache import with_cold_cache
from vtax.runner.containment import Failure, contained, named_packages
from vtax.runner.costs import compare_with_host_disks, costs_of
from vtax.runner.counting import Counting, Endpoint, program_usage
from vtax.runner.lanes import KeptServers, Lane, LaneRun, naming_guest, naming_lost, run_lanes
from vtax.runner.least_work import NOTHING, UNKNOWN, LeastWork
from vtax.runner.out_of_memory import Kills, MemoryWatch
from vtax.runner.parsers import TIMEOUT_S, Parsers
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point

TRIAL_OUTPUT_LIMIT = OUTPUTS.size_bytes  # characters kept of all outputs of one trial
_MAX_WARNINGS = 50  # of one trial


@dataclass(frozen=True)
class TrialResult:
    """Result of a trial.

    outcome: over all lanes.
    results: of the programs, by role, `client`, `client.1` and so on for further lanes.
    foreground: the first lane's measured program.
    error: why the trial failed, empty when it counts.
    traceback: of an unexpected exception, as in containment.Failure.
    """

    started_at: float
    outcome: Outcome
    results: Mapping[str, CommandResult]
    foreground: CommandResult | None
    counters: Mapping[tuple[str, str], float]
    warnings: tuple[Note, ...]
    error: str = ""
    traceback: str = ""

    def read(self, parsers: Parsers) -> TrialResult:
        """Return it, as it is read already (see MeasuredTrial)."""
        return self


def failed(failure: Failure) -> TrialResult:
    """Return a trial that could not start."""
    return TrialResult(time.time(), Outcome({}), {}, None, {}, (), failure.error, failure.traceback)


@dataclass(frozen=True)
class MeasuredTrial:
    """A trial that was run, of which nothing that programs printed or kernels counted is read yet.

    Reading takes longer than a gap between two trials should, so it waits until nothing else is to be measured in
    the guest.

    kills: for lack of memory, in its guests.
    links: as they were in the trial.
    extra: settings of what ran beside it.
    merged_memory_bytes: what the host had merged at its end, where guests ran side by side.
    least: returns what the least work of its cell costs in its guest.
    failure: why it failed, as far as is known.
    more_warnings: by whoever ran it.
    """

    cell: PlannedCell
    context: Context
    started_at: float
    lanes: Sequence[LaneRun]
    counting: Counting
    kills: Kills
    links: Links | None
    extra: Mapping[str, Any]
    merged_memory_bytes: int
    least: Callable[[], LeastWork]
    failure: Failure
    more_warnings: tuple[Note, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether it failed, or one of its programs did."""
        return bool(self.failure) or _has_failed(self.lanes)

    @property
    def outside_s(self) -> float:
        """How long its measured program ran; 0 where it did not end."""
        foreground = self.lanes[0].foreground if self.lanes else None
        return foreground.outside_s if foreground else 0.0

    def read(self, parsers: Parsers) -> TrialResult:
        """Return the result. Trials of a guest are read once each, in their order, while the guest is there."""
        failure, outcome, on_links = replace(self.failure), Outcome({}), LinkFindings()
        if not failure:
            with contained(failure), named_packages(self.cell.point.benchmark):
                outcome, on_links = self._outcome(parsers)
        with contained(Failure()):  # a trial that failed may lack readings
            self.counting.compare()
        counted = self.counting.differences
        killed = list(self.kills.processes(counted, self.context.memory_bytes))
        if failure:
            if killed:
                failure.error = killed[0].explain(failure.error)
            killed = []
        results, cut = bounded_outputs(_by_role(self.lanes))
        foreground = results.get("single") or results.get("client")
        warnings = (
            *map(quoted, outcome.warnings),
            *(self.links.warnings if self.links else ()),
            *on_links.warnings,
            *self.counting.warnings,
            *(processes.warning for processes in killed),
            *_guest_warnings(self.cell, self.context, foreground),
            *cut,
        )
        usage = program_usage(filter(None, (lane.foreground for lane in self.lanes)))
        return TrialResult(
            started_at=self.started_at,
            outcome=outcome,
            results=results,
            foreground=foreground,
            counters={**counted, **usage},
            warnings=(*tuple(dict.fromkeys(warnings))[:_MAX_WARNINGS], *self.more_warnings),
            error=failure.error,
            traceback=failure.traceback,
        )

    def _outcome(self, parsers: Parsers) -> tuple[Outcome, LinkFindings]:
        """Return the outcome with what its work cost the host, and what its links say of it."""
        least = self.least()  # counters are read in the order in which they were counted
        self.counting.compare()
        counted = self.counting.differences
        point = self.cell.point
        outcomes = self._outcomes_of_lanes(parsers)
        outcome = _combine(point, outcomes, self.lanes)
        outcome = with_cold_cache(outcome, self.lanes[0].cache_left_bytes)
        outcome = compare_with_host_disks(outcome, counted)
        values = {**outcome.values, **costs_of(point.benchmark.work, outcomes, counted, least)}
        if point.trial_time_s is not None:
            comparable = {metric.name for metric in point.metrics}
            values = {name: value for name, value in values.items() if name in comparable}
        effective = {**outcome.effective, **self.extra}
        if self.merged_memory_bytes:
            effective["ksm_merged_bytes"] = self.merged_memory_bytes
        outcome = replace(outcome, values=values, effective=effective)
        if self.links is None:
            return outcome, LinkFindings()
        on_links = examine_links(self.links, counted, outcome, point, least)
        return on_links.add_to(outcome, self.links.effective), on_links

    def _outcomes_of_lanes(self, parsers: Parsers) -> list[Outcome]:
        """Return the outcomes of all lanes: of flows that ran at once, or of guests that did."""
        benchmark, parameters = self.cell.point.benchmark, self.cell.point.parameters
        outcomes = []
        deadline = time.monotonic() + TIMEOUT_S
        for number, lane in enumerate(self.lanes):
            with naming_guest(number, lane.guests):
                left_s = max(deadline - time.monotonic(), 0.1)
                outcomes.append(
                    parsers.outcome(benchmark, parameters, lane.context, lane.results, left_s)
                )
        return outcomes


def measure_trial(
    cell: PlannedCell,
    lanes: Sequence[Lane],
    ends: Mapping[str, Endpoint],
    links: Links | None,
    timeout_s: float,
    beside: AbstractContextManager[Mapping[str, Any]] | None = None,
    *,
    memory: MemoryWatch,
    margin: float = 1.0,
    least: Callable[[], LeastWork] = lambda: NOTHING,
    kept: KeptServers | None = None,
) -> MeasuredTrial:
    """Run one trial of a cell, all its lanes at once, and read nothing of it yet.

    ends: everything whose counters are read, by role.
    links: of its topology, None for no network.
    timeout_s: of a foreground command.
    beside: what runs beside the foreground commands; its settings are known when it ends.
    memory: of the guests.
    margin: of the study, by which the rate of the guest's clock may be off.
    least: returns what the least work of the cell costs in the same guest.
    kept: servers of earlier trials in the same guest.
    """
    started_at = time.time()
    counted = Counting(ends, links, margin)
    started: list[LaneRun] = []
    extra: Mapping[str, Any] = {}
    failure = Failure()
    with contained(failure), named_packages(cell.point.benchmark), naming_lost(ends, links):
        started += (LaneRun(lane, cell.point) for lane in lanes)
        extra = run_lanes(started, timeout_s, counted.around(), _meanwhile(beside, links), kept)
    return MeasuredTrial(
        cell=cell,
        context=lanes[0].context,
        started_at=started_at,
        lanes=tuple(started),
        counting=counted,
        kills=memory.look(has_failed=bool(failure) or _has_failed(started)),
        links=copy(links),  # the next trial may change them
        extra=extra,
        merged_memory_bytes=merged_bytes() if cell.point.colocation.is_counted else 0,
        least=least,
        failure=failure,
    )


def run_trial(
    parsers: Parsers,
    cell: PlannedCell,
    lanes: Sequence[Lane],
    ends: Mapping[str, Endpoint],
    links: Links | None,
    timeout_s: float,
) -> TrialResult:
    """Run one trial as `measure_trial` does, and read it at once."""
    memory = MemoryWatch(ends)
    return measure_trial(cell, lanes, ends, links, timeout_s, memory=memory).read(parsers)


def _has_failed(lanes: Sequence[LaneRun]) -> bool:
    """Return whether a measured program of a trial ended with an error: servers are ended by a signal."""
    return any(lane.foreground is None or lane.foreground.status != 0 for lane in lanes)


@dataclass(frozen=True)
class LinkFindings:
    """Metrics and warnings of a trial by what crossed its links."""

    values: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[Note, ...] = ()

    def add_to(self, outcome: Outcome, effective: Mapping[str, Any]) -> Outcome:
        """Return an outcome with these metrics and what was effective at the links."""
        return replace(
            outcome,
            values={**outcome.values, **self.values},
            effective={**outcome.effective, **effective},
        )


def examine_links(
    links: Links,
    counted: Mapping[tuple[str, str], float],
    outcome: Outcome,
    point: Point,
    least: LeastWork = NOTHING,
) -> LinkFindings:
    """Return cost and size of packets, and whether the trial measured something else than was asked."""
    metrics = point.own_metrics
    values: dict[str, float] = {}
    if least is not UNKNOWN:
        values |= cpu_per_gigabyte(least.subtract_from(counted), metrics)
    means = packets.mean_packet_bytes(counted)
    if means and PACKET_BYTES in metrics:
        values[PACKET_BYTES.name] = max(means.values())
    if links.wire_share is not None and WIRE_SHARE in metrics:
        values[WIRE_SHARE.name] = 100 * links.wire_share
    warnings = [packets.size_warning(means, links.settings.packet_bytes)]
    if len(links.flows) == 1:
        warnings.append(faster_than_a_wire(links.settings, outcome, point.parameters))
        warnings.append(undelayed(links.settings, outcome, point.parameters))
    return LinkFindings(values, tuple(warning for warning in warnings if warning))


def faster_than_a_wire(
    settings: LinkSettings, outcome: Outcome, parameters: Parameters
) -> Note | None:
    """Return what is wrong with a rate of transactions, one at a time, that no wire of the link's rate carries."""
    rate = outcome.values.get("transactions")
    if rate is None or settings.rate_mbit_s is None or not isinstance(parameters, OneAtATime):
        return None
    sizes = (parameters.request_size, parameters.response_size)
    limit = wire.transactions_per_s(
        settings.rate_mbit_s, settings.mtu, *sizes, is_datagram=parameters.is_datagram
    )
    if rate <= limit * (1 + wire.TOLERANCE):
        return None
    figures = {"found": rate, "rate": settings.rate_mbit_s, "limit": limit}
    return Note("not-a-wire", request=sizes[0], response=sizes[1], **figures)


def undelayed(settings: LinkSettings, outcome: Outcome, parameters: Parameters) -> Note | None:
    """Return that both messages of a transaction pass the link at once, which on a wire take their time."""
    if "transactions" not in outcome.values or not isinstance(parameters, OneAtATime):
        return None
    sizes = (parameters.request_size, parameters.response_size)
    for size in sizes:
        if not wire.passes_undelayed(settings, size, is_datagram=parameters.is_datagram):
            return None
    return Note("undelayed", request=sizes[0], response=sizes[1], module=wire.MODULE)


@contextmanager
def _meanwhile(
    beside: AbstractContextManager[Mapping[str, Any]] | None, links: Links | None
) -> Iterator[Mapping[str, Any]]:
    """Run the neighbour and change links beside the foreground commands; the settings of both, at the end."""
    settings: dict[str, Any] = {}
    with (
        beside or nullcontext({}) as first,
        links.meanwhile() if links else nullcontext({}) as second,
    ):
        yield settings
    settings |= {**first, **second}


def _by_role(lanes: Sequence[LaneRun]) -> dict[str, CommandResult]:
    """Return results of the programs of all lanes: `client`, `client.1` and so on."""
    results = {}
    for number, lane in enumerate(lanes):
        for role, result in lane.results.items():
            name = f"{role}.{number}" if number else role
            results[name] = result
    return results


def bounded_outputs(
    results: Mapping[str, CommandResult],
) -> tuple[dict[str, CommandResult], tuple[Note, ...]]:
    """Return results of which together at most TRIAL_OUTPUT_LIMIT characters are kept, and a warning for each cut one."""
    bounded: dict[str, CommandResult] = {}
    warnings = []
    limit = TRIAL_OUTPUT_LIMIT
    for role, result in results.items():
        stdout = result.stdout[:limit]
        stderr = result.stderr[: limit - len(stdout)]
        size = len(stdout) + len(stderr)
        limit -= size
        bounded[role] = result
        if size < len(result.stdout) + len(result.stderr):
            bounded[role] = replace(result, stdout=stdout, stderr=stderr, truncated=True)
        if bounded[role].truncated:
            warnings.append(Note("truncated", role=role))
    return bounded, tuple(warnings)


def combine_flows(outcomes: Sequence[Outcome], metrics: Sequence[Metric]) -> Outcome:
    """Return one outcome of several flows that ran at once: each metric added up or averaged, as it declares.

    Samples of several flows are dropped: their intervals do not begin at the same moments.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    values = {}
    for metric in metrics:
        figures = density.metric_values(outcomes, metric)
        if figures is not None:
            divisor = len(figures) if metric.over_flows == "mean" else 1
            values[metric.name] = sum(figures) / divisor
    whole = density.merge_outcomes(outcomes, values, {"flows": len(outcomes)})
    return replace(whole, histograms=merge_by_name([outcome.histograms for outcome in outcomes]))


def cpu_per_gigabyte(
    counted: Mapping[tuple[str, str], float], metrics: Sequence[Metric]
) -> dict[str, float]:
    """Return the metric CPU_PER_GIGABYTE where a benchmark lists it; nothing when too little was moved to divide
    by."""
    cpu_s = cost.per_gigabyte(*cost.carried(counted, cost.under_test_cpu_s(counted)))
    if cpu_s is None or CPU_PER_GIGABYTE not in metrics:
        return {}
    return {CPU_PER_GIGABYTE.name: cpu_s}


def _combine(point: Point, outcomes: Sequence[Outcome], lanes: Sequence[LaneRun]) -> Outcome:
    """Return one outcome of a trial."""
    metrics = point.own_metrics
    if not point.colocation.is_counted:
        return combine_flows(outcomes, metrics)
    outcome = density.combine_guests(outcomes, metrics)
    return replace(outcome, values={**outcome.values, **lanes[0].memory})


def _guest_warnings(
    cell: PlannedCell, context: Context, foreground: CommandResult | None
) -> Iterator[Note]:
    """Yield notes on a cache below the guest's disk that held its files, and its clock against the outside one."""
    cache_note = disk_room.host_cache_note(cell.point, context, cell.platform)
    if cache_note:
        yield cache_note
    skew = skew_warning(foreground) if foreground else None
    if skew:
        yield skew
