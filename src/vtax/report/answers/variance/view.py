"""The components of a run's variance, its drift, and the blocks and trials to plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.analysis.warnings import merged, noted
from vtax.report.answers.variance.compute import (
    CellVariance,
    by_section,
    drifting,
    hardest,
    variance,
)
from vtax.report.document import first_of, joined, listed, msg, muted, plural, range_of
from vtax.report.parts import figures, shared
from vtax.report.views.base import Options, View, register_view
from vtax.stats.variance import Replication

_NAMED = 4


def document(source: Source, options: Options) -> doc.Document:
    """Tables of each metric: variance, drift, plan; then a summary and the warnings."""
    whole = source.whole
    cells = variance(
        whole.data,
        whole.analysis,
        every_metric=options.every_metric,
        samples=whole.samples,
    )
    shown_cells = [
        cell for cell in cells if source.analysis.shown_cells.selects(cell.row.cell.place)
    ]
    answer = document_of(shown_cells, source.analysis, is_folded=options.depth == "report")
    return shared.of_blocks(answer, source.analysis)


def document_of(
    cells: Sequence[CellVariance], analysis: Analysis, *, is_folded: bool = False
) -> doc.Document:
    """Return the document of the cells. is_folded: one table of every comparison, on demand."""
    parts: list[doc.Part] = [*shares_figure(cells, analysis)]
    if is_folded:
        title = msg("Variance and plans of every comparison")
        parts.append(doc.Titled(title, (_brief_table(cells, analysis),), is_folded=True))
    else:
        parts += [_section(of_section, analysis) for of_section in by_section(cells)]
    if summary := list(_summary(cells, analysis)):
        parts.append(doc.Titled(msg("Summary"), (doc.Bullets(tuple(summary)),), role="summary"))
    warnings = [
        noted(text, cell.place)
        for cell in cells
        for text in dict.fromkeys(filter(None, [cell.reason, *cell.warnings]))
    ]
    of_all = [
        replace(warning, places=()) if len(warning.places) == len(cells) else warning
        for warning in merged(warnings)
    ]
    parts += shared.warnings_part(of_all)
    reason_empty: doc.Inline = (
        "" if any(map(_is_known, cells)) else msg("Variance needs more than one value per cell.")
    )
    return doc.Document(VIEW.title, tuple(parts), data=list(cells), nothing=reason_empty)


def _brief_table(cells: Sequence[CellVariance], analysis: Analysis) -> doc.Table:
    """Return a row for every point: the precision of each platform, and its plan."""
    comparisons = [cell for cell in cells if cell.row.ratio is not None]
    platforms = {cell.row.platform.name: cell.row.platform for cell in comparisons}
    target = doc.Share(analysis.rule.precision, "declared")
    title = msg("half-width, and the plan for ±{precision} (blocks x trials)", precision=target)
    columns = [doc.Column("metric", title, wraps=True)]
    columns += [
        doc.Column(name, shared.platform_of(platform)) for name, platform in platforms.items()
    ]
    names: dict[tuple[str, str], doc.Inline] = {}
    rows: dict[tuple[str, str], dict[str, doc.Inline]] = {}
    for cell in comparisons:
        key = (cell.section.name, cell.point.key)
        names[key] = joined([shared.title_of(cell.section), shared.levels(cell.point)], " · ")
        rows.setdefault(key, {})[cell.row.platform.name] = _brief(cell)
    return doc.table_of(
        columns,
        [
            (names[key], *(of_point.get(name, doc.Nothing()) for name in platforms))
            for key, of_point in rows.items()
        ],
        key="variance",
        label=msg("plan"),
        style="facts",
    )


def _brief(cell: CellVariance) -> doc.Inline:
    """Return `±3.2 %; 203 x 1, 2 min 21 s`."""
    half_width: doc.Inline = doc.Nothing()
    if cell.half_width is not None:
        half_width = msg("±{half}", half=doc.Share(cell.half_width))
    if cell.plan is None:
        return half_width
    plan = f"{cell.plan.blocks} x {cell.plan.trials:g}"
    return joined([half_width, joined([plan, doc.Duration(cell.plan.time_s)])], "; ")


def _is_known(cell: CellVariance) -> bool:
    """Return whether any part of a cell's noise is known."""
    return any(
        share is not None for share in (cell.between_blocks, cell.between_trials, cell.within_trial)
    )


