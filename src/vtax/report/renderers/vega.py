"""Figures as Vega-Lite specifications: one source for the interactive chart and for the static SVG.

Two kinds are here. `values`: a bar for every row with the interval of its mean and one dot per block. `ratios`: the
share of the baseline in every block, its estimate and interval, and the band within which a ratio counts as
equivalent. Of every interval the part inside the axis is drawn; whatever lies outside is marked at that end of its
row by an arrow, so that nothing is cut off unseen. Colours are those of Okabe and Ito (2008), which any colour vision
tells apart; the baseline is grey. Ink, paper and grid are placeholders (`@ink`, ...), of light and dark pages.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import numpy as np
from markupsafe import escape

from vtax.errors import VtaxError
from vtax.host.home import Home
from vtax.report import document as doc
from vtax.report.document import msg
from vtax.report.renderers.compact import compact, compact_svg
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.ratio_axis import axis_of, domain_of
from vtax.report.replacing import replacing
from vtax.stats.margin import edges

VEGA_LITE = "6.4"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#B3A200", "#6A3D9A")
GREY = "#7F8790"
MAX_DOTS = 3000
_STEP, _BETWEEN_LABELS = 26, 4  # pixels of a row, and between the labels of two
LINE_PX = 14  # of a label of several
BAR_PX, _BOX_PX = 18, 8  # not shares of the row: offsets of dots have a scale that is no band
_HEADING_CHARS = 44
_LABEL_CHARS = 22
_CHARACTER_PX = 6.6
_TITLE_CHARS = 36
_STATIC_WIDTH = 430
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_MEASURED_FONT = "Liberation Sans"  # vl-convert brings it, and measures it in a quarter of the time of DejaVu Sans
_PARTS = re.compile(r' (?:role="graphics-[a-z]+"|aria-roledescription="[^"]*"|aria-label="[^"]*")')
_ARROWS = ("◀", "▶")  # at the low and at the high end of an axis: something lies beyond it
PLACEHOLDERS = {
    "@ink": "#1d2329",
    "@paper": "#ffffff",
    "@muted": "#59636e",
    "@grid": "#e3e7eb",
    "@slower": "#9c3d00",
    "@faster": "#00664a",
    "@equivalent": "#00527f",
    "@at-most": "#00527f",
    "@undecided": "#4c5157",
}
_SHAPES = {
    "slower": "triangle-down",
    "faster": "triangle-up",
    "equivalent": "square",
    "at-most": "triangle-left",
}

_NO_MARKUP = {
    ord(character): f"\\u{ord(character):04x}"
    for character in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}"
}

Spec = dict[str, Any]


def colour_of(number: int) -> str:
    """Return the colour of a platform by its number, the same in every figure of a report."""
    return GREY if number <= 0 else OKABE_ITO[(number - 1) % len(OKABE_ITO)]


def values(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Bars, intervals and dots in their own unit, zero included."""
    rows, labels = rows_of(figure, formatter)
    divisor = figure.scale.divisor
    cells, dots = [], []
    for name, row in rows:
        if row.shown is None:
            continue
        mean, low, high = (None if each is None else each / divisor for each in row.shown)
        shared = shared_by(name, row, formatter)
        text = formatter.text(row.text)
        cells.append({**shared, "mean": mean, "low": low, "high": high, "text": text, **_look(row)})
        dots += _dots(shared, row.blocks, np.array(row.values) / divisor)
    x = {
        "type": "quantitative",
        "title": axis_title(figure, formatter),
        "scale": {"domain": (domain := _values_domain(cells, dots)), "nice": False},
    }
    title = formatter.text(figure.interval_title)
    layers = [
        layer(
            cells,
            {"type": "bar", "opacity": 0.32, "height": BAR_PX, "clip": True},
            {"x": {"field": "mean", **x}},
            tooltip=[("platform", ""), ("text", title)],
        ),
        *dot_layers(dots, x, formatter.text(figure.value_title), formatter),
        *_interval_layers(cells, x, title),
        *edge_layers(outside(cells, dots, domain), domain, x),
    ]
    return frame(layers, labels, formatter.text(figure.title), formatter)


