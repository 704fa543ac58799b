"""The figure of all trials over the time of a run, where a drift is visible, with what the host did below them.

A metric is a lane of its own range, so that metrics of any noise stand beside each other. What lies beyond it is an
arrow at its end, and trials that the eye cannot tell apart are a band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtax.report import document as doc
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import (
    GREY,
    LINE_PX,
    Spec,
    axis_title,
    colour_of,
    label_lines,
    labels_in_lines,
    plot,
)

MAX_TRIALS = 1200  # of a figure that are drawn as dots
_MOST_BORDERS = 60  # of blocks that are drawn
_BINS = 60  # of a lane, where trials are not drawn one by one
_UNIT_PX = 22  # of a lane: from its middle to its end
_LEGEND_PX, _CHARACTER_PX, _SYMBOL_PX = 230, 6.6, 40  # of a narrow figure
_ROOM = 1.45  # of a lane above and below its middle, its range being 1
_LANES = 3  # from middle to middle
_TYPICAL, _REACH = 0.95, 2.0
"""A lane shows so many times the deviation that this share of its trials does not exceed."""
_SMALLEST = 1e-4  # deviation at the end of a lane
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


@dataclass(frozen=True)
class _Lane:
    """A metric. middle: where its deviations are none. reach: deviation at its ends."""

    middle: int
    reach: float
    label: str
    rows: Sequence[doc.FigureRow]

    def y(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where values are drawn; those beyond the lane at its ends."""
        return np.round(self.middle + np.clip(values / self.reach, -1, 1), 3)


def has_too_many_trials(figure: doc.RowFigure) -> bool:
    """Return whether a figure has more trials than can be drawn as dots."""
    return sum(len(row.values) for row in figure.rows) > MAX_TRIALS


