"""Charts of lines over numbers, each with a symbol and a dash of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from vtax.report import document as doc
from vtax.report.renderers.chart_axes import Axis, value_axis
from vtax.report.renderers.chart_layers import (
    WHOLE_WIDTH,
    WIDTH,
    Drawn,
    intervals,
    only,
    printed,
)
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import Spec, colour_of

_HEIGHT, _LOW, _MANY = 210, 140, 3  # pixels; of charts with so many panels
_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 2, 1, 2, 1, 2], [3, 5], [10, 2, 3, 2])
_DODGE = 3.7  # pixels between the intervals of two series
_OF_A_GAP = (
    0.5  # of the gap between two neighbouring places, that all series of one may stand apart
)


def lines(chart: doc.Chart, formatter: Formatter, number: int) -> list[Spec]:
    """Return both sides of a panel; over tests the right side has means with bands in front of the tests."""
    return _Lines(chart, formatter, number).sides()


class LineLooks(Drawn):
    """A panel whose series have a colour, a symbol and a dash each."""

    def look(self, channel: str) -> Spec:
        """Return the channel `color`, `strokeDash` or `shape`."""
        colours = [colour_of(self.chart.series[each].colour) for each in self.used]
        positions = range(len(self.used))
        ranges: Mapping[str, Sequence[Any]] = {
            "color": colours,
            "strokeDash": [_DASHES[n % len(_DASHES)] for n in positions],
            "shape": [_SHAPES[n % len(_SHAPES)] for n in positions],
        }
        domain = [self.labels[each] for each in self.used]
        scale = {"domain": domain, "range": ranges[channel]}
        legend: Spec | None = None  # dashes make the symbols illegible
        if channel != "strokeDash":
            legend = {
                "title": None,
                **({"symbolOpacity": 1} if self.chart.is_banded or self.bands else {}),
            }
        return {"field": "series", "type": "nominal", "scale": scale, "legend": legend}

    @property
    def dodge(self) -> float:
        """The part of the axis between the intervals of two series: less where places would run into each other."""
        places = {math.log(value.x) if "x" in self.chart.log else value.x for value in self.values}
        gaps = [(b - a) / (max(places) - min(places)) for a, b in pairwise(sorted(places))]
        most = _OF_A_GAP * min(gaps, default=1.0) / max(1, len(self.used) - 1)
        return min(_DODGE / (WHOLE_WIDTH if self.chart.has_one_side else WIDTH), most)

    def aside(self, value: doc.ChartValue) -> float:
        """Return the part of the axis by which a value's interval stands aside from those of other series."""
        return (self.used.index(value.series) - (len(self.used) - 1) / 2) * self.dodge


