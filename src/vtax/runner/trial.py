"""One trial: run the benchmark's commands where they belong, count around them, parse what they printed.

Whatever goes wrong inside a trial - a tool that fails, output that makes no sense, a guest that dies or lies - ends
as a failed trial with its reason and whatever raw output there is; it never ends the run (see runner.containment).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from vtax.benchmarks.base import (
    CPU_PER_GIGABYTE,
    MEASURED_S,
    PACKET_BYTES,
    WIRE_SHARE,
    Metric,
    OneAtATime,
    Outcome,
    Parameters,
    merged_resolutions,
    sum_disk_work,
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
from vtax.runner.costs import costs_of
from vtax.runner.counting import Counting, Endpoint, of_programs
from vtax.runner.disks import on_host
from vtax.runner.lanes import Lane, LaneRun, naming_lost, of_guest, run_lanes
from vtax.runner.out_of_memory import MemoryWatch
from vtax.runner.parsers import TIMEOUT_S, Parsers
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point

TRIAL_OUTPUT_LIMIT = OUTPUTS.size_bytes  # characters kept of all outputs of one trial
_MAX_WARNINGS = 50  # of one trial


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
    warnings: tuple[Note, ...]
    error: str = ""
    traceback: str = ""


def failed(failure: Failure) -> TrialResult:
    """Return a trial that could not start."""
    return TrialResult(time.time(), Outcome({}), {}, None, {}, (), failure.error, failure.traceback)


def run_trial(
    parsers: Parsers,
    cell: PlannedCell,
    lanes: Sequence[Lane],
    ends: Mapping[str, Endpoint],
    links: Links | None,
    timeout_s: float,
    beside: AbstractContextManager[Mapping[str, Any]] | None = None,
    *,
    margin: float = 1.0,
) -> TrialResult:
    """Run one trial of a cell, all its lanes at once; parsers read what they print.

    ends: everything whose counters are read, by role. links: of its topology, None for no network. timeout_s: of a
    foreground command. beside: what runs beside the foreground commands; its settings are known when it ends. margin:
    of the study, by which the rate of the guest's clock may be off.
    """
    started_at = time.time()
    counted = Counting(ends, links, margin)
    memory = MemoryWatch(ends)
    started: list[LaneRun] = []
    failure, outcome, on_links = Failure(), Outcome({}), OnLinks()
    with contained(failure), named_packages(cell.point.benchmark), naming_lost(ends, links):
        started += (LaneRun(lane, cell.point) for lane in lanes)
        around = counted.around(is_followed=any(lane.has_ramp for lane in started))
        extra = run_lanes(started, timeout_s, around, _meanwhile(beside, links))
        outcome = _outcome(parsers, cell, started, counted)
        outcome = replace(outcome, effective={**outcome.effective, **extra})
        if links is not None:
            on_links = of_links(links, counted.differences, outcome, cell.point)
            outcome = on_links.beside(outcome, links.effective)
    killed = list(
        memory.killed(counted.differences, lanes[0].context.memory_bytes, has_failed=bool(failure))
    )
    if failure and killed:
        failure.error = killed[0].named(failure.error)
    results, cut = bounded_outputs(_by_role(started))
    foreground = results.get("single") or results.get("client")
    warnings = (
        *map(quoted, outcome.warnings),
        *(links.warnings if links else ()),
        *on_links.warnings,
        *counted.warnings,
        *(() if failure else (each.warning for each in killed)),
        *_of_guest_itself(cell, lanes[0], foreground),
        *cut,
    )
    return TrialResult(
        started_at=started_at,
        outcome=outcome,
        results=results,
        foreground=foreground,
        counters={
            **counted.differences,
            **of_programs(one for lane in started if (one := lane.foreground)),
        },
        warnings=tuple(dict.fromkeys(warnings))[:_MAX_WARNINGS],
        error=failure.error,
        traceback=failure.traceback,
    )


@dataclass(frozen=True)
class OnLinks:
    """Metrics and warnings of a trial by what crossed its links."""

    values: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[Note, ...] = ()

    def beside(self, outcome: Outcome, effective: Mapping[str, Any]) -> Outcome:
        """Return an outcome with these metrics and what was effective at the links."""
        return replace(
            outcome,
            values={**outcome.values, **self.values},
            effective={**outcome.effective, **effective},
        )


def of_links(
    links: Links, counted: Mapping[tuple[str, str], float], outcome: Outcome, point: Point
) -> OnLinks:
    """Cost and size of packets, and whether the trial measured something else than was asked."""
    values, metrics = cpu_per_gigabyte(counted, point.own_metrics), point.own_metrics
    means = packets.mean_packet_bytes(counted)
    if means and PACKET_BYTES in metrics:
        values[PACKET_BYTES.name] = max(means.values())
    if links.wire_share is not None and WIRE_SHARE in metrics:
        values[WIRE_SHARE.name] = 100 * links.wire_share
    sized = packets.size_warning(means, links.settings.packet_bytes)
    faster = (
        faster_than_a_wire(links.settings, outcome, point.parameters)
        if len(links.flows) == 1
        else None
    )
    return OnLinks(values, tuple(each for each in (sized, faster) if each))


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
    """Results of the programs of all lanes: `client`, `client.1` and so on."""
    return {
        role if number == 0 else f"{role}.{number}": result
        for number, lane in enumerate(lanes)
        for role, result in lane.results.items()
    }


def bounded_outputs(
    results: Mapping[str, CommandResult], limit: int = TRIAL_OUTPUT_LIMIT
) -> tuple[dict[str, CommandResult], tuple[Note, ...]]:
    """Results of which together at most `limit` characters are kept, and a warning for each that was cut."""
    kept: dict[str, CommandResult] = {}
    for role, result in results.items():
        stdout = result.stdout[:limit]
        stderr = result.stderr[: limit - len(stdout)]
        limit -= len(stdout) + len(stderr)
        is_cut = len(stdout) + len(stderr) < len(result.stdout) + len(result.stderr)
        kept[role] = (
            replace(result, stdout=stdout, stderr=stderr, truncated=True) if is_cut else result
        )
    return kept, tuple(
        Note("truncated", role=role) for role, result in kept.items() if result.truncated
    )


def combined(outcomes: Sequence[Outcome], metrics: Sequence[Metric]) -> Outcome:
    """One outcome of several flows that ran at once: each metric added up or averaged, as it declares.

    Samples of several flows are dropped: their intervals do not begin at the same moments.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    values = {}
    for metric in metrics:
        found = [
            outcome.values[metric.name] for outcome in outcomes if metric.name in outcome.values
        ]
        if len(found) == len(outcomes):
            values[metric.name] = sum(found) / (len(found) if metric.over_flows == "mean" else 1)
    warnings = dict.fromkeys(text for outcome in outcomes for text in outcome.warnings)
    disk = sum_disk_work([outcome.disk for outcome in outcomes])
    whole = Outcome(
        values,
        {**outcomes[0].effective, "flows": len(outcomes)},
        tuple(warnings),
        disk=disk,
        resolutions=merged_resolutions(outcomes, values),
    )
    return replace(whole, histograms=merge_by_name([outcome.histograms for outcome in outcomes]))


