"""Charts as Vega-Lite specifications.

A history and a chart of one side have one drawing for each panel. Every other panel is drawn twice, side by side on
one scale: on the left as the publication computes it, on the right with intervals from blocks. Nothing rests on
colour alone: lines have symbols and dashes, bars of groups have letters, cells have numbers. An interval that leaves
the axis ends there in an arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from vtax.report import document as doc
from vtax.report.renderers.chart_bars import bars
from vtax.report.renderers.chart_cells import cells
from vtax.report.renderers.chart_history import history
from vtax.report.renderers.chart_layers import GRID, INK, MUTED, PAPER, SPACING, WHOLE_WIDTH, WIDTH
from vtax.report.renderers.chart_lines import lines
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import SCHEMA, Spec, locale_of

_KINDS: Mapping[str, Callable[[doc.Chart, Formatter, int], list[Spec]]] = {
    "bars": bars,
    "lines": lines,
    "heatmap": cells,
    "table": cells,
    "history": history,
}
_LEGEND_COLUMNS = 4
_MIN_FONT_PX = 11.5  # of a chart for narrow windows, which shrink it by a tenth
PRINT_FONT = "DejaVu Sans, Liberation Sans, Arial, sans-serif"


def chart_spec(chart: doc.Chart, formatter: Formatter, *, is_stacked: bool = False) -> Spec:
    """Return the specification of a chart, without its title and notes.

    is_stacked: for narrow windows, both drawings of a panel below each other, one of one side half as wide.
    """
    draw, direction = _KINDS[chart.kind], "vconcat" if is_stacked else "hconcat"
    if chart.kind == "history" and is_stacked:
        draw = partial(history, is_narrow=True)
    sides = [draw(chart, formatter, number) for number in range(len(chart.panels))]
    if chart.has_one_side:
        width = WIDTH if is_stacked else WHOLE_WIDTH
        sides = [[{**each[-1], "width": max(width, each[-1]["width"])}] for each in sides]
    rows = [{direction: each, "spacing": SPACING} for each in sides]
    spec: Spec = {
        "$schema": SCHEMA,
        "description": formatter.text(chart.title),
        "background": PAPER,
        "padding": 10,
        "vconcat": rows,
        "spacing": 18,
        "config": {
            "locale": locale_of(formatter),
            "aria": False,  # Vega's own words are English; the title says what it is
            "font": PRINT_FONT,
            "view": {"stroke": GRID},
            "axis": {
                "labelColor": INK,
                "titleColor": INK,
                "gridColor": GRID,
                "tickColor": MUTED,
                "domainColor": MUTED,
                "labelFontSize": 10.5,
                "titleFontSize": 11,
                "titleFontWeight": 400,
                "labelLimit": 190,
                "titleLimit": 0,
                "titlePadding": 8,
            },
            "legend": {
                "orient": "bottom",
                "direction": "horizontal",
                "labelFontSize": 10.5,
                "labelLimit": 0,
                "columns": 1 if is_stacked else _LEGEND_COLUMNS,
                "labelColor": INK,
                "titleColor": INK,
                "symbolSize": 80,
                "symbolStrokeWidth": 0,
                "columnPadding": 18,
                "symbolDash": [1, 0],
            },
            "title": {
                "anchor": "start",
                "fontSize": 11.5,
                "subtitleFontSize": 10.5,
                "subtitleColor": MUTED,
                "color": INK,
                "subtitlePadding": 3,
            },
        },
    }
    return {**spec, **_readable(_MIN_FONT_PX, spec)} if is_stacked else spec


def _readable(size_px: float, spec: Any) -> Any:
    """Return a specification whose texts are at least as large as that."""
    if isinstance(spec, list):
        return [_readable(size_px, each) for each in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        key: max(value, size_px)
        if key.casefold().endswith("fontsize") and isinstance(value, int | float)
        else value
        if key == "values"
        else _readable(size_px, value)
        for key, value in spec.items()
    }
