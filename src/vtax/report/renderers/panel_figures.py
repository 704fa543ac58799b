"""Charts in panels: bars, lines over numbers or times, and numbers in a grid.

A chart of one side has one plot for each panel. Every other panel is drawn twice, side by side on one axis: on the
left as the publication computes it, on the right with intervals from blocks.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from vtax.report import document as doc
from vtax.report.document import joined, msg
from vtax.report.renderers.axes import Axis, Channel, Spec, value_axis
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.marks import (
    beyond,
    colour_of,
    in_panels,
    intervals,
    legend_columns,
    looks,
    mark,
    printed,
    texts,
)
from vtax.report.renderers.row_figures import bars

_WIDTH, _WHOLE_WIDTH = 310, 644  # pixels of one of two plots beside each other, and of one alone
_NARROW = 262  # of a window of 390 px, where text keeps its size
_HEIGHT, _LOW, _MANY = 220, 140, 3  # pixels; of charts with so many panels
_SIDE_CHARS, _EVENT_CHARS = 54, 28
_DODGE = 3.7  # pixels between the intervals of two series
_OF_A_GAP = (
    0.5  # of the gap between two neighbouring places, that all series of one may stand apart
)
_MAX_TICKS = 60
_CELL_WIDTH, _CELL_LINE = 58, 12
_CHARACTER_PX = 7  # of a label of a column
_FILLS = ["#f4f7fb", "#9db8d9", "#10325f"]
_BELOW, _MIDDLE, _ABOVE = "#8a3b12", "#f7f7f7", "#10325f"  # of values that have a middle
_NARROW_INTERVAL = 0.02  # width of an interval, as a share of its estimate
_DARK = 0.55  # of the range of a heatmap, from which its numbers are white


def panels(chart: doc.Chart, formatter: Formatter, *, is_stacked: bool) -> Spec:
    """Return a chart without its title and notes. is_stacked: for narrow windows, plots below each other."""
    has_one_side = chart.has_one_side or chart.kind == "history"
    width = _WHOLE_WIDTH if has_one_side else _WIDTH
    kind = _KINDS[chart.kind]
    rows = [
        list(kind(chart, formatter, number, _NARROW if is_stacked else width).plots())
        for number in range(len(chart.panels))
    ]
    return in_panels(rows, formatter.text(chart.title), formatter, is_stacked=is_stacked)


class _Panel:
    """One panel of a chart."""

    def __init__(self, chart: doc.Chart, formatter: Formatter, number: int, width: int) -> None:
        self.chart, self.text, self.language = chart, formatter.text, formatter.language
        self.width = width
        self.used = sorted({value.series for value in (*chart.values, *chart.bands)})
        self.labels = {number: self.text(chart.series[number].label) for number in self.used}
        self.panel, self.number = chart.panels[number], number
        self.values = [value for value in chart.values if value.panel == number]
        self.bands = [value for value in chart.bands if value.panel == number]
        has_one_side = chart.has_one_side or chart.kind == "history"
        self.sides = (True,) if has_one_side else (False, True)

    def plots(self) -> Iterator[Spec]:
        """Yield the plot of every side."""
        raise NotImplementedError

    def axis(self, channel: Channel, *, is_near: bool = False) -> Axis:
        """Return the axis of all values, both sides."""
        bounded_values = [
            bounded
            for value in (*self.values, *self.bands)
            for bounded in (value.left, value.right, value.printed)
            if bounded is not None
        ]
        divisor, title = self.panel.scale.divisor, self.text(self.panel.axis)
        is_log = channel in self.chart.log
        return value_axis(channel, bounded_values, divisor, title, is_log=is_log, is_near=is_near)

    def has_printed(self, is_right: bool) -> bool:
        """Return whether a side has the values that the publication prints: the left one, or the only one."""
        return is_right == self.chart.has_one_side

    def of_publication(self, value: doc.ChartValue, *, is_right: bool) -> doc.Bounded | None:
        """Return what a side shows of what the publication prints."""
        return value.printed if self.has_printed(is_right) else None

    def title(self, is_right: bool, *, is_cut: bool = False) -> Spec:
        """Return the title of a side; both have as many lines. is_cut: arrows are there, which it explains."""
        arrow = msg("an arrow: the interval goes on") if is_cut else ""
        sides = []
        for side, is_this_right in ((self.panel.left, False), (self.panel.right, True)):
            sign = self.chart.printed if self.has_printed(is_this_right) else ""
            sides.append(textwrap.wrap(self.text(joined([side, sign, arrow], "; ")), _SIDE_CHARS))
        lines = sides[is_right] + [" "] * (max(map(len, sides)) - len(sides[is_right]))
        # panels below each other: all titles at one x
        frame = {"frame": "group"} if self.chart.has_one_side else {}
        if self.panel.title == "":
            return {"text": lines, "fontWeight": 400, "color": "@muted", "fontSize": 10.5, **frame}
        return {"text": self.text(self.panel.title), "subtitle": lines, **frame}


class _Bars(_Panel):
    """Bars in rows; those of several series below the name of their place."""

    def plots(self) -> Iterator[Spec]:
        names = dict(self.chart.x_labels)
        series = sorted({value.series for value in self.values})
        places = {place: self.text(names[place]) for place in sorted({v.x for v in self.values})}
        own_names = sorted(self.labels[number] for number in series)
        is_named = len(series) == 1 or sorted(places.values()) == own_names
        values = sorted(self.values, key=lambda value: (value.x, value.series))
        labels: dict[str, str] = {}
        for value in values:
            name = places[value.x]
            if not is_named:
                labels[f"h{value.x}"] = name
            labels[_row_of(value)] = name if is_named else self.labels[value.series]
        axis = self.axis("x")
        sides = [self._records(values, axis, is_right=is_right) for is_right in self.sides]
        is_cut = any(record["below"] or record["above"] for side in sides for record in side)
        plots = bars(labels, sides, axis, self.text(msg("not measured")))
        for is_right, plot in zip(self.sides, plots, strict=True):
            yield {**plot, "width": self.width, "title": self.title(is_right, is_cut=is_cut)}

    def _records(
        self, values: Sequence[doc.ChartValue], axis: Axis, *, is_right: bool
    ) -> list[Spec]:
        """Return a record for every bar of one side."""
        records = []
        for value in values:
            record: Spec = {
                "row": _row_of(value),
                "colour": colour_of(self.chart.series[value.series].colour),
                **axis.record(value.right if is_right else value.left),
                "printed": axis.record(self.of_publication(value, is_right=is_right)),
            }
            records.append(record)
        return records


def _row_of(value: doc.ChartValue) -> str:
    """Return the id of a value's row."""
    return f"r{value.x} {value.series}"


