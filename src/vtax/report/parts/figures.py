"""The figures of a metric as data: its means, its ratios to the baseline, and its trials in order and by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vtax.pairing import pair_rows
from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section, every_row
from vtax.report.document import joined, msg, plural
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared
from vtax.stats.checks import Better
from vtax.stats.ratio import Ratio

FAR = 1.5  # factor from the baseline
MOST_ROWS = 160  # of the figure; the table of percents is shorter than more
_FEWEST = 3  # trials of a cell that have an order and a distribution
_LARGEST_LOG = 690.0  # of a ratio that is drawn: those beyond it are no numbers in JSON


def figures_of(section: Section, analysis: Analysis) -> Iterator[doc.Part]:
    """Yield every figure of a metric for which there are values; of ratios only where there are any."""
    yield means(section, analysis)
    for found in (ratios(section, analysis), ratios(section, analysis, is_far=True)):
        if found.rows:
            yield found
    if any(map(_has_trials, section.rows)):
        yield order(section, analysis)
        yield distribution(section, analysis)


def means(section: Section, analysis: Analysis) -> doc.RowFigure:
    """Return every cell's mean with its interval, and one value per block."""
    scale, title = shared.scale_of(section), shared.metric_of(section)

    def row_of(row: Row, _: ResultPoint) -> doc.FigureRow:
        blank = _blank(row, analysis)
        if row.summary is None:
            return blank
        s = row.summary
        low, high = (bound if np.isfinite(bound) else None for bound in (s.low, s.high))
        text = doc.Mean(s.mean, (s.high - s.low) / 2, scale, "both", row.step)
        blocks, values = tuple(row.blocks.tolist()), tuple(row.block_means.tolist())
        return replace(blank, shown=(s.mean, low, high), blocks=blocks, values=values, text=text)

    return doc.RowFigure(
        "values",
        f"means {section.name}",
        msg(
            "{title}: mean, {level} interval and every block",
            title=shared.title_of(section),
            level=analysis.level,
        ),
        (msg("Mean with its {level} interval", level=analysis.level),),
        joined([title, unit_of(scale.unit)]),
        _groups(section, row_of),
        msg("value"),
        msg("mean, {level} interval", level=analysis.level),
        scale,
    )


def ratios(section: Section, analysis: Analysis, *, is_far: bool = False) -> doc.RowFigure:
    """Return shares of the baseline, per block and estimated; of times the inverse ratios, so that more is faster.

    is_far: those beyond a factor of FAR, which have a figure of their own, so that the others can be told apart.
    """

    def row_of(row: Row, point: ResultPoint) -> doc.FigureRow | None:
        base = point.baseline
        if row.ratio is None or base is None:
            return None if is_far else _blank(row, analysis)
        if _lies_far(row.ratio) != is_far:
            return None
        blocks, shares = _block_shares(row, base, section.share_better)
        return replace(
            compared(row, section, analysis),
            blocks=tuple(blocks.tolist()),
            values=tuple(shares.tolist()),
        )

    to_baseline: dict[str, doc.Inline] = {"baseline": analysis.baseline, "level": analysis.level}
    title = msg(
        "{title}: percent of {baseline}, {level} interval and every block",
        title=shared.title_of(section),
        **to_baseline,
    )
    return doc.RowFigure(
        "ratios",
        f"ratios {section.name}{' far' if is_far else ''}",
        _far_title(title) if is_far else title,
        (
            msg(
                "Percent of {baseline} with its {level} interval; above 100 % is faster, and in the grey band "
                "(±{margin}) it is equivalent; "
                "▲\N{NO-BREAK SPACE}faster, ▼\N{NO-BREAK SPACE}slower, ■\N{NO-BREAK SPACE}equivalent, "
                "◀\N{NO-BREAK SPACE}costs at most the margin, "
                "◆\N{NO-BREAK SPACE}undecided",
                margin=doc.Share(section.margin, "declared"),
                **to_baseline,
            ),
        ),
        msg("percent of {baseline}", baseline=analysis.baseline),
        _groups(section, row_of),
        msg("percent in this block"),
        msg("percent, {level} interval", level=analysis.level),
        margin=section.margin,
        baseline=analysis.platform_of(analysis.baseline),
    )


