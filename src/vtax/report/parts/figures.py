"""The figures of a result as data: means and ratios of each metric, all comparisons, and all trials over the time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from vtax.grouping import by_key
from vtax.pairing import pair_rows
from vtax.report import document as doc
from vtax.report.analysis import Analysis, ResultPoint, Row, Section, every_row
from vtax.report.analysis.compared import CellPair, Contrasts
from vtax.report.analysis.host_load import load_of, minutes_of
from vtax.report.analysis.sessions import of_hosts
from vtax.report.analysis.source import Source
from vtax.report.document import factors, joined, msg
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared
from vtax.stats.checks import Better
from vtax.stats.ratio import Ratio

FAR = 1.5  # factor from the baseline
MOST_ROWS = 160  # of the figure; the table of percents is shorter than more
_FEWEST = 3  # trials of a cell that have an order
_LEAST_LOAD = 0.005  # of the CPU time of the host, that is drawn
_LARGEST_LOG = 690.0  # of a ratio that is drawn: those beyond it are no numbers in JSON


def figures_of(
    section: Section, analysis: Analysis, *, has_ratios: bool = True
) -> Iterator[doc.Part]:
    """Yield every figure of a metric for which there are values; of ratios only where there are any.

    has_ratios: else a figure of several metrics has them.
    """
    yield means(section, analysis)
    if not has_ratios:
        return
    for figure in (ratios(section, analysis), ratios(section, analysis, is_far=True)):
        if figure.rows:
            yield figure


def means(section: Section, analysis: Analysis) -> doc.RowFigure:
    """Return every cell's mean with its interval, and one value per block."""
    scale, title = shared.scale_of(section), shared.metric_of(section)

    def row_of(row: Row, _: ResultPoint) -> doc.FigureRow:
        return _mean_row(_blank(row, analysis), row, scale)

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


def _mean_row(blank: doc.FigureRow, row: Row, scale: doc.Scale) -> doc.FigureRow:
    """Return a name with the mean of a row, its interval and its blocks; the name alone without a mean."""
    if row.summary is None:
        return blank
    s = row.summary
    low, high = (bound if np.isfinite(bound) else None for bound in (s.low, s.high))
    text = doc.Mean(s.mean, (s.high - s.low) / 2, scale, "both", row.step)
    blocks, values = tuple(row.blocks.tolist()), tuple(row.block_means.tolist())
    return replace(blank, shown=(s.mean, low, high), blocks=blocks, values=values, text=text)


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


def order(source: Source) -> Iterator[doc.RowFigure]:
    """Yield every trial of the primary metrics over the minutes of the run, above the load of the host.

    Trials are deviations from the median of their cell, in a lane for each metric. Nothing without cells that have
    several, nor over several hosts, whose order in a merged run is not one in time.
    """
    analysis, trials = source.analysis, source.whole.data.trials
    if len(of_hosts(analysis.sessions)) > 1 or not trials.id.size:
        return
    sections = [section for section in analysis.primary if any(map(_has_trials, section.rows))]
    if not sections:
        return
    minutes = dict(zip(trials.position.tolist(), minutes_of(trials).tolist(), strict=True))
    began: dict[int, float] = {}
    for block, position in zip(trials.block.tolist(), trials.position.tolist(), strict=True):
        began[block] = min(began.get(block, math.inf), minutes[position])
    sessions = [session for session in analysis.sessions[1:] if session.blocks]
    loads = tuple(_loads(source))
    caption = msg(
        "Trials over the time of the run, as deviations from the median of their cell, with the means of blocks as lines"
    )
    if loads:
        caption = msg(
            "{figure}; below them, what other programs and the outer host took of the host's CPU time during trials",
            figure=caption,
        )
    yield doc.RowFigure(
        "order",
        "order",
        msg("Every trial in the order of execution"),
        (caption,),
        msg("minutes of the run, without pauses"),
        tuple(_lane(section, minutes, analysis) for section in sections),
        msg("deviation"),
        msg("deviation"),
        marks=tuple(
            (began[session.blocks[0]], msg("session {number}", number=str(session.number)))
            for session in sessions
        ),
        borders=tuple(at for block, at in sorted(began.items()) if block > 0),
        loads=loads,
    )


