"""Several guests of a platform that run the benchmark at once: what they make together, and their memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

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
SUM, FAIRNESS, LOWEST = "sum", "fairness", "lowest_share"
"""Endings of the metrics of a primary one over all guests."""


def metrics(own: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics of several guests, for a benchmark with these: of every primary one, and their memory."""
    found: list[Metric] = []
    for metric in (each for each in own if each.primary):
        title = metric.title or metric.name
        if metric.better == "higher":
            found.append(
                Metric(f"{metric.name}_{SUM}", metric.unit, "higher", f"{title}, sum over guests")
            )
        found += [
            Metric(f"{metric.name}_{FAIRNESS}", "1", "higher", f"{title}, Jain's fairness index"),
            Metric(f"{metric.name}_{LOWEST}", "1", "higher", f"{title}, lowest guest to highest"),
        ]
    return (*found, MEMORY_PSS, MEMORY_CGROUP)


def over_guests(outcomes: Sequence[Outcome], own: Sequence[Metric]) -> Outcome:
    """One outcome of several guests: every metric's mean over them, and the metrics of several guests.

    The figures of each guest are kept in `guests` of the effective settings, in the order of the guests. Samples are
    kept of one guest alone.
    """
    values: dict[str, float] = {}
    for metric in own:
        found = [
            outcome.values[metric.name] for outcome in outcomes if metric.name in outcome.values
        ]
        if len(found) != len(outcomes):
            continue
        values[metric.name] = sum(found) / len(found)
        if metric.primary:
            values |= _together(metric, found)
    warnings = dict.fromkeys(text for outcome in outcomes for text in outcome.warnings)
    each = [dict(outcome.values) for outcome in outcomes]
    disk = sum_disk_work([outcome.disk for outcome in outcomes])
    merged = Outcome(
        values,
        {**outcomes[0].effective, "guests": each},
        tuple(warnings),
        disk=disk,
        resolutions=merged_resolutions(outcomes, values),
    )
    return replace(merged, samples=outcomes[0].samples) if len(outcomes) == 1 else merged


def _together(metric: Metric, found: Sequence[float]) -> dict[str, float]:
    made = {f"{metric.name}_{SUM}": sum(found)} if metric.better == "higher" else {}
    with suppress(StatsError):  # of zero or negative figures there is no share
        made |= {
            f"{metric.name}_{FAIRNESS}": jain(found),
            f"{metric.name}_{LOWEST}": lowest_share(found),
        }
    return made


def memory_per_guest(guests: Sequence[RunningGuest]) -> dict[str, float]:
    """MEMORY_PSS and MEMORY_CGROUP now, means over guests in MiB; those that the host knows of all of them."""
    accounts = [guest.host_memory() for guest in guests]
    found = {
        MEMORY_PSS.name: [account.pss_bytes for account in accounts],
        MEMORY_CGROUP.name: [account.cgroup_bytes for account in accounts],
    }
    return {
        name: sum(value for value in values if value is not None) / len(values) / MEBIBYTE
        for name, values in found.items()
        if None not in values
    }


def overcommit(guests: int, vcpus: int, cpus: int) -> tuple[Note, ...]:
    """Return a warning where so many guests have more virtual CPUs than there are host CPUs."""
    if guests * vcpus <= cpus:
        return ()
    return (Note("overcommit", guests=guests, count=vcpus, total=cpus),)


def labelled(error: str, number: int, guests: int) -> str:
    """Return an error with the guest in which it happened, by its number from 0."""
    return at(f"guest {number + 1} of {guests}", error) if guests > 1 else error
