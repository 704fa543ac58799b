"""Figures of single trials: over the order of execution, where a drift is visible, and by block, where outliers are.

Both show trials relative to what is usual in their cell, so that platforms of any speed stand beside each other. What
lies beyond the axis is drawn as an arrow at its end, and trials that the eye cannot tell apart as a band or a box.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtax.report import document as doc
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import (
    BAR_PX,
    GREY,
    Spec,
    axis_title,
    colour_of,
    edge_layers,
    frame,
    layer,
    lines_apart,
    outside,
    plot,
    rows_of,
    shared_by,
)

MAX_TRIALS = 1200  # of a figure that are drawn as dots
_BINS = 60  # of a lane, where trials are not drawn one by one
_LANE_PX, _TALL_LANE_PX = 66, 76  # of a lane, and of one whose label has two lines
_ROOM = 1.45  # of a lane above and below its middle, its range being 1
_LANES = 3  # from middle to middle
_TYPICAL, _REACH = (
    0.95,
    2.0,
)  # an axis shows so many times the deviation that this share of trials does not exceed
_REACH_OF_MEDIAN = 4.0  # the axis of all cells shows so many times the reach of the median cell
_SMALLEST = 1e-4  # deviation at the end of an axis
_PERCENT = 100.0
_DOT: Spec = {"type": "circle", "size": 24, "opacity": 0.75}


@dataclass(frozen=True)
class _Lane:
    """A platform in the figure of the order. middle: where its deviations are none. reach: deviation at its ends."""

    middle: int
    reach: float
    label: str
    row: doc.FigureRow

    @property
    def shared(self) -> Spec:
        """Fields of all that is drawn in it."""
        return {"platform": self.label, "colour": colour_of(self.row.colour)}

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """(blocks, positions from 1, deviations in units of the lane) of its trials."""
        return (
            np.array(self.row.blocks),
            np.array(self.row.positions) + 1,
            np.array(self.row.values) / self.reach,
        )


def has_too_many_trials(figure: doc.RowFigure) -> bool:
    """Return whether a figure has more trials than can be drawn as dots."""
    return sum(len(row.values) for row in figure.rows) > MAX_TRIALS


def order(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return a lane for every platform: deviations of its trials over their positions, and the means of its
    blocks."""
    rows = figure.rows
    last = max(max(row.positions) for row in rows) + 1
    reach = _common([_reach(row.values) for row in rows])
    lanes = [
        _Lane(-_LANES * n, reach, formatter.text(row.label), row) for n, row in enumerate(rows)
    ]
    x: Spec = {
        "type": "quantitative",
        "title": axis_title(figure, formatter),
        "axis": {"grid": False, "tickMinStep": 1},
        "scale": {"domain": [1 - last * 0.02, last * 1.02], "nice": False},
    }
    y: Spec = {
        "type": "quantitative",
        "axis": _lanes_axis(lanes, formatter),
        "scale": {"domain": [lanes[-1].middle - _ROOM, _ROOM], "nice": False},
    }
    is_banded = has_too_many_trials(figure)
    bands = [each for lane in lanes for each in _bands(lane)] if is_banded else []
    dots = [] if is_banded else [each for lane in lanes for each in _trials(lane, formatter)]
    tooltip = [("platform", ""), ("block", ""), ("text", formatter.text(figure.value_title))]
    at = {"x": {"field": "x", **x}, "y": {"field": "y", **y}}
    layers = [
        _drawn(
            [{"y": lane.middle} for lane in lanes],
            {"type": "rule", "color": GREY, "strokeDash": [4, 3], "tooltip": None},
            {"y": at["y"]},
        ),
        *_marks(figure, x, formatter),
        _drawn(
            bands,
            {"type": "area", "opacity": 0.45, "tooltip": None},
            {
                "x": at["x"],
                "y": {"field": "low", **y},
                "y2": {"field": "high"},
                "detail": {"field": "platform"},
            },
        ),
        _drawn(
            [each for lane in lanes for each in _means(lane)],
            {"type": "line", "strokeWidth": 1.2, "color": "@ink", "tooltip": None},
            {**at, "detail": {"field": "platform"}},
            is_ink=True,
        ),
        _drawn([each for each in dots if "sign" not in each], _DOT, at, tooltip),
        _drawn(
            [each for each in dots if "sign" in each],
            {"type": "text", "fontSize": 10, "color": "@ink"},
            {**at, "text": {"field": "sign"}},
            tooltip,
            is_ink=True,
        ),
    ]
    shown = [each for each in layers if each["data"]["values"]]
    lane_px = _TALL_LANE_PX if any(" (" in lane.label for lane in lanes) else _LANE_PX
    return plot(shown, lane_px * len(rows), formatter.text(figure.title), formatter)


