"""Figures of rows: bars from zero, ratios around 1, steps of a ladder, and parts of a whole.

Of every interval the part inside the axis is drawn; whatever lies outside is a sign at that end of its row, so that
nothing is cut off unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from vtax.report import document as doc
from vtax.report.document import msg
from vtax.report.renderers.axes import Axis, Spec, ratio_axis, value_axis
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.marks import (
    BAR_PX,
    GREY,
    ROW,
    beyond,
    colour_of,
    in_rows,
    intervals,
    mark,
    own,
    printed,
    texts,
    whole,
    wrapped_title,
)
from vtax.stats.margin import edges

MAX_DOTS = 3000
_BOX_PX = 8
_SHAPES = {
    "slower": "triangle-down",
    "faster": "triangle-up",
    "equivalent": "square",
    "at-most": "triangle-left",
}
_FILLS = ("#17466e", "#7fa8c9", "#e4edf4")  # of parts, distinct in grey too
_INKS = ("#ffffff", "#1d2329", "#1d2329")  # of numbers in them
_LEAST_PART = 0.12  # of the whole: smaller parts have no room for a number
_END = 1.28  # of the axis of shares, with room for the text of a row


class _RowDrawing:
    """The rows of a figure by their ids, and their labels in drawing order."""

    def __init__(self, figure: doc.RowFigure, formatter: Formatter) -> None:
        self.figure, self.formatter = figure, formatter
        self.labels: dict[str, str] = {}
        self.all: list[tuple[str, doc.FigureRow]] = []
        for number, group in enumerate(figure.groups):
            if title := formatter.text(group.title):
                self.labels[f"h{number}"] = title
            for row in group.rows:
                name = f"r{len(self.all)}"
                self.labels[name] = formatter.text(row.label)
                self.all.append((name, row))
        self.title = wrapped_title(formatter.text(figure.axis))

    @property
    def shown(self) -> list[tuple[str, doc.FigureRow, doc.Bounded]]:
        """Rows with a finite estimate."""
        return [
            (name, row, row.shown)
            for name, row in self.all
            if row.shown is not None and np.isfinite(row.shown[0])
        ]

    def fields(self, name: str, row: doc.FigureRow) -> Spec:
        """Return the fields of all that is drawn in a row."""
        look = {
            "ink": f"@{row.verdict or 'ink'}",
            "shape": _SHAPES.get(row.verdict or "", "diamond"),
        }
        colour = colour_of(row.colour)
        return {"row": name, "platform": self.labels[name], "colour": colour, **look}

    def records(self, axis: Axis) -> list[Spec]:
        """Return the estimates on an axis, with the text of each; signs are of blocks too."""
        records = []
        for name, row, bounded in self.shown:
            record = {**self.fields(name, row), **axis.record(bounded), "mean": bounded[0]}
            ends = [value / axis.divisor for value in row.values]
            if ends and min(ends) < axis.low:
                record["below"] = "◀"
            if ends and max(ends) > axis.high:
                record["above"] = "▶"
            if record["value"] is None:
                number = self.formatter.value(doc.Relative(bounded[0]))
                side = "below" if bounded[0] / axis.divisor < axis.low else "above"
                record[side] = f"◀ {number}" if side == "below" else f"{number} ▶"
            record["text"] = self.formatter.text(row.text)
            records.append(record)
        return records

    def strip(self, axis: Axis) -> Iterator[Spec]:
        """Yield a dot for every block, or quartiles and range of the blocks of each row where these are too many.

        The jitter is a fixed sequence, so that a figure is the same each time.
        """
        title = self.formatter.text(self.figure.value_title)
        if not has_too_many_dots(self.figure):
            dots = [
                {
                    "row": name,
                    "platform": self.labels[name],
                    "colour": colour_of(row.colour),
                    "block": int(block) + 1,
                    "value": value / axis.divisor,
                    "jitter": round(((number * 0.618034) % 1) * 2 - 1, 3),
                }
                for name, row, _ in self.shown
                for number, (block, value) in enumerate(zip(row.blocks, row.values, strict=True))
            ]
            jitter: Spec = {"field": "jitter", "type": "quantitative"}
            offset = {"yOffset": {**jitter, "scale": {"domain": [-2.2, 2.2]}}}
            tooltip = [("platform", ""), ("block", ""), ("value", title)]
            look = {"size": 26, "opacity": 0.8, "clip": True}
            channels = (ROW, axis.at("value"), offset, own("color", "colour"))
            yield mark("circle", dots, *channels, tooltip=tooltip, **look)
            return
        names = ("minimum", "lower", "upper", "maximum")
        boxes = []
        for name, row, _ in self.shown:
            if row.values:
                quantiles = np.quantile(np.array(row.values) / axis.divisor, [0, 0.25, 0.75, 1])
                fields = self.fields(name, row)
                boxes.append({**fields, **dict(zip(names, quantiles.tolist(), strict=True))})
        titles = (msg("min"), msg("lower quartile"), msg("upper quartile"), msg("max"))
        bounds = [("platform", "")]
        bounds += zip(names, map(self.formatter.text, titles), strict=True)
        look = {"opacity": 0.6, "clip": True}
        colour = own("color", "colour")
        range_of = axis.span("minimum", "maximum")
        yield mark("rule", boxes, ROW, range_of, colour, tooltip=bounds, **look)
        box = axis.span("lower", "upper")
        yield mark("bar", boxes, ROW, box, colour, tooltip=bounds, height=_BOX_PX, **look)

    def estimates(self, axis: Axis, records: Sequence[Spec]) -> Iterator[Spec]:
        """Yield intervals and estimates in the colours and shapes of their verdicts, and what lies beyond."""
        tooltip = [("platform", ""), ("text", self.formatter.text(self.figure.interval_title))]
        ink = own("color", "ink")
        yield from intervals(axis, records, ROW, ink, width=2, tick_px=9, tooltip=tooltip)
        inside = [record for record in records if record["value"] is not None]
        look = {"size": 60, "filled": True, "opacity": 1, "stroke": "@paper", "strokeWidth": 1}
        channels = (ROW, axis.at("value"), ink, own("shape", "shape"))
        yield mark("point", inside, *channels, tooltip=tooltip, **look)
        yield from beyond(axis, records, ROW)

    def plot(self, layers: Iterable[Spec], numbers: dict[str, str] | None = None) -> Spec:
        """Return the figure."""
        description = self.formatter.text(self.figure.title)
        return whole(in_rows(layers, self.labels, numbers), description, self.formatter)


def has_too_many_dots(figure: doc.RowFigure) -> bool:
    """Return whether a figure has more blocks than can be drawn as dots, and shows quartiles and range."""
    return sum(len(row.blocks) for row in figure.rows) > MAX_DOTS


def values(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return bars, intervals and dots in their own unit, zero included."""
    rows = _RowDrawing(figure, formatter)
    block_values = [value for _, row, _ in rows.shown for value in row.values]
    bounds = [bounded for *_, bounded in rows.shown]
    axis = value_axis("x", bounds, figure.scale.divisor, rows.title, further=block_values)
    records = rows.records(axis)
    bars = [record for record in records if record["value"] is not None]
    colour, tooltip = own("color", "colour"), [("platform", ""), ("text", "")]
    look = {"opacity": 0.32, "height": BAR_PX}
    bar = mark("bar", bars, ROW, axis.at("value"), colour, tooltip=tooltip, **look)
    return rows.plot([bar, *rows.strip(axis), *rows.estimates(axis, records)])


