"""Charts of numbers in a grid: heatmaps, darker where larger, and tables."""

from __future__ import annotations

from vtax.report import document as doc
from vtax.report.document import joined
from vtax.report.renderers.chart_layers import PAPER, WIDTH, Drawn
from vtax.report.renderers.format import Formatter
from vtax.report.renderers.vega import Spec

_CELL_HEIGHT, _CELL_WIDTH = 34, 58
_FILLS = ["#f4f7fb", "#9db8d9", "#10325f"]
_BELOW, _MIDDLE, _ABOVE = "#8a3b12", "#f7f7f7", "#10325f"  # of values that have a middle
_NARROW = 0.02  # width of an interval, as a share of its estimate
_DARK = 0.55  # of the range of a heatmap, from which its numbers are white


def cells(chart: doc.Chart, formatter: Formatter, number: int) -> list[Spec]:
    """Return both sides of a panel."""
    return _Cells(chart, formatter, number).sides()


class _Cells(Drawn):
    def sides(self) -> list[Spec]:
        """Return a grid of numbers; of a heatmap darker where larger."""
        columns = [self.text(label) for _, label in self.chart.x_labels]
        rows = [self.text(label) for label in self.chart.y_labels]
        places = [place for place, _ in self.chart.x_labels]
        alike = [
            number
            for number, panel in enumerate(self.chart.panels)
            if panel.axis == self.panel.axis
        ]
        shown = [  # one colour is one value in all panels of a quantity
            each[0]
            for value in self.chart.values
            if value.panel in alike
            for each in (value.left, value.right)
            if each is not None
        ]
        low, high = min([0.0, *shown]), max(shown, default=1.0)
        is_table = self.chart.kind == "table"
        sides = []
        for is_right in (False, True):
            records = []
            for value in self.values:
                bounded = value.right if is_right else value.left
                printed = value.printed if self.has_printed(is_right) else None
                text = self._cell(bounded, printed, is_spread=is_table and not is_right)
                share = self._darkness(bounded[0], low, high) if bounded is not None else 0.0
                records.append(
                    {
                        "x": columns[places.index(value.x)],
                        "y": rows[value.y],
                        "text": text,
                        "fill": bounded[0] if bounded is not None and not is_table else None,
                        "dark": bool(share > _DARK and not is_table),
                    }
                )
            layers = self._layers(columns, rows, low, high)
            width = max(WIDTH, _CELL_WIDTH * len(columns))
            sides.append(
                {
                    "data": {"values": records},
                    "width": width,
                    "height": _CELL_HEIGHT * len(rows),
                    "layer": layers,
                    "title": self.title(is_right),
                    "resolve": {"scale": {"fill": "independent"}},
                }
            )
        return sides

    def _layers(self, columns: list[str], rows: list[str], low: float, high: float) -> list[Spec]:
        at: Spec = {
            "x": {
                "field": "x",
                "type": "nominal",
                "scale": {"domain": columns, "padding": 0},
                "axis": {
                    "title": self.text(self.chart.x_title) or None,
                    "domain": False,
                    "ticks": False,
                    "labelAngle": -35 if max(map(len, columns), default=0) > 8 else 0,
                    "grid": False,
                },
            },
            "y": {
                "field": "y",
                "type": "nominal",
                "scale": {"domain": rows, "padding": 0},
                "axis": {
                    "title": self.text(self.chart.y_title) or None,
                    "domain": False,
                    "ticks": False,
                    "grid": False,
                },
            },
        }
        middle = self.panel.middle
        reach = 1.0 if middle is None else self._reach(middle, low, high)
        scale: Spec = {"domain": [low, high], "range": _FILLS}
        if middle is not None:
            scale = {
                "domain": [middle - reach, middle, middle + reach],
                "range": [_BELOW, _MIDDLE, _ABOVE],
            }
        fill: Spec = {"field": "fill", "type": "quantitative", "legend": None, "scale": scale}
        return [
            {
                "transform": [{"filter": "isValid(datum.fill)"}],
                "mark": {"type": "rect", "stroke": PAPER},
                "encoding": {**at, "fill": fill},
            },
            {
                "mark": {
                    "type": "text",
                    "fontSize": 9,
                    "lineBreak": "\n",
                    "lineHeight": 12,
                    "baseline": "middle",
                    "dy": {"expr": "indexof(datum.text, '\\n') < 0 ? 0 : -5"},
                },
                "encoding": {
                    **at,
                    "text": {"field": "text"},
                    "color": {
                        "condition": {"test": "datum.dark", "value": "white"},
                        "value": "black",
                    },
                },
            },
        ]

    def _darkness(self, value: float, low: float, high: float) -> float:
        """From 0, the lightest fill of the values from low to high, to 1."""
        middle = self.panel.middle
        if middle is not None:
            return abs(value - middle) / self._reach(middle, low, high)
        return (value - low) / (high - low) if high > low else 0.0

    def _reach(self, middle: float, low: float, high: float) -> float:
        """Return the largest distance from the middle, for which colours are darkest."""
        return max(high - middle, middle - low) or 1.0

    def _cell(
        self, bounded: doc.Bounded | None, printed: doc.Bounded | None, *, is_spread: bool
    ) -> str:
        """is_spread: bounds are a deviation on either side of the value, as a publication prints it."""
        lines = []
        if bounded is not None:
            value, low, high = bounded
            is_narrow = low is not None and high is not None and high - low < _NARROW * abs(value)
            digits = 4 if is_narrow else 3  # 99.9 and 100.1 must not both be 100
            text = (
                doc.Share(value)
                if self.chart.is_share
                else doc.Number(value / self.panel.scale.divisor, digits)
            )
            lines.append(self.text(text))
            if is_spread and high is not None:
                lines.append(
                    self.text(
                        joined(["±", doc.Number((high - value) / self.panel.scale.divisor, 3)], " ")
                    )
                )
            elif low is not None and high is not None and value:
                bounds = [
                    doc.Number(bound / self.panel.scale.divisor, digits) for bound in (low, high)
                ]
                lines.append(self.text(joined(["[", joined(bounds, self.separator), "]"], "")))
        if printed is not None:
            text = (
                doc.Share(printed[0], "declared")
                if self.chart.is_share
                else doc.Number(printed[0] / self.panel.scale.divisor, 3)
            )
            spread = (
                ()
                if printed[2] is None
                else ("±", doc.Number((printed[2] - printed[0]) / self.panel.scale.divisor, 3))
            )
            lines.append(self.text(joined(["◇", text, *spread], " ")))
        return "\n".join(lines) or "–"