def _section(cells: Sequence[CellVariance], analysis: Analysis) -> doc.Titled:
    parts: list[doc.Part] = [_shares_table(cells)]
    if any(_has_drift(cell) and cell.drift_p <= analysis.rule.alpha for cell in cells):
        parts.append(_drift_table(cells, analysis))
    if any(cell.half_width is not None for cell in cells):
        parts.append(_plan_table(cells, analysis))
        text = msg(
            "plans are blocks x trials per block; blocks needed: {level} interval, from the observed noise",
            level=analysis.level,
        )
        parts.append(doc.Paragraph(text, "muted"))
    section = cells[0].section
    return doc.Titled(shared.title_of(section), tuple(parts), subtitle=shared.subtitle_of(section))


def _shares_table(cells: Sequence[CellVariance]) -> doc.Table:
    """Return the noise of every cell; without the parts that no cell of the table has."""
    columns = (
        doc.Column("cv", msg("CV"), is_number=True),
        doc.Column("n", msg("n"), is_number=True),
        doc.Column("effective_n", msg("effective\nn"), is_number=True),
        doc.Column("blocks", msg("between\nblocks"), is_number=True),
        doc.Column("trials", msg("between\ntrials"), is_number=True),
        doc.Column("within", msg("within\ntrials"), is_number=True),
    )
    rows = [_shares(cell) for cell in cells if cell.row.summary]
    column_numbers = [
        n
        for n in range(len(columns))
        if any(not isinstance(cells_of_row[n], doc.Nothing) for cells_of_row in rows)
    ]

    def row(cell: CellVariance) -> list[doc.Inline]:
        return (
            [_shares(cell)[n] for n in column_numbers]
            if cell.row.summary
            else [muted(doc.Nothing())]
        )

    table_columns, key = (
        (shared.PLATFORM, *(columns[n] for n in column_numbers)),
        f"{cells[0].section.name} shares",
    )
    return doc.Table(
        table_columns, _groups(cells, row), key=key, label=msg("shares of the variance")
    )


def _shares(cell: CellVariance) -> list[doc.Inline]:
    summary = cell.row.summary
    assert summary is not None
    effective: doc.Inline = doc.Nothing()
    effective_n = summary.effective_n
    if effective_n is not None:
        effective = doc.Number(effective_n, 3)
    shares = (cell.between_blocks, cell.between_trials, cell.within_trial)
    return [doc.Share(summary.cv), doc.Count(summary.n), effective, *map(_share, shares)]


def _share(value: float | None) -> doc.Inline:
    return doc.Nothing() if value is None else doc.Share(value, "whole")


def _drift_table(cells: Sequence[CellVariance], analysis: Analysis) -> doc.Table:
    columns = (
        shared.PLATFORM,
        doc.Column("drift", msg("drift over\nthe run"), is_number=True),
        doc.Column("interval", msg("{level} interval", level=analysis.level), of="drift"),
        doc.Column("p", msg("p,\nadjusted"), is_number=True),
    )
    return doc.Table(
        columns, _groups(cells, _drift), key=f"{cells[0].section.name} drift", label=msg("drift")
    )


def _has_drift(cell: CellVariance) -> bool:
    return (
        cell.row.summary is not None and cell.drift is not None and abs(cell.drift.low) < math.inf
    )


