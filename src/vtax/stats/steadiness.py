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
    """Trend of one cell's values over the run: Theil-Sen slope with Mann-Kendall's test (see `trend`).

    The slope of positive values is that of their logarithms, so that neither end of the interval says that more than
    all is lost; values that are zero or negative change relative to their median.
    positions: place in the run of each value, default its order. Use one value per block: trials in a guest depend on
    each other. Blocking takes a drift out of the ratios; it is shown because means and intervals of cells hold it.
    The test takes values that follow one another for a trend.
    Raises StatsError on unequal lengths or a median of zero. Fewer than 4 values show no trend, with a warning.
    """
    check_confidence(confidence)
    y = as_array(values)
    x = (
        np.arange(y.size, dtype=np.float64)
        if positions is None
        else as_array(positions, "positions")
    )
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
    changes = [float(each) * span for each in (slope.estimate, slope.low, slope.high)]
    if is_positive:
        changes = [math.expm1(min(each, LARGEST_LOG)) for each in changes]
    else:
        changes = [each / level for each in changes]
    low, high = sorted(changes[1:])
    if p < 1 - confidence:
        warnings = (
            *warnings,
            f"values drift over the run by {changes[0] * 100:+.1f}\N{NO-BREAK SPACE}%".replace(
                "-", "\N{MINUS SIGN}"
            )
            + f" ({p_text(p)})",
        )
    return Drift(changes[0], low, high, p, confidence, warnings)
