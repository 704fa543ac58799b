"""Shared by the kinds of charts: the panel that is drawn, layers of intervals and of printed values, looks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from vtax.report import document as doc
from vtax.report.document import joined, msg
from vtax.report.renderers.chart_axes import Axis
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import Spec

WIDTH = 310  # pixels of a side
SPACING = 24  # pixels between two sides
WHOLE_WIDTH = 2 * WIDTH + SPACING  # of a chart of one side
_SIDE_CHARS = 54
INK, PAPER, MUTED, GRID = "@ink", "@paper", "@muted", "@grid"


class Drawn:
    """One panel of a chart, which a kind draws twice."""

    def __init__(self, chart: doc.Chart, formatter: Formatter, number: int) -> None:
        self.chart, self.text, self.language = chart, formatter.text, formatter.language
        self.separator = self.language.separator
        self.used = sorted({value.series for value in (*chart.values, *chart.bands)})
        self.labels = {each: self.text(chart.series[each].label) for each in self.used}
        self.panel = chart.panels[number]
        self.values = [value for value in chart.values if value.panel == number]
        self.bands = [value for value in chart.bands if value.panel == number]

    def scaled(self, axis: Axis) -> Spec:
        """Return the channel of the values."""
        title = {"title": self.text(self.panel.axis), "tickCount": 5}
        return {"type": "quantitative", "scale": axis.scale, "axis": title}

    def has_printed(self, is_right: bool) -> bool:
        """Return whether a side has the values that the publication prints: the left one, or the only one."""
        return is_right == self.chart.has_one_side

    def record(self, value: doc.ChartValue, axis: Axis, *, is_right: bool) -> Spec:
        """Return the fields of what a side shows of a value, with those of the printed one."""
        record = axis.record(value.right if is_right else value.left)
        if value.printed is not None and self.has_printed(is_right):
            record |= {f"printed_{name}": each for name, each in axis.record(value.printed).items()}
        return record

    def title(self, is_right: bool, *, is_cut: bool = False) -> Spec:
        """Return the title of a side; both have as many lines. is_cut: arrows are there, which it explains."""
        arrow = msg("an arrow: the interval goes on") if is_cut else ""
        sides = []
        for side, is_this_right in ((self.panel.left, False), (self.panel.right, True)):
            sign = self.chart.printed if self.has_printed(is_this_right) else ""
            sides.append(textwrap.wrap(self.text(joined([side, sign, arrow], "; ")), _SIDE_CHARS))
        lines = sides[is_right] + [" "] * (max(map(len, sides)) - len(sides[is_right]))
        frame = (
            {"frame": "group"} if self.chart.has_one_side else {}
        )  # panels below each other: all titles at one x
        if self.panel.title == "":
            return {"text": lines, "fontWeight": 400, "color": MUTED, "fontSize": 10.5, **frame}
        return {"text": self.text(self.panel.title), "subtitle": lines, **frame}


def intervals(base: Spec, scale: Spec, channel: str) -> Iterator[Spec]:
    """Yield lines from the lower to the upper bound, with ticks at both ends that are inside the axis."""
    mark: Spec = {"type": "rule", "strokeWidth": 1.4, "color": INK}
    yield {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": mark,
        "encoding": {**base, channel: {"field": "low", **scale}, f"{channel}2": {"field": "high"}},
    }
    for field in ("low", "high"):
        yield {
            "transform": [{"filter": f"isValid(datum.{field}) && !datum.{field}_beyond"}],
            "mark": {
                "type": "tick",
                "thickness": 1.4,
                "size": 7,
                "color": INK,
                "orient": "vertical" if channel == "x" else "horizontal",
            },
            "encoding": {**base, channel: {"field": field, **scale}},
        }


def printed(base: Spec, scale: Spec, channel: str) -> Iterator[Spec]:
    """Yield a diamond where the publication prints a number, with its deviation."""
    yield {
        "transform": [{"filter": "isValid(datum.printed_low)"}],
        "mark": {"type": "rule", "strokeWidth": 1.2, "color": INK, "strokeDash": [2, 2]},
        "encoding": {
            **base,
            channel: {"field": "printed_low", **scale},
            f"{channel}2": {"field": "printed_high"},
        },
    }
    yield {
        "transform": [{"filter": "isValid(datum.printed_value)"}],
        "mark": {
            "type": "point",
            "shape": "diamond",
            "size": 80,
            "filled": True,
            "fill": PAPER,
            "stroke": INK,
            "strokeWidth": 1.4,
            "opacity": 1,
        },
        "encoding": {**base, channel: {"field": "printed_value", **scale}},
    }


def only(layer: Spec) -> Spec:
    """Return a layer without places that have no value: Vega would draw them at zero."""
    for channel in ("x", "y"):
        field = layer["encoding"].get(channel, {}).get("field")
        if field == "value":
            return {
                **layer,
                "transform": [*layer.get("transform", ()), {"filter": "isValid(datum.value)"}],
            }
    return layer
