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
    values, parts = (
        logs,
        np.zeros((logs.size, 0)),
    )  # of each value: how much of each variance below is in it
    variances: list[Array] = []
    seen: list[str] = []
    for unit, of in zip(UNITS, parents_of(sessions), strict=False):
        size = np.bincount(of).astype(float)
        means = np.bincount(of, values) / size
        df, own = values.size - size.size, np.zeros(_DRAWS)
        if df:
            squares = float(((values - means[of]) ** 2).sum())
            below = (1 - 1 / size[of]) @ parts / df
            own = squares / draw.chisquare(df, _DRAWS)
            own = np.maximum(
                0.0, own - sum((c * v for c, v in zip(below, variances, strict=True)), np.zeros(1))
            )
            seen.append(unit)
        variances.append(own)
        parts = np.column_stack([parts, np.ones(values.size)])
        parts = (
            np.column_stack([np.bincount(of, column) for column in parts.T])
            / size[:, np.newaxis] ** 2
        )
        values = means
    total = sum(variances, np.zeros(_DRAWS))
    if not (total > 0).all():
        return {}
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    bounds = {
        unit: np.quantile(own / total, tails)
        for unit, own in zip(UNITS, variances, strict=False)
        if unit in seen
    }
    return {unit: (float(low), float(high)) for unit, (low, high) in bounds.items()}