def distribution(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return a row for every cell: its trials, those of the first block on top, with their median and quartiles."""
    named, labels = rows_of(figure, formatter)
    found = [(name, row) for name, row in named if row.shown is not None]
    reaches_of = [_reach(row.values) * _PERCENT for _, row in found]
    reach = _common(reaches_of)
    domain = [-reach * 1.08, reach * 1.08]
    x: Spec = {
        "type": "quantitative",
        "title": axis_title(figure, formatter),
        "scale": {"domain": domain, "nice": False},
    }
    boxes, dots, reaches = [], [], []
    is_boxed = has_too_many_trials(figure)
    for name, row in found:
        shared = shared_by(name, row, formatter)
        values = np.array(row.values) * _PERCENT
        quantiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
        boxes.append(
            shared | dict(zip(("min", "lower", "mean", "upper", "max"), quantiles, strict=True))
        )
        reaches.append({**boxes[-1], "low": quantiles[0], "high": quantiles[4], "value_text": ""})
        if not is_boxed:
            dots += [
                each for each in _dots(row, shared, formatter) if abs(each["value"]) <= domain[1]
            ]
    tooltip = [("platform", ""), ("block", ""), ("text", formatter.text(figure.value_title))]
    offset = {"field": "offset", "type": "quantitative", "scale": {"domain": [-1.6, 1.6]}}
    trials = (
        layer(
            boxes,
            {"type": "rule", "opacity": 0.7, "clip": True, "tooltip": None},
            {"x": {"field": "min", **x}, "x2": {"field": "max"}},
            tooltip=[],
        )
        if is_boxed
        else layer(dots, _DOT, {"x": {"field": "value", **x}, "yOffset": offset}, tooltip)
    )
    layers = [
        layer(
            boxes,
            {"type": "bar", "opacity": 0.28, "height": BAR_PX, "clip": True, "tooltip": None},
            {"x": {"field": "lower", **x}, "x2": {"field": "upper"}},
            tooltip=[],
        ),
        trials,
        layer(
            boxes,
            {"type": "tick", "thickness": 2, "size": 16, "color": "@ink", "tooltip": None},
            {"x": {"field": "mean", **x}},
            tooltip=[],
            colour=False,
        ),
        *edge_layers(outside(reaches, [], domain), domain, x),
    ]
    return frame(layers, labels, formatter.text(figure.title), formatter)


def _dots(row: doc.FigureRow, shared: Spec, formatter: Formatter) -> Iterator[Spec]:
    blocks = sorted(set(row.blocks))
    places = np.linspace(1, -1, len(blocks)).tolist() if len(blocks) > 1 else [0.0]
    offset = dict(zip(blocks, places, strict=True))
    for value, block in zip(row.values, row.blocks, strict=True):
        yield {
            **shared,
            "value": round(value * _PERCENT, 5),
            "block": block + 1,
            "offset": round(offset[block], 3),
            "text": formatter.value(doc.Share(value, "change")),
        }


def _common(reaches: Sequence[float]) -> float:
    """Return the deviation at the end of an axis that several rows share: one row of wild trials does not set it."""
    return min(max(reaches), _REACH_OF_MEDIAN * float(np.median(reaches)))


def _reach(values: Sequence[float]) -> float:
    """Return the deviation at the end of an axis: the largest, or twice the usual where single trials lie far
    outside."""
    sizes = np.abs(np.array(values))
    usual = _REACH * float(np.quantile(sizes, _TYPICAL))
    return max(min(float(sizes.max()), usual), _SMALLEST)


def _trials(lane: _Lane, formatter: Formatter) -> Iterator[Spec]:
    """Yield a dot for every trial; what lies beyond the lane is a sign at its end."""
    _, positions, values = lane.arrays
    for at, value, block, deviation in zip(
        positions.tolist(), values.tolist(), lane.row.blocks, lane.row.values, strict=True
    ):
        shown = {
            **lane.shared,
            "x": at,
            "block": block + 1,
            "text": formatter.value(doc.Share(deviation, "change")),
        }
        if abs(value) > 1:
            yield {
                **shown,
                "y": lane.middle + (1 if value > 0 else -1),
                "sign": "▲" if value > 0 else "▼",
            }
        else:
            yield {**shown, "y": round(lane.middle + value, 3)}


def _bands(lane: _Lane) -> Iterator[Spec]:
    """Yield for every bin of positions the range of nine in ten of its trials."""
    _, positions, values = lane.arrays
    edges = np.linspace(positions.min(), positions.max() + 1, _BINS + 1)
    bins = np.digitize(positions, edges)
    order = np.lexsort((values, bins))
    numbers, starts = np.unique(bins[order], return_index=True)
    for number, here in zip(numbers.tolist(), np.split(values[order], starts[1:]), strict=True):
        places = np.array([0.05, 0.95]) * (
            here.size - 1
        )  # linear between two values, as np.quantile
        low, high = (
            lane.middle + np.interp(places, np.arange(here.size), here).clip(-1, 1)
        ).tolist()
        at = round(float(edges[number - 1] + edges[number]) / 2, 1)
        yield {**lane.shared, "x": at, "low": round(low, 3), "high": round(high, 3)}


def _means(lane: _Lane) -> Iterator[Spec]:
    """Yield the mean of every block over the middle of its trials; of many blocks, of neighbours together."""
    blocks, positions, values = lane.arrays
    known = np.unique(blocks)
    groups = np.array_split(known, min(_BINS, known.size))
    index = np.searchsorted([group[-1] for group in groups], blocks)
    counts = np.bincount(index)
    at = np.bincount(index, positions) / counts
    means = lane.middle + (np.bincount(index, values) / counts).clip(-1, 1)
    for x, y in zip(at.tolist(), means.tolist(), strict=True):
        yield {"platform": lane.label, "x": round(x, 1), "y": round(y, 3)}


def _marks(figure: doc.RowFigure, x: Spec, formatter: Formatter) -> list[Spec]:
    """Return where something else begins, such as a session."""
    values = [{"x": position + 1, "text": formatter.text(text)} for position, text in figure.marks]
    at = {"x": {"field": "x", **x}}
    text: Spec = {
        "type": "text",
        "align": "left",
        "baseline": "top",
        "dx": 3,
        "color": "@muted",
        "fontSize": 10,
        "tooltip": None,
    }
    return [
        _drawn(
            values, {"type": "rule", "color": "@muted", "strokeDash": [1, 3], "tooltip": None}, at
        ),
        _drawn(values, text, {**at, "y": {"value": 0}, "text": {"field": "text"}}),
    ]


def _lanes_axis(lanes: Sequence[_Lane], formatter: Formatter) -> Spec:
    """Return every lane has its platform at its middle and its range at its ends."""
    texts: dict[int, list[str]] = {}
    for lane in lanes:
        end = formatter.value(doc.Share(lane.reach))
        named = lane.label.replace(" (", "\n(", 1).split("\n")
        texts |= {lane.middle + 1: [f"+{end}"], lane.middle: named, lane.middle - 1: [f"−{end}"]}
    two = [lane.middle for lane in lanes if len(texts[lane.middle]) > 1]
    is_middle = f"datum.value % {_LANES} == 0"
    return {
        "title": None,
        "domain": False,
        "grid": False,
        "labelOverlap": False,
        "values": list(texts),
        "tickCount": len(texts),  # fewer would leave out some
        "labelExpr": f"({json.dumps(texts)})[datum.value]",
        "labelPadding": 4,
        **lines_apart(two),
        "labelFontSize": {"condition": {"test": is_middle, "value": 12}, "value": 10},
        "labelColor": {"condition": {"test": is_middle, "value": "@ink"}, "value": "@muted"},
        "tickSize": 4,
        "tickColor": "@muted",
    }


def _drawn(
    values: list[Spec],
    mark: Spec,
    encoding: dict[str, Any],
    tooltip: Sequence[tuple[str, str]] = (),
    *,
    is_ink: bool = False,
) -> Spec:
    """Return a layer both axes of which are numbers, in the colours of its platforms."""
    colour = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    has_colour = not is_ink and bool(values) and "colour" in values[0]
    given = [{"field": field, **({"title": title} if title else {})} for field, title in tooltip]
    return {
        "data": {"values": values},
        "mark": mark,
        "encoding": {
            **encoding,
            **({"color": colour} if has_colour else {}),
            **({"tooltip": given} if given else {}),
        },
    }
