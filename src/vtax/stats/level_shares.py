"""How surely the variance is shared out between blocks, sessions and hosts.

Each sum of squares is drawn anew from its distribution given what was seen, a variance times chi-squared of its
degrees of freedom, and the variances of the levels are taken apart as they were (`sessions`): a generalized
confidence interval (Weerahandi, Generalized confidence intervals, J. Am. Stat. Assoc. 1993; for such shares Burdick,
Borror & Montgomery, Design and Analysis of Gauge R&R Studies, 2005).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vtax.stats.checks import Array, check_confidence
from vtax.stats.sessions import UNITS, Labels, parents_of

_DRAWS, _SEED = 4000, 29


def share_intervals(
    logs: Array, sessions: Labels, confidence: float = 0.95
) -> Mapping[str, tuple[float, float]]:
    """Map each unit of a level that `nested_mean` can see to the bounds of its share of the sum of all variances.

    logs: one per block, without NaN. Nothing where all blocks are equal.
    Raises StatsError for no confidence.
    """
    check_confidence(confidence)
    draw = np.random.default_rng(_SEED)
    values = logs
    parts = np.zeros((logs.size, 0))  # of each value: how much of each variance below is in it
    variances: dict[str, Array] = {}
    units: list[str] = []
    for unit, parent in zip(UNITS, parents_of(sessions), strict=False):
        size = np.bincount(parent).astype(float)
        means = np.bincount(parent, values) / size
        df, own_variance = values.size - size.size, np.zeros(_DRAWS)
        if df:
            squares = float(((values - means[parent]) ** 2).sum())
            own_variance = squares / draw.chisquare(df, _DRAWS)
            shares = (1 - 1 / size[parent]) @ parts / df
            explained = np.zeros(1)
            for share, variance in zip(shares, variances.values(), strict=True):
                explained = explained + share * variance
            own_variance = np.maximum(0.0, own_variance - explained)
            units.append(unit)
        variances[unit] = own_variance
        parts = np.column_stack([parts, np.ones(values.size)])
        sums = np.column_stack([np.bincount(parent, column) for column in parts.T])
        parts = sums / size[:, np.newaxis] ** 2
        values = means
    total = sum(variances.values(), np.zeros(_DRAWS))
    if not (total > 0).all():
        return {}
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    bounds = {}
    for unit in units:
        low, high = np.quantile(variances[unit] / total, tails)
        bounds[unit] = float(low), float(high)
    return bounds
