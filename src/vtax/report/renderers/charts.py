"""Charts as Vega-Lite specifications, and as files for print.

Every panel is drawn twice, side by side on one scale: on the left as the publication computes it, on the right with
intervals from blocks. Nothing rests on colour alone: lines have symbols and dashes, bars of groups have letters,
cells have numbers. An interval that leaves the axis ends there in an arrow.
"""

from __future__ import annotations

import string
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from vtax.report.document import Bounded, Chart, ChartPanel, ChartValue, Number, Share, joined
from vtax.report.renderers.chart_axes import Axis, value_axis
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import PLACEHOLDERS, SCHEMA, Spec, colour_of

WIDTH = 310  # pixels of a side
_HEIGHT, _LOW, _MANY = 210, 140, 3  # of lines; of lines with so many panels
_BAR, _GAP = 15, 10
_CELL_HEIGHT = 30
_TITLE_CHARS, _NOTE_CHARS, _SIDE_CHARS = 88, 118, 54
_LEGEND_COLUMNS = 4
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [4, 2, 1, 2, 1, 2], [3, 5], [10, 2, 3, 2])
_DODGE = 0.012  # of the axis between the intervals of two series
INK, PAPER, MUTED, GRID = (PLACEHOLDERS[name] for name in ("@ink", "@paper", "@muted", "@grid"))
_FONT = "DejaVu Sans, Liberation Sans, Arial, sans-serif"
_DARK = 0.55  # of the range of a heatmap, from which its numbers are white


def chart_spec(chart: Chart, formatter: Formatter, *, with_title: bool = True) -> Spec:
    """The specification of a chart. with_title: its title and notes too, for a file that stands alone."""
    page = _Page(chart, formatter)
    draw: Mapping[str, Callable[[int], list[Spec]]] = {
        "bars": page.bars, "lines": page.lines, "heatmap": page.cells, "table": page.cells,
    }  # fmt: skip
    rows = [{"hconcat": draw[chart.kind](number), "spacing": 24} for number in range(len(chart.panels))]
    title = {
        "text": textwrap.wrap(formatter.text(chart.title), _TITLE_CHARS),
        "subtitle": [line for note in chart.notes for line in textwrap.wrap(formatter.text(note), _NOTE_CHARS)],
        "anchor": "start", "fontSize": 14, "subtitleFontSize": 10.5, "subtitleColor": MUTED, "offset": 12,
        "subtitlePadding": 4, "color": INK,
    }  # fmt: skip
    return {
        "$schema": SCHEMA,
        "description": formatter.text(chart.title),
        "background": PAPER,
        "padding": 10,
        **({"title": title} if with_title else {}),
        "vconcat": rows,
        "spacing": 18,
        "config": {
            "font": _FONT,
            "view": {"stroke": GRID},
            "axis": {
                "labelColor": INK, "titleColor": INK, "gridColor": GRID, "tickColor": MUTED, "domainColor": MUTED,
                "labelFontSize": 10.5, "titleFontSize": 11, "titleFontWeight": 400, "labelLimit": 190,
                "titleLimit": 0,
            },
            "legend": {
                "orient": "bottom", "direction": "horizontal", "columns": _LEGEND_COLUMNS, "labelFontSize": 10.5,
                "labelLimit": 0, "labelColor": INK, "titleColor": INK, "symbolSize": 80, "symbolStrokeWidth": 0,
                "columnPadding": 18, "symbolDash": [1, 0],
            },
            "title": {
                "anchor": "start", "fontSize": 11.5, "subtitleFontSize": 10.5, "subtitleColor": MUTED, "color": INK,
                "subtitlePadding": 3,
            },
        },
    }  # fmt: skip


def file_of(chart: Chart, formatter: Formatter, file_format: str) -> bytes:
    """A chart as the content of an svg, pdf or png file."""
    import vl_convert

    spec, version = chart_spec(chart, formatter), SCHEMA.rpartition("/v")[2].partition(".")[0]
    version = next(each for each in vl_convert.get_vegalite_versions() if each.startswith(f"{version}."))
    if file_format == "svg":
        text: str = vl_convert.vegalite_to_svg(spec, vl_version=version)
        return text.encode()
    if file_format == "pdf":
        content: bytes = vl_convert.vegalite_to_pdf(spec, vl_version=version)
        return content
    picture: bytes = vl_convert.vegalite_to_png(spec, vl_version=version, scale=2)
    return picture


