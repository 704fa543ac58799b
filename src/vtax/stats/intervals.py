"""Intervals for a mean and for a median: the small tools that all other modules use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy import special

from vtax.described import Means
from vtax.messages import Note
from vtax.stats.checks import Values, as_array, check_confidence, without_missing
from vtax.stats.means import sd_of


@dataclass(frozen=True)
class Interval:
    """An estimate between two bounds. confidence: what the method promises (for a median: what the ranks give)."""

    estimate: Annotated[float, Means("estimate")]
    low: Annotated[float, Means("bounds of its interval")]
    high: Annotated[float, Means("bounds of its interval")]
    confidence: float = 0.95
    warnings: tuple[str, ...] = ()


def t_quantile(probability: float, df: float) -> float:
    """Student's quantile; much faster than scipy.stats.t.ppf on single numbers."""
    return float(special.stdtrit(df, probability))


def t_tail(t: float, df: float) -> float:
    """P(T > t) of Student's distribution."""
    return float(special.stdtr(df, -t))


def mean_interval(values: Values, confidence: float = 0.95) -> Interval:
    """Student's t-interval of the mean of independent values. One value: from -inf to inf, with a warning."""
    check_confidence(confidence)
    array, warnings = without_missing(as_array(values))
    mean, n = float(array.mean()), array.size
    if n == 1:
        return Interval(mean, -np.inf, np.inf, confidence, (*warnings, Note("one-value")))
    half_width = t_quantile((1 + confidence) / 2, n - 1) * sd_of(array) / math.sqrt(n)
    return Interval(mean, mean - half_width, mean + half_width, confidence, warnings)


def median_interval(values: Values, confidence: float = 0.95) -> Interval:
    """Median with the interval between two order statistics, free of any assumption on the distribution.

    The ranks are the binomial ones (Le Boudec, Performance Evaluation of Computer and Communication Systems, 2010,
    theorem 2.1); `confidence` of the result is what they really give, at least what was asked unless a warning says
    that there are too few values (fewer than 6 for 95 %), in which case the bounds are the extremes.
    """
    check_confidence(confidence)
    array, warnings = without_missing(as_array(values))
    sorted_values, n = np.sort(array), array.size
    rank = _binomial_quantile((1 - confidence) / 2, n)
    if rank < 1:
        rank = 1
    reached = 1 - 2 * float(special.bdtr(rank - 1, n, 0.5))
    if reached < confidence:
        warnings = (
            *warnings,
            f"{n} values give a median interval of {max(reached, 0) * 100:.1f}\N{NO-BREAK SPACE}%, "
            f"not {confidence * 100:g}\N{NO-BREAK SPACE}%",
        )
    low, middle, high = (
        sorted_values[rank - 1],
        (sorted_values[(n - 1) // 2] + sorted_values[n // 2]) / 2,
        sorted_values[n - rank],
    )
    return Interval(float(middle), float(low), float(high), max(reached, 0.0), warnings)


def _binomial_quantile(probability: float, n: int) -> int:
    """Least k with P(B <= k) >= probability, B binomial with n and 1/2; as scipy.stats.binom.ppf finds it."""
    k = math.ceil(special.bdtrik(probability, n, 0.5))
    return k - 1 if k > 0 and special.bdtr(k - 1, n, 0.5) >= probability else k