def order(section: Section, analysis: Analysis) -> doc.RowFigure:
    """Return every trial as deviation from the median of its cell, over its position in the run."""
    of_platform: dict[str, list[Row]] = {}
    for row in filter(_has_trials, section.rows):
        of_platform.setdefault(row.platform.name, []).append(row)
    return doc.RowFigure(
        "order",
        f"order {section.name}",
        msg("{title}: every trial in the order of execution", title=shared.title_of(section)),
        (msg("Trials in the order of execution, as deviations from the median of their cell"),),
        msg("trial of the run, in the order of execution"),
        (doc.FigureGroup("", tuple(_deviations(rows, analysis) for rows in of_platform.values())),),
        msg("deviation"),
        msg("deviation"),
        marks=_sessions(analysis, section),
    )


def distribution(section: Section, analysis: Analysis) -> doc.RowFigure:
    """Return every trial of every cell, relative to the median of the cell."""
    return doc.RowFigure(
        "distribution",
        f"distribution {section.name}",
        msg("{title}: distribution of the trials of every cell", title=shared.title_of(section)),
        (msg("Trials of every cell, as deviations from its median"),),
        msg("deviation from the median of the cell (%)"),
        _groups(
            section,
            lambda row, _: (
                _deviations([row], analysis) if _has_trials(row) else _blank(row, analysis)
            ),
        ),
        msg("deviation"),
        msg("deviation"),
    )


def compared(row: Row, section: Section, analysis: Analysis) -> doc.FigureRow:
    """Return a comparison with the baseline and its verdict as a row of a figure, without its blocks."""
    assert row.ratio is not None
    found = share_row(shared.platform_of(row.platform), row.ratio, row, section, analysis)
    if row.verdict is not None:
        verdict = shared.verdict_of(row.verdict, row.ratio, section)
        text = joined([found.text, verdict], ": ")
        return replace(found, text=text, verdict=verdict.look)
    return found


def share_row(
    label: doc.Inline, ratio: Ratio, row: Row, section: Section, analysis: Analysis
) -> doc.FigureRow:
    """Return a ratio to the baseline as a row in the colour of a row's platform."""
    share = shared.relative_of(ratio, section)
    bounds = (share.low, share.high) if np.isfinite(share.high) else (None, None)
    return doc.FigureRow(
        label, analysis.colours[row.platform.name], (share.estimate, *bounds), text=share
    )


def below(title: doc.Inline, groups: Sequence[doc.FigureGroup]) -> list[doc.FigureGroup]:
    """Return groups below a heading; one alone has it before its own."""
    if len(groups) < 2:
        return [doc.FigureGroup(joined([title, group.title]), group.rows) for group in groups]
    return [doc.FigureGroup(title, ()), *groups]


def _blank(row: Row, analysis: Analysis) -> doc.FigureRow:
    return doc.FigureRow(
        shared.platform_of(row.platform), analysis.colours[row.platform.name], None
    )


def _lies_far(ratio: Ratio) -> bool:
    """Return whether a ratio is beyond a factor of FAR."""
    return abs(ratio.mean_log) > math.log(FAR)


def _far_title(title: doc.Inline) -> doc.Inline:
    return msg("{title} (beyond a factor of {factor})", title=title, factor=doc.Number(FAR, 2))


def _groups(
    section: Section, row_of: Callable[[Row, ResultPoint], doc.FigureRow | None]
) -> tuple[doc.FigureGroup, ...]:
    """Return the rows of every point; row_of: None for one that is not in the figure."""
    groups = []
    for point in section.points:
        rows = [row_of(row, point) for row in point.rows]
        if shown := tuple(row for row in rows if row is not None):
            groups.append(doc.FigureGroup(shared.levels(point), shown))
    return tuple(groups)


def _block_shares(row: Row, base: Row, better: Better) -> tuple[Any, Any]:
    ratios = pair_rows(row.means_of_blocks, base.means_of_blocks).known()
    logs = ratios.values if better == "higher" else -ratios.values
    return ratios.units, np.exp(np.minimum(logs, _LARGEST_LOG))


def _has_trials(row: Row) -> bool:
    return row.trial_values.size >= _FEWEST and bool(np.median(row.trial_values) > 0)


