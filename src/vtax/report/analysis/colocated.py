"""What a factor costs a platform itself: every level against the first one, with further guests on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from vtax.described import Means
from vtax.report.analysis.values import Analysis, OfSection, ResultPoint, Row, Section
from vtax.stats.checks import StatsError
from vtax.stats.ratio import Ratio, block_contrast, ratio_of_logs


@dataclass(frozen=True)
class Effect(OfSection):
    """A figure at one level of a factor against that at the reference level, on one platform.

    level: of the factor. others: levels of the other factors. row: the figure.
    """

    section: Section
    level: Any
    others: Mapping[str, Any]
    row: Annotated[
        Row,
        Means("platform", name="platform", take="platform.name"),
        Means("factor -> level", name="levels", take="cell.levels"),
        Means("mean", "unit", name="mean", take="summary.mean"),
    ]
    ratio: Annotated[Ratio | None, Means("to the same platform at the reference level, within blocks, or null")]
    of_baseline: Annotated[Ratio | None, Means("that of the baseline, or null", name="baseline_ratio")]
    further: Annotated[Mapping[str, float | None], Means("means of further metrics; memory in MiB a guest")]


def effects(analysis: Analysis, factor: str, reference: str, further: Sequence[str] = ()) -> list[Effect]:
    """Of every primary metric that has the factor: by points of the other factors, platforms and levels.

    reference: a level; the lowest number where a metric has no such. further: metrics of the same benchmark, or
    endings of metrics that are named after the primary one, with their `_`.
    """
    found: list[Effect] = []
    for section in analysis.primary:
        alike: dict[tuple[tuple[str, str], ...], list[ResultPoint]] = {}
        for point in section.points:
            if factor in point.levels:
                others = tuple((name, str(level)) for name, level in point.levels.items() if name != factor)
                alike.setdefault(others, []).append(point)
        for points in alike.values():
            found += _of_points(section, {p.levels[factor]: p for p in points}, factor, reference, further, analysis)
    return found


def _of_points(
    section: Section, points: Mapping[Any, ResultPoint], factor: str, reference: str, further: Sequence[str],
    analysis: Analysis,
) -> Iterator[Effect]:  # fmt: skip
    first = reference if reference in points else min(points)
    rows = {(row.platform.name, level): row for level, p in points.items() for row in p.rows if row.summary}
    names = [f"{section.metric.name}{name}" if name.startswith("_") else name for name in further]

    def ratio(platform: str, level: Any) -> Ratio | None:
        row, base = rows.get((platform, level)), rows.get((platform, first))
        return _ratio(row, base, analysis) if row and base and level != first else None

    for platform in (each.name for each in analysis.platforms):
        for level, point in points.items():
            if row := rows.get((platform, level)):
                others = {name: value for name, value in point.levels.items() if name != factor}
                of_baseline = None if platform == analysis.baseline else ratio(analysis.baseline, level)
                means = {name.lstrip("_"): _mean(analysis, section, metric, row)
                         for name, metric in zip(further, names, strict=True)}  # fmt: skip
                yield Effect(section, level, others, row, ratio(platform, level), of_baseline, means)


def _mean(analysis: Analysis, section: Section, metric: str, row: Row) -> float | None:
    """Return the mean of another metric of the same trials."""
    sections = [each for each in analysis.sections if each.label == section.label and each.metric.name == metric]
    rows = [other for each in sections for other in each.rows if other.cell == row.cell]
    return next((other.summary.mean for other in rows if other.summary), None)


def _ratio(row: Row, reference: Row, analysis: Analysis) -> Ratio | None:
    """Within blocks that have both; None where that is not possible."""
    try:
        return ratio_of_logs(block_contrast(row.means_of_blocks, reference.means_of_blocks), analysis.rule.confidence)
    except StatsError:
        return None
