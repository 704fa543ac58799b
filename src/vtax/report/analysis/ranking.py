"""Which platform is best at every point of a run, and how sure that is; also the blocks of several cells, aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vtax.report.analysis.filters import EVERYTHING, Filter
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section
from vtax.stats.checks import StatsError
from vtax.stats.notes import Note
from vtax.stats.ranking import Ranking, rank

RESAMPLES = 1999  # probabilities to one part in a hundred


@dataclass(frozen=True)
class PointRanking:
    """The ranks at one point of one metric. rows: those ranked, the most likely best first.

    ranking: its `order` and `probabilities` are of `rows`; None when there is no answer, reason then says why.
    """

    section: Section
    point: ResultPoint
    rows: tuple[Row, ...]
    ranking: Ranking | None
    reason: str
    warnings: tuple[str, ...]


def rankings(
    analysis: Analysis, *, every_metric: bool = False, only: Filter = EVERYTHING
) -> tuple[PointRanking, ...]:
    """The ranks of the platforms at every point of every primary metric (or every metric).

    analysis: of the whole run. only: what is shown; ranks are among all platforms.
    """
    sections = analysis.sections if every_metric else analysis.primary
    found = (
        rank_point(section, point, only)
        for section in sections
        for point in section.points
        if any(only.shows(row.cell) for row in point.rows)
    )
    return tuple(found)


def rank_point(section: Section, point: ResultPoint, only: Filter = EVERYTHING) -> PointRanking:
    """The ranks at one point. Platforms without values are left out, with a warning.

    only: the platforms that are shown, with their ranks among all.
    """
    rows = [row for row in point.rows if row.summary is not None]
    absent = [row.platform.name for row in point.rows if row.summary is None and row.platform.available]
    warnings = (Note("absent-platforms", platforms=", ".join(absent)),) if absent else ()
    if len(rows) < 2:
        return PointRanking(section, point, tuple(rows), None, Note("no-common-values"), warnings)
    try:
        found = rank(aligned(rows)[1], section.better, resamples=RESAMPLES)
    except StatsError as error:
        return PointRanking(section, point, tuple(rows), None, error.note, warnings)
    order = np.array(found.order)
    ranking = Ranking(tuple(range(order.size)), found.probabilities[order], found.blocks, found.warnings)
    ranked = PointRanking(
        section, point, tuple(rows[i] for i in found.order), ranking, "", (*warnings, *found.warnings)
    )
    return _shown(ranked, only) if only else ranked


def _shown(found: PointRanking, only: Filter) -> PointRanking:
    kept = [number for number, row in enumerate(found.rows) if only.shows(row.cell)]
    ranking = found.ranking and replace(
        found.ranking, order=tuple(range(len(kept))), probabilities=found.ranking.probabilities[kept]
    )
    return replace(found, rows=tuple(found.rows[number] for number in kept), ranking=ranking)


def aligned(rows: Sequence[Row]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(blocks, matrix of rows by blocks): NaN where a block lacks a row. Blocks are all that any row has."""
    blocks = np.unique(np.concatenate([row.blocks for row in rows])).astype(np.int64)
    matrix = np.full((len(rows), blocks.size), np.nan)
    for line, row in zip(matrix, rows, strict=True):
        line[np.searchsorted(blocks, row.blocks)] = row.block_means
    return blocks, matrix
