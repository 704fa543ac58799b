"""How much values vary, as one number for every block, so that it has an interval as a ratio has.

The spread is the standard deviation of logarithms: for less than about 0.3 nearly the coefficient of variation.
"""

from __future__ import annotations

import numpy as np

from vtax.stats.checks import Array, StatsError
from vtax.stats.notes import Note

FEWEST = 3  # values: two have a standard deviation, but leaving one out has none


def spread_over_blocks(logs: Array) -> Array:
    """One pseudo-value for every block of the logarithm of the blocks' standard deviation.

    logs: one logarithm per block, without NaN. Their mean is the jackknifed estimate, and Student's t holds for it
    whatever the shape of the noise, which the F-test of variances does not (Miller, Jackknifing variances, Ann. Math.
    Statist. 1968). Raises StatsError for fewer than three blocks, and where all but one are equal.
    """
    n = logs.size
    if n < FEWEST:
        raise StatsError(Note("few-for-spread", count=n, minimum=FEWEST))
    whole = float(logs.std(ddof=1))
    without = np.array([np.delete(logs, k).std(ddof=1) for k in range(n)])
    if min(whole, float(without.min())) <= 1e-13 * max(1.0, float(np.abs(logs).max())):
        raise StatsError(Note("no-spread"))
    return np.asarray(n * np.log(whole) - (n - 1) * np.log(without))


def spread_over_points(logs: Array) -> Array:
    """The logarithm of the standard deviation over points, of every block.

    logs: shape (points, blocks). NaN for a block that lacks a point. Raises StatsError for fewer than three points,
    and where they are all equal in a block.
    """
    if logs.shape[0] < FEWEST:
        raise StatsError(Note("few-for-spread", count=logs.shape[0], minimum=FEWEST))
    spread = logs.std(axis=0, ddof=1)
    if np.isnan(spread).all() or np.nanmin(spread) <= 1e-13:
        raise StatsError(Note("no-spread"))
    return np.asarray(np.log(spread))