class _Lines(_Panel):
    """Lines over numbers, each with a symbol and a dash of its own; of a history over times, with events.

    Over tests the right side has means with bands in front of the tests.
    """

    def plots(self) -> Iterator[Spec]:
        is_history = self.chart.kind == "history"
        axis = self.axis("y", is_near=is_history)
        places = self._places()
        for is_right in self.sides:
            records = [
                {"series": self.labels[value.series], "x": self._aside(value, places),
                 **axis.record(value.right if is_right else value.left)}
                for value in self.values
            ]  # fmt: skip
            of_publication = [
                {"x": record["x"], **axis.record(self.of_publication(value, is_right=is_right))}
                for value, record in zip(self.values, records, strict=True)
            ]
            layers = [*self._events(places), *self._marks(axis, places, records, is_right)]
            layers += printed(axis, of_publication, places.at("x"))
            is_cut = not self.chart.is_banded and not is_history
            is_cut = is_cut and any(record["below"] or record["above"] for record in records)
            yield {
                "width": self.width,
                "height": _HEIGHT if len(self.chart.panels) < _MANY else _LOW,
                "title": self.title(is_right, is_cut=is_cut),
                "layer": layers,
            }

    def _marks(
        self, axis: Axis, places: Axis, records: list[Spec], is_right: bool
    ) -> Iterator[Spec]:
        columns = legend_columns(self.labels.values(), self.width)
        legend: Spec = {"columns": columns} if self.chart.kind == "history" else {}
        legend |= {"symbolOpacity": 1} if self.chart.is_banded or self.bands else {}
        colours = {self.labels[number]: self.chart.series[number].colour for number in self.used}
        look = looks(colours, legend)
        drawn_records = [record for record in records if record["value"] is not None]
        at = places.at("x")
        faded = 0.5 if self.chart.has_one_side else 0.3
        is_faded = bool(self.bands) and is_right
        if self.chart.is_banded:
            span = [record for record in records if record["low"] is not None]
            yield mark("area", span, at, axis.span("low", "high"), look["color"], opacity=0.2)
        line: Spec = {"strokeWidth": 1.6, **({"opacity": faded} if is_faded else {})}
        position = {**at, **axis.at("value"), **look["color"]}
        yield mark("line", drawn_records, position, look["strokeDash"], **line)
        point: Spec = {"filled": True, "size": 46, "opacity": faded if is_faded else 1}
        yield mark("point", drawn_records, position, look["shape"], **point)
        if is_faded:
            yield from self._bands(axis, places, look)
        elif not self.chart.is_banded:
            yield from intervals(axis, records, at, look["color"])
            yield from beyond(axis, records, at)

    def _bands(self, axis: Axis, places: Axis, look: Mapping[str, Spec]) -> Iterator[Spec]:
        """Yield the mean of each series over all tests, and its interval as a band."""
        ends = {"from": places.low, "to": places.high}
        records = [
            {"series": self.labels[band.series], **ends, **axis.record(band.right)}
            for band in self.bands
        ]
        span, bounded = places.span("from", "to"), [r for r in records if r["low"] is not None]
        yield mark("rect", bounded, span, axis.span("low", "high"), look["color"], opacity=0.2)
        mean = (axis.at("value"), look["color"])
        yield mark("rule", records, span, *mean, look["strokeDash"], strokeWidth=2.2)
        end = places.at("to")
        yield mark("point", records, end, *mean, look["shape"], filled=True, size=46, opacity=1)
        yield from beyond(axis, records, end)

    def _places(self) -> Axis:
        """Return the axis of numbers, with the levels as they are written, or of Unix times."""
        title, is_log = self.text(self.chart.x_title), "x" in self.chart.log
        numbers = [value.x for value in self.values] or [1.0]
        look: Spec = {"grid": False, "labelOverlap": "greedy"}
        if self.chart.kind == "history":
            room = max((max(numbers) - min(numbers)) * 0.04, 60.0)
            look |= self._times(numbers)
            return Axis("x", min(numbers) - room, max(numbers) + room, title, look=look)
        if self.chart.is_banded:
            numbers += [place for place, _ in self.chart.x_labels[:1]]
        names = {format(place, ".12g"): self.text(label) for place, label in self.chart.x_labels}
        look |= {"labelSeparation": 1}
        if names:
            text = json.dumps(names, ensure_ascii=False)
            key = "replace(format(datum.value, '.12~g'), ',', '.')"  # whatever decimal sign the language has
            look["values"] = [place for place, _ in self.chart.x_labels]
            look["labelExpr"] = f"({text})[{key}] || datum.label"
        else:
            look |= {"tickMinStep": 1, "format": "d"}
        aside = 0.0 if self.chart.is_banded else self._dodge * (len(self.used) - 1) / 2
        low, high = min(numbers), max(numbers)
        if is_log:
            room = (high / low) ** (0.04 + 1.5 * aside) if high > low else 1.5
            return Axis("x", low / room, high * room, title, is_log=True, look=look)
        room = (high - low) * (0.05 + 1.5 * aside) or 0.5
        return Axis("x", low - room, high + room, title, look=look)

    def _times(self, times: Iterable[float]) -> Spec:
        """Return a tick for every day with a run, or for every run of a single day.

        Labels are written here, not by Vega: in the reader's language and in the time zone of the tables. They are
        found by whole seconds, since a fraction is not read alike in values and in expressions.
        """
        newest_first = sorted(map(int, times), reverse=True)
        ticks = {self.language.date(at): at for at in newest_first}
        if len(ticks) == 1:
            ticks = {self.language.moment(at): at for at in newest_first}
        labels = sorted((at, label) for label, at in ticks.items())
        labels = labels[:: -(-len(labels) // _MAX_TICKS)]
        labels_json = json.dumps([label for _, label in labels], ensure_ascii=False)
        places = [at for at, _ in labels]
        expression = f"({labels_json})[indexof({json.dumps(places)}, datum.value)]"
        return {"values": places, "labelExpr": expression, "labelSeparation": 8}

    @property
    def _dodge(self) -> float:
        """The part of the axis between the intervals of two series: less where places would run into each other."""
        places = {math.log(value.x) if "x" in self.chart.log else value.x for value in self.values}
        gaps = [(b - a) / (max(places) - min(places)) for a, b in pairwise(sorted(places))]
        widest = _OF_A_GAP * min(gaps, default=1.0) / max(1, len(self.used) - 1)
        return min(_DODGE / self.width, widest)

    def _aside(self, value: doc.ChartValue, places: Axis) -> float:
        """Return x a little aside, so that series stand beside each other; tests stay at their numbers."""
        if self.chart.bands or self.chart.is_banded:
            return value.x
        step = (self.used.index(value.series) - (len(self.used) - 1) / 2) * self._dodge
        if places.is_log:
            return float(value.x * (places.high / places.low) ** step)
        return value.x + (places.high - places.low) * step

    def _events(self, places: Axis) -> Iterator[Spec]:
        """Yield a rule for everything that happened, with its name towards the middle."""
        for event in self.chart.events:
            is_left = event.x < (places.low + places.high) / 2
            lines = textwrap.wrap(self.text(event.label), _EVENT_CHARS) or [""]
            values = [{"at": event.x, "text": lines}]
            dashed: Spec = {"strokeDash": [5, 3], "strokeWidth": 1.4, "color": "@muted"}
            yield mark("rule", values, places.at("at"), **dashed)
            look = {"align": "left", "dx": 4} if is_left else {"align": "right", "dx": -4}
            at = {**places.at("at"), "y": {"value": 3}}
            yield texts(values, at, baseline="top", fontSize=10, color="@ink", **look)


class _Cells(_Panel):
    """A grid of numbers; of a heatmap darker where larger."""

    def plots(self) -> Iterator[Spec]:
        columns = [self.text(label) for _, label in self.chart.x_labels]
        rows = [self.text(label) for label in self.chart.y_labels]
        places = [place for place, _ in self.chart.x_labels]
        estimates = self._estimates()
        low, high = min([0.0, *estimates]), max(estimates, default=1.0)
        is_table = self.chart.kind == "table"
        for is_right in self.sides:
            records = []
            for value in self.values:
                bounded = value.right if is_right else value.left
                lines = self._lines(bounded, is_spread=is_table and not is_right)
                lines += self._printed_lines(self.of_publication(value, is_right=is_right))
                record: Spec = {
                    "x": columns[places.index(value.x)],
                    "y": rows[value.y],
                    "text": "\n".join(lines) or "–",
                    "fill": None,
                    "ink": "black",
                }
                if bounded is not None and not is_table:
                    is_dark = self._darkness(bounded[0], low, high) > _DARK
                    record |= {"fill": bounded[0], "ink": "white" if is_dark else "black"}
                records.append(record)
            lines_of_cell = max([2, *(len(record["text"].split("\n")) for record in records)])
            yield {
                "width": self._width_of(columns),
                "height": _CELL_LINE * (lines_of_cell + 1) * len(rows),
                "layer": list(self._layers(records, columns, rows, low, high)),
                "title": self.title(is_right),
                "resolve": {"scale": {"fill": "independent"}},
            }

    def _estimates(self) -> list[float]:
        """Return the values of all panels of the same quantity: a colour means the same in each of them."""
        estimates = []
        for value in self.chart.values:
            if self.chart.panels[value.panel].axis != self.panel.axis:
                continue
            estimates += [bounded[0] for bounded in (value.left, value.right) if bounded]
        return estimates

    def _layers(
        self, records: list[Spec], columns: list[str], rows: list[str], low: float, high: float
    ) -> Iterator[Spec]:
        longest_px = _CHARACTER_PX * max(map(len, columns), default=0)
        angle = -35 if longest_px * len(columns) > self._width_of(columns) else 0
        at: Spec = {}
        for channel, names, title in (
            ("x", columns, self.chart.x_title),
            ("y", rows, self.chart.y_title),
        ):
            look: Spec = {"domain": False, "ticks": False, "grid": False}
            look |= {"labelAngle": angle} if channel == "x" else {}
            axis = {"title": self.text(title) or None, **look}
            scale = {"type": "band", "domain": names, "padding": 0}
            at[channel] = {"field": channel, "type": "nominal", "scale": scale, "axis": axis}
        middle = self.panel.middle
        domain, fills = [low, high], _FILLS
        if middle is not None:
            reach = _reach_of(middle, low, high)
            domain, fills = [middle - reach, middle, middle + reach], [_BELOW, _MIDDLE, _ABOVE]
        scale = {"domain": domain, "range": fills}
        fill: Spec = {"field": "fill", "type": "quantitative", "legend": None, "scale": scale}
        filled = [record for record in records if record["fill"] is not None]
        yield mark("rect", filled, at, {"fill": fill}, stroke="@paper")
        up = {"expr": "indexof(datum.text, '\\n') < 0 ? 0 : -5"}
        ink = {"color": {"field": "ink", "type": "nominal", "scale": None, "legend": None}}
        label_style: Spec = {
            "fontSize": 9,
            "lineBreak": "\n",
            "lineHeight": _CELL_LINE,
            "baseline": "middle",
        }
        yield texts(records, at, ink, dy=up, **label_style)

    def _width_of(self, columns: list[str]) -> int:
        return max(self.width, _CELL_WIDTH * len(columns))

    def _darkness(self, value: float, low: float, high: float) -> float:
        """From 0, the lightest fill of the values from low to high, to 1."""
        middle = self.panel.middle
        if middle is not None:
            return abs(value - middle) / _reach_of(middle, low, high)
        return (value - low) / (high - low) if high > low else 0.0

    def _number(self, value: float, digits: int) -> doc.Inline:
        return doc.Number(value / self.panel.scale.divisor, digits)

    def _lines(self, bounded: doc.Bounded | None, *, is_spread: bool) -> list[str]:
        """Return the lines of a value. is_spread: its bounds are a deviation on either side, as publications print."""
        if bounded is None:
            return []
        value, low, high = bounded
        is_narrow = (
            low is not None and high is not None and high - low < _NARROW_INTERVAL * abs(value)
        )
        digits = 4 if is_narrow else 3  # 99.9 and 100.1 must not both be 100
        lines = [doc.Share(value) if self.chart.is_share else self._number(value, digits)]
        if is_spread and high is not None:
            lines.append(joined(["±", self._number(high - value, 3)], " "))
        elif low is not None and high is not None and value:
            bounds = [self._number(low, digits), self._number(high, digits)]
            lines.append(joined(["[", joined(bounds, self.language.separator), "]"], ""))
        return [self.text(line) for line in lines]

    def _printed_lines(self, bounded: doc.Bounded | None) -> list[str]:
        if bounded is None:
            return []
        value, _, high = bounded
        text = doc.Share(value, "declared") if self.chart.is_share else self._number(value, 3)
        spread = () if high is None else ("±", self._number(high - value, 3))
        return [self.text(joined(["◇", text, *spread], " "))]


def _reach_of(middle: float, low: float, high: float) -> float:
    """Return the largest distance from the middle, for which colours are darkest."""
    return max(high - middle, middle - low) or 1.0


_KINDS: Mapping[str, type[_Panel]] = {
    "bars": _Bars,
    "lines": _Lines,
    "history": _Lines,
    "heatmap": _Cells,
    "table": _Cells,
}
