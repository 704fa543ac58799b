"""Drift of values over the whole run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vtax.messages import Note
from vtax.stats.checks import StatsError, Values, as_array, check_confidence, without_missing
from vtax.stats.ratio import LARGEST_LOG
from vtax.stats.trend import kendall_p, theil_sen
from vtax.stats.verdict import p_text


@dataclass(frozen=True)
class Drift:
    """change, low, high: relative change from the first to the last position. p_value: of no trend."""

    change: float
    low: float
    high: float
    p_value: float
    confidence: float
    warnings: tuple[str, ...]


def find_drift(values: Values, positions: Values | None = None, confidence: float = 0.95) -> Drift:
    """Return the trend of one cell's values over the run: Theil-Sen slope with Mann-Kendall's test (`trend`).

    The slope of positive values is that of their logarithms, so that neither end of the interval says that more than
    all is lost; values that are zero or negative change relative to their median. Blocking takes a drift out of the
    ratios; it is shown because means and intervals of cells contain it. The test takes correlated neighbours for a
    trend. Fewer than 4 values show no trend, with a warning.

    values: one per block, since trials in a guest depend on each other.
    positions: of each value in the run; by default its order.
    confidence: of the interval.

    Raises StatsError on unequal lengths or a median of zero.
    """
    check_confidence(confidence)
    y = as_array(values)
    x = np.arange(y.size, dtype=np.float64)
    if positions is not None:
        x = as_array(positions, "positions")
    if x.size != y.size:
        raise StatsError(f"{x.size} positions do not match {y.size} values")
    _, warnings = without_missing(y)
    keep = ~(np.isnan(y) | np.isnan(x))
    x, y = x[keep], y[keep]
    if y.size < 4 or np.ptp(x) == 0:
        return Drift(
            0.0,
            -np.inf,
            np.inf,
            1.0,
            confidence,
            (*warnings, Note("few-values-for-trend", values=y.size)),
        )
    level = float(np.median(y))
    if level == 0.0:
        raise StatsError(Note("zero-median-no-drift"))
    if np.ptp(y) == 0:
        return Drift(0.0, 0.0, 0.0, 1.0, confidence, warnings)
    is_positive = bool((y > 0).all())
    slope = theil_sen(x, np.log(y) if is_positive else y, confidence)
    p = kendall_p(x, y)
    span = float(np.ptp(x))

    def relative(slope: float) -> float:
        change = slope * span
        return math.expm1(min(change, LARGEST_LOG)) if is_positive else change / level

    change = relative(slope.estimate)
    low, high = sorted([relative(slope.low), relative(slope.high)])
    if p < 1 - confidence:
        percent = f"{change * 100:+.1f}\N{NO-BREAK SPACE}%".replace("-", "\N{MINUS SIGN}")
        warnings = (*warnings, f"values drift over the run by {percent} ({p_text(p)})")
    return Drift(change, low, high, p, confidence, warnings)
