"""A margin: by what share two quantities may differ and still count as alike.

It lies on the logarithm, so that a rate and its time have the same one: a margin of 2 % holds the ratios from 1 / 1.02
to 1.02, and the inverse of a ratio inside is inside.
"""

from __future__ import annotations

import math

from vtax.stats.terms import StatsError


def check_margin(margin: float) -> None:
    """Raise StatsError unless 0 < margin < 1."""
    if not 0 < margin < 1:
        raise StatsError(f"a margin of {margin} is not between 0 and 1")


def log_margin(margin: float) -> float:
    """Return the largest distance of a log-ratio from 0 within a margin."""
    return math.log1p(margin)


def edges(margin: float) -> tuple[float, float]:
    """Return the lowest and the highest ratio within a margin."""
    return 1 / (1 + margin), 1 + margin


def margin_between(low: float, high: float) -> float:
    """Return the margin around the middle of two log-ratios that ends at both."""
    return math.expm1((high - low) / 2)


def holds_interval(low: float, high: float, margin: float) -> bool:
    """Return whether the interval from one ratio to another lies inside a margin."""
    lowest, highest = edges(margin)
    return lowest < low and high < highest
