"""A table of one figure of a run by any of its factors: rows, columns, and one table for each panel."""

from __future__ import annotations

from collections.abc import Iterator

from vtax.described import values_of
from vtax.levels import PLATFORM
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.factors import PARTS
from vtax.report.answers.pivot.compute import Pivot, PivotCell
from vtax.report.answers.pivot.values import PERCENTILES
from vtax.report.document import factors, joined, listed, msg, muted, plural, scale_for, styled
from vtax.report.document.terms import unit_of
from vtax.report.parts import shared
from vtax.report.parts.header import header_of
from vtax.stats.quantiles import fewest_values

_MOST_NAMED = 6


def document_of(pivot: Pivot) -> doc.Document:
    """Return a table for each panel; below them what the figures are, why some are not there, and the warnings."""
    analysis = pivot.analysis
    title, lead = header_of(analysis)
    if pivot.where:
        condition = factors(
            {name: "|".join(levels) for name, levels in pivot.where.choices.items()}
        )
        lead = (*lead, msg("where {levels}", levels=condition))
    parts: list[doc.Part] = [_panel(pivot, panel) for panel in pivot.panels]
    parts += [doc.Paragraph(text, "muted") for text in about(pivot)]
    if pivot.empty:
        parts.append(doc.Titled(msg("Without a figure"), (doc.Bullets(tuple(_reasons(pivot))),)))
    parts += shared.warnings_part(pivot.warnings, shows_code=True)
    answer = doc.Document(
        title, tuple(parts), lead, data=values_of(pivot), colours=analysis.colours
    )
    return shared.of_blocks(answer, analysis) if pivot.quantity in PERCENTILES else answer


def quantity_of(pivot: Pivot) -> doc.Inline:
    """Return what the figures are called."""
    name = {
        "mean": msg("mean"),
        "efficiency": msg("percent of {baseline}", baseline=pivot.analysis.baseline),
        "p50": msg("median"),
        "p95": msg("95th percentile"),
        "p99": msg("99th percentile"),
    }[pivot.quantity]
    if not pivot.to:
        return name
    level = factors({factor: levels[0] for factor, levels in pivot.to.choices.items()})
    return msg("{figure}, as percent of that at {level}", figure=name, level=level)


def scale_of(pivot: Pivot, panel: str) -> doc.Scale | None:
    """Return the unit that all means of a panel share; None where there are several."""
    cells = [cell for place, cell in pivot.cells.items() if place[0] == panel]
    units = {cell.section.metric.unit for cell in cells}
    if len(units) > 1:
        return None
    return scale_for(units.pop(), [cell.value.value for cell in cells if cell.value])


def title_of(pivot: Pivot, panel: str) -> doc.Inline:
    """`iperf3 · throughput · direction=send`; panel: empty for all."""
    sections = pivot.sections
    metric: doc.Inline = shared.title_of(sections[0]) if len(sections) == 1 else ""
    level: doc.Inline = doc.Factor(((pivot.axes.panels, panel),)) if panel else ""
    return joined([metric, level], " · ")


def _panel(pivot: Pivot, panel: str) -> doc.Titled:
    analysis, scale = pivot.analysis, scale_of(pivot, panel)
    quantity = quantity_of(pivot)
    unit = unit_of(scale.unit) if scale and not pivot.is_relative else ""
    axes = pivot.axes
    axes_title: doc.Inline = axes.rows
    columns_note: doc.Inline = ""
    if axes.columns:
        axes_title = msg("{rows} by {columns}", rows=axes.rows, columns=axes.columns)
        columns_note = msg("columns: {factor}", factor=axes.columns)
    subtitle = joined([joined([quantity, unit]), _direction(pivot), columns_note], "; ")
    columns = [doc.Column(axes.rows, axes.rows)]
    for column in pivot.columns:
        heading = _level(analysis, axes.columns, column) if column else quantity
        columns.append(doc.Column(column or pivot.quantity, heading, is_number=True))
    rows = []
    for row in pivot.rows_of(panel):
        cells = [_level(analysis, axes.rows, row)]
        for column in pivot.columns:
            cells.append(_shown(pivot, pivot.cells.get((panel, row, column)), scale))
        is_baseline = axes.rows == PLATFORM and row == analysis.baseline
        rows.append(doc.TableRow(tuple(cells), "baseline" if is_baseline else ""))
    title = title_of(pivot, panel)
    table = doc.table_of(
        tuple(columns), rows, key=panel or "pivot", label=joined([title, quantity])
    )
    return doc.Titled(title if title != "" else axes_title, (table,), subtitle=subtitle)


