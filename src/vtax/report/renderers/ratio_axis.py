"""The axis of shares of the baseline: all of them with their intervals, in percent."""

from __future__ import annotations

import math
from typing import Any

from vtax.report import document as doc

_WIDE = 1.6  # from one end of an axis of ratios to the other: it is linear below, and logarithmic from here on
_MOST_DECADES = 6  # with ticks within them
_LARGEST, _LARGEST_ROOM = 1e300, 1e6  # of numbers that stay finite with the room, and in percent
_ROOM = 0.06  # of the axis, free at either end
_FINE_TICKS = (0.7, 0.8, 0.9, 1.1, 1.25, 1.5)


def domain_of(shown: list[doc.Bounded], margin: float) -> tuple[float, float]:
    """Return what the axis of ratios shows: all that is finite, with its intervals."""
    found = [each for each in shown if 0 < each[0] < math.inf]
    lows = [low or estimate for estimate, low, _ in found]
    highs = [estimate if high is None else high for estimate, _, high in found]
    low = max(min([*lows, 1 - 1.5 * margin]), 1 / _LARGEST)
    high = min(max([*highs, 1 + 1.5 * margin]), _LARGEST)
    room = math.exp((math.log(high) - math.log(low)) * _ROOM)
    if room > _LARGEST_ROOM:
        return _short(low), _short(high)
    return _short(low / room), _short(high * room)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def axis_of(domain: tuple[float, float]) -> dict[str, Any]:
    """Return scale and ticks of ratios in percent: logarithmic where they are far apart, so that nothing runs off."""
    low, high = domain
    label = {"labelExpr": "format(datum.value * 100, '~r') + '\u202f%'", "labelFlush": True}
    if high / low < _WIDE:
        return {"scale": {"domain": [low, high], "nice": False}, "axis": label}
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if len(decades) <= _MOST_DECADES else (1,)
    found = [float(f"{digit}e{power}") for power in decades for digit in digits]
    ticks = sorted(t for t in (*found, *(_FINE_TICKS if high / low < 6 * _WIDE else ())) if low <= t <= high)
    return {
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {**label, "values": ticks, "labelOverlap": True},
    }