class _Page:
    """Draws the panels of one chart."""

    def __init__(self, chart: Chart, formatter: Formatter) -> None:
        self.chart, self.text = chart, formatter.text
        self.formatter = formatter
        self.used = sorted({value.series for value in (*chart.values, *chart.bands)})
        self.labels = {number: self.text(chart.series[number].label) for number in self.used}

    # ---------------------------------------------------------------- bars

    def bars(self, number: int) -> list[Spec]:
        """Horizontal bars from zero, grouped by series where several are at one place."""
        panel, values = self._panel(number)
        places = sorted({value.x for value in values})
        series = sorted({value.series for value in values})
        labels = dict(self.chart.x_labels)
        names = [self.text(labels[place]) for place in places]
        is_grouped = sorted(names) != sorted(self.labels[each] for each in series)  # else the places name the series
        letters = dict(zip(series, string.ascii_lowercase, strict=False))
        axis = value_axis(values, panel.scale, "x" in self.chart.log)
        height = len(places) * ((len(series) if is_grouped else 1) * _BAR + _GAP)
        y: Spec = {
            "field": "place", "type": "nominal",
            "scale": {"domain": names, "paddingInner": 0.25, "paddingOuter": 0.15},
            "axis": {"title": None, "grid": False, "ticks": False, "domain": False, "labelPadding": 6,
                     "labelExpr": "split(datum.label, ' (')[1] ? [split(datum.label, ' (')[0], '(' + "
                                  "slice(datum.label, length(split(datum.label, ' (')[0]) + 2)] : datum.label"},
        }  # fmt: skip
        sides = []
        for is_right in (False, True):
            rows = []
            for value in values:
                row = {
                    "place": names[places.index(value.x)], "series": self._name(value.series, letters, is_grouped),
                    "letter": letters[value.series], "colour": colour_of(self.chart.series[value.series].colour),
                }  # fmt: skip
                shown = value.right if is_right else value.left
                rows.append({**row, **axis.record(shown)})
                if not is_right and value.printed is not None:
                    rows[-1] |= {f"printed_{k}": v for k, v in axis.record(value.printed).items()}
            base: Spec = {"y": y}
            if is_grouped:
                base["yOffset"] = {"field": "series", "scale": {"domain": [
                    self._name(each, letters, is_grouped) for each in series]}}  # fmt: skip
            x: Spec = {"type": "quantitative", "scale": axis.scale, "axis": {
                "title": self.text(panel.axis), "tickCount": 5, "labelExpr": _SPACED}}  # fmt: skip
            colour = self._colours(letters, is_grouped)
            layers = [
                {"mark": {"type": "bar", "fillOpacity": 0.35, "strokeWidth": 1.2},
                 "encoding": {**base, "x": {"field": "value", **x}, "fill": colour,
                              "stroke": {**colour, "legend": None}}},
                *_intervals(base, x, "x", "low", "high"),
                *_printed(base, x, "x"),
            ]  # fmt: skip
            if is_grouped:
                text: Spec = {"type": "text", "align": "left", "dx": 3, "fontSize": 9.5, "color": INK}
                halo = {**text, "color": PAPER, "stroke": PAPER, "strokeWidth": 3, "strokeJoin": "round"}
                at = {**base, "x": {"datum": axis.scale["domain"][0], **x}, "text": {"field": "letter"}}
                layers += [{"mark": look, "encoding": at} for look in (halo, text)]
            layers += axis.arrows(base, x, "x")
            sides.append({
                "data": {"values": rows}, "width": WIDTH, "height": height, "title": self._title(panel, is_right),
                "layer": [_only(layer) for layer in layers],
            })  # fmt: skip
        return sides

    def _name(self, number: int, letters: Mapping[int, str], is_grouped: bool) -> str:
        return f"{letters[number]}  {self.labels[number]}" if is_grouped else self.labels[number]

    def _colours(self, letters: Mapping[int, str], is_grouped: bool) -> Spec:
        legend = {"title": None} if is_grouped else None
        return {
            "field": "series", "type": "nominal", "legend": legend,
            "scale": {
                "domain": [self._name(each, letters, is_grouped) for each in letters],
                "range": [colour_of(self.chart.series[each].colour) for each in letters],
            },
        }  # fmt: skip

    # --------------------------------------------------------------- lines

    def lines(self, number: int) -> list[Spec]:
        """Lines over numbers with a symbol for each value, and vertical intervals on the right."""
        panel, values = self._panel(number)
        bands = [value for value in self.chart.bands if value.panel == number]
        axis = value_axis([*values, *bands], panel.scale, "y" in self.chart.log)
        domain = _numbers_domain([value.x for value in values], "x" in self.chart.log)
        names = {format(place, ".12g"): self.text(label) for place, label in self.chart.x_labels}
        x: Spec = {
            "type": "quantitative", "scale": {"domain": domain, "nice": False,
                                              **({"type": "log"} if "x" in self.chart.log else {})},
            "axis": {"title": self.text(self.chart.x_title), "grid": False, "labelOverlap": "greedy",
                     "labelSeparation": 1,
                     **({"values": [place for place, _ in self.chart.x_labels],
                         "labelExpr": f"({_json(names)})[format(datum.value, '.12~g')] || datum.label"}
                        if names else {"tickMinStep": 1, "format": "d"})},
        }  # fmt: skip
        y: Spec = {"type": "quantitative", "scale": axis.scale, "axis": {
            "title": self.text(panel.axis), "tickCount": 5, "labelExpr": _SPACED}}  # fmt: skip
        sides = []
        for is_right in (False, True):
            rows, dodged = [], []
            for value in values:
                row = {"series": self.labels[value.series], "x": value.x}
                shown = value.right if is_right else value.left
                rows.append({**row, **axis.record(shown)})
                if not is_right and value.printed is not None:
                    rows[-1] |= {f"printed_{k}": v for k, v in axis.record(value.printed).items()}
                dodged.append({**rows[-1], "x": self._dodged(value, domain)})
            look = {key: self._scale(key) for key in ("color", "strokeDash", "shape")}
            at = {"x": {"field": "x", **x}}
            line = {"mark": {"type": "line", "strokeWidth": 1.6},
                    "encoding": {**at, "y": {"field": "value", **y}, "color": look["color"],
                                 "strokeDash": look["strokeDash"]}}  # fmt: skip
            points = {"mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
                      "encoding": {**at, "y": {"field": "value", **y}, "color": look["color"],
                                   "shape": look["shape"]}}  # fmt: skip
            layers = [line, points]
            if bands and is_right:
                line["mark"] |= {"opacity": 0.3}  # type: ignore[operator]
                points["mark"] |= {"opacity": 0.3}  # type: ignore[operator]
                layers += self._bands(bands, axis, domain, x, y, look)
            else:
                own = {"data": {"values": dodged}}
                color = look["color"]
                layers += [{**own, **each, "encoding": {**each["encoding"], "color": color}}
                           for each in _intervals({"x": {"field": "x", **x}}, y, "y", "low", "high")]  # fmt: skip
                layers += _printed(at, y, "y")
                layers += axis.arrows({"x": {"field": "x", **x}}, y, "y")
            sides.append({
                "data": {"values": rows}, "width": WIDTH, "title": self._title(panel, is_right),
                "height": _HEIGHT if len(self.chart.panels) < _MANY else _LOW,
                "layer": [_only(layer) for layer in layers],
            })  # fmt: skip
        return sides

    def _bands(
        self, bands: Sequence[ChartValue], axis: Axis, domain: list[float], x: Spec, y: Spec, look: Mapping[str, Spec]
    ) -> list[Spec]:
        """The mean of each series over all tests, and its interval as a band."""
        rows = [
            {"series": self.labels[band.series], "from": domain[0], "to": domain[1], **axis.record(band.right)}
            for band in bands
        ]
        across = {"x": {"field": "from", **x}, "x2": {"field": "to"}}
        own = {"data": {"values": rows}}
        layers = [
            {**own, "mark": {"type": "rect", "opacity": 0.2},
             "encoding": {**across, "y": {"field": "low", **y}, "y2": {"field": "high"},
                          "color": {**look["color"], "legend": None}}},
            {**own, "mark": {"type": "rule", "strokeWidth": 2.2},
             "encoding": {**across, "y": {"field": "value", **y}, "color": look["color"],
                          "strokeDash": look["strokeDash"]}},
            {**own, "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
             "encoding": {"x": {"field": "to", **x}, "y": {"field": "value", **y}, "color": look["color"],
                          "shape": look["shape"]}},
        ]  # fmt: skip
        arrows = axis.arrows({"x": {"field": "to", **x}}, y, "y")
        return [*layers, *({**own, **each} for each in arrows)]

    def _dodged(self, value: ChartValue, domain: Sequence[float]) -> float:
        """x a little aside, so that intervals of several series stand beside each other."""
        step = (self.used.index(value.series) - (len(self.used) - 1) / 2) * _DODGE
        if "x" in self.chart.log:
            return float(value.x * (domain[1] / domain[0]) ** step)
        return value.x + (domain[1] - domain[0]) * step

    def _scale(self, channel: str) -> Spec:
        colours = [colour_of(self.chart.series[each].colour) for each in self.used]
        positions = range(len(self.used))
        ranges: Mapping[str, Sequence[Any]] = {
            "color": colours,
            "strokeDash": [_DASHES[n % len(_DASHES)] for n in positions],
            "shape": [_SHAPES[n % len(_SHAPES)] for n in positions],
        }
        domain = [self.labels[each] for each in self.used]
        scale = {"domain": domain, "range": ranges[channel]}
        legend = None if channel == "strokeDash" else {"title": None}  # dashes make the symbols illegible
        return {"field": "series", "type": "nominal", "scale": scale, "legend": legend}

    # --------------------------------------------------------------- cells

    def cells(self, number: int) -> list[Spec]:
        """A grid of numbers; of a heatmap darker where larger."""
        panel, values = self._panel(number)
        columns = [self.text(label) for _, label in self.chart.x_labels]
        rows = [self.text(label) for label in self.chart.y_labels]
        places = [place for place, _ in self.chart.x_labels]
        shown = [each[0] for value in values for each in (value.left, value.right) if each is not None]
        low, high = min([0.0, *shown]), max(shown, default=1.0)
        is_table = self.chart.kind == "table"
        sides = []
        for is_right in (False, True):
            records = []
            for value in values:
                bounded = value.right if is_right else value.left
                printed = None if is_right else value.printed
                text = self._cell(bounded, panel, printed)
                share = (bounded[0] - low) / (high - low) if bounded is not None and high > low else 0.0
                records.append({
                    "x": columns[places.index(value.x)], "y": rows[value.y], "text": text,
                    "fill": bounded[0] if bounded is not None and not is_table else None,
                    "dark": bool(share > _DARK and not is_table),
                })  # fmt: skip
            at: Spec = {
                "x": {"field": "x", "type": "nominal", "scale": {"domain": columns, "padding": 0},
                      "axis": {"title": self.text(self.chart.x_title) or None, "domain": False, "ticks": False,
                               "labelAngle": -35 if max(map(len, columns), default=0) > 8 else 0,
                               "grid": False}},
                "y": {"field": "y", "type": "nominal", "scale": {"domain": rows, "padding": 0},
                      "axis": {"title": self.text(self.chart.y_title) or None, "domain": False, "ticks": False,
                               "grid": False}},
            }  # fmt: skip
            fill: Spec = {"field": "fill", "type": "quantitative", "legend": None,
                          "scale": {"domain": [low, high], "range": ["#f4f7fb", "#9db8d9", "#10325f"]}}  # fmt: skip
            layers: list[Spec] = [
                {"transform": [{"filter": "isValid(datum.fill)"}],
                 "mark": {"type": "rect", "stroke": PAPER}, "encoding": {**at, "fill": fill}},
                {"mark": {"type": "text", "fontSize": 9, "lineBreak": "\n", "lineHeight": 11, "baseline": "middle",
                          "dy": {"expr": "indexof(datum.text, '\\n') < 0 ? 0 : -5"}},
                 "encoding": {**at, "text": {"field": "text"}, "color": {
                     "condition": {"test": "datum.dark", "value": PAPER}, "value": INK}}},
            ]  # fmt: skip
            width = max(WIDTH, 44 * len(columns))
            sides.append({
                "data": {"values": records}, "width": width, "height": _CELL_HEIGHT * len(rows), "layer": layers,
                "title": self._title(panel, is_right), "resolve": {"scale": {"fill": "independent"}},
            })  # fmt: skip
        return sides

    def _cell(self, bounded: Bounded | None, panel: ChartPanel, printed: Bounded | None) -> str:
        lines = []
        if bounded is not None:
            value, low, high = bounded
            text = Share(value) if self.chart.is_share else Number(value / panel.scale.divisor, 3)
            lines.append(self.text(text))
            if low is not None and high is not None and value:
                lines.append(self.text(joined(["±", Share((high - low) / 2 / abs(value))], " ")))
        if printed is not None:
            text = Share(printed[0]) if self.chart.is_share else Number(printed[0] / panel.scale.divisor, 3)
            lines.append(self.text(joined(["◇", text], " ")))
        return "\n".join(lines) or "–"

    # -------------------------------------------------------------- shared

    def _panel(self, number: int) -> tuple[ChartPanel, list[ChartValue]]:
        return self.chart.panels[number], [value for value in self.chart.values if value.panel == number]

    def _title(self, panel: ChartPanel, is_right: bool) -> Spec:
        sides = [textwrap.wrap(self.text(side), _SIDE_CHARS)
                 for side in (joined([panel.left, self.chart.printed], "; "), panel.right)]  # fmt: skip
        lines = sides[is_right] + [" "] * (max(map(len, sides)) - len(sides[is_right]))
        if panel.title == "":
            return {"text": lines, "fontWeight": 400, "color": MUTED, "fontSize": 10.5}
        return {"text": self.text(panel.title), "subtitle": lines}