def order(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return a lane for every metric: deviations of its trials over the minutes, and the means of blocks as lines."""
    lanes = [
        _Lane(-_LANES * n, _reach(group.rows), formatter.text(group.title), group.rows)
        for n, group in enumerate(figure.groups)
    ]
    below = [
        _Lane(-_LANES * n, max(row.values), formatter.text(row.label), (row,))
        for n, row in enumerate(figure.loads, len(lanes))
    ]
    last = max(minute for row in (*figure.rows, *figure.loads) for minute in row.minutes)
    x: Spec = {
        "type": "quantitative",
        "title": axis_title(figure, formatter),
        "axis": {"grid": False},
        "scale": {"domain": [-last * 0.02, last * 1.02 or 1.0], "nice": False},
    }
    lowest = (*lanes, *below)[-1].middle
    lines = max(len(label_lines(lane.label)) for lane in (*lanes, *below))
    unit_px = max(_UNIT_PX, (lines + 1) * LINE_PX / 2)
    y: Spec = {
        "type": "quantitative",
        "axis": _lanes_axis(lanes, below, formatter),
        "scale": {"domain": [lowest - _ROOM, _ROOM], "nice": False},
    }
    at = {"x": {"field": "x", **x}, "y": {"field": "y", **y}}
    span = {"x": at["x"], "y": {"field": "low", **y}, "y2": {"field": "high"}}
    look = _looks(figure, formatter)
    tooltip = [
        {"field": "platform"},
        {"field": "block"},
        {"field": "text", "title": formatter.text(figure.value_title)},
    ]
    silent: Spec = {"tooltip": None}
    borders = figure.borders if len(figure.borders) <= _MOST_BORDERS else ()
    zeros = [{"y": lane.middle} for lane in lanes]
    is_banded = has_too_many_trials(figure)
    dots = [] if is_banded else [dot for lane in lanes for dot in _trials(lane, formatter)]
    bands = [band for lane in lanes for band in _bands(lane)] if is_banded else []
    loads = [load for lane in below for load in _load(lane)]
    dashed: Spec = {"type": "rule", "color": GREY, "strokeDash": [4, 3], **silent}
    named = [{"x": at, "text": formatter.text(text)} for at, text in figure.marks]
    text: Spec = {"align": "left", "baseline": "top", "dx": 3, "color": "@muted", "fontSize": 10}
    layers = [
        _drawn(
            [{"x": minute} for minute in borders],
            {"type": "rule", "color": "@grid", **silent},
            {"x": at["x"]},
        ),
        _drawn(zeros, dashed, {"y": at["y"]}),
        _drawn(named, {**dashed, "color": "@muted"}, {"x": at["x"]}),
        _drawn(
            named,
            {"type": "text", **text, **silent},
            {"x": at["x"], "y": {"value": 0}, "text": {"field": "text"}},
        ),
        _drawn(
            loads,
            {"type": "area", "color": GREY, "interpolate": "step", "opacity": 0.8, **silent},
            {**span, "detail": {"field": "lane"}},
        ),
        _drawn(
            bands,
            {"type": "area", "color": GREY, "opacity": 0.35, **silent},
            {**span, "detail": {"field": "lane"}},
        ),
        _drawn(
            [dot for dot in dots if "sign" not in dot],
            {"type": "point", "filled": True, "size": 22, "opacity": 0.6},
            {**at, **look, "tooltip": tooltip},
        ),
        _drawn(
            [dot for dot in dots if "sign" in dot],
            {"type": "text", "fontSize": 10},
            {**at, "color": look["color"], "text": {"field": "sign"}, "tooltip": tooltip},
        ),
        _drawn(
            [mean for lane in lanes for mean in _means(lane, formatter)],
            {"type": "line", "strokeWidth": 1.4, **silent},
            {**at, "color": look["color"], "detail": {"field": "lane"}},
        ),
    ]
    shown = [layer for layer in layers if layer["data"]["values"]]
    height = unit_px * (_ROOM - (lowest - _ROOM))
    return plot(shown, height, formatter.text(figure.title), formatter)


def _looks(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return the colour and the shape of every platform, with one legend."""
    colours = {formatter.text(row.label): colour_of(row.colour) for row in figure.rows}
    names = list(colours)
    longest = max(map(len, names))
    columns = max(1, int(_LEGEND_PX / (longest * _CHARACTER_PX + _SYMBOL_PX)))
    shapes = [_SHAPES[n % len(_SHAPES)] for n in range(len(names))]
    legend = {
        "title": None,
        "orient": "top",
        "direction": "horizontal",
        "columns": columns,
        "labelLimit": 0,
        "labelColor": "@ink",
        "symbolOpacity": 1,
    }
    field: Spec = {"field": "platform", "type": "nominal", "legend": legend}
    return {
        "color": {**field, "scale": {"domain": names, "range": list(colours.values())}},
        "shape": {**field, "scale": {"domain": names, "range": shapes}},
    }


def _reach(rows: Sequence[doc.FigureRow]) -> float:
    """Return the deviation at the end of a lane: the largest, or twice the usual where few trials lie far outside."""
    sizes = np.abs(np.concatenate([row.values for row in rows]))
    usual = _REACH * float(np.quantile(sizes, _TYPICAL))
    return max(min(float(sizes.max()), usual), _SMALLEST)


def _trials(lane: _Lane, formatter: Formatter) -> Iterator[Spec]:
    """Yield a dot for every trial; what lies beyond the lane is a sign at its end."""
    for row in lane.rows:
        platform = formatter.text(row.label)
        places = lane.y(np.array(row.values)).tolist()
        for x, y, block, value in zip(row.minutes, places, row.blocks, row.values, strict=True):
            text = formatter.value(doc.Share(value, "change"))
            dot = {"platform": platform, "x": round(x, 3), "y": y, "block": block + 1, "text": text}
            if abs(value) > lane.reach:
                dot["sign"] = "▲" if value > 0 else "▼"
            yield dot


def _bands(lane: _Lane) -> Iterator[Spec]:
    """Yield for every part of the time the range of nine in ten trials of a lane."""
    minutes = np.concatenate([row.minutes for row in lane.rows])
    values = np.concatenate([row.values for row in lane.rows])
    edges = np.linspace(minutes.min(), np.nextafter(minutes.max(), np.inf), _BINS + 1)
    bins = np.digitize(minutes, edges)
    for number in np.unique(bins).tolist():
        low, high = lane.y(np.quantile(values[bins == number], [0.05, 0.95])).tolist()
        x = round(float(edges[number - 1] + edges[number]) / 2, 3)
        yield {"lane": lane.middle, "x": x, "low": low, "high": high}


def _means(lane: _Lane, formatter: Formatter) -> Iterator[Spec]:
    """Yield the mean of every block of a platform over the middle of its trials; of many blocks, of neighbours
    together."""
    for row in lane.rows:
        platform, blocks = formatter.text(row.label), np.array(row.blocks)
        known = np.unique(blocks)
        groups = np.array_split(known, min(_BINS, known.size))
        index = np.searchsorted([group[-1] for group in groups], blocks)
        counts = np.bincount(index)
        at = np.bincount(index, row.minutes) / counts
        means = lane.y(np.bincount(index, row.values) / counts)
        for x, y in zip(at.tolist(), means.tolist(), strict=True):
            yield {"platform": platform, "lane": lane.middle, "x": round(x, 3), "y": y}


def _load(lane: _Lane) -> Iterator[Spec]:
    """Yield the load over the minutes, from the lower end of its lane."""
    (row,) = lane.rows
    for x, value in zip(row.minutes, row.values, strict=True):
        high = lane.middle - 1 + 2 * value / lane.reach
        yield {
            "lane": lane.middle,
            "x": round(x, 3),
            "low": lane.middle - 1,
            "high": round(high, 3),
        }


def _lanes_axis(lanes: Sequence[_Lane], below: Sequence[_Lane], formatter: Formatter) -> Spec:
    """Return the axis: every lane has its name at its middle and its range at its ends."""
    texts: dict[int, list[str]] = {}
    for lane in (*lanes, *below):
        is_load = lane in below
        end = formatter.value(doc.Share(lane.reach))
        texts[lane.middle + 1] = [end if is_load else f"+{end}"]
        texts[lane.middle] = label_lines(lane.label)
        texts[lane.middle - 1] = ["0" if is_load else f"−{end}"]
    is_middle = f"datum.value % {_LANES} == 0"
    return {
        "title": None,
        "domain": False,
        "grid": False,
        "labelOverlap": False,
        "values": list(texts),
        "tickCount": len(texts),  # fewer would leave out some
        "labelPadding": 4,
        **labels_in_lines(texts),
        "labelFontSize": {"condition": {"test": is_middle, "value": 12}, "value": 10},
        "labelColor": {"condition": {"test": is_middle, "value": "@ink"}, "value": "@muted"},
        "tickSize": 4,
        "tickColor": "@muted",
    }


def _drawn(values: list[Spec], mark: Spec, encoding: dict[str, Any]) -> Spec:
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}
