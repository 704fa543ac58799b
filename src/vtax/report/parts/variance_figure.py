"""The shares of the variance of every cell as one figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from vtax.report.analysis import Analysis
from vtax.report.analysis.variance import CellVariance, by_section
from vtax.report.document import Figure, FigureGroup, FigureRow, Inline, Section, Share, msg
from vtax.report.parts import figures, shared

_MOST_ROWS = 160


def shares_figure(cells: Sequence[CellVariance], analysis: Analysis) -> Iterator[Section]:
    """Yield a bar for every cell whose noise has two known parts; nothing without any, or with more than can be
    read."""
    names = shared.colours(analysis)
    primary = (cell for cell in cells if cell.section.metric.is_primary)
    groups = tuple(group for of_section in by_section(primary) for group in _groups(of_section, names))
    if not groups or sum(len(group.rows) + 1 for group in groups) > _MOST_ROWS:
        return
    has_samples = any(len(row.values) > 2 for group in groups for _, row in group.rows if row)
    parts: tuple[Inline, ...] = (msg("between blocks"), msg("between trials"))
    figure = Figure(
        "shares",
        msg("Shares of the variance of every cell"),
        msg("share of the variance"),
        msg("Where the noise of every cell comes from; beside the bar its coefficient of variation (CV)"),
        groups,
        msg("share"),
        msg("part"),
        key="variance",
        parts=(*parts, msg("within trials")) if has_samples else parts,
    )
    yield Section(msg("Shares of the variance"), (figure,))


def _groups(cells: Sequence[CellVariance], names: dict[str, int]) -> list[FigureGroup]:
    """Return the cells of every point, below the name of the metric."""
    found = []
    for _, of in groupby(cells, key=lambda cell: id(cell.point)):
        if known := [cell for cell in of if len(_shares(cell)) > 1]:
            rows = tuple((shared.platform_of(cell.row.platform), _row(cell, names)) for cell in known)
            found.append(FigureGroup(known[0].point.name, rows))
    return figures.below(shared.title_of(cells[0].section), found)


def _shares(cell: CellVariance) -> tuple[float, ...]:
    """Return the known shares, from blocks to what is within a trial."""
    found = (cell.between_blocks, cell.between_trials, cell.within_trial)
    return tuple(share for share in found if share is not None)


def _row(cell: CellVariance, names: dict[str, int]) -> FigureRow:
    platform, summary = cell.row.platform, cell.row.summary
    text: Inline = msg("CV {cv}", cv=Share(summary.cv)) if summary is not None else ""
    return FigureRow(
        shared.platform_of(platform), names[platform.name], 1.0, None, None, values=_shares(cell), text=text
    )
