"""What further guests on the host cost: ratios of a platform to itself with an idle neighbour, or with one guest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section
from vtax.stats.checks import StatsError
from vtax.stats.ratio import Ratio, block_contrast, ratio_of_logs

NEIGHBOUR, IDLE = "neighbour", "none"
GUESTS = "guests"


@dataclass(frozen=True)
class Effect:
    """A figure at one level of `neighbour` or `guests` against that at the first one, on one platform.

    level: of the factor. others: levels of the other factors. row: the figure. ratio: to the same platform at the
    reference level, formed within blocks; None at that level itself, and where there is none. of_baseline: the ratio
    of the baseline at the same levels; None where the platform is the baseline.
    """

    section: Section
    level: Any
    others: Mapping[str, Any]
    row: Row
    ratio: Ratio | None
    of_baseline: Ratio | None


def effects(analysis: Analysis, factor: str) -> list[Effect]:
    """Of every primary metric that has the factor: by points of the other factors, platforms and levels."""
    found: list[Effect] = []
    for section in analysis.primary:
        points = [point for point in section.points if factor in point.levels]
        for key in dict.fromkeys(_others(point, factor) for point in points):
            alike = [point for point in points if _others(point, factor) == key]
            found += _of_points(section, factor, alike, analysis)
    return found


def _of_points(section: Section, factor: str, points: list[ResultPoint], analysis: Analysis) -> list[Effect]:
    by_level = {str(point.levels[factor]): point for point in points}
    first = IDLE if factor == NEIGHBOUR and IDLE in by_level else min(by_level, key=_in_order)
    rows = {(str(p.levels[factor]), row.platform.name): row for p in points for row in p.rows}
    names = list(dict.fromkeys(row.platform.name for p in points for row in p.rows))
    found = []
    for name in names:
        for point in points:
            level = str(point.levels[factor])
            if (row := rows.get((level, name))) is None or row.summary is None:
                continue
            own = _ratio(row, rows.get((first, name)), analysis) if level != first else None
            native = (rows.get((level, analysis.baseline)), rows.get((first, analysis.baseline)))
            of_baseline = (
                _ratio(native[0], native[1], analysis) if level != first and name != analysis.baseline else None
            )
            others = {key: value for key, value in point.levels.items() if key != factor}
            found.append(Effect(section, point.levels[factor], others, row, own, of_baseline))
    return found


def _in_order(level: str) -> tuple[int, str]:
    """Numbers by their size, before words."""
    return (int(level), level) if level.isdigit() else (1 << 30, level)


def _others(point: ResultPoint, factor: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(level)) for name, level in point.levels.items() if name != factor)


def _ratio(row: Row | None, reference: Row | None, analysis: Analysis) -> Ratio | None:
    """Within blocks that have both; None where that is not possible."""
    if row is None or reference is None or row.summary is None or reference.summary is None:
        return None
    try:
        return ratio_of_logs(block_contrast(row.means_of_blocks, reference.means_of_blocks), analysis.rule.confidence)
    except StatsError:
        return None
