"""The trials of a metric as figures: over the order in which they were made, and cell by cell."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtax.report.analysis import Analysis, Row, Section
from vtax.report.document import Figure, FigureGroup, FigureRow, Inline, msg
from vtax.report.parts import shared

_FEWEST = 3  # trials of a cell that have an order and a distribution


def figures_of(section: Section, analysis: Analysis) -> Iterator[Figure]:
    """Yield the order of execution and the distribution of every cell; nothing where no cell has three trials."""
    if any(_is_shown(row) for row in section.rows):
        yield order(section, analysis)
        yield distribution(section, analysis)


def order(section: Section, analysis: Analysis) -> Figure:
    """Return every trial as deviation from the median of its cell, over its position in the run."""
    of_platform: dict[str, list[Row]] = {}
    for row in filter(_is_shown, section.rows):
        of_platform.setdefault(row.platform.name, []).append(row)
    rows = tuple((shared.platform_of(rows[0].platform), _merged(rows, analysis)) for rows in of_platform.values())
    title = shared.title_of(section)
    return Figure(
        "order",
        msg("{title}: every trial in the order of execution", title=title),
        msg("trial of the run, in the order of execution"),
        msg("Trials in the order of execution, as deviations from the median of their cell"),
        (FigureGroup("", rows),),
        msg("deviation"),
        msg("deviation"),
        key=f"order {section.name}",
        marks=_sessions(analysis, section),
    )


def distribution(section: Section, analysis: Analysis) -> Figure:
    """Return every trial of every cell, relative to the median of the cell."""
    groups = tuple(
        FigureGroup(
            shared.levels(point),
            tuple(
                (shared.platform_of(row.platform), _merged([row], analysis) if _is_shown(row) else None)
                for row in point.rows
            ),
        )
        for point in section.points
    )
    return Figure(
        "distribution",
        msg("{title}: distribution of the trials of every cell", title=shared.title_of(section)),
        msg("deviation from the median of the cell (%)"),
        msg("Trials of every cell, as deviations from its median"),
        groups,
        msg("deviation"),
        msg("deviation"),
        key=f"distribution {section.name}",
    )


def _is_shown(row: Row) -> bool:
    return row.trial_values.size >= _FEWEST and bool(np.median(row.trial_values) > 0)


def _merged(rows: list[Row], analysis: Analysis) -> FigureRow:
    """Return all trials of cells of one platform, by their position; 0.02 is 2 % above the median of the cell."""
    values = np.concatenate([row.trial_values / np.median(row.trial_values) - 1 for row in rows])
    blocks = np.concatenate([row.trial_blocks for row in rows])
    positions = np.concatenate([row.trial_positions for row in rows])
    order = np.argsort(positions, kind="stable")
    platform = rows[0].platform
    return FigureRow(
        shared.platform_of(platform), analysis.colours[platform.name], 0.0, None, None,
        tuple(blocks[order].tolist()), tuple(values[order].tolist()), positions=tuple(positions[order].tolist()),
    )  # fmt: skip


def _sessions(analysis: Analysis, section: Section) -> tuple[tuple[int, Inline], ...]:
    """Return where each session after the first begins: its number, at the first of its trials that is shown."""
    if len(analysis.sessions) < 2:
        return ()
    shown = [row for row in section.rows if _is_shown(row)]
    blocks = np.concatenate([row.trial_blocks for row in shown])
    positions = np.concatenate([row.trial_positions for row in shown])
    found: list[tuple[int, Inline]] = []
    for session in analysis.sessions[1:]:
        here = positions[np.isin(blocks, session.blocks)]
        if here.size:
            found.append((int(here.min()), msg("session {number}", number=str(session.number))))
    return tuple(found)
