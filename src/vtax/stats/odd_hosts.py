"""Some hosts against the others: whether what they show lies apart from what the others show.

It is Student's t of two means, under the hypothesis that all hosts are alike. Of a single host that is the deleted
residual: the scatter is that of the others alone, so that an odd host cannot hide behind the scatter that it makes
itself (Cook & Weisberg, Residuals and Influence in Regression, 1982).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.messages import Note
from vtax.stats.checks import Better, StatsError, Values, as_array, check_confidence
from vtax.stats.host_change import pooled_error
from vtax.stats.intervals import Interval, t_quantile
from vtax.stats.ratio import exp, tail

MIN_OTHERS = 3
"""Fewer hosts show no scatter that another could be apart from."""


@dataclass(frozen=True)
class Apart:
    """How many times the others' mean that of some hosts is. p_value: that they are alike, two-sided."""

    estimate: Annotated[float, Means("mean of these hosts divided by that of the others")]
    low: Annotated[float, Means("bounds of its interval")]
    high: Annotated[float, Means("bounds of its interval")]
    p_value: Annotated[
        float, Means("that they are alike, Holm-adjusted over all hosts and platforms")
    ]

    def efficiency(self, better: Better) -> Interval:
        """Return the performance as a share of the others'."""
        if better == "higher":
            return Interval(self.estimate, self.low, self.high)
        return Interval(
            1 / self.estimate, 1 / self.high, 1 / self.low if self.low > 0 else math.inf
        )


def against_the_others(some: Values, others: Values, confidence: float = 0.95) -> Apart:
    """Compare some hosts against the others, one logarithm per host. Raises StatsError for fewer than MIN_OTHERS of
    these."""
    check_confidence(confidence)
    inside, rest = as_array(some, "hosts"), as_array(others, "hosts")
    if not inside.size or rest.size < MIN_OTHERS:
        raise StatsError(Note("nothing", what="hosts"))
    mean = float(inside.mean() - rest.mean())
    se, df = pooled_error(inside, rest)
    half = t_quantile((1 + confidence) / 2, df) * se
    return Apart(
        exp(mean), exp(mean - half), exp(mean + half), min(1.0, 2 * tail(abs(mean), se, df))
    )
