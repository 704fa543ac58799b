"""Charts of values over time: a symbol with its interval for every run, a rule at every change point."""

from __future__ import annotations

import json
import textwrap

from vtax.report import document as doc
from vtax.report.renderers.chart_axes import Axis
from vtax.report.renderers.chart_layers import INK, MUTED, WIDTH, intervals
from vtax.report.renderers.chart_lines import LineLooks
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import Spec

_HEIGHT = 240  # pixels
_REACH = (
    1.0  # intervals may stretch the axis by so many times the range of the values, to each side
)
_LEAST_RANGE = 0.02  # of the largest value: smaller changes are not blown up to the whole axis
_LABEL_CHARS = 28
_WIDE = 2 * WIDTH + 60  # pixels between the axes
_NARROW = 262  # of a window of 390 px, where text keeps its size
_MAX_TICKS = 60
_CHARACTER, _SYMBOL = (
    6.6,
    40,
)  # pixels of a legend's character, and of its symbol with the space between columns


def history(
    chart: doc.Chart, formatter: Formatter, number: int, *, is_narrow: bool = False
) -> list[Spec]:
    """Return one drawing of a panel, as wide as two sides. is_narrow: as wide as the window of a phone."""
    return [_History(chart, formatter, number).drawing(_NARROW if is_narrow else _WIDE)]


class _History(LineLooks):
    _columns = 1

    def look(self, channel: str) -> Spec:
        """As of lines, with a legend of columns that are equally wide."""
        found = super().look(channel)
        if found["legend"] is not None:
            found["legend"] = {**found["legend"], "columns": self._columns, "gridAlign": "all"}
        return found

    def drawing(self, width: int) -> Spec:
        longest = max(map(len, self.labels.values()))
        self._columns = max(1, min(len(self.labels), int(width / (longest * _CHARACTER + _SYMBOL))))
        axis = self._axis()
        times = [value.x for value in self.values]
        first, last = min(times), max(times)
        room = max((last - first) * 0.04, 60.0)
        domain = [first - room, last + room]
        rows, dodged = [], []
        for value in self.values:
            row: Spec = {
                "series": self.labels[value.series],
                "x": value.x,
                **axis.record(value.right),
            }
            rows.append(row)
            dodged.append({**row, "x": value.x + (domain[1] - domain[0]) * self.aside(value)})
        x = self._times(times, domain)
        y = self.scaled(axis)
        at: Spec = {"x": {"field": "x", **x}}
        here: Spec = {**at, "y": {"field": "value", **y}, "color": self.look("color")}
        layers: list[Spec] = [
            *self._events(x, domain),
            {
                "mark": {"type": "line", "strokeWidth": 1.1},
                "encoding": {**here, "strokeDash": self.look("strokeDash")},
            },
        ]
        layers += [
            {**each, "encoding": {**each["encoding"], "color": self.look("color")}}
            for each in intervals(at, y, "y")
        ]
        layers += axis.arrows(at, y, "y")
        layers.append(
            {
                "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
                "encoding": {**here, "shape": self.look("shape")},
            }
        )
        return {
            "data": {"values": dodged if len(self.used) > 1 else rows},
            "width": width,
            "height": _HEIGHT,
            "title": self.title(is_right=True),
            "layer": layers,
        }

    def _times(self, times: list[float], domain: list[float]) -> Spec:
        """Return the channel of Unix times: a tick for every day with a run, or for every run of a single day.

        Labels are written here, not by Vega: in the reader's language and in the time zone of the tables. They are
        found by whole seconds, since a fraction is not read alike in values and in expressions.
        """
        newest_first = sorted(map(int, times), reverse=True)
        ticks = {self.language.date(at): at for at in newest_first}
        if len(ticks) == 1:
            ticks = {self.language.moment(at): at for at in newest_first}
        labels = sorted((at, label) for label, at in ticks.items())
        labels = labels[:: -(-len(labels) // _MAX_TICKS)]
        texts = json.dumps([label for _, label in labels], ensure_ascii=False)
        places = [at for at, _ in labels]
        return {
            "type": "quantitative",
            "scale": {"domain": domain, "nice": False, "zero": False},
            "axis": {
                "title": self.text(self.chart.x_title),
                "grid": False,
                "values": places,
                "labelExpr": f"({texts})[indexof({json.dumps(places)}, datum.value)]",
                "labelOverlap": "greedy",
                "labelSeparation": 8,
            },
        }

    def _axis(self) -> Axis:
        """Around the values, not from zero: a change of a percent is to be seen."""
        shown = [value.right for value in self.values if value.right is not None]
        divisor = self.panel.scale.divisor
        numbers = [each[0] / divisor for each in shown]
        bounds = [bound / divisor for each in shown for bound in each[1:] if bound is not None]
        low, high = min(numbers), max(numbers)
        reach = max((high - low) * _REACH, max(abs(low), abs(high)) * _LEAST_RANGE) or 1.0
        low, high = max(min([low, *bounds]), low - reach), min(max([high, *bounds]), high + reach)
        room = (high - low) * 0.06 or reach
        return Axis(low - room, high + room, divisor, False)

    def _events(self, x: Spec, domain: list[float]) -> list[Spec]:
        events = [
            event
            for event in self.chart.events
            if event.panel == self.chart.panels.index(self.panel)
        ]
        layers: list[Spec] = []
        middle = sum(domain) / 2
        for event in events:
            at = event.x
            is_left = at < middle
            own: Spec = {"data": {"values": [{"at": at}]}}
            where: Spec = {"x": {"field": "at", **x}}
            layers.append(
                {
                    **own,
                    "mark": {
                        "type": "rule",
                        "strokeDash": [5, 3],
                        "strokeWidth": 1.4,
                        "color": MUTED,
                    },
                    "encoding": where,
                }
            )
            layers.append(
                {
                    **own,
                    "mark": {
                        "type": "text",
                        "text": textwrap.wrap(self.text(event.label), _LABEL_CHARS) or [""],
                        "align": "left" if is_left else "right",
                        "baseline": "top",
                        "dx": 4 if is_left else -4,
                        "fontSize": 10,
                        "color": INK,
                    },
                    "encoding": {**where, "y": {"value": 3}},
                }
            )
        return layers
