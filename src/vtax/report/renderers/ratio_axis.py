"""The axis of shares of the baseline: all of them with their intervals, in percent."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from vtax.report import document as doc
from vtax.stats.margin import edges

_WIDE = 1.6  # from one end of an axis of ratios to the other: it is linear below, and logarithmic from here on
_FEWEST_APART = (
    1 / 7
)  # of the axis between two ticks, so that labels fit the narrowest static figure
_NARROW_PX = 260  # plots below this label every second tick
_LARGEST, _LARGEST_ROOM = 1e300, 1e6  # of numbers that stay finite with the room, and in percent
_ROOM = 0.06  # of the axis, free at either end
_FINE_TICKS = ([0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5], [0.5, 0.6, 0.8, 1, 1.25, 1.5, 2])
_DIGITS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3))  # of ticks in each decade, the densest first


def domain_of(shown: list[doc.Bounded], margin: float) -> tuple[float, float]:
    """Return what the axis of ratios shows: all that is finite, with its intervals."""
    found = [each for each in shown if 0 < each[0] < math.inf]
    lows = [low or estimate for estimate, low, _ in found]
    highs = [estimate if high is None else high for estimate, _, high in found]
    lowest, highest = edges(1.5 * margin)
    low = max(min([*lows, lowest]), 1 / _LARGEST)
    high = min(max([*highs, highest]), _LARGEST)
    room = math.exp((math.log(high) - math.log(low)) * _ROOM)
    if room > _LARGEST_ROOM:
        return _short(low), _short(high)
    return _short(low / room), _short(high * room)


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def axis_of(domain: tuple[float, float]) -> dict[str, Any]:
    """Return scale and ticks of ratios in percent: logarithmic where they are far apart, so that nothing runs off.

    100 % is a labelled tick at any width.
    """
    low, high = domain
    is_log = high / low >= _WIDE
    ticks = (_log_ticks if is_log else _linear_ticks)(low, high)
    one = ticks.index(1)
    second = [tick for number, tick in enumerate(ticks) if (number - one) % 2]
    text = "format(datum.value * 100, '~g') + '\u202f%'"
    return {
        "scale": {**({"type": "log"} if is_log else {}), "domain": [low, high], "nice": False},
        "axis": {
            "labelExpr": f"width < {_NARROW_PX} && indexof({second}, datum.value) >= 0 ? '' : {text}",
            "labelFlush": True,
            "labelOverlap": False,
            "values": ticks,
            "tickCount": len(ticks),  # beyond the count Vega leaves every second out
        },
    }


def _linear_ticks(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten, as dense as labels fit."""
    apart = (high - low) * _FEWEST_APART
    power = math.floor(math.log10(apart))
    step = next(each for digit in (1, 2, 5, 10) if (each := float(f"{digit}e{power}")) >= apart)
    below, above = (math.floor(float(f"{room / step:.9g}")) for room in (1 - low, high - 1))
    return [float(f"{1 + number * step:.12g}") for number in range(-below, above + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return the densest ticks whose labels fit: the same digits in each decade, or every nth power of ten."""
    apart = (math.log10(high) - math.log10(low)) * _FEWEST_APART
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, math.ceil(apart))
    sets = [
        *_FINE_TICKS,
        *(
            [float(f"{digit}e{power}") for power in powers for digit in digits]
            for digits in _DIGITS
        ),
        [float(f"1e{power}") for power in powers if power % every == 0],
    ]
    inside = ([tick for tick in ticks if low <= tick <= high] for ticks in sets)
    return next(
        ticks
        for ticks in inside
        if all(math.log10(b) - math.log10(a) >= apart for a, b in pairwise(ticks))
    )