def ratios(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Shares of the baseline, per block and estimated."""
    rows, labels = rows_of(figure, formatter)
    lowest, highest = edges(figure.margin)
    domain = domain_of([row.shown for _, row in rows if row.shown is not None], figure.margin)
    cells, dots = [], []
    baseline, reference = formatter.text(msg("baseline")), formatter.text(figure.baseline)
    baselines = [
        {"row": name, "at": 1, "text": baseline} for name, row in rows if labels[name] == reference
    ]
    for name, row in rows:
        if row.shown is None or not np.isfinite(row.shown[0]):  # beyond what a float holds
            continue
        shared = shared_by(name, row, formatter)
        mean, low, high = row.shown
        value_text, text = formatter.value(doc.Relative(mean)), formatter.text(row.text)
        cells.append(
            {
                **shared,
                "mean": mean,
                "text": text,
                "low": low,
                "high": high,
                "value_text": value_text,
                **_look(row),
            }
        )
        dots += _dots(shared, row.blocks, row.values)
    x = {"type": "quantitative", "title": axis_title(figure, formatter), **axis_of(domain)}
    layers: list[Spec] = [
        {
            "data": {"values": [{"from": lowest, "to": highest}]},
            "mark": {"type": "rect", "opacity": 0.14, "color": GREY, "tooltip": None, "clip": True},
            "encoding": {"x": {"field": "from", **x}, "x2": {"field": "to"}},
        },
        {
            "data": {"values": [{"one": 1}]},
            "mark": {"type": "rule", "color": GREY, "strokeDash": [4, 3]},
            "encoding": {"x": {"field": "one", **x}},
        },
        *dot_layers(dots, x, formatter.text(figure.value_title), formatter),
        *_interval_layers(cells, x, formatter.text(figure.interval_title)),
    ]
    one = {"type": "text", "color": "@muted", "fontSize": 11}
    layers.append(
        layer(baselines, one, {"x": {"field": "at", **x}, "text": {"field": "text"}}, tooltip=[])
    )
    layers += edge_layers(outside(cells, dots, list(domain)), list(domain), x)
    spec = frame(layers, labels, formatter.text(figure.title), formatter)
    return _with_numbers(spec, {cell["row"]: cell["value_text"] for cell in cells})


def _with_numbers(spec: Spec, numbers: Mapping[str, str]) -> Spec:
    """Return a figure with the estimate of every row at the right. numbers: id of the row -> its text."""
    first, *others = [each for each in spec["layer"] if "y" in each["encoding"]]
    for each in others:
        each["encoding"]["y"]["axis"] = None
    axis = {
        **first["encoding"]["y"]["axis"],
        "orient": "right",
        "labelExpr": f"({json.dumps(numbers)})[datum.value] || ''",
        "labelOffset": 0,
    }
    values = [{"row": name} for name in numbers]
    mark = {"type": "point", "opacity": 0, "tooltip": None}
    at_right = layer(values, mark, {"x": {"value": 0}}, tooltip=[], colour=False)
    at_right["encoding"]["y"]["axis"] = axis
    resolve = {"axis": {"y": "independent"}}
    return {**spec, "layer": [*spec["layer"], at_right], "resolve": resolve}


def axis_title(figure: doc.RowFigure, formatter: Formatter) -> list[str]:
    """Return the title of the axis, in lines that fit a narrow window."""
    return textwrap.wrap(formatter.text(figure.axis), _TITLE_CHARS)


def marks_what_lies_outside(spec: Spec) -> bool:
    """Return whether a figure has an arrow, because an interval, a block or an estimate lies outside its axis."""
    texts = [
        value.get("sign", value.get("text", ""))
        for each in spec["layer"]
        if each["mark"]["type"] == "text"
        for value in each["data"]["values"]
    ]
    return any(
        text.startswith((_ARROWS[0], "▲", "▼")) or text.endswith(_ARROWS[1]) for text in texts
    )


def has_too_many_dots(figure: doc.RowFigure) -> bool:
    """Return whether a figure has more blocks than can be drawn as dots, and shows quartiles and range."""
    return sum(len(row.blocks) for row in figure.rows) > MAX_DOTS


def static_svg(spec: Spec, name: str) -> str:
    """Return a figure as SVG that scales with the page, laid out with the same font on every host.

    name: a prefix for its ids, unique in the page.
    """
    import vl_convert

    if "layer" in spec:  # charts of several drawings have their width, and a font for print
        spec = {
            **spec,
            "width": _STATIC_WIDTH,
            "config": {**spec["config"], "font": _MEASURED_FONT},
        }
    text = light(
        {**spec, "background": None}, {name: f"var(--{name[1:]})" for name in PLACEHOLDERS}
    )
    svg = compact_svg(vl_convert.vegalite_to_svg(text, vl_version=VEGA_LITE))
    svg = svg.replace(f'font-family="{_MEASURED_FONT}"', f'font-family="{_FONT}"')
    # an image has no parts for a screen reader; of some marks Vega names the parts in spite of `aria`
    svg = re.sub(r"<[a-z]+ [^>]*>", lambda tag: _PARTS.sub("", tag[0]), svg)
    label = f'role="img" aria-label="{escape(spec["description"])}"'
    svg = re.sub(
        r'<svg([^>]*?) width="[\d.]+" height="[\d.]+"',
        lambda match: f"<svg{match[1]} {label}",
        svg,
        count=1,
    )
    svg = re.sub(r'(?<=")(clip|gradient_)(?=\d)', rf"{name}-\1", svg)
    return re.sub(r"(?<=url\(#)(?=clip|gradient_)", f"{name}-", svg)


def light(spec: Spec, colours: Mapping[str, str] = PLACEHOLDERS) -> str:
    """Return a specification as JSON with the colours of a light page, or with others."""
    return re.sub(
        r'"(@[\w-]+)"', lambda found: f'"{colours.get(found[1], found[1])}"', spec_text(spec)
    )


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script without any address in need of a network.

    Putting it together takes seconds, so the result is kept in the home, where that may be written.
    """
    import vl_convert

    kept = (
        Home.from_environment().root
        / "cache"
        / f"vega-{version('vl-convert-python')}-{VEGA_LITE}.js"
    )
    with suppress(OSError):
        if script := kept.read_text(encoding="utf-8"):
            return script
    bundle: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE
    )
    script = bundle.replace("</script", "<\\/script")
    with suppress(OSError, VtaxError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as new:
            new.write_text(script, encoding="utf-8")
    return script


def spec_text(spec: Spec) -> str:
    """Return a specification as JSON that may stand inside a script element: nothing in it begins or ends markup."""
    return json.dumps(
        compact(spec), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).translate(_NO_MARKUP)


def rows_of(
    figure: doc.RowFigure, formatter: Formatter
) -> tuple[list[tuple[str, doc.FigureRow]], dict[str, str]]:
    """Return every row with an id, and id -> label in drawing order; ids of headings (levels) begin with h."""
    rows: list[tuple[str, doc.FigureRow]] = []
    labels: dict[str, str] = {}
    for number, group in enumerate(figure.groups):
        if title := formatter.text(group.title):
            labels[f"h{number}"] = title
        for row in group.rows:
            name = f"r{len(rows)}"
            labels[name] = formatter.text(row.label)
            rows.append((name, row))
    return rows, labels


def shared_by(name: str, row: doc.FigureRow, formatter: Formatter) -> Spec:
    """Return the fields of all that is drawn in a row. name: its id."""
    return {"row": name, "platform": formatter.text(row.label), "colour": colour_of(row.colour)}


def _values_domain(cells: list[Spec], dots: list[Spec]) -> list[float]:
    """Zero to a little more than everything measured; an interval much wider than that runs off the edge."""
    measured = [each["mean"] for each in cells] + [dot["value"] for dot in dots]
    minimum, maximum = min(0.0, *measured, 0.0), max(0.0, *measured, 0.0)
    bounds = [each["high"] for each in cells if each["high"] is not None]
    return [
        minimum * 1.05,
        max(maximum, min(max(bounds, default=0.0), maximum * 1.3)) * 1.05 or 1.0,
    ]


def _dots(shared: Spec, blocks: Any, values: Any) -> list[Spec]:
    """Return one dot per block; the jitter is a fixed sequence, so that a figure is the same each time."""
    return [
        {
            **shared,
            "value": float(value),
            "block": int(block) + 1,
            "jitter": ((index * 0.618034) % 1) * 2 - 1,
        }
        for index, (block, value) in enumerate(zip(blocks, values, strict=True))
    ]


def dot_layers(dots: list[Spec], x: Spec, title: str, formatter: Formatter) -> list[Spec]:
    """Return a dot for every block, or quartiles and range of the blocks of each row where these are too many."""
    if len(dots) <= MAX_DOTS:
        encoding = {
            "x": {"field": "value", **x},
            "yOffset": {
                "field": "jitter",
                "type": "quantitative",
                "scale": {"domain": [-2.2, 2.2]},
            },
        }
        mark = {"type": "circle", "size": 26, "opacity": 0.8, "clip": True}
        return [
            layer(dots, mark, encoding, tooltip=[("platform", ""), ("block", ""), ("value", title)])
        ]
    boxes = []
    of_row: dict[str, list[Spec]] = {}
    for dot in dots:
        of_row.setdefault(dot["row"], []).append(dot)
    for dots in of_row.values():
        minimum, lower, upper, maximum = np.quantile(
            [dot["value"] for dot in dots], [0, 0.25, 0.75, 1]
        )
        shared = {key: dots[0][key] for key in ("row", "platform", "colour")}
        boxes.append(
            {**shared, "minimum": minimum, "lower": lower, "upper": upper, "maximum": maximum}
        )
    titles = {
        "minimum": msg("min"),
        "lower": msg("lower quartile"),
        "upper": msg("upper quartile"),
        "maximum": msg("max"),
    }
    bounds = [
        ("platform", ""),
        *((field, formatter.text(title)) for field, title in titles.items()),
    ]
    return [
        layer(
            boxes,
            {"type": "rule", "opacity": 0.6, "clip": True},
            {"x": {"field": "minimum", **x}, "x2": {"field": "maximum"}},
            tooltip=bounds,
        ),
        layer(
            boxes,
            {"type": "bar", "opacity": 0.6, "height": _BOX_PX, "clip": True},
            {"x": {"field": "lower", **x}, "x2": {"field": "upper"}},
            tooltip=bounds,
        ),
    ]


def _look(row: doc.FigureRow) -> Spec:
    """Return colour and shape of an estimate and its interval: those of its verdict, where it has one."""
    return {"ink": f"@{row.verdict or 'ink'}", "shape": _SHAPES.get(row.verdict or "", "diamond")}


def _interval_layers(cells: list[Spec], x: Spec, title: str) -> list[Spec]:
    tooltip = [("platform", ""), ("text", title)]
    with_interval = [cell for cell in cells if cell["low"] is not None]
    minimum, maximum = x["scale"]["domain"]
    inside = [cell for cell in cells if minimum <= cell["mean"] <= maximum]
    ink = {"color": {"field": "ink", "type": "nominal", "scale": None, "legend": None}}
    shape = {"shape": {"field": "shape", "type": "nominal", "scale": None, "legend": None}}
    return [
        layer(
            with_interval,
            {"type": "rule", "strokeWidth": 2, "clip": True},
            {"x": {"field": "low", **x}, "x2": {"field": "high"}, **ink},
            tooltip,
            colour=False,
        ),
        *(
            layer(
                with_interval,
                {"type": "tick", "thickness": 2, "size": 9, "clip": True},
                {"x": {"field": side, **x}, **ink},
                tooltip,
                colour=False,
            )
            for side in ("low", "high")
        ),
        layer(
            inside,
            {
                "type": "point",
                "size": 60,
                "filled": True,
                "opacity": 1,
                "stroke": "@paper",
                "strokeWidth": 1,
            },
            {"x": {"field": "mean", **x}, **ink, **shape},
            tooltip,
            colour=False,
        ),
    ]


def outside(cells: list[Spec], dots: list[Spec], domain: list[float]) -> list[Spec]:
    """Return an arrow for every row and end of the axis beyond which its interval or one of its blocks lies.

    An estimate that lies there is written beside its arrow.
    """
    reach: dict[str, list[float]] = {}
    for cell in cells:
        reach[cell["row"]] = [
            cell["mean"],
            *(cell[side] for side in ("low", "high") if cell[side] is not None),
        ]
    for dot in dots:
        reach[dot["row"]].append(dot["value"])
    found = []
    for cell in cells:
        minimum, maximum = min(reach[cell["row"]]), max(reach[cell["row"]])
        for side, is_outside in enumerate((minimum < domain[0], maximum > domain[1])):
            if is_outside:
                estimate_too = cell["mean"] > domain[1] if side else cell["mean"] < domain[0]
                value_text = [cell["value_text"]] if estimate_too else []
                value_text = [*value_text, _ARROWS[1]] if side else [_ARROWS[0], *value_text]
                found.append({**cell, "at": domain[side], "text": " ".join(value_text)})
    return found


def edge_layers(marks: list[Spec], domain: list[float], x: Spec) -> list[Spec]:
    """Return text inside either end of the axis for what lies beyond it, in front of whatever interval ends there."""
    layers = []
    for side, align in enumerate(("left", "right")):
        if values := [each for each in marks if each["at"] == domain[side]]:
            mark = {
                "type": "text",
                "align": align,
                "dx": (4, -4)[side],
                "fontSize": 11,
                "fontWeight": 600,
            }
            halo = {
                **mark,
                "color": "@paper",
                "stroke": "@paper",
                "strokeWidth": 5,
                "strokeJoin": "round",
            }
            encoding = {"x": {"field": "at", **x}, "text": {"field": "text"}}
            layers += [layer(values, look, encoding, tooltip=[]) for look in (halo, mark)]
    return layers


def layer(
    values: list[Spec],
    mark: Spec,
    encoding: Spec,
    tooltip: list[tuple[str, str]],
    *,
    colour: bool = True,
) -> Spec:
    """Return marks in the rows of a figure, in the colours of platforms. tooltip: (field, title) of each line."""
    encoding = {**encoding, "y": {"field": "row", "type": "nominal"}}
    if colour and mark.get("type") != "text":
        encoding["color"] = {"field": "colour", "type": "nominal", "scale": None, "legend": None}
    if tooltip:
        encoding["tooltip"] = [
            {"field": field, **({"title": title} if title else {})} for field, title in tooltip
        ]
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}