def cpu_per_gigabyte(
    counted: Mapping[tuple[str, str], float], metrics: Sequence[Metric]
) -> dict[str, float]:
    """Return the metric CPU_PER_GIGABYTE where a benchmark lists it; nothing when too little was moved to divide
    by."""
    found = cost.per_gigabyte(*cost.carried(counted, cost.under_test_cpu_s(counted)))
    return (
        {} if found is None or CPU_PER_GIGABYTE not in metrics else {CPU_PER_GIGABYTE.name: found}
    )


def _outcome(
    parsers: Parsers,
    cell: PlannedCell,
    lanes: Sequence[LaneRun],
    counting: Counting,
) -> Outcome:
    """Return the outcome of a trial beside what was counted of the host's disks, with what its work cost the host."""
    counted = counting.differences
    outcomes = _outcomes(parsers, cell, lanes)
    outcome = on_host(
        with_cold_cache(_together(cell.point, outcomes, lanes), lanes[0].cache_left_bytes), counted
    )
    measured_s = outcomes[0].effective.get(MEASURED_S)
    spent = counted if measured_s is None else counting.cpu_of_last(measured_s)
    costs = costs_of(cell.point.benchmark.work, outcomes, spent)
    return replace(outcome, values={**outcome.values, **costs})


def _outcomes(parsers: Parsers, cell: PlannedCell, lanes: Sequence[LaneRun]) -> list[Outcome]:
    """Return the outcomes of all lanes of a trial: of flows that ran at once, or of guests that did."""
    point, outcomes, deadline = cell.point, [], time.monotonic() + TIMEOUT_S
    for number, lane in enumerate(lanes):
        with of_guest(number, point.colocation.guests):
            left_s = max(deadline - time.monotonic(), 0.1)
            outcomes.append(
                parsers.outcome(
                    point.benchmark, point.parameters, lane.context, lane.results, left_s
                )
            )
    return outcomes


def _together(point: Point, outcomes: Sequence[Outcome], lanes: Sequence[LaneRun]) -> Outcome:
    """One outcome of a trial."""
    metrics = point.own_metrics
    if not point.colocation.is_counted:
        return combined(outcomes, metrics)
    found = density.over_guests(outcomes, metrics)
    saved_bytes = merged_bytes()
    by_ksm = {"ksm_merged_bytes": saved_bytes} if saved_bytes else {}
    return replace(
        found, values={**found.values, **lanes[0].memory}, effective={**found.effective, **by_ksm}
    )


def _of_guest_itself(
    cell: PlannedCell, lane: Lane, foreground: CommandResult | None
) -> Iterator[Note]:
    """Yield notes on a cache below the guest's disk that held its files, and its clock against the outside one."""
    if held := disk_room.held_below(cell.point, lane.context, cell.platform):
        yield held
    if foreground and (skew := skew_warning(foreground)):
        yield skew
