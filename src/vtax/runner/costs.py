"""Costs of a trial on the host: CPU time and energy for a unit of the benchmark's work, and the work of its disks.

Below the cache of a guest is another: what a tool wrote to the guest's disk need not have reached the host's. The
counters of disks are of the whole host, so other programs' reads and writes are in them: a ratio above 1 may be
theirs, or the journal of a file system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vtax.benchmarks.base import Operations, Outcome, cost_metrics
from vtax.counters import cost
from vtax.counters.table import DISK_COLUMNS, HOST, HOST_DISK_RATIO
from vtax.messages import Note
from vtax.runner.least_work import NOTHING, LeastWork

_PER_SECOND_AND_JOULE = {"s": 1.0, "µs": 1e6, "ns": 1e9}, {"s": 1.0, "µs": 1e3, "ns": 1e6}
"""By the unit of an operation's CPU time: how many of it are a second, how many of its unit of energy a joule."""
_READ_BYTES, _WRITES, _WRITTEN_BYTES = (DISK_COLUMNS[column].name for column in (5, 7, 9))
_MIN_RATIO = 0.5  # below it, more than half of what went past the guest's cache stopped at another
_MIN_WRITES = 0.5  # per flush of new data, which is one write or more; below it, more than half reached no disk


def costs_of(
    work: Operations | None,
    outcomes: Sequence[Outcome],
    counted: Mapping[tuple[str, str], float],
    least: LeastWork = NOTHING,
) -> dict[str, float]:
    """Return the metrics of `cost_metrics` of a trial, as far as they are known.

    outcomes: of everything in it that ran at once.
    counted: the differences of its counters.
    least: a trial of the least work in the same guest, which is subtracted.
    """
    if work is None or least.number is None:
        return {}
    numbers = [work.number(outcome) for outcome in outcomes]
    known = [number for number in numbers if number is not None]
    total = sum(known) - least.number
    if total <= 0 or len(known) < len(numbers):
        return {}
    of_work = least.subtract_from(counted)
    spent = cost.host_cpu_s(of_work), cost.energy_j(of_work)
    costs = {}
    for metric, value, scales in zip(cost_metrics(work), spent, _PER_SECOND_AND_JOULE, strict=True):
        if value is not None and value > 0:
            costs[metric.name] = value * scales[work.time] / total
    return costs


def compare_with_host_disks(outcome: Outcome, counted: Mapping[tuple[str, str], float]) -> Outcome:
    """Return the outcome with the ratio of bytes on the host's disks, and warnings for what did not reach them.

    Unchanged for a tool of another kind. Where the host counts no disk, a cache below the guest is only suspected.
    """
    work = outcome.disk
    if work is None or work.moved_bytes <= 0:
        return outcome
    read_bytes = counted.get((HOST, _READ_BYTES))
    written_bytes = counted.get((HOST, _WRITTEN_BYTES))
    writes = counted.get((HOST, _WRITES))
    warnings = []
    if read_bytes is None or written_bytes is None or writes is None:
        if work.if_not_counted:
            warnings.append(work.if_not_counted)
        return replace(outcome, warnings=(*outcome.warnings, *warnings))
    ratio = (read_bytes + written_bytes) / work.moved_bytes
    if work.flushes * _MIN_WRITES > writes:
        if writes:
            warnings.append(Note("flushes-short", count=work.flushes, writes=round(writes)))
        else:
            warnings.append(Note("flushes-none", count=work.flushes))
    if work.is_direct and ratio < _MIN_RATIO:
        warnings.append(Note("disks-direct", share=ratio))
    elif work.if_not_counted and ratio < _MIN_RATIO:
        warnings.append(Note("disks-below", share=ratio))
    return replace(
        outcome,
        effective={**outcome.effective, HOST_DISK_RATIO: round(ratio, 3)},
        warnings=(*outcome.warnings, *warnings),
    )