def _drift(cell: CellVariance) -> list[doc.Inline]:
    if cell.drift is None or not _has_drift(cell):
        return [muted(doc.Nothing())]
    interval = muted(doc.IntervalCell(cell.drift.low, cell.drift.high, "change"))
    return [doc.Share(cell.drift.change, "change"), interval, doc.PValue(cell.drift_p)]


def _plan_table(cells: Sequence[CellVariance], analysis: Analysis) -> doc.Table:
    target = msg("plan for\n±{precision}", precision=doc.Share(analysis.rule.precision, "declared"))
    titles = {
        "start": msg("start"),
        "trial": msg("trial"),
        "done": msg("this run"),
        "half_width": msg("half-width"),
        "duration": msg("duration"),
        "plan": target,
        "range": msg("blocks\nneeded"),
        "estimate": msg("estimated\ntime"),
    }
    columns = (
        doc.Column("platform", msg("ratio to {baseline}", baseline=analysis.baseline)),
        *doc.number_columns(titles),
    )
    return doc.Table(
        columns, _groups(cells, _plan), key=f"{cells[0].section.name} plan", label=msg("plan")
    )


def _plan(cell: CellVariance) -> list[doc.Inline] | None:
    """None for what has no ratio to plan for: the baseline."""
    if cell.row.ratio is None or cell.time_s is None:
        return None
    plan = cell.plan
    cost = cell.cost
    cells: list[doc.Inline] = [
        doc.Duration(cost.block_s) if cost else doc.Nothing(),
        doc.Duration(cost.trial_s) if cost else doc.Nothing(),
        f"{cell.row.ratio.n_blocks} x {round(cell.trials, 1):g}",
        "" if cell.half_width is None else msg("±{half}", half=doc.Share(cell.half_width)),
        doc.Duration(cell.time_s),
    ]
    if plan:
        cells += [f"{plan.blocks} x {plan.trials:g}", blocks_range(plan), doc.Duration(plan.time_s)]
    return cells


def blocks_range(plan: Replication) -> doc.Inline:
    """`5 to 5384`: the interval of the number of blocks needed."""
    low = doc.Count(plan.blocks_low)
    if plan.blocks_high is None:
        return msg("{count} or more", count=low)
    return range_of(low, doc.Count(plan.blocks_high))


def _groups(
    cells: Sequence[CellVariance], cells_of: Callable[[CellVariance], Sequence[doc.Inline] | None]
) -> tuple[doc.Group, ...]:
    """Return a row per cell that has something to show, below the name of its point where there are several."""
    rows = []
    for cell in cells:
        cells_of_row = cells_of(cell)
        if cells_of_row is not None:
            rows.append((cell.point, cell.row.platform, cells_of_row))
    return shared.by_point(rows)


def _summary(cells: Sequence[CellVariance], analysis: Analysis) -> Iterator[doc.Inline]:
    yield from headline(cells, analysis.rule.precision)
    drifting_cells = drifting(cells, analysis.rule.alpha)
    p_values = [cell.drift_p for cell in cells if cell.drift]
    if p_values and not drifting_cells:
        yield plural(
            "No drift over the run is shown in {count} cell (smallest p, adjusted: {p}).",
            "No drift over the run is shown in {count} cells (smallest p, adjusted: {p}).",
            len(p_values),
            p=doc.PValue(min(p_values)),
        )
    places = []
    for cell in drifting_cells:
        if cell.drift:
            change = doc.Share(cell.drift.change, "change")
            places.append(msg("{place} by {change}", place=cell.place.inline, change=change))
    if places:
        yield plural(
            "{count} of {tested} cells drifts over the run: {places}.",
            "{count} of {tested} cells drift over the run: {places}.",
            len(places),
            tested=doc.Count(len(p_values)),
            places=listed(first_of(places, _NAMED)),
        )


