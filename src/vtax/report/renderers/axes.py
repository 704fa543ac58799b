"""The axes of all figures: what they show, their ticks, and what of a value lies inside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from vtax.report import document as doc
from vtax.stats.margin import edges

Spec = dict[str, Any]
Channel = Literal["x", "y"]

ARROWS: Mapping[Channel, tuple[str, str]] = {"x": ("◀", "▶"), "y": ("▼", "▲")}
"""At the low and at the high end of an axis: something lies beyond it."""
_REACH = 2.0  # an interval may stretch an axis to so many times the largest value
_ROOM = 0.06  # of an axis, free at an end
_LEAST_RANGE = 0.02  # of the largest value: smaller changes are not blown up to a whole axis

_WIDE = 1.6  # from one end of an axis of ratios to the other: it is linear below, and logarithmic from here on
_FEWEST_APART = 1 / 7  # of the axis between two ticks, so that labels fit the narrowest figure
_NARROW_PX = 260  # plots below this label every second tick
_LARGEST, _LARGEST_ROOM = 1e300, 1e6  # of numbers that stay finite with the room, and in percent
_FINE_TICKS = ([0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5], [0.5, 0.6, 0.8, 1, 1.25, 1.5, 2])
_DIGITS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3))  # of ticks in each decade, the densest first


@dataclass(frozen=True)
class Axis:
    """A range of shown values along a channel. divisor: shown value = value / divisor. look: of its ticks and labels."""

    channel: Channel
    low: float
    high: float
    title: Any = None
    divisor: float = 1.0
    is_log: bool = False
    look: Spec = field(default_factory=dict)

    @property
    def encoding(self) -> Spec:
        """Scale, title and ticks, which every mark on the axis names alike."""
        kind = {"type": "log"} if self.is_log else {}
        scale = {"domain": [self.low, self.high], "nice": False, **kind}
        return {"type": "quantitative", "title": self.title, "scale": scale, "axis": self.look}

    def at(self, name: str) -> Spec:
        """Return the channel of a field."""
        return {self.channel: {"field": name, **self.encoding}}

    def span(self, first: str, last: str) -> Spec:
        """Return the channels of two fields, from one of which to the other a mark reaches."""
        return {**self.at(first), f"{self.channel}2": {"field": last}}

    def end(self, *, is_high: bool) -> Spec:
        """Return the channel of an end."""
        return {self.channel: {"datum": self.high if is_high else self.low, **self.encoding}}

    def record(self, bounded: doc.Bounded | None) -> Spec:
        """Return the fields of a value: `value`, and `low`, `high` as far as they are inside.

        Empty what is not there. below, above: the sign of what lies beyond an end, empty for nothing.
        """
        value, low, high = (None, None, None)
        if bounded is not None:
            value, low, high = (
                None if number is None else number / self.divisor for number in bounded
            )
        if value is None or (self.is_log and value <= 0):
            return {"value": None, "low": None, "high": None, "below": "", "above": ""}
        signs = ARROWS[self.channel]
        ends = [number for number in (value, low, high) if number is not None]
        fields: Spec = {
            "value": value if self.low <= value <= self.high else None,
            "low": None,
            "high": None,
            "below": signs[0] if min(ends) < self.low else "",
            "above": signs[1] if max(ends) > self.high else "",
        }
        if low is not None and high is not None:
            fields |= {"low": max(low, self.low), "high": min(high, self.high)}
        return fields


def value_axis(
    channel: Channel,
    values: Iterable[doc.Bounded],
    divisor: float,
    title: Any,
    *,
    further: Sequence[float] = (),
    is_log: bool = False,
    is_near: bool = False,
) -> Axis:
    """Return the axis of values with their intervals, as far as these do not shrink the values to nothing.

    It begins at zero; is_log: around what is positive; is_near: around the values, where a change of a percent is to
    be seen. further: values without an interval.
    """
    bounded_values = list(values)
    numbers = [value / divisor for value, *_ in bounded_values] + [
        value / divisor for value in further
    ]
    bounds = [bound / divisor for _, *ends in bounded_values for bound in ends if bound is not None]
    look: Spec = {"tickCount": 5}
    if is_log:
        positive = [number for number in numbers if number > 0] or [1.0]
        low, high = min(positive), max(positive)
        lows = [bound for bound in bounds if bound > 0]
        low, high = max(min([low, *lows]), low / _REACH), min(max([high, *bounds]), high * _REACH)
        room = max((high / low) ** 0.04, 1.02)
        return Axis(channel, low / room, high * room, title, divisor, is_log=True, look=look)
    if is_near:
        low, high = min(numbers), max(numbers)
        reach = max(high - low, max(abs(low), abs(high)) * _LEAST_RANGE) or 1.0
        low, high = max(min([low, *bounds]), low - reach), min(max([high, *bounds]), high + reach)
        room = (high - low) * _ROOM or reach
        return Axis(channel, low - room, high + room, title, divisor, look=look)
    low, high = min([0.0, *numbers]), max([0.0, *numbers])
    high = min(max([high, *bounds]), high * _REACH) * (1 + _ROOM) or 1.0
    return Axis(channel, low * (1 + _ROOM), high, title, divisor, look=look)


def ratio_axis(estimates: Iterable[doc.Bounded], margin: float, title: Any) -> Axis:
    """Return the axis of ratios in percent: all that is finite, with its intervals, and the band of the margin.

    It is logarithmic where they are far apart, so that nothing runs off. 100 % is a labelled tick at any width.
    """
    finite = [bounded for bounded in estimates if 0 < bounded[0] < math.inf]
    lows = [low or estimate for estimate, low, _ in finite]
    highs = [estimate if high is None else high for estimate, _, high in finite]
    lowest, highest = edges(1.5 * margin)
    low = max(min([*lows, lowest]), 1 / _LARGEST)
    high = min(max([*highs, highest]), _LARGEST)
    room = math.exp((math.log(high) - math.log(low)) * _ROOM)
    room = 1.0 if room > _LARGEST_ROOM else room
    low, high = _short(low / room), _short(high * room)
    is_log = high / low >= _WIDE
    ticks = (_log_ticks if is_log else _linear_ticks)(low, high)
    place_of_one = ticks.index(1)
    second = [tick for number, tick in enumerate(ticks) if (number - place_of_one) % 2]
    text = "format(datum.value * 100, '~g') + '\u202f%'"
    look = {
        "labelExpr": f"width < {_NARROW_PX} && indexof({second}, datum.value) >= 0 ? '' : {text}",
        "labelFlush": True,
        "labelOverlap": False,
        "values": ticks,
        "tickCount": len(ticks),  # beyond the count Vega leaves every second out
    }
    return Axis("x", low, high, title, is_log=is_log, look=look)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _linear_ticks(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten, as dense as labels fit."""
    least_step = (high - low) * _FEWEST_APART
    power = math.floor(math.log10(least_step))
    step = next(
        candidate
        for digit in (1, 2, 5, 10)
        if (candidate := float(f"{digit}e{power}")) >= least_step
    )
    below, above = (math.floor(float(f"{room / step:.9g}")) for room in (1 - low, high - 1))
    return [float(f"{1 + number * step:.12g}") for number in range(-below, above + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return the densest ticks whose labels fit: the same digits in each decade, or every nth power of ten."""
    decades_apart = (math.log10(high) - math.log10(low)) * _FEWEST_APART
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    nth = max(1, math.ceil(decades_apart))
    sets = list(_FINE_TICKS)
    for digits in _DIGITS:
        sets.append([float(f"{digit}e{power}") for power in powers for digit in digits])
    sets.append([float(f"1e{power}") for power in powers if power % nth == 0])
    for ticks in sets:
        inside = [tick for tick in ticks if low <= tick <= high]
        gaps = [math.log10(right) - math.log10(left) for left, right in pairwise(inside)]
        if min(gaps, default=decades_apart) >= decades_apart:
            return inside
    raise ValueError(f"no power of ten from {low} to {high} has room")