def ratios(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return shares of the baseline, per block and estimated, with the number of each at its right."""
    rows = _RowDrawing(figure, formatter)
    axis = ratio_axis([bounded for *_, bounded in rows.shown], figure.margin, rows.title)
    records = rows.records(axis)
    reference = formatter.text(figure.baseline)
    own_rows = [{"row": name, "at": 1, "text": formatter.text(msg("baseline"))}
                for name, _ in rows.all if rows.labels[name] == reference]  # fmt: skip
    lowest, highest = edges(figure.margin)
    band = [{"from": lowest, "to": highest}]
    layers = [
        mark("rect", band, axis.span("from", "to"), opacity=0.14, color=GREY, clip=True),
        mark("rule", [{"one": 1}], axis.at("one"), color=GREY, strokeDash=[4, 3]),
        *rows.strip(axis),
        texts(own_rows, ROW, axis.at("at"), color="@muted", fontSize=11),
        *rows.estimates(axis, records),
    ]
    numbers = {record["row"]: formatter.value(doc.Relative(record["mean"])) for record in records}
    return rows.plot(layers, numbers)


def waterfall(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return bars between rungs, the interval of each step at its end."""
    rows = _RowDrawing(figure, formatter)
    axis = ratio_axis([bounded for *_, bounded in rows.shown], figure.margin, rows.title)
    steps = [
        {**rows.fields(name, row), **axis.record(bounded), "from": row.start,
         "text": formatter.text(row.text)}
        for name, row, bounded in rows.shown
        if row.start is not None
    ]  # fmt: skip
    ink = own("color", "ink")
    tooltip = [("platform", ""), ("text", formatter.text(figure.interval_title))]
    ones = [{"row": name, "one": 1} for name, _ in rows.all]
    bar = {"opacity": 0.5, "height": BAR_PX, "clip": True}
    end = {"thickness": 2, "size": BAR_PX, "clip": True}
    layers = [
        mark("tick", ones, ROW, axis.at("one"), color=GREY, thickness=1, size=26),
        mark("bar", steps, ROW, axis.span("from", "value"), ink, tooltip=tooltip, **bar),
        *intervals(axis, steps, ROW, ink, width=2, tick_px=9, tooltip=tooltip),
        mark("tick", steps, ROW, axis.at("value"), ink, tooltip=tooltip, **end),
    ]
    return rows.plot(layers)


def shares(figure: doc.RowFigure, formatter: Formatter) -> Spec:
    """Return a bar of 100 % for every row, its parts from dark to light, with numbers in them."""
    rows = _RowDrawing(figure, formatter)
    look: Spec = {
        "values": [0, 0.25, 0.5, 0.75, 1],
        "labelExpr": "datum.value * 100 + '\u00a0%'",
        "grid": False,
    }
    axis = Axis("x", 0, _END, rows.title, look=look)
    names = [formatter.text(part) for part in figure.parts]
    parts: list[Spec] = []
    for name, row in rows.all:
        ends = np.cumsum([0.0, *row.values]).tolist()
        for number, share in enumerate(row.values):
            text = formatter.value(doc.Share(share, "whole"))
            part = {"row": name, "platform": rows.labels[name], "part": names[number]}
            place = {"from": ends[number], "to": ends[number + 1], "at": ends[number] + share / 2}
            parts.append({**part, **place, "share": share, "text": text, "ink": _INKS[number]})
    beside = [{"row": name, "at": 1.02, "text": formatter.text(row.text)} for name, row in rows.all]
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
    scale = {"domain": names, "range": list(_FILLS[: len(names)])}
    fill = {"fill": {"field": "part", "type": "nominal", "scale": scale, "legend": legend}}
    titles = map(formatter.text, (figure.interval_title, figure.value_title))
    tooltip = [("platform", ""), *zip(("part", "text"), titles, strict=True)]
    bar: Spec = {"height": BAR_PX, "stroke": "@ink", "strokeWidth": 0.6}
    numbers = [part for part in parts if part["share"] >= _LEAST_PART]
    layers = [
        mark("bar", parts, ROW, axis.span("from", "to"), fill, tooltip=tooltip, **bar),
        texts(numbers, ROW, axis.at("at"), own("color", "ink"), fontSize=10.5),
        texts(beside, ROW, axis.at("at"), fontSize=10.5, align="left"),
    ]
    return rows.plot(layers)


def bars(
    labels: dict[str, str], sides: Sequence[Sequence[Spec]], axis: Axis, nothing: str
) -> Iterator[Spec]:
    """Yield plots of bars from zero beside each other. sides: records of the axis, `row` and `colour` of each place,
    and `printed`, the record of what a publication prints there. nothing: stands where there is neither."""
    for records in sides:
        measured = [record for record in records if record["value"] is not None]
        of_publication = [{**record["printed"], "row": record["row"]} for record in records]
        gaps = [
            {"row": record["row"], "text": nothing}
            for record in records
            if record["value"] is None and record["printed"]["value"] is None
        ]
        colours = {**own("fill", "colour"), **own("stroke", "colour")}
        start = {"x2": {"datum": axis.low}} if axis.is_log else {}
        look: Spec = {"fillOpacity": 0.35, "strokeWidth": 1.2, "height": BAR_PX}
        label_style = {"align": "left", "dx": 3, "fontSize": 9.5, "color": "@muted"}
        layers = [
            mark("bar", measured, ROW, axis.at("value"), start, colours, **look),
            *intervals(axis, records, ROW, color="@ink"),
            *printed(axis, of_publication, ROW),
            texts(gaps, ROW, axis.end(is_high=False), **label_style),
            *beyond(axis, records, ROW),
        ]
        yield in_rows(layers, labels)