def headline(cells: Sequence[CellVariance], precision: float) -> Iterator[doc.Inline]:
    """Yield what the run has of a half-width, and the time that plans for the rest of its comparisons take."""
    planned_cells = [cell for cell in cells if cell.plan]
    top = hardest(planned_cells)
    if top is None:
        return
    reached = sum(
        cell.half_width is not None and cell.half_width <= precision for cell in planned_cells
    )
    target = doc.Share(precision, "declared")
    if reached == len(planned_cells):
        yield plural(
            "The comparison has an interval of ±{target} or less.",
            "All {count} comparisons have intervals of ±{target} or less.",
            reached,
            target=target,
        )
        return
    text = plural(
        "{reached} of {count} comparison has an interval of ±{target} or less; plans for all take up to {duration}, "
        "the longest of them {longest} ({place}).",
        "{reached} of {count} comparisons have intervals of ±{target} or less; plans for all take up to {duration}, "
        "the longest of them {longest} ({place}).",
        len(planned_cells),
        reached=doc.Count(reached),
        target=target,
        duration=doc.Duration(sum(cell.plan.time_s for cell in planned_cells if cell.plan)),
        longest=doc.Duration(top.plan.time_s),
        place=top.where.inline,
    )
    if top.unsure:
        place, plan = top.unsure
        sentence = msg(
            "The blocks are too few for reliable plans: {place} may need {range}.",
            place=place.inline,
            range=blocks_range(plan),
        )
        yield joined([text, sentence], " ")
    else:
        yield text


def shares_figure(cells: Sequence[CellVariance], analysis: Analysis) -> Iterator[doc.Titled]:
    """Yield a bar for every cell whose noise has two known parts; nothing without any, or with more than can be
    read."""
    primary = (cell for cell in cells if cell.section.metric.is_primary)
    groups = tuple(
        group
        for of_section in by_section(primary)
        for group in _figure_groups(of_section, analysis)
    )
    if not groups or sum(len(group.rows) + 1 for group in groups) > figures.MOST_ROWS:
        return
    has_samples = any(len(row.values) > 2 for group in groups for row in group.rows)
    parts: tuple[doc.Inline, ...] = (msg("between blocks"), msg("between trials"))
    figure = doc.RowFigure(
        "shares",
        "variance",
        msg("Shares of the variance of every cell"),
        (
            msg(
                "Where the noise of every cell comes from; beside the bar its coefficient of variation (CV)"
            ),
        ),
        msg("share of the variance"),
        groups,
        msg("share"),
        msg("part"),
        parts=(*parts, msg("within trials")) if has_samples else parts,
    )
    yield doc.Titled(msg("Shares of the variance"), (figure,))


def _figure_groups(cells: Sequence[CellVariance], analysis: Analysis) -> list[doc.FigureGroup]:
    """Return the cells of every point, below the name of the metric."""
    groups = []
    for _, of in groupby(cells, key=lambda cell: id(cell.point)):
        if known_cells := [cell for cell in of if len(_known_shares(cell)) > 1]:
            rows = tuple(_figure_row(cell, analysis) for cell in known_cells)
            groups.append(doc.FigureGroup(shared.levels(known_cells[0].point), rows))
    return figures.below(shared.title_of(cells[0].section), groups)


def _known_shares(cell: CellVariance) -> tuple[float, ...]:
    """Return the known shares, from blocks to what is within a trial."""
    shares = (cell.between_blocks, cell.between_trials, cell.within_trial)
    return tuple(share for share in shares if share is not None)


def _figure_row(cell: CellVariance, analysis: Analysis) -> doc.FigureRow:
    platform, summary = cell.row.platform, cell.row.summary
    text: doc.Inline = msg("CV {cv}", cv=doc.Share(summary.cv)) if summary is not None else ""
    colour, bar = analysis.colours[platform.name], (1.0, None, None)
    return doc.FigureRow(
        shared.platform_of(platform), colour, bar, values=_known_shares(cell), text=text
    )


VIEW = register_view(
    View(
        "variance",
        msg("Variance"),
        msg(
            "Variance between blocks, between and within trials; drift; blocks and trials to plan."
        ),
        document,
        place=24,
    )
)
