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
from vtax.stats.assumptions import allow_for_dependence, dependence
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
    weighted = weighted_of(analysis, None)
    figures, _, _ = figures_of(analysis, {each.name: each.share for each in weighted})
    found = []
    for each in weighted:
        mine = [figure for figure in figures if figure.resource == each.name]
        others = [p for p in analysis.platforms if not p.is_baseline]
        costs = [
            _cost(analysis, platform, mine) for platform in others if _has_value(platform, mine)
        ]
        if costs:
            found.append(ResourceCosts(each.name, each.labels, tuple(costs)))
    return tuple(found)


def host_cpu_of(analysis: Analysis) -> dict[str, Interval]:
    """Return platform -> the host CPU that it takes for the same work, as a share of the baseline's.

    It is the geometric mean over the benchmarks; platforms that lack one, and the baseline, are left out.
    """
    shares = {**dict.fromkeys(WEIGHABLE, 0.0), CPU: 1.0}
    figures, _, _ = figures_of(analysis, shares)
    answers = [each for each in figures if each.section.is_answer]
    found = {}
    for platform in analysis.platforms:
        is_whole = all(platform.name in figure.values for figure in answers)
        if platform.is_baseline or not answers or not is_whole:
            continue
        lost = _cost(analysis, platform, answers).overhead
        low, middle, high = (
            1 / (1 - each) if each < 1 else math.inf
            for each in (lost.low, lost.estimate, lost.high)
        )
        found[platform.name] = Interval(middle, low, high, lost.confidence)
    return found


def _has_value(platform: PlatformRecord, figures: list[WorkloadMetric]) -> bool:
    return any(platform.name in figure.values for figure in figures)


def _cost(
    analysis: Analysis, platform: PlatformRecord, figures: list[WorkloadMetric]
) -> ResourceOverhead:
    mine = [figure for figure in figures if platform.name in figure.values]
    missing = len(figures) - len(mine)
    if len(figures) == 1 and (own := _of_row(mine[0], platform)) is not None:
        return ResourceOverhead(platform, own, 1, 0)
    total = sum(figure.share for figure in mine)
    items = [scores.Item(0, f.share / total, f.values[platform.name][None, :]) for f in mine]
    effects = scores.effects_of(items, 1)
    complete = np.logical_and.reduce([item.complete for item in items])
    series = sum(item.share * item.values[0, complete] for item in items)
    correlation = (
        0.0 if len(analysis.sessions) > 1 else max(dependence([np.asarray(series)]), default=0.0)
    )
    if correlation > 0:
        widening, df = allow_for_dependence(
            1.0, float(effects.df), int(complete.sum()), correlation
        )
        effects = scores.Effects(effects.means, effects.errors, max(1, math.floor(df)), widening)
    level = analysis.rule.interval_confidence(max(effects.df + 1, 1))
    found = effects.interval(np.ones(1), 0, None, level)
    with np.errstate(over="ignore"):
        low, middle, high = (
            1 - float(np.exp(each)) for each in (found.high, found.estimate, found.low)
        )
    return ResourceOverhead(
        platform, Interval(middle, low, high, found.confidence), len(figures), missing
    )


def _of_row(figure: WorkloadMetric, platform: PlatformRecord) -> Interval | None:
    """Return the overhead as the result has it, of a resource with one comparison."""
    for row in figure.point.rows:
        if row.platform.name == platform.name and row.ratio is not None:
            return row.ratio.overhead(figure.section.better)
    return None