def _deviations(rows: list[Row], analysis: Analysis) -> doc.FigureRow:
    """Return all trials of cells of one platform, by their position; 0.02 is 2 % above the median of the cell."""
    values = np.concatenate([row.trial_values / np.median(row.trial_values) - 1 for row in rows])
    blocks = np.concatenate([row.trial_blocks for row in rows])
    positions = np.concatenate([row.trial_positions for row in rows])
    run_order = np.argsort(positions, kind="stable")
    return replace(
        _blank(rows[0], analysis),
        shown=(0.0, None, None),
        blocks=tuple(blocks[run_order].tolist()),
        values=tuple(values[run_order].tolist()),
        positions=tuple(positions[run_order].tolist()),
    )


def _sessions(analysis: Analysis, section: Section) -> tuple[tuple[int, doc.Inline], ...]:
    """Return where each session after the first begins: its number, at the first of its trials that is shown."""
    if len(analysis.sessions) < 2:
        return ()
    shown = [row for row in section.rows if _has_trials(row)]
    blocks = np.concatenate([row.trial_blocks for row in shown])
    positions = np.concatenate([row.trial_positions for row in shown])
    found: list[tuple[int, doc.Inline]] = []
    for session in analysis.sessions[1:]:
        here = positions[np.isin(blocks, session.blocks)]
        if here.size:
            found.append((int(here.min()), msg("session {number}", number=str(session.number))))
    return tuple(found)


def forest(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield a section with the figure, where there are comparisons of several metrics or points.

    Comparisons beyond a factor of FAR have a figure of their own: on one axis with them nobody could tell the others
    apart.
    """
    count = sum(row.ratio is not None for *_, row in every_row(analysis.primary))
    near = tuple(_forest_groups(analysis, is_far=False))
    far = tuple(_forest_groups(analysis, is_far=True))
    groups = near + far
    if len(groups) < 2:
        return
    title = msg("Every comparison")
    if len(groups) + count > MOST_ROWS:
        text = plural(
            "A figure of {count} comparison is too long to be read: the figures of each metric show them.",
            "A figure of {count} comparisons is too long to be read: the figures of each metric show them.",
            count,
        )
        yield doc.Titled(title, (doc.Paragraph(text, "muted"),), key="forest")
        return
    drawn = [_forest_figure(analysis, near, is_far=False)] if near else []
    if far:
        drawn.append(_forest_figure(analysis, far, is_far=True))
    yield doc.Titled(title, tuple(drawn), key="forest")


def _forest_figure(
    analysis: Analysis, groups: tuple[doc.FigureGroup, ...], *, is_far: bool
) -> doc.RowFigure:
    to_baseline: dict[str, doc.Inline] = {
        "baseline": analysis.platform_of(analysis.baseline),
        "level": analysis.level,
    }
    title = msg("Every comparison: percent of {baseline}, {level} interval", **to_baseline)
    return doc.RowFigure(
        "ratios",
        "forest far" if is_far else "forest",
        _far_title(title) if is_far else title,
        (
            msg(
                "Every platform on every metric with its {level} interval; above 100 % is faster than {baseline}, and "
                "in the grey band (±{margin}) it is equivalent; "
                "▲\N{NO-BREAK SPACE}faster, ▼\N{NO-BREAK SPACE}slower, ■\N{NO-BREAK SPACE}equivalent, "
                "◀\N{NO-BREAK SPACE}costs at most the margin, "
                "◆\N{NO-BREAK SPACE}undecided",
                margin=doc.Share(analysis.rule.margin, "declared"),
                **to_baseline,
            ),
        ),
        msg("percent of {baseline}", baseline=to_baseline["baseline"]),
        groups,
        msg("percent"),
        msg("percent, {level} interval", level=analysis.level),
        margin=analysis.rule.margin,
    )


def _forest_groups(analysis: Analysis, *, is_far: bool) -> Iterator[doc.FigureGroup]:
    """Yield the comparisons of every point, below the name of the metric: near ones, or those that lie far."""

    for section in analysis.primary:

        def row_of(row: Row, _: ResultPoint, section: Section = section) -> doc.FigureRow | None:
            is_shown = row.ratio is not None and _lies_far(row.ratio) == is_far
            return compared(row, section, analysis) if is_shown else None

        title = joined([shared.title_of(section), shared.own_margin(section, analysis)], " ")
        yield from below(title, _groups(section, row_of))
