"""Costs of each platform per resource: the overhead over all of its comparisons there, with one interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vtax.described import Means
from vtax.report.analysis.values import Analysis
from vtax.report.answers.recommend.workload import (
    CPU,
    WEIGHABLE,
    WorkloadMetric,
    figures_of,
    weighted_of,
)
from vtax.stats import scores
from vtax.stats.intervals import Interval
from vtax.store.records import MARKS, PlatformRecord


@dataclass(frozen=True)
class ResourceOverhead:
    """The overhead of a platform on a resource: 1 - efficiency, negative where it is faster.

    Of several comparisons it is that of the geometric mean of their efficiencies; benchmarks count alike. It is
    unbounded from a single block or session.
    """

    platform: Annotated[PlatformRecord, Means("platform", take="name")]
    overhead: Annotated[Interval, Means("1 - efficiency, of the geometric mean of all comparisons")]
    comparisons: Annotated[int, Means("comparisons of the resource")]
    missing: Annotated[int, Means("those of them in which the platform has no value")]

    @property
    def marks(self) -> Annotated[tuple[str, ...], MARKS]:
        """The marks of the platform."""
        return self.platform.marks


@dataclass(frozen=True)
class ResourceCosts:
    """Costs of platforms on one resource; the baseline costs nothing."""

    resource: Annotated[
        str, Means("`cpu`, `memory`, `disk`, `network`, `kernel`, `start` or `application`")
    ]
    labels: Annotated[tuple[str, ...], Means("its benchmark tables")]
    costs: Annotated[
        tuple[ResourceOverhead, ...], Means("platforms that have a value there", name="platforms")
    ]


def costs_of(analysis: Analysis) -> tuple[ResourceCosts, ...]:
    """Return the costs on every resource of a run, from its primary metrics; empty where nothing is compared."""
    if not analysis.primary or analysis.blocks < 1:
        return ()
    resources = weighted_of(analysis, None)
    figures, _ = figures_of(analysis, {resource.name: resource.share for resource in resources})
    costs_of_resources = []
    for resource in resources:
        resource_figures = [figure for figure in figures if figure.resource == resource.name]
        platforms = [p for p in analysis.platforms if not p.is_baseline]
        costs = [
            _cost(analysis, platform, resource_figures)
            for platform in platforms
            if _has_value(platform, resource_figures)
        ]
        if costs:
            costs_of_resources.append(ResourceCosts(resource.name, resource.labels, tuple(costs)))
    return tuple(costs_of_resources)


def host_cpu_of(analysis: Analysis) -> dict[str, Interval]:
    """Return platform -> the host CPU that it takes for the same work, as a share of the baseline's.

    It is the geometric mean over the benchmarks; platforms that lack one, and the baseline, are left out.
    """
    shares = {**dict.fromkeys(WEIGHABLE, 0.0), CPU: 1.0}
    figures, _ = figures_of(analysis, shares)
    answers = [figure for figure in figures if figure.section.is_answer]
    cost_by_platform = {}
    for platform in analysis.platforms:
        is_whole = all(platform.name in figure.values for figure in answers)
        if platform.is_baseline or not answers or not is_whole:
            continue
        overhead = _cost(analysis, platform, answers).overhead
        low, middle, high = (
            1 / (1 - share) if share < 1 else math.inf
            for share in (overhead.low, overhead.estimate, overhead.high)
        )
        cost_by_platform[platform.name] = Interval(middle, low, high, overhead.confidence)
    return cost_by_platform


def _has_value(platform: PlatformRecord, figures: list[WorkloadMetric]) -> bool:
    return any(platform.name in figure.values for figure in figures)


def _cost(
    analysis: Analysis, platform: PlatformRecord, figures: list[WorkloadMetric]
) -> ResourceOverhead:
    measured_figures = [figure for figure in figures if platform.name in figure.values]
    missing_count = len(figures) - len(measured_figures)
    if len(figures) == 1 and (overhead := _of_row(measured_figures[0], platform)) is not None:
        return ResourceOverhead(platform, overhead, 1, 0)
    total = sum(figure.share for figure in measured_figures)
    items = [
        scores.Item(0, f.share / total, f.values[platform.name][None, :]) for f in measured_figures
    ]
    one, effects = np.ones(1), scores.effects_of(items, 1)
    if len(analysis.sessions) < 2:
        effects = scores.allow_for_order(effects, items, one)
    level = analysis.rule.interval_confidence(effects.fewest_units(one, [0]))
    interval = effects.interval(one, 0, None, level)
    with np.errstate(over="ignore"):
        low, middle, high = (
            1 - float(np.exp(log)) for log in (interval.high, interval.estimate, interval.low)
        )
    return ResourceOverhead(
        platform, Interval(middle, low, high, interval.confidence), len(figures), missing_count
    )


def _of_row(figure: WorkloadMetric, platform: PlatformRecord) -> Interval | None:
    """Return the overhead as the result has it, of a resource with one comparison."""
    for row in figure.point.rows:
        if row.platform.name == platform.name and row.ratio is not None:
            return row.ratio.overhead(figure.section.better)
    return None
