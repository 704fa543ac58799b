"""A figure of a run by any of its factors: a colour for each row of the table, its columns along the axis, panels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from vtax.levels import BENCHMARK, METRIC, PLATFORM, number_of
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.pivot import Pivot
from vtax.report.document import joined, levels_of, msg, plural
from vtax.report.document.terms import unit_of
from vtax.report.parts.figure_charts import level_of, words_of
from vtax.report.parts.pivot import about, quantity_of, scale_of, title_of

_PERCENT = doc.Scale("%", 0.01)
_LOG_FROM = 20.0  # largest / smallest number, from which an axis is logarithmic


def chart_of(pivot: Pivot, analysis: Analysis) -> doc.Chart | None:
    """Return lines where the columns are numbers, else bars. None where figures of one panel have several units.

    Without columns the rows are the places of the bars.
    """
    numbers = [number_of(column) for column in pivot.columns]
    known = [number for number in numbers if number is not None]
    kind: Literal["lines", "bars"] = "lines" if len(known) == len(numbers) > 1 else "bars"
    places = dict(zip(pivot.columns, known, strict=False))
    if kind == "bars":
        places = {
            column: float(n)
            for n, column in enumerate(pivot.columns if pivot.axes.columns else pivot.rows)
        }
    panels = []
    scales = [_scale(pivot, panel) for panel in pivot.panels]
    is_of_several = not pivot.is_relative and pivot.axes.panels in (BENCHMARK, METRIC)
    whole = (
        None if is_of_several else _scale(pivot, None)
    )  # of all panels, where means of all can be compared
    for panel, own in zip(pivot.panels, scales, strict=True):
        if own is None:
            return None
        scale = whole or own
        axis = joined(
            [
                quantity_of(pivot, analysis),
                joined(["(", unit_of(scale.unit), ")"], "") if scale.unit else "",
            ],
            " ",
        )
        name: doc.Inline = (
            _panel_name(analysis, pivot.axes.panels, panel) if pivot.axes.panels else ""
        )
        panels.append(
            doc.ChartPanel(name, axis, "", msg("intervals of {level}", level=analysis.level), scale)
        )
    is_log = kind == "lines" and min(known) > 0 and max(known) / min(known) >= _LOG_FROM
    shown = pivot.axes.columns or pivot.axes.rows
    return doc.Chart(
        kind=kind,
        key="pivot",
        title=title_of(pivot, ""),
        notes=tuple(_notes(pivot, analysis)),
        panels=tuple(panels),
        series=tuple(
            doc.ChartSeries(
                _label(analysis, pivot.axes.rows, row), _colour(analysis, pivot.axes.rows, row, n)
            )
            for n, row in enumerate(pivot.rows)
        ),
        values=tuple(_values(pivot, places)),
        x_title=words_of(pivot.axes.columns),
        x_labels=tuple((place, _label(analysis, shown, level)) for level, place in places.items()),
        log=("x",) if is_log else (),
        has_one_side=True,
        has_one_range=whole is not None,
    )


def _scale(pivot: Pivot, panel: str | None) -> doc.Scale | None:
    """Return the unit of a panel, or of all; None where there are several."""
    return _PERCENT if pivot.is_relative else scale_of(pivot, panel)


def _values(pivot: Pivot, places: dict[str, float]) -> Iterator[doc.ChartValue]:
    for (panel, row, column), cell in pivot.cells.items():
        if cell.value is not None:
            shown = (cell.value.value, cell.value.low, cell.value.high)
            place = places[column if pivot.axes.columns else row]
            yield doc.ChartValue(
                pivot.panels.index(panel), place, pivot.rows.index(row), right=shown
            )


def _label(analysis: Analysis, factor: str, level: str) -> doc.Inline:
    return analysis.platform_of(level) if factor == PLATFORM else level_of(factor, level)


def _panel_name(analysis: Analysis, factor: str, level: str) -> doc.Inline:
    return msg("{name}: {value}", name=words_of(factor), value=_label(analysis, factor, level))


def _colour(analysis: Analysis, factor: str, level: str, number: int) -> int:
    return analysis.colours[level] if factor == PLATFORM else number + 1


def _notes(pivot: Pivot, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield the run, what is shown of it, what the values are, and how much is missing or to beware of."""
    yield plural(
        "{run}: {count} block.", "{run}: {count} blocks.", analysis.blocks, run=analysis.name
    )
    if pivot.where:
        yield msg(
            "where {levels}",
            levels=doc.Factor(
                levels_of({name: "|".join(v) for name, v in pivot.where.choices.items()})
            ),
        )
    yield from about(pivot, analysis)
    if count := len(pivot.empty):
        yield plural("{count} place has no figure", "{count} places have no figure", count)
    if count := len(pivot.warnings):
        command = f"vtax show {analysis.name} --warnings"
        yield plural(
            "{count} warning: {command}", "{count} warnings: {command}", count, command=command
        )
