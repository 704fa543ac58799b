"""The shares of the variance of every cell as one figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtax.report.analysis import Analysis
from vtax.report.analysis.variance import CellVariance, VarianceTable
from vtax.report.document import Figure, FigureGroup, FigureRow, Inline, Section, Share, msg
from vtax.report.parts import figures, shared

_MOST_ROWS = 160


def shares_figure(tables: Sequence[VarianceTable], analysis: Analysis) -> Iterator[Section]:
    """Yield a bar for every cell whose noise has two known parts; nothing without any, or with more than can be
    read."""
    names = shared.colours(analysis)
    groups = tuple(group for table in tables if table.section.metric.is_primary for group in _groups(table, names))
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


def _groups(table: VarianceTable, names: dict[str, int]) -> list[FigureGroup]:
    """Return the cells of every point, below the name of the metric."""
    found = []
    for point, cells in table.points:
        if rows := tuple((shared.platform_of(c.row.platform), _row(c, names)) for c in cells if len(_shares(c)) > 1):
            found.append(FigureGroup(point.name, rows))
    return figures.below(shared.title_of(table.section), found)


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
