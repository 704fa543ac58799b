"""The axis of ratios to the baseline: all of them with their intervals, in percent."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtax.report.document import FigureRow

_FARTHEST = 1000.0  # times faster or slower than the baseline that an axis of ratios shows at most
_WIDE = 1.6  # from one end of an axis of ratios to the other: it is linear below, and logarithmic from here on
_TICKS = tuple(digit * 10.0**power for power in range(-3, 4) for digit in (1, 2, 5))
_FINE_TICKS = (0.7, 0.8, 0.9, 1.1, 1.25, 1.5)


def domain_of(rows: list[FigureRow], margin: float) -> tuple[float, float]:
    """Return what the axis of ratios shows: all that is finite, with its intervals."""
    found = [row for row in rows if np.isfinite(row.estimate)]
    lows = [row.low or row.estimate for row in found]
    highs = [row.estimate if row.high is None else row.high for row in found]
    low = max(min([*lows, 1 - 1.5 * margin]), 1 / _FARTHEST)
    high = min(max([*highs, 1 + 1.5 * margin]), _FARTHEST)
    room = (high / low) ** 0.06
    return round(low / room, 5), round(high * room, 5)


def axis_of(domain: tuple[float, float]) -> dict[str, Any]:
    """Return scale and ticks of ratios in percent: logarithmic where they are far apart, so that nothing runs off."""
    low, high = domain
    label = {"labelExpr": "format(datum.value * 100, '~r') + '\u202f%'", "labelFlush": True}
    if high / low < _WIDE:
        return {"scale": {"domain": [low, high], "nice": False}, "axis": label}
    ticks = sorted(t for t in (*_TICKS, *(_FINE_TICKS if high / low < 6 * _WIDE else ())) if low <= t <= high)
    return {
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {**label, "values": ticks, "labelOverlap": True},
    }