class _Lines(LineLooks):
    def sides(self) -> list[Spec]:
        axis = value_axis([*self.values, *self.bands], self.panel.scale, "y" in self.chart.log)
        aside = 0.0 if self.chart.is_banded else self.dodge * (len(self.used) - 1) / 2
        first = [place for place, _ in self.chart.x_labels[:1] if self.chart.is_banded]
        domain = _numbers_domain(
            [*first, *(value.x for value in self.values)], "x" in self.chart.log, aside
        )
        sides = []
        for is_right in (False, True):
            rows = [
                {
                    "series": self.labels[value.series],
                    "x": self._dodged(value, domain),
                    **self.record(value, axis, is_right=is_right),
                }
                for value in self.values
            ]
            layers = self._layers(axis, domain, is_banded=bool(self.bands) and is_right)
            sides.append(
                {
                    "data": {"values": rows},
                    "width": WIDTH,
                    "title": self.title(
                        is_right, is_cut=not self.chart.is_banded and axis.cuts(self.values)
                    ),
                    "height": _HEIGHT if len(self.chart.panels) < _MANY else _LOW,
                    "layer": [only(layer) for layer in layers],
                }
            )
        return sides

    def _layers(self, axis: Axis, domain: list[float], *, is_banded: bool) -> list[Spec]:
        x, y = self._numbers(domain), self.scaled(axis)
        look = {key: self.look(key) for key in ("color", "strokeDash", "shape")}
        at: Spec = {"x": {"field": "x", **x}}
        here: Spec = {**at, "y": {"field": "value", **y}, "color": look["color"]}
        faded = {"opacity": 0.5 if self.chart.has_one_side else 0.3} if is_banded else {}
        layers: list[Spec] = [
            {
                "mark": {"type": "line", "strokeWidth": 1.6, **faded},
                "encoding": {**here, "strokeDash": look["strokeDash"]},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1, **faded},
                "encoding": {**here, "shape": look["shape"]},
            },
        ]
        if is_banded:
            return [*layers, *self._bands(axis, domain, x, y, look)]
        if self.chart.is_banded:
            return [*_along(at, y, look), *layers]
        beside = [
            {**each, "encoding": {**each["encoding"], "color": look["color"]}}
            for each in (*intervals(at, y, "y"), *axis.arrows(at, y, "y"))
        ]
        return [*layers, *beside, *printed(at, y, "y")]

    def _numbers(self, domain: list[float]) -> Spec:
        """Return the channel of the numbers, with the levels as they are written."""
        names = {format(place, ".12g"): self.text(label) for place, label in self.chart.x_labels}
        ticks: Spec = {"tickMinStep": 1, "format": "d"}
        if names:
            text = json.dumps(names, ensure_ascii=False)
            key = "replace(format(datum.value, '.12~g'), ',', '.')"  # whatever decimal sign the language has
            ticks = {
                "values": [place for place, _ in self.chart.x_labels],
                "labelExpr": f"({text})[{key}] || datum.label",
            }
        return {
            "type": "quantitative",
            "scale": {
                "domain": domain,
                "nice": False,
                **({"type": "log"} if "x" in self.chart.log else {}),
            },
            "axis": {
                "title": self.text(self.chart.x_title),
                "grid": False,
                "labelOverlap": "greedy",
                "labelSeparation": 1,
                **ticks,
            },
        }

    def _bands(
        self, axis: Axis, domain: list[float], x: Spec, y: Spec, look: Mapping[str, Spec]
    ) -> list[Spec]:
        """Return the mean of each series over all tests, and its interval as a band."""
        rows = [
            {
                "series": self.labels[band.series],
                "from": domain[0],
                "to": domain[1],
                **axis.record(band.right),
            }
            for band in self.bands
        ]
        across = {"x": {"field": "from", **x}, "x2": {"field": "to"}}
        own = {"data": {"values": rows}}
        layers = [
            {
                **own,
                "mark": {"type": "rect", "opacity": 0.2},
                "encoding": {
                    **across,
                    "y": {"field": "low", **y},
                    "y2": {"field": "high"},
                    "color": {**look["color"], "legend": None},
                },
            },
            {
                **own,
                "mark": {"type": "rule", "strokeWidth": 2.2},
                "encoding": {
                    **across,
                    "y": {"field": "value", **y},
                    "color": look["color"],
                    "strokeDash": look["strokeDash"],
                },
            },
            {
                **own,
                "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
                "encoding": {
                    "x": {"field": "to", **x},
                    "y": {"field": "value", **y},
                    "color": look["color"],
                    "shape": look["shape"],
                },
            },
        ]
        arrows = axis.arrows({"x": {"field": "to", **x}}, y, "y")
        return [*layers, *({**own, **each} for each in arrows)]

    def _dodged(self, value: doc.ChartValue, domain: Sequence[float]) -> float:
        """x a little aside, so that series stand beside each other; tests stay at their numbers."""
        if self.chart.bands or self.chart.is_banded:
            return value.x
        step = self.aside(value)
        if "x" in self.chart.log:
            return float(value.x * (domain[1] / domain[0]) ** step)
        return value.x + (domain[1] - domain[0]) * step


def _along(at: Spec, y: Spec, look: Mapping[str, Spec]) -> list[Spec]:
    """Return a band along each line, from the lower to the upper bound."""
    ends = {"y": {"field": "low", **y}, "y2": {"field": "high"}}
    return [
        {
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "area", "opacity": 0.2},
            "encoding": {**at, **ends, "color": look["color"]},
        }
    ]


def _numbers_domain(numbers: Iterable[float], is_log: bool, aside: float) -> list[float]:
    """Return a little more than all numbers on an axis. aside: share of the axis that series stand aside of them."""
    found = sorted(set(numbers)) or [1.0]
    low, high = found[0], found[-1]
    if is_log:
        room = (high / low) ** (0.04 + 1.5 * aside) if high > low else 1.5
        return [low / room, high * room]
    room = (high - low) * (0.05 + 1.5 * aside) or 0.5
    return [low - room, high + room]
