"""Weighing of a run for a workload: its resources, their figures by block, and what platforms lack of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from vtax.benchmarks.base import CPU_PER_GIGABYTE, ENERGY_PER, HOST_CPU_PER, Resource
from vtax.benchmarks.registry import resource_of
from vtax.described import Means
from vtax.errors import BadInput
from vtax.grouping import by_key
from vtax.levels import NO_LEVELS, Levels
from vtax.pairing import mean_logs
from vtax.report import document as doc
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section, every_row
from vtax.report.document import msg
from vtax.stats.checks import StatsError
from vtax.stats.describe import describe_blocks
from vtax.store.query import Floats
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord

MEMORY, START, CPU, ENERGY = "guest-memory", "guest-start", "host-cpu", "energy"
COSTS = (MEMORY, START, CPU, ENERGY)
_READY = MetricRecord(
    "", "guest_ready", "time from the start of a guest to its agent", "s", "lower"
)
_OF_METRIC = {"memory_pss": MEMORY, _READY.name: START, CPU_PER_GIGABYTE.name: CPU}
"""Metric -> the cost that it is. memory_pss: of benchmarks with several guests, see runner.density."""
_OF_PREFIX = {HOST_CPU_PER: CPU, ENERGY_PER: ENERGY}
"""Beginning of a metric, of a unit of work -> the cost that it is."""
RESOURCES: tuple[Resource, ...] = (
    "cpu",
    "memory",
    "disk",
    "network",
    "kernel",
    "start",
    "application",
)
WEIGHABLE = (*RESOURCES, *COSTS)


@dataclass(frozen=True)
class Weighted:
    """A resource of the run."""

    name: Annotated[str, Means("resource", name="resource")]
    weight: Annotated[float, Means("as given, 0 where it was not named")]
    share: Annotated[float, Means("share of the sum of all that is measured")]
    labels: Annotated[tuple[str, ...], Means("its benchmarks", name="benchmarks")]


@dataclass(frozen=True)
class Unmeasured:
    """A resource with a weight that no platform can be ranked by."""

    resource: Annotated[str, Means("resource")]
    weight: Annotated[float, Means("as given")]
    share: Annotated[float, Means("share of the sum of all weights")]
    reason: Annotated[doc.Inline, Means("why not")]


@dataclass(frozen=True)
class Missing:
    """Part of a resource that a platform lacks."""

    resource: Annotated[str, Means("resource")]
    labels: Annotated[
        tuple[str, ...], Means("its benchmarks that were not tested", name="benchmarks")
    ]
    whole: Annotated[bool, Means("whether nothing of the resource was tested", name="is_whole")]
    reason: Annotated[doc.Inline, Means("why not")]


@dataclass(frozen=True)
class WorkloadMetric:
    """One primary metric at one point.

    values: platform -> log efficiency by unit, NaN where there is none. share: of its resource.
    """

    section: Section
    point: ResultPoint
    values: Mapping[str, Floats]
    share: float

    @property
    def resource(self) -> str:
        """Resource that its benchmark loads, or the cost of a guest that it is."""
        return weighs(self.section)

    def mean(self, platform: str) -> float:
        """Log efficiency of a platform over its units."""
        return float(np.nanmean(self.values[platform]))


def _weighable(analysis: Analysis, resources: Collection[str]) -> Iterator[Section]:
    """Yield the sections of primary metrics, and those of costs among the resources."""
    yield from (section for section in analysis.primary if weighs(section) not in COSTS)
    if set(COSTS) & set(resources):
        yield from (section for section in costs(analysis) if weighs(section) in resources)


def weighted_of(analysis: Analysis, weights: Mapping[str, float] | None) -> tuple[Weighted, ...]:
    """Return the resources of a run with their weights, alike where None; without those that it does not measure.
    What a guest costs has a weight only where it is named.

    Raises BadInput for a resource that does not exist, for weights that are no weights, and without a weight of a
    measured resource.
    """
    labels = by_key(
        (weighs(section), section.label) for section in _weighable(analysis, weights or ())
    )
    measured_resources = [name for name in WEIGHABLE if name in labels]
    for name in weights or ():
        if name not in WEIGHABLE:
            hint = f"{analysis.name} measures {', '.join(measured_resources)}"
            raise BadInput(
                f"there is no resource {name!r}", where=f"--weights {name}=...", hint=hint
            )
    if (
        weights
        and sum(weights.values()) > 0
        and not any(weights.get(name) for name in measured_resources)
    ):
        sentence = f"{analysis.name} does not measure {', '.join(name for name in weights if weights[name])}"
        raise BadInput(
            sentence, where="--weights", hint=f"it measures {', '.join(measured_resources)}"
        )
    weight_of = dict.fromkeys(measured_resources, 1.0)
    if weights is not None:
        weight_of = {name: weights.get(name, 0.0) for name in measured_resources}
    total = sum(weight_of.values())
    if not 0 < total < float("inf") or min(weight_of.values()) < 0:
        raise BadInput(
            "weights are numbers from 0 on, not all of them 0",
            where="--weights",
            hint="cpu=1,network=3",
        )
    return tuple(
        Weighted(name, weight_of[name], weight_of[name] / total, tuple(dict.fromkeys(labels[name])))
        for name in measured_resources
    )


def of_figures(
    resources: Sequence[Weighted], figures: Sequence[WorkloadMetric]
) -> tuple[Weighted, ...]:
    """Return the resources with shares of what there are figures of: 0 for one without any."""
    measured_names = {figure.resource for figure in figures}
    total = sum(resource.weight for resource in resources if resource.name in measured_names)
    return tuple(
        replace(resource, share=resource.weight / total if resource.name in measured_names else 0.0)
        for resource in resources
    )


def unmeasured_of(
    analysis: Analysis, weights: Mapping[str, float] | None, resources: Sequence[Weighted]
) -> tuple[Unmeasured, ...]:
    """Return the resources that have a weight and no share in the ranking, with why. resources: see of_figures."""
    weight_of = weights or {resource.name: resource.weight for resource in resources}
    total = sum(weight_of.values())
    labels = {resource.name: resource.labels for resource in resources}
    ranked_names = {resource.name for resource in resources if resource.share}
    return tuple(
        Unmeasured(name, weight, weight / total, _why_unmeasured(analysis, labels.get(name, ())))
        for name, weight in weight_of.items()
        if weight and name not in ranked_names
    )


def _why_unmeasured(analysis: Analysis, labels: Sequence[str]) -> doc.Inline:
    if not labels:
        return msg("no benchmark of this run measures it")
    baseline_points = [point for point in analysis.untested if point.platform == analysis.baseline]
    reasons = [point.reason for point in baseline_points if point.label in labels]
    reason = reasons[0] if reasons else msg("no trial succeeded")
    return msg(
        "{baseline}, the baseline, has no value of it: {reason}",
        baseline=analysis.baseline,
        reason=reason,
    )


def figures_of(
    analysis: Analysis, shares: Mapping[str, float]
) -> tuple[list[WorkloadMetric], list[tuple[Section, ResultPoint]]]:
    """Return every primary metric at every point that has a weight, and what the baseline lacks.

    Benchmarks count alike within a resource, metrics within a benchmark, points within a metric.
    """
    unit_of = {block: n for n, session in enumerate(analysis.sessions) for block in session.blocks}
    if len(analysis.sessions) < 2:
        blocks = {block for *_, row in every_row(analysis.primary) for block in row.blocks.tolist()}
        unit_of = {block: n for n, block in enumerate(sorted(blocks))}
    units = 1 + max(unit_of.values(), default=-1)
    figures: list[tuple[Section, ResultPoint, dict[str, Floats]]] = []
    left_out = []
    for section in _weighable(analysis, shares):
        if not shares[weighs(section)]:
            continue
        for point in section.points:
            values = _by_unit(section, point, unit_of, units)
            if values:
                figures.append((section, point, values))
            else:
                left_out.append((section, point))
    weighted_figures = [
        WorkloadMetric(*figure, _share(figure[0], [s for s, _, _ in figures])) for figure in figures
    ]
    return weighted_figures, left_out


def _share(section: Section, figures: Sequence[Section]) -> float:
    """Share of one figure of a section in its resource. figures: the section of every figure."""
    sections = [s for s in figures if weighs(s) == weighs(section)]
    metrics = {s.metric.name for s in sections if s.label == section.label}
    points = sum(s is section for s in sections)
    return 1 / (len({s.label for s in sections}) * len(metrics) * points)


def _by_unit(
    section: Section, point: ResultPoint, unit_of: Mapping[int, int], units: int
) -> dict[str, Floats]:
    """Platform -> log efficiency of every unit; empty where the baseline has no positive value."""
    rows = [row for row in point.rows if row.summary is not None]
    base = next((row for row in rows if row.platform.is_baseline), None)
    if base is None:
        return {}
    baseline_logs = mean_logs([base.means_of_blocks])
    logs_by_platform: dict[str, Floats] = {}
    for row in rows:
        logs = mean_logs([row.means_of_blocks]) - baseline_logs
        if logs:
            values = logs.values if section.better == "higher" else -logs.values
            of = np.array([unit_of[block] for block in logs.units.tolist()])
            sums, counts = np.bincount(of, values, units), np.bincount(of, minlength=units)
            logs_by_platform[row.platform.name] = np.divide(
                sums, counts, out=np.full(units, np.nan), where=counts > 0
            )
    return logs_by_platform if base.platform.name in logs_by_platform else {}


def link_limits(analysis: Analysis, figures: Sequence[WorkloadMetric]) -> tuple[float, ...]:
    """Return the rate limits of the links that figures were measured through, in Mbit/s, ascending; empty without
    one."""
    rates = {analysis.link_rate(figure.section.label, figure.point.levels) for figure in figures}
    return tuple(sorted(rate for rate in rates if rate))


def missing_of(
    analysis: Analysis, platform: PlatformRecord, figures: Sequence[WorkloadMetric]
) -> tuple[Missing, ...]:
    """Return what a platform lacks, by resource, with the first reason of each."""
    missing_figures = [figure for figure in figures if platform.name not in figure.values]
    missing = []
    for resource in dict.fromkeys(figure.resource for figure in missing_figures):
        resource_figures = [figure for figure in missing_figures if figure.resource == resource]
        labels = tuple(dict.fromkeys(figure.section.label for figure in resource_figures))
        is_whole = len(resource_figures) == sum(figure.resource == resource for figure in figures)
        missing.append(
            Missing(
                resource, labels, is_whole, _why_missing(analysis, platform, resource_figures[0])
            )
        )
    return tuple(missing)


def _why_missing(
    analysis: Analysis, platform: PlatformRecord, figure: WorkloadMetric
) -> doc.Inline:
    for point in analysis.untested:
        is_here = (point.platform, point.label) == (platform.name, figure.section.label)
        if is_here and Levels(point.levels) == figure.point.levels:
            return point.reason
    row: Row | None = next((r for r in figure.point.rows if r.platform.name == platform.name), None)
    if row is not None and row.summary is None and row.reason:
        return row.reason
    if row is None:
        return msg("not in this run")
    return msg("no value beside one of the baseline in a block")


def _cost(metric: str) -> str | None:
    return _OF_METRIC.get(metric) or next(
        (c for prefix, c in _OF_PREFIX.items() if metric.startswith(prefix)), None
    )


def weighs(section: Section) -> str:
    """Return the resource that a section's benchmark loads, or the cost that its metric is."""
    return _cost(section.metric.name) or resource_of(section.benchmark)


def costs(analysis: Analysis) -> Iterator[Section]:
    """Yield the sections of costs that a run has values of."""
    yield from (section for section in analysis.sections if _cost(section.metric.name))
    ready = [_ready(analysis, platform) for platform in analysis.platforms]
    rows = tuple(row for row in ready if row is not None)
    if rows:
        yield Section("guests", "", "", _READY, (ResultPoint("", NO_LEVELS, rows),), 0)


def _ready(analysis: Analysis, platform: PlatformRecord) -> Row | None:
    """Mean time until a platform's guests of each block were ready; None where none was."""
    guests = [
        g for g in analysis.guests if g.platform == platform.name and g.ready_s and g.block >= 0
    ]
    cell = CellRecord(f"{platform.name} guests", "guests", platform.name, "", "guests")
    blocks = np.array([guest.block for guest in guests], np.int64)
    values = np.array([guest.ready_s for guest in guests], np.float64)
    try:
        summary, labels, means = describe_blocks(values, analysis.rule.confidence, blocks=blocks)
    except StatsError:
        return None
    return Row(cell, platform, summary, labels, means, 0)
