"""Several guests of a platform that run the benchmark at once: what they make together, and their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from vtax.benchmarks.base import Metric, Outcome, merged_resolutions, sum_disk_work
from vtax.messages import Note, at
from vtax.platforms.base import RunningGuest
from vtax.stats.checks import StatsError
from vtax.stats.fairness import jain, lowest_share

MEBIBYTE = 1 << 20
MEMORY_PSS = Metric(
    "memory_pss", "MiB", "lower", "memory of a guest's processes, shared pages divided"
)
MEMORY_CGROUP = Metric("memory_cgroup", "MiB", "lower", "memory charged to a guest's control group")
MEMORY = (MEMORY_PSS, MEMORY_CGROUP)
SUM, FAIRNESS, LOWEST = "sum", "fairness", "lowest_share"
"""Endings of the metrics of a primary one over all guests."""


def metrics(own: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics of several guests, for a benchmark with these: of every primary one, and their memory."""
    added: list[Metric] = []
    for metric in own:
        if not metric.primary:
            continue
        title = metric.title or metric.name
        if metric.better == "higher":
            added.append(
                Metric(f"{metric.name}_{SUM}", metric.unit, "higher", f"{title}, sum over guests")
            )
        added += [
            Metric(f"{metric.name}_{FAIRNESS}", "1", "higher", f"{title}, Jain's fairness index"),
            Metric(f"{metric.name}_{LOWEST}", "1", "higher", f"{title}, lowest guest to highest"),
        ]
    return (*added, *MEMORY)


def combine_guests(outcomes: Sequence[Outcome], own: Sequence[Metric]) -> Outcome:
    """Return one outcome of several guests: every metric's mean over them, and the metrics of several guests.

    The figures of each guest are kept in `guests` of the effective settings, in the order of the guests. Samples are
    kept of one guest alone.
    """
    values: dict[str, float] = {}
    for metric in own:
        figures = metric_values(outcomes, metric)
        if figures is None:
            continue
        values[metric.name] = sum(figures) / len(figures)
        if metric.primary:
            values |= _spread_of_guests(metric, figures)
    guests = [dict(outcome.values) for outcome in outcomes]
    merged = merge_outcomes(outcomes, values, {"guests": guests})
    return replace(merged, samples=outcomes[0].samples) if len(outcomes) == 1 else merged


def metric_values(outcomes: Sequence[Outcome], metric: Metric) -> list[float] | None:
    """Return the values of a metric in several outcomes; None where one of them lacks it."""
    values = []
    for outcome in outcomes:
        if metric.name not in outcome.values:
            return None
        values.append(outcome.values[metric.name])
    return values


def merge_outcomes(
    outcomes: Sequence[Outcome], values: Mapping[str, float], effective: Mapping[str, Any]
) -> Outcome:
    """Return one outcome with these values in place of several that ran at once.

    effective: settings beside those of the first one. Warnings, work of disks and resolutions are those of all.
    """
    warnings: dict[str, None] = {}
    for outcome in outcomes:
        warnings.update(dict.fromkeys(outcome.warnings))
    return Outcome(
        values,
        {**outcomes[0].effective, **effective},
        tuple(warnings),
        disk=sum_disk_work([outcome.disk for outcome in outcomes]),
        resolutions=merged_resolutions(outcomes, values),
    )


def _spread_of_guests(metric: Metric, figures: Sequence[float]) -> dict[str, float]:
    values = {}
    if metric.better == "higher":
        values[f"{metric.name}_{SUM}"] = sum(figures)
    with suppress(StatsError):  # of zero or negative figures there is no share
        shares = {
            f"{metric.name}_{FAIRNESS}": jain(figures),
            f"{metric.name}_{LOWEST}": lowest_share(figures),
        }
        values |= shares
    return values


def memory_per_guest(guests: Sequence[RunningGuest]) -> dict[str, float]:
    """Return MEMORY_PSS and MEMORY_CGROUP now, means over guests in MiB; those that the host knows of all of them."""
    accounts = [guest.host_memory() for guest in guests]
    columns = {
        MEMORY_PSS.name: [account.pss_bytes for account in accounts],
        MEMORY_CGROUP.name: [account.cgroup_bytes for account in accounts],
    }
    means = {}
    for name, sizes in columns.items():
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes):
            means[name] = sum(known) / len(known) / MEBIBYTE
    return means


def overcommit(guests: int, vcpus: int, cpus: int) -> tuple[Note, ...]:
    """Return a warning where so many guests have more virtual CPUs than there are host CPUs."""
    if guests * vcpus <= cpus:
        return ()
    return (Note("overcommit", guests=guests, count=vcpus, total=cpus),)


def name_guest(error: str, number: int, guests: int) -> str:
    """Return an error with the guest in which it happened, by its number from 0."""
    return at(f"guest {number + 1} of {guests}", error) if guests > 1 else error