def _lane(section: Section, minutes: Mapping[int, float], analysis: Analysis) -> doc.FigureGroup:
    """Return the trials of a metric, a row for each platform."""
    of_platform = by_key((row.platform.name, row) for row in filter(_has_trials, section.rows))
    rows = tuple(_deviations(rows, minutes, analysis) for rows in of_platform.values())
    return doc.FigureGroup(shared.title_of(section), rows)


def _loads(source: Source) -> Iterator[doc.FigureRow]:
    """Yield what others used of the host, and what the outer host took away where it took something."""
    load = load_of(source)
    if load is None:
        return
    minutes = tuple(load.minutes.tolist())
    series = (msg("CPU of other programs"), load.others), (msg("CPU steal"), load.steal)
    for name, values in series:
        if values.max() >= _LEAST_LOAD:
            shares = tuple(values.tolist())
            yield doc.FigureRow(name, 0, None, values=shares, minutes=minutes)


def means_of_sides(pairs: Sequence[CellPair], contrasts: Contrasts) -> doc.RowFigure:
    """Return the means of both sides beside each other, with a value per block. pairs: of one metric."""
    section = pairs[0].section
    scale, level = shared.scale_of(section), contrasts.level
    groups = []
    for levels, point_pairs in groupby(pairs, key=lambda pair: pair.levels):
        rows = []
        for pair in point_pairs:
            for colour, (side, row) in enumerate(
                ((contrasts.baseline, pair.baseline), (contrasts.treatment, pair.treatment))
            ):
                label: doc.Inline = side.text
                if contrasts.treatment.is_run:
                    label = joined([shared.platform_of(row.platform), side.name])
                rows.append(_mean_row(doc.FigureRow(label, colour, None), row, scale))
        groups.append(doc.FigureGroup(factors(levels), tuple(rows)))
    return doc.RowFigure(
        "values",
        f"means {section.name}",
        msg(
            "{title}: means of {treatment} and {baseline}, {level} interval and every block",
            title=shared.title_of(section),
            treatment=contrasts.treatment.text,
            baseline=contrasts.baseline.text,
            level=level,
        ),
        (msg("Mean with its {level} interval", level=level),),
        joined([shared.metric_of(section), unit_of(scale.unit)]),
        tuple(groups),
        msg("value"),
        msg("mean, {level} interval", level=level),
        scale,
    )


def compared(row: Row, section: Section, analysis: Analysis) -> doc.FigureRow:
    """Return a comparison with the baseline and its verdict as a row of a figure, without its blocks."""
    assert row.ratio is not None
    figure_row = share_row(shared.platform_of(row.platform), row.ratio, row, section, analysis)
    if row.verdict is not None:
        verdict = shared.verdict_of(row.verdict, row.ratio, section)
        text = joined([figure_row.text, verdict], ": ")
        return replace(figure_row, text=text, verdict=verdict.look)
    return figure_row


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


def _deviations(rows: list[Row], minutes: Mapping[int, float], analysis: Analysis) -> doc.FigureRow:
    """Return all trials of cells of one platform, in their order; 0.02 is 2 % above the median of the cell."""
    values = np.concatenate([row.trial_values / np.median(row.trial_values) - 1 for row in rows])
    blocks = np.concatenate([row.trial_blocks for row in rows])
    positions = np.concatenate([row.trial_positions for row in rows])
    run_order = np.argsort(positions, kind="stable")
    return replace(
        _blank(rows[0], analysis),
        shown=(0.0, None, None),
        blocks=tuple(blocks[run_order].tolist()),
        values=tuple(values[run_order].tolist()),
        minutes=tuple(minutes[position] for position in positions[run_order].tolist()),
    )


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
    if len(groups) + count > MOST_ROWS:
        return  # too long to be read: the figures of each metric show them
    figures = [_forest_figure(analysis, near, is_far=False)] if near else []
    if far:
        figures.append(_forest_figure(analysis, far, is_far=True))
    yield doc.Titled(msg("Every comparison"), tuple(figures), key="forest")


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
