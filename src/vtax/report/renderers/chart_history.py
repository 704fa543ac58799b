"""Charts of values over time: a symbol with its interval for every run, a rule at every change point."""

from __future__ import annotations

import textwrap

from vtax.report.document import Chart
from vtax.report.renderers.chart_axes import Axis
from vtax.report.renderers.chart_layers import INK, MUTED, WIDTH, intervals
from vtax.report.renderers.chart_lines import Looks
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import Spec

_HEIGHT = 240  # pixels
_REACH = 1.0  # intervals may stretch the axis by so many times the range of the values, to each side
_LEAST_RANGE = 0.02  # of the largest value: smaller changes are not blown up to the whole axis
_DAY_MS = 86_400_000
_LABEL_CHARS = 28


def history(chart: Chart, formatter: Formatter, number: int) -> list[Spec]:
    """One drawing of a panel, as wide as two sides."""
    return [_History(chart, formatter, number).drawing()]


class _History(Looks):
    def drawing(self) -> Spec:
        axis = self._axis()
        times = [value.x * 1000 for value in self.values]
        first, last = min(times), max(times)
        room = max((last - first) * 0.04, 60_000.0)
        domain = [first - room, last + room]
        rows, dodged = [], []
        for value in self.values:
            row: Spec = {"series": self.labels[value.series], "x": value.x * 1000, **axis.record(value.right)}
            rows.append(row)
            dodged.append({**row, "x": value.x * 1000 + (domain[1] - domain[0]) * self.aside(value)})
        pattern = "%Y-%m-%d" if last - first > 2 * _DAY_MS else "%m-%d %H:%M"
        x: Spec = {
            "type": "temporal", "scale": {"type": "utc", "domain": domain, "nice": False},
            "axis": {"title": self.text(self.chart.x_title), "format": pattern, "grid": False, "tickCount": 6,
                     "labelOverlap": "greedy"},
        }  # fmt: skip
        y = self.scaled(axis)
        at: Spec = {"x": {"field": "x", **x}}
        here: Spec = {**at, "y": {"field": "value", **y}, "color": self.look("color")}
        layers: list[Spec] = [
            *self._events(x, domain),
            {"mark": {"type": "line", "strokeWidth": 1.1},
             "encoding": {**here, "strokeDash": self.look("strokeDash")}},
        ]  # fmt: skip
        layers += [
            {**each, "encoding": {**each["encoding"], "color": self.look("color")}} for each in intervals(at, y, "y")
        ]
        layers += axis.arrows(at, y, "y")
        layers.append({
            "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
            "encoding": {**here, "shape": self.look("shape")},
        })  # fmt: skip
        return {
            "data": {"values": dodged if len(self.used) > 1 else rows}, "width": 2 * WIDTH + 60, "height": _HEIGHT,
            "title": self.title(is_right=True), "layer": layers,
        }  # fmt: skip

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
        events = [event for event in self.chart.events if event.panel == self.chart.panels.index(self.panel)]
        layers: list[Spec] = []
        middle = sum(domain) / 2
        for event in events:
            at = event.x * 1000
            is_left = at < middle
            own: Spec = {"data": {"values": [{"at": at}]}}
            where: Spec = {"x": {"field": "at", **x}}
            layers.append({
                **own, "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 1.4, "color": MUTED},
                "encoding": where,
            })  # fmt: skip
            layers.append({
                **own,
                "mark": {"type": "text", "text": textwrap.wrap(self.text(event.label), _LABEL_CHARS) or [""],
                         "align": "left" if is_left else "right", "baseline": "top", "dx": 4 if is_left else -4,
                         "fontSize": 10, "color": INK},
                "encoding": {**where, "y": {"value": 3}},
            })  # fmt: skip
        return layers
