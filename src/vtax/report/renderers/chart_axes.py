"""The axis of a chart's values: its range, and arrows for intervals that leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtax.report import document as doc
from vtax.report.renderers.vega import Spec

_ROOM = 1.06
_REACH = 2.0  # an interval may stretch the axis to so many times the largest value


@dataclass(frozen=True)
class Axis:
    """A range of shown values. divisor: shown value = value / divisor."""

    low: float
    high: float
    divisor: float
    is_log: bool

    @property
    def scale(self) -> Spec:
        """The scale of Vega-Lite."""
        kind = {"type": "log"} if self.is_log else {}
        return {"domain": [self.low, self.high], "nice": False, **kind}

    def record(self, bounded: doc.Bounded | None) -> Spec:
        """Fields of a value: `value`, `low`, `high` inside the axis, and `low_beyond`, `high_beyond`."""
        if bounded is None:
            return {"value": None, "low": None, "high": None}
        value, low, high = (None if each is None else each / self.divisor for each in bounded)
        if value is not None and self.is_log and value <= 0:
            return {"value": None, "low": None, "high": None}
        found: Spec = {"value": value, "low": None, "high": None}
        if low is not None and high is not None:
            found["low"], found["high"] = max(low, self.low), min(high, self.high)
            found["low_beyond"], found["high_beyond"] = low < self.low, high > self.high
        return found

    def cuts(self, values: Sequence[doc.ChartValue]) -> bool:
        """Return whether an interval of some value goes on beyond the axis."""
        shown = [self.record(each) for value in values for each in (value.left, value.right)]
        return any(each.get("low_beyond") or each.get("high_beyond") for each in shown)

    def arrows(self, base: Spec, scale: Spec, channel: str) -> list[Spec]:
        """Layers with an arrow at the end of the axis for every interval that goes on beyond it."""
        signs = {"x": ("◀", "▶"), "y": ("▼", "▲")}[channel]
        ends = (("low", signs[0], 6), ("high", signs[1], -6))
        layers = []
        for field, sign, inside in ends:
            shift: Spec = {"dx": inside} if channel == "x" else {"dy": -inside}
            layer: Spec = {"transform": [{"filter": f"datum.{field}_beyond === true"}]}
            layer["mark"] = {"type": "text", "text": sign, "fontSize": 9, "color": "@ink", **shift}
            layer["encoding"] = {**base, channel: {"field": field, **scale}}
            layers.append(layer)
        return layers


def value_axis(values: Sequence[doc.ChartValue], scale: doc.Scale, is_log: bool) -> Axis:
    """Return the axis of all values of a panel, both sides: from zero, or of a logarithmic one around what is
    positive."""
    shown = [
        each
        for value in values
        for each in (value.left, value.right, value.printed)
        if each is not None
    ]
    numbers = [each[0] / scale.divisor for each in shown]
    bounds = [bound / scale.divisor for each in shown for bound in each[1:] if bound is not None]
    if is_log:
        positive = [number for number in numbers if number > 0] or [1.0]
        low, high = min(positive), max(positive)
        lows = [bound for bound in bounds if 0 < bound < low]
        low, high = max([min([low, *lows]), low / _REACH]), min(max([high, *bounds]), high * _REACH)
        room = max((high / low) ** 0.04, 1.02)
        return Axis(low / room, high * room, scale.divisor, True)
    high = max([0.0, *numbers])
    low = min([0.0, *numbers])
    return Axis(
        low * _ROOM, min(max([high, *bounds]), high * _REACH) * _ROOM or 1.0, scale.divisor, False
    )
