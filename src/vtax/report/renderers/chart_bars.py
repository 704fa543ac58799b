"""Charts of horizontal bars from zero, grouped by series where these are not the places; groups have letters."""

from __future__ import annotations

import string

from vtax.report import document as doc
from vtax.report.document import msg
from vtax.report.renderers.chart_axes import Axis, value_axis
from vtax.report.renderers.chart_layers import (
    INK,
    MUTED,
    PAPER,
    WIDTH,
    Drawn,
    intervals,
    only,
    printed,
)
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import Spec, colour_of

_BAR, _GAP, _TWO_LINES_HEIGHT = 15, 10, 32  # pixels; a label with a mark has two lines
_LETTERS = string.ascii_letters + string.digits + "αβ"  # as many as a study may have platforms
_TWO_LINES = (
    "split(datum.label, ' (')[1] ? [split(datum.label, ' (')[0], '(' + "
    "slice(datum.label, length(split(datum.label, ' (')[0]) + 2)] : datum.label"
)


def bars(chart: doc.Chart, formatter: Formatter, number: int) -> list[Spec]:
    """Return both sides of a panel."""
    return _Bars(chart, formatter, number).sides()


class _Bars(Drawn):
    def __init__(self, chart: doc.Chart, formatter: Formatter, number: int) -> None:
        super().__init__(chart, formatter, number)
        labels = dict(chart.x_labels)
        self.places = {
            place: self.text(labels[place]) for place in sorted({value.x for value in self.values})
        }
        self.series = sorted({value.series for value in self.values})
        self.letters = dict(zip(self.series, _LETTERS, strict=False))
        names = sorted(self.labels[each] for each in self.series)
        is_named = (
            names == [""] or sorted(self.places.values()) == names
        )  # by the places, or there is nothing to name
        self.is_grouped = not is_named

    def sides(self) -> list[Spec]:
        axis = value_axis(self.values, self.panel.scale, "x" in self.chart.log)
        row = (len(self.series) if self.is_grouped else 1) * _BAR + _GAP
        if any(" (" in label for label in self.places.values()):
            row = max(row, _TWO_LINES_HEIGHT)
        return [
            {
                "data": {
                    "values": [
                        {
                            "place": self.places[value.x],
                            "series": self._name(value.series),
                            **self._inside(value, is_right=is_right),
                            **self.record(value, axis, is_right=is_right),
                        }
                        for value in self.values
                    ]
                },
                "width": WIDTH,
                "height": len(self.places) * row,
                "title": self.title(is_right, is_cut=axis.cuts(self.values)),
                "layer": [only(layer) for layer in self._layers(axis)],
            }
            for is_right in (False, True)
        ]

    def _inside(self, value: doc.ChartValue, *, is_right: bool) -> Spec:
        """Return what stands in a bar: the letter of its group, or that this side has no bar."""
        shown = value.right if is_right else value.left
        shown = shown or (value.printed if self.has_printed(is_right) else None)
        return (
            {"letter": self.letters[value.series]}
            if shown
            else {"nothing": self.text(msg("not measured"))}
        )

    def _layers(self, axis: Axis) -> list[Spec]:
        base: Spec = {
            "y": {
                "field": "place",
                "type": "nominal",
                "scale": {
                    "domain": list(self.places.values()),
                    "paddingInner": 0.25,
                    "paddingOuter": 0.15,
                },
                "axis": {
                    "title": None,
                    "grid": False,
                    "ticks": False,
                    "domain": False,
                    "labelPadding": 6,
                    "labelExpr": _TWO_LINES,
                },
            }
        }
        names, x = list(map(self._name, self.series)), self.scaled(axis)
        colours = [colour_of(self.chart.series[each].colour) for each in self.series]
        colour: Spec = {
            "field": "series",
            "type": "nominal",
            "legend": {"title": None} if self.is_grouped else None,
            "scale": {"domain": names, "range": colours},
        }
        if self.is_grouped:
            base["yOffset"] = {"field": "series", "scale": {"domain": names}}
        layers: list[Spec] = [
            {
                "mark": {"type": "bar", "fillOpacity": 0.35, "strokeWidth": 1.2},
                "encoding": {
                    **base,
                    "x": {"field": "value", **x},
                    "fill": colour,
                    "stroke": {**colour, "legend": None},
                },
            },
            *intervals(base, x, "x"),
            *printed(base, x, "x"),
        ]
        if self.is_grouped:
            text: Spec = {"type": "text", "align": "left", "dx": 3, "fontSize": 9.5, "color": INK}
            halo = {
                **text,
                "color": PAPER,
                "stroke": PAPER,
                "strokeWidth": 3,
                "strokeJoin": "round",
            }
            at = {**base, "x": {"datum": axis.low, **x}, "text": {"field": "letter"}}
            named = [{"filter": "isValid(datum.letter)"}]
            layers += [{"transform": named, "mark": look, "encoding": at} for look in (halo, text)]
        layers.append(
            {
                "transform": [{"filter": "isValid(datum.nothing)"}],
                "mark": {"type": "text", "align": "left", "dx": 3, "fontSize": 9.5, "color": MUTED},
                "encoding": {**base, "x": {"datum": axis.low, **x}, "text": {"field": "nothing"}},
            }
        )
        return [*layers, *axis.arrows(base, x, "x")]

    def _name(self, number: int) -> str:
        return (
            f"{self.letters[number]}  {self.labels[number]}"
            if self.is_grouped
            else self.labels[number]
        )
