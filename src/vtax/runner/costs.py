"""Cost of a trial on the host for a unit of the benchmark's work: CPU time, and energy where the host counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtax.benchmarks.base import Operations, Outcome, cost_metrics
from vtax.counters import cost

_PER_SECOND_AND_JOULE = {"s": 1.0, "µs": 1e6, "ns": 1e9}, {"s": 1.0, "µs": 1e3, "ns": 1e6}
"""By the unit of an operation's CPU time: how many of it are a second, how many of its unit of energy a joule."""


def costs_of(
    work: Operations | None, outcomes: Sequence[Outcome], counted: Mapping[tuple[str, str], float]
) -> dict[str, float]:
    """Return the metrics of `cost_metrics` of a trial, as far as they are known.

    outcomes: of everything in it that ran at once. counted: the differences of its counters.
    """
    numbers = [work.number(outcome) for outcome in outcomes] if work else []
    total = sum(number for number in numbers if number is not None)
    if work is None or not total or None in numbers:
        return {}
    spent = cost.host_cpu_s(counted), cost.energy_j(counted)
    return {
        metric.name: value * scales[work.time] / total
        for metric, value, scales in zip(
            cost_metrics(work), spent, _PER_SECOND_AND_JOULE, strict=True
        )
        if value
    }
