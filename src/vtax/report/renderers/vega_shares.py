"""The figure of shares: a bar of 100 % for every row, its parts from dark to light, with numbers in them."""

from __future__ import annotations

from vtax.report import document as doc
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import BAR_PX, PLACEHOLDERS, Spec, axis_title, frame, layer, rows_of

_FILLS = ("#17466e", "#7fa8c9", "#e4edf4")  # distinct in grey too
_INKS = ("#ffffff", PLACEHOLDERS["@ink"], PLACEHOLDERS["@ink"])  # of numbers in the parts
_END = 1.28  # of the axis, room for the text of a row
_LEAST = 0.12  # of the whole: smaller parts have no room for a number


def shares(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return the specification of a figure of shares."""
    named, labels = rows_of(figure, formatter)
    names = [formatter.text(part) for part in figure.parts]
    parts, numbers, texts = [], [], []
    for name, row in named:
        at = 0.0
        for number, share in enumerate(row.values):
            shown = {
                "row": name,
                "platform": formatter.text(row.label),
                "part": names[number],
                "from": at,
                "to": at + share,
                "share": formatter.value(doc.Share(share, "whole")),
            }
            parts.append(shown)
            if share >= _LEAST:
                numbers.append({**shown, "at": at + share / 2, "ink": _INKS[number]})
            at += share
        texts.append({"row": name, "at": 1.02, "text": formatter.text(row.text)})
    x: Spec = {
        "type": "quantitative",
        "title": axis_title(figure, formatter),
        "scale": {"domain": [0, _END], "nice": False},
        "axis": {
            "values": [0, 0.25, 0.5, 0.75, 1],
            "labelExpr": "datum.value * 100 + '\u00a0%'",
            "grid": False,
        },
    }
    legend = {
        "title": None,
        "orient": "top",
        "direction": "horizontal",
        "labelLimit": 0,
        "labelColor": "@ink",
        "symbolType": "square",
        "symbolStrokeWidth": 1,
        "symbolStrokeColor": "@ink",
    }
    fill = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": names, "range": list(_FILLS[: len(names)])},
        "legend": legend,
    }
    tooltip = [
        ("platform", ""),
        ("part", formatter.text(figure.interval_title)),
        ("share", formatter.text(figure.value_title)),
    ]
    bar: Spec = {"type": "bar", "height": BAR_PX, "stroke": "@ink", "strokeWidth": 0.6}
    text: Spec = {"type": "text", "fontSize": 10.5, "tooltip": None}
    layers = [
        layer(
            parts,
            bar,
            {"x": {"field": "from", **x}, "x2": {"field": "to"}, "fill": fill},
            tooltip,
            colour=False,
        ),
        layer(
            numbers,
            text,
            {
                "x": {"field": "at", **x},
                "text": {"field": "share"},
                "color": {"field": "ink", "type": "nominal", "scale": None, "legend": None},
            },
            [],
        ),
        layer(
            texts,
            {**text, "align": "left"},
            {"x": {"field": "at", **x}, "text": {"field": "text"}},
            [],
        ),
    ]
    return frame(layers, labels, formatter.text(figure.title), formatter)