def frame(
    layers: list[Spec], labels: dict[str, str], description: str, formatter: Formatter
) -> Spec:
    """Return a row for every label: headings bold above their rows, marks of platforms on a second line."""
    headings = [
        {"row": name, "text": "\n".join(textwrap.wrap(text, _HEADING_CHARS))}
        for name, text in labels.items()
        if name.startswith("h")
    ]
    lines = {
        name: label_lines(text) if name.startswith("r") else [""] for name, text in labels.items()
    }
    most = max(map(len, lines.values()), default=1)
    longest = max((len(line) for each in lines.values() for line in each), default=0)
    y = {
        "scale": {"domain": list(labels)},
        "axis": {
            "title": None,
            "domain": False,
            "ticks": False,
            "labelPadding": 8,
            **labels_in_lines(lines),
        },
    }
    if headings:  # over the labels too, whose room they begin in
        up = {"expr": "indexof(datum.text, '\\n') < 0 ? 3 : -5"}  # two lines begin higher
        mark = {
            "type": "text",
            "align": "left",
            "fontWeight": 700,
            "fontSize": 12,
            "tooltip": None,
            "lineBreak": "\n",
            "lineHeight": 13,
            "dy": up,
        }
        start = -longest * _CHARACTER_PX
        layers = [
            *layers,
            layer(headings, mark, {"x": {"value": start}, "text": {"field": "text"}}, tooltip=[]),
        ]
    for number, each in enumerate(each for each in layers if "y" in each["encoding"]):
        each["encoding"]["y"] |= y if number == 0 else {"axis": {"title": None}}
    step = max(_STEP, most * LINE_PX + _BETWEEN_LABELS)
    return plot(layers, len(labels) * step, description, formatter)


