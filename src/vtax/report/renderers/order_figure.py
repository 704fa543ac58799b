"""The figure of all trials over the time of a run, where a drift is visible, with what the host did below them.

A metric is a lane of its own range, so that metrics of any noise stand beside each other. What lies beyond it is an
arrow at its end, and trials that the eye cannot tell apart are a band.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtax.report import document as doc
from vtax.report.renderers.axes import Axis, Spec
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.marks import (
    GREY,
    LINE_PX,
    label_lines,
    labels_in_lines,
    legend_columns,
    looks,
    mark,
    texts,
    whole,
    wrapped_title,
)

MAX_TRIALS = 1200  # of a figure that are drawn as dots
_MOST_BORDERS = 60  # of blocks that are drawn
_BINS = 60  # of a lane, where trials are not drawn one by one
_UNIT_PX = 22  # of a lane: from its middle to its end
_LEGEND_PX = 230  # of a narrow figure
_ROOM = 1.45  # of a lane above and below its middle, its range being 1
_LANES = 3  # from middle to middle
_TYPICAL, _REACH = 0.95, 2.0
"""A lane shows so many times the deviation that this share of its trials does not exceed."""
_SMALLEST = 1e-4  # deviation at the end of a lane
_LEGEND: Spec = {
    "orient": "top",
    "direction": "horizontal",
    "labelLimit": 0,
    "labelColor": "@ink",
    "symbolOpacity": 1,
}


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
    last_minute = max(minute for row in (*figure.rows, *figure.loads) for minute in row.minutes)
    title = wrapped_title(formatter.text(figure.axis))
    x = Axis("x", -last_minute * 0.02, last_minute * 1.02 or 1.0, title, look={"grid": False})
    lowest = (*lanes, *below)[-1].middle
    y = Axis("y", lowest - _ROOM, _ROOM, look=_lanes_axis(lanes, below, formatter))
    at, span = {**x.at("x"), **y.at("y")}, {**x.at("x"), **y.span("low", "high")}
    colours = {formatter.text(row.label): row.colour for row in figure.rows}
    look = looks(colours, {**_LEGEND, "columns": legend_columns(colours, _LEGEND_PX)}, "platform")
    colour, by_lane = look["color"], {"detail": {"field": "lane"}}
    tooltip = [("platform", ""), ("block", ""), ("text", formatter.text(figure.value_title))]
    borders = figure.borders if len(figure.borders) <= _MOST_BORDERS else ()
    is_banded = has_too_many_trials(figure)
    dots = [] if is_banded else [dot for lane in lanes for dot in _trials(lane, formatter)]
    bands = [band for lane in lanes for band in _bands(lane)] if is_banded else []
    loads = [load for lane in below for load in _load(lane)]
    means = [mean for lane in lanes for mean in _means(lane, formatter)]
    outside = [dot for dot in dots if "sign" in dot]
    inside = [dot for dot in dots if "sign" not in dot]
    labels = [{"x": minute, "text": formatter.text(text)} for minute, text in figure.marks]
    zeros = [{"y": lane.middle} for lane in lanes]
    name: Spec = {"align": "left", "baseline": "top", "dx": 3, "color": "@muted", "fontSize": 10}
    dash, sign = [4, 3], {"text": {"field": "sign"}}
    point = {"filled": True, "size": 22, "opacity": 0.6}
    layers = [
        mark("rule", [{"x": minute} for minute in borders], x.at("x"), color="@grid"),
        mark("rule", zeros, y.at("y"), color=GREY, strokeDash=dash),
        mark("rule", labels, x.at("x"), color="@muted", strokeDash=dash),
        texts(labels, x.at("x"), {"y": {"value": 0}}, **name),
        mark("area", loads, span, by_lane, color=GREY, interpolate="step", opacity=0.8),
        mark("area", bands, span, by_lane, color=GREY, opacity=0.35),
        mark("point", inside, at, colour, look["shape"], tooltip=tooltip, **point),
        mark("text", outside, at, colour, sign, tooltip=tooltip, fontSize=10),
        mark("line", means, at, colour, by_lane, strokeWidth=1.4),
    ]
    lines = max(len(label_lines(lane.label)) for lane in (*lanes, *below))
    unit_px = max(_UNIT_PX, (lines + 1) * LINE_PX / 2)
    plot = {"layer": layers, "height": unit_px * (2 * _ROOM - lowest)}
    return whole(plot, formatter.text(figure.title), formatter)


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
        known_blocks = np.unique(blocks)
        groups = np.array_split(known_blocks, min(_BINS, known_blocks.size))
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