_SPACED = "replace(datum.label, /,/g, '\u202f')"


def _intervals(base: Spec, scale: Spec, channel: str, low: str, high: str) -> Iterator[Spec]:
    """Lines from the lower to the upper bound, with ticks at both ends that are inside the axis."""
    mark: Spec = {"type": "rule", "strokeWidth": 1.4, "color": INK}
    yield {
        "transform": [{"filter": f"isValid(datum.{low})"}], "mark": mark,
        "encoding": {**base, channel: {"field": low, **scale}, f"{channel}2": {"field": high}},
    }  # fmt: skip
    for field in (low, high):
        yield {
            "transform": [{"filter": f"isValid(datum.{field}) && !datum.{field}_beyond"}],
            "mark": {"type": "tick", "thickness": 1.4, "size": 7, "color": INK,
                     "orient": "vertical" if channel == "x" else "horizontal"},
            "encoding": {**base, channel: {"field": field, **scale}},
        }  # fmt: skip


def _printed(base: Spec, scale: Spec, channel: str) -> Iterator[Spec]:
    """A diamond where the publication prints a number, with its deviation."""
    yield {
        "transform": [{"filter": "isValid(datum.printed_low)"}],
        "mark": {"type": "rule", "strokeWidth": 1.2, "color": INK, "strokeDash": [2, 2]},
        "encoding": {**base, channel: {"field": "printed_low", **scale}, f"{channel}2": {"field": "printed_high"}},
    }  # fmt: skip
    yield {
        "transform": [{"filter": "isValid(datum.printed_value)"}],
        "mark": {"type": "point", "shape": "diamond", "size": 80, "filled": True, "fill": PAPER, "stroke": INK,
                 "strokeWidth": 1.4, "opacity": 1},
        "encoding": {**base, channel: {"field": "printed_value", **scale}},
    }  # fmt: skip


def _only(layer: Spec) -> Spec:
    """A layer without places that have no value: Vega would draw them at zero."""
    for channel in ("x", "y"):
        field = layer["encoding"].get(channel, {}).get("field")
        if field == "value":
            return {**layer, "transform": [*layer.get("transform", ()), {"filter": "isValid(datum.value)"}]}
    return layer


def _numbers_domain(numbers: Iterable[float], is_log: bool) -> list[float]:
    """A little more than all numbers on an axis."""
    found = sorted(set(numbers)) or [1.0]
    low, high = found[0], found[-1]
    if is_log:
        room = (high / low) ** 0.04 if high > low else 1.5
        return [low / room, high * room]
    room = (high - low) * 0.05 or 0.5
    return [low - room, high + room]


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