def label_lines(text: str) -> list[str]:
    """Return a label in lines that fit beside a narrow figure; marks of a platform begin a line."""
    parts = text.replace(" (", "\n(", 1).split("\n")
    return [line for part in parts for line in textwrap.wrap(part, _LABEL_CHARS) or [""]]


def labels_in_lines(lines: Mapping[Any, Sequence[str]]) -> Spec:
    """Return what an axis is to have for labels of several lines, uncut, their middle at their place.

    lines: of each place of the axis.
    """
    offsets = {place: -(len(each) - 1) * LINE_PX / 2 for place, each in lines.items()}
    return {
        "labelLimit": 0,
        "labelLineHeight": LINE_PX,
        "labelExpr": f"({json.dumps(lines)})[datum.value]",
        "labelOffset": {"expr": f"({json.dumps(offsets)})[datum.value]"},
    }


def plot(layers: list[Spec], height: float, description: str, formatter: Formatter) -> Spec:
    """Return the frame around layers that have their axes: as wide as the page, colours left to it, numbers as the
    language writes them."""
    return {
        "$schema": SCHEMA,
        "description": description,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": layers,
        "config": {
            "locale": locale_of(formatter),
            "aria": False,  # Vega's own words are English; the figure's title says what it is
            "background": None,
            "font": _FONT,
            "view": {"stroke": None},
            "axis": {
                "labelColor": "@ink",
                "titleColor": "@muted",
                "gridColor": "@grid",
                "tickColor": "@grid",
                "domainColor": "@grid",
                "labelFontSize": 12,
                "titleFontSize": 12,
                "titleFontWeight": 400,
                "tickCount": 6,
                "titlePadding": 8,
            },
            "axisX": {"labelSeparation": 7},
            "axisY": {"grid": False},
            "text": {"color": "@ink"},
        },
    }


def locale_of(formatter: Formatter) -> Spec:
    """Return how the axes of a figure write numbers: the decimal sign of the language, thousands set apart."""
    number = {
        "decimal": formatter.language.decimal,
        "thousands": "\u202f",
        "grouping": [3],
        "currency": ["", ""],
    }
    return {"number": number}
