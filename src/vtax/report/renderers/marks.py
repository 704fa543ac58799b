"""The builder of every figure's Vega-Lite dictionary: marks on axes, rows with their labels, and frames around them.

A mark brings its own values. Nothing rests on colour alone: series have symbols and dashes, verdicts have shapes.
Colours are those of Okabe and Ito (2008), which any colour vision tells apart; the baseline is grey. Ink, paper and
grid are placeholders (`@ink`, ...), of light and dark pages.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vtax.report.renderers.axes import Axis, Spec
from vtax.report.renderers.format import Formatter

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#B3A200", "#6A3D9A")
GREY = "#7F8790"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
PRINT_FONT = "DejaVu Sans, Liberation Sans, Arial, sans-serif"
BAR_PX = 18  # no share of the row: offsets of dots have a scale that is no band
LINE_PX = 14  # of a label of several
_STEP, _BETWEEN_LABELS = 26, 4  # pixels of a row, and between the labels of two
_HEADING_CHARS, _LABEL_CHARS, _TITLE_CHARS = 44, 22, 36
_CHARACTER_PX, _SYMBOL_PX = (
    6.6,
    40,
)  # of a legend: a character, and a symbol with the space between columns
_SPACING = 24  # pixels between two panels
_MIN_FONT_PX = 11.5  # of panels for narrow windows, which shrink them by a tenth
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
ROW: Spec = {"y": {"field": "row", "type": "nominal"}}
"""The channel of marks in rows."""


def colour_of(number: int) -> str:
    """Return the colour of a platform by its number, the same in every figure of a report."""
    return GREY if number <= 0 else OKABE_ITO[(number - 1) % len(OKABE_ITO)]


def mark(
    kind: str,
    values: list[Spec],
    *channels: Mapping[str, Any],
    tooltip: Sequence[tuple[str, str]] = (),
    **look: Any,
) -> Spec:
    """Return a layer. channels: of its encoding. tooltip: (field, title) of each line. look: of the mark."""
    encoding: Spec = {}
    for channel in channels:
        encoding |= channel
    if tooltip:
        encoding["tooltip"] = [
            {"field": name, **({"title": title} if title else {})} for name, title in tooltip
        ]
    return {"data": {"values": values}, "mark": {"type": kind, **look}, "encoding": encoding}


def own(channel: str, name: str) -> Spec:
    """Return a channel whose field is the colour or the shape itself."""
    return {channel: {"field": name, "type": "nominal", "scale": None, "legend": None}}


def texts(values: list[Spec], *channels: Mapping[str, Any], **look: Any) -> Spec:
    """Return the field `text` of values as text."""
    return mark("text", values, *channels, {"text": {"field": "text"}}, **look)


def intervals(
    axis: Axis,
    values: Sequence[Spec],
    *channels: Mapping[str, Any],
    width: float = 1.4,
    tick_px: float = 7,
    tooltip: Sequence[tuple[str, str]] = (),
    **more: Any,
) -> Iterator[Spec]:
    """Yield lines from `low` to `high` of records of the axis, with ticks at both ends that are inside it."""
    bounded = [value for value in values if value["low"] is not None]
    yield mark(
        "rule",
        bounded,
        *channels,
        axis.span("low", "high"),
        tooltip=tooltip,
        strokeWidth=width,
        **more,
    )
    orient = "vertical" if axis.channel == "x" else "horizontal"
    for end, beyond in (("low", "below"), ("high", "above")):
        inside = [value for value in bounded if not value[beyond]]
        look = {"thickness": width, "size": tick_px, "orient": orient, **more}
        yield mark("tick", inside, *channels, axis.at(end), tooltip=tooltip, **look)


def beyond(axis: Axis, values: Sequence[Spec], *channels: Mapping[str, Any]) -> Iterator[Spec]:
    """Yield the signs of what lies beyond an end of the axis, inside it and in front of whatever ends there."""
    for is_high, side in enumerate(("below", "above")):
        outside = [{**value, "text": value[side]} for value in values if value[side]]
        look: Spec = {"fontSize": 11, "fontWeight": 600}
        look |= {"dy": (-6, 6)[is_high]} if axis.channel == "y" else {"dx": (4, -4)[is_high]}
        look |= {"align": ("left", "right")[is_high]} if axis.channel == "x" else {}
        halo = {"color": "@paper", "stroke": "@paper", "strokeWidth": 5, "strokeJoin": "round"}
        at = axis.end(is_high=bool(is_high))
        yield texts(outside, *channels, at, **look, **halo)
        yield texts(outside, *channels, at, **look, color="@ink")


def printed(axis: Axis, values: Sequence[Spec], *channels: Mapping[str, Any]) -> Iterator[Spec]:
    """Yield a diamond where a publication prints a number, with its deviation. values: records of the axis."""
    records = [value for value in values if value["value"] is not None]
    spread = [value for value in records if value["low"] is not None]
    dashed: Spec = {"strokeWidth": 1.2, "color": "@ink", "strokeDash": [2, 2]}
    yield mark("rule", spread, *channels, axis.span("low", "high"), **dashed)
    look: Spec = {
        "filled": True,
        "fill": "@paper",
        "stroke": "@ink",
        "strokeWidth": 1.4,
        "opacity": 1,
    }
    yield mark("point", records, *channels, axis.at("value"), shape="diamond", size=80, **look)


def looks(
    series: Mapping[str, int], legend: Mapping[str, Any], name: str = "series"
) -> dict[str, Spec]:
    """Return the channels `color`, `shape` and `strokeDash` of a field. series: its value -> number of the colour."""
    names, count = list(series), range(len(series))
    ranges: dict[str, list[Any]] = {
        "color": [colour_of(number) for number in series.values()],
        "shape": [_SHAPES[n % len(_SHAPES)] for n in count],
        "strokeDash": [_DASHES[n % len(_DASHES)] for n in count],
    }
    return {
        channel: {
            channel: {
                "field": name,
                "type": "nominal",
                "scale": {"domain": names, "range": them},
                # dashes make the symbols illegible
                "legend": None if channel == "strokeDash" else {"title": None, **legend},
            }
        }
        for channel, them in ranges.items()
    }


def legend_columns(names: Iterable[str], width_px: float) -> int:
    """Return how many columns of a legend are that wide, at least one."""
    longest = max(map(len, names), default=0)
    return max(1, int(width_px / (longest * _CHARACTER_PX + _SYMBOL_PX)))


def wrapped_title(text: str) -> list[str]:
    """Return the title of an axis, in lines that fit a narrow window."""
    return textwrap.wrap(text, _TITLE_CHARS)


def label_lines(text: str) -> list[str]:
    """Return a label in lines that fit beside a narrow figure; marks of a platform begin a line."""
    parts = text.replace(" (", "\n(", 1).split("\n")
    return [line for part in parts for line in textwrap.wrap(part, _LABEL_CHARS) or [""]]


def labels_in_lines(lines: Mapping[Any, Sequence[str]]) -> Spec:
    """Return what an axis is to have for labels of several lines, uncut, their middle at their place.

    lines: of each place of the axis.
    """
    offsets = {
        place: -(len(lines_of_place) - 1) * LINE_PX / 2 for place, lines_of_place in lines.items()
    }
    return {
        "labelLimit": 0,
        "labelLineHeight": LINE_PX,
        "labelExpr": f"({json.dumps(lines)})[datum.value]",
        "labelOffset": {"expr": f"({json.dumps(offsets)})[datum.value]"},
    }


def in_rows(
    layers: Iterable[Spec], labels: Mapping[str, str], numbers: Mapping[str, str] | None = None
) -> Spec:
    """Return layers with a row for every label, headings bold above their rows, as `layer` and `height`.

    labels: id -> text; ids of headings begin with h. numbers: id -> text at the right of a row.
    """
    names = list(labels)
    lines = {name: label_lines(labels[name]) if name[0] == "r" else [""] for name in names}
    longest = max(
        (len(line) for lines_of_label in lines.values() for line in lines_of_label), default=0
    )
    headings = [
        {"row": name, "text": "\n".join(textwrap.wrap(labels[name], _HEADING_CHARS))}
        for name in names
        if name[0] == "h"
    ]
    up = {"expr": "indexof(datum.text, '\\n') < 0 ? 3 : -5"}  # two lines begin higher
    look: Spec = {"align": "left", "fontWeight": 700, "fontSize": 12, "lineBreak": "\n", "dy": up}
    start = {"x": {"value": -longest * _CHARACTER_PX}}  # over the labels, whose room they begin in
    filled = [*layers, texts(headings, ROW, start, lineHeight=13, **look)]
    filled = [layer for layer in filled if layer["data"]["values"]]
    bare_axis: Spec = {"title": None, "domain": False, "ticks": False, "labelPadding": 8}
    axis: Any = {**bare_axis, **labels_in_lines(lines)}
    for layer in filled:
        if layer["encoding"].get("y") == ROW["y"]:
            layer["encoding"]["y"] = {**ROW["y"], "scale": {"domain": names}, "axis": axis}
            axis = None if numbers is not None else {"title": None}
    plot: Spec = {"layer": filled}
    if numbers is not None:
        values = [{"row": name} for name in numbers]
        at_right = mark("point", values, ROW, {"x": {"value": 0}}, opacity=0)
        expression = f"({json.dumps(numbers)})[datum.value] || ''"
        right = {**bare_axis, "orient": "right", "labelLimit": 0, "labelExpr": expression}
        at_right["encoding"]["y"] = {**ROW["y"], "axis": right}
        plot = {"layer": [*filled, at_right], "resolve": {"axis": {"y": "independent"}}}
    most_lines = max(map(len, lines.values()), default=1)
    step = max(_STEP, most_lines * LINE_PX + _BETWEEN_LABELS)
    return {**plot, "height": len(names) * step}


def whole(plot: Spec, description: str, formatter: Formatter) -> Spec:
    """Return a figure of one plot, as wide as the page."""
    layers = [layer for layer in plot["layer"] if layer["data"]["values"]]
    config = _config(formatter, FONT, 12, "@muted", "@grid")
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        **plot,
        "layer": layers,
        "config": {
            **config,
            "background": None,
            "view": {"stroke": None},
            "axisX": {"labelSeparation": 7, "tickCount": 6},
            "axisY": {"grid": False},
        },
    }


def in_panels(
    rows: Sequence[Sequence[Spec]], description: str, formatter: Formatter, *, is_stacked: bool
) -> Spec:
    """Return a figure of several plots of their own width. is_stacked: below each other, for narrow windows."""
    direction = "vconcat" if is_stacked else "hconcat"
    for plot in (row_plot for row in rows for row_plot in row):
        plot["layer"] = [layer for layer in plot["layer"] if layer["data"]["values"]]
    spec: Spec = {
        "$schema": SCHEMA,
        "description": description,
        "background": "@paper",
        "padding": 10,
        "vconcat": [{direction: list(row), "spacing": _SPACING} for row in rows],
        "spacing": 18,
        "config": {
            **_config(formatter, PRINT_FONT, 10.5, "@ink", "@muted"),
            "view": {"stroke": "@grid"},
            "legend": {
                "orient": "bottom",
                "direction": "horizontal",
                "labelFontSize": 10.5,
                "labelLimit": 0,
                "columns": 1 if is_stacked else 4,
                "labelColor": "@ink",
                "titleColor": "@ink",
                "symbolSize": 80,
                "symbolStrokeWidth": 0,
                "columnPadding": 18,
                "symbolDash": [1, 0],
            },
            "title": {
                "anchor": "start",
                "fontSize": 11.5,
                "subtitleFontSize": 10.5,
                "subtitleColor": "@muted",
                "color": "@ink",
                "subtitlePadding": 3,
            },
        },
    }
    return {**spec, **_readable(_MIN_FONT_PX, spec)} if is_stacked else spec


def _config(formatter: Formatter, font: str, size: float, title: str, line: str) -> Spec:
    """Return what all figures have: numbers as the language writes them, colours left to the page.

    Vega's own words are English; the figure's title says what it is.
    """
    number = {
        "decimal": formatter.language.decimal,
        "thousands": "\u202f",
        "grouping": [3],
        "currency": ["", ""],
    }
    return {
        "locale": {"number": number},
        "aria": False,
        "font": font,
        "axis": {
            "labelColor": "@ink",
            "titleColor": title,
            "gridColor": "@grid",
            "tickColor": line,
            "domainColor": line,
            "labelFontSize": size,
            "titleFontSize": size,
            "titleFontWeight": 400,
            "titleLimit": 0,
            "labelLimit": 0,
            "titlePadding": 8,
        },
        "text": {"color": "@ink"},
    }


def _readable(size_px: float, spec: Any) -> Any:
    """Return a specification whose texts are at least as large as that."""
    if isinstance(spec, list):
        return [_readable(size_px, part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    readable = {}
    for key, value in spec.items():
        if key.casefold().endswith("fontsize") and isinstance(value, int | float):
            readable[key] = max(value, size_px)
        elif key == "values":
            readable[key] = value
        else:
            readable[key] = _readable(size_px, value)
    return readable