def _direction(pivot: Pivot) -> doc.Inline:
    """Return which way is better; empty where that differs."""
    if pivot.is_relative:
        return msg("higher is better")
    directions = {section.better: shared.direction_of(section) for section in pivot.sections}
    return next(iter(directions.values())) if len(directions) == 1 else ""


def _level(analysis: Analysis, factor: str, level: str) -> doc.Inline:
    if factor == PLATFORM:
        record = next(platform for platform in analysis.platforms if platform.name == level)
        return shared.platform_of(record, analysis.colours)
    return level


def _shown(pivot: Pivot, cell: PivotCell | None, scale: doc.Scale | None) -> doc.Inline:
    """Return a figure with its interval."""
    if cell is None or cell.value is None:
        return doc.Nothing()
    value = cell.value
    if pivot.is_relative:
        share = shared.share_of(value.value, value.low, value.high)
        return muted(msg("baseline")) if pivot.is_reference(cell) else styled(share, "strong")
    cell_scale = scale or scale_for(cell.section.metric.unit, [value.value])
    if pivot.quantity in PERCENTILES:
        texts: list[doc.Inline] = [
            doc.Quantity(value.value, cell_scale, 3),
            "" if scale else unit_of(cell_scale.unit),
        ]
        if value.low is not None and value.high is not None:
            texts.append(muted(doc.IntervalCell(value.low, value.high, "quantity", cell_scale)))
        return joined(texts, " ")
    half_width = float("inf")
    if value.low is not None and value.high is not None:
        half_width = (value.high - value.low) / 2
    if scale is None:
        return doc.Mean(value.value, half_width, cell_scale, "both")
    return joined(
        [
            doc.Mean(value.value, half_width, cell_scale),
            muted(doc.Mean(value.value, half_width, cell_scale, "half-width")),
        ],
        " ",
    )


def about(pivot: Pivot) -> Iterator[doc.Inline]:
    """Yield what the figures are, and what they leave out."""
    analysis = pivot.analysis
    if pivot.quantity in PERCENTILES:
        yield msg(
            "percentiles of all single values; {level} intervals are between order statistics, for as many "
            "independent values as those of the blocks are worth, and need at least {values}; a ratio takes its "
            "sides as independent",
            level=analysis.level,
            values=doc.Count(fewest_values(PERCENTILES[pivot.quantity], analysis.rule.confidence)),
        )
    elif pivot.is_relative:
        yield msg(
            "percents are of ratios within blocks; intervals are {level}, each of one comparison alone",
            level=analysis.level,
        )
    elif any(
        cell.value is not None and cell.value.low is not None for cell in pivot.cells.values()
    ):
        yield msg("means with the half-width of their {level} intervals", level=analysis.level)
    parts = [name for name in PARTS if name in (*pivot.axes.names, *pivot.where.choices)]
    if parts:
        yield msg(
            "figures are of a part of the run each ({parts}): intervals are over its blocks or sessions, a single "
            "block has none, and nothing here is judged",
            parts=", ".join(parts),
        )


def _reasons(pivot: Pivot) -> Iterator[doc.Inline]:
    """Yield why places are empty; those with the same reason together."""
    groups: list[tuple[doc.Inline, list[tuple[str, str, str]]]] = []
    for place, reason in pivot.empty.items():
        places = next(
            (reason_places for known_reason, reason_places in groups if known_reason == reason),
            None,
        )
        if places is None:
            groups.append((reason, [place]))
        else:
            places.append(place)
    names = (pivot.axes.panels, pivot.axes.rows, pivot.axes.columns)
    for reason, places in groups:
        texts = [
            doc.Factor(
                tuple((name, level) for name, level in zip(names, place, strict=True) if name)
            )
            for place in places[:_MOST_NAMED]
        ]
        place_text: doc.Inline = (
            listed(texts) if len(places) <= _MOST_NAMED else joined(texts, "; ")
        )
        if hidden_count := len(places) - len(texts):
            place_text = joined(
                [
                    place_text,
                    plural("and {count} more place", "and {count} more places", hidden_count),
                ]
            )
        yield joined([place_text, reason], ": ")
