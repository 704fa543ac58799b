"""Quantiles with intervals between order statistics, for values that come in blocks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from vtax.stats.checks import Array, Values, as_array, check_confidence
from vtax.stats.intervals import Interval, t_quantile


def quantile_interval(
    values: Values, blocks: ArrayLike, probability: float, confidence: float = 0.95
) -> Interval:
    """Return a quantile with the interval between two order statistics, free of any assumption on the distribution.

    The number of values up to the quantile is binomial, which gives the two ranks (Conover, Practical Nonparametric
    Statistics, 3rd ed. 1999, section 3.2). Values of one block may be alike: the binomial is that of fewer values, as
    many as these are worth by the variance between blocks of the share up to the quantile (Woodruff, JASA 47, 1952;
    effective sample size of Korn and Graubard, Survey Methodology 24, 1998, with Student's factor for few blocks).
    A bound that no value can be has no rank and is infinite: `fewest_values` says how many would do.

    blocks: of each value. The estimate is the median-unbiased one (Hyndman and Fan, American Statistician 50, 1996,
    type 8).
    """
    check_confidence(confidence)
    array, block = as_array(values), np.asarray(blocks)
    sorted_values, n = np.sort(array), array.size
    estimate = float(np.quantile(array, probability, method="median_unbiased"))
    share = worth((array <= estimate).astype(np.float64), block, probability, confidence) / n
    tail = (1 - confidence) / 2
    counts = np.arange(n, dtype=np.float64)  # 0 to n - 1 values
    at_most = _at_most(counts * share, n * share, probability)
    below = np.flatnonzero(at_most <= tail)
    above = np.flatnonzero(1 - at_most <= tail)
    low = float(sorted_values[below[-1]]) if below.size else -math.inf
    high = float(sorted_values[above[0]]) if above.size else math.inf
    return Interval(estimate, low, high, confidence)


def worth(is_below: Array, blocks: Array, probability: float, confidence: float) -> float:
    """Return how many independent values the values of blocks are worth for the share `is_below`; at most all.

    is_below: 1 for each value up to the quantile, else 0.
    blocks: of each value.
    probability: of the quantile.
    confidence: of its interval.
    """
    n = is_below.size
    names, index = np.unique(blocks, return_inverse=True)
    if names.size < 2 or names.size == n:
        return float(n)
    counts, hits = np.bincount(index), np.bincount(index, weights=is_below)
    residual = hits - counts * hits.sum() / n
    between = float((residual**2).sum()) / n**2 * names.size / (names.size - 1)
    effect = between / (probability * (1 - probability) / n)
    if effect <= 1:
        return float(n)
    upper = (1 + confidence) / 2
    factor = (t_quantile(upper, n - 1) / t_quantile(upper, names.size - 1)) ** 2
    return max(min(n / effect * factor, float(n)), 1.0)


def fewest_values(probability: float, confidence: float = 0.95) -> int:
    """Return the fewest independent values whose interval of a quantile has both bounds."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(probability, 1 - probability)))


def _at_most(counts: Array, n: float, probability: float) -> Array:
    """Return P(B <= count) of a binomial of n, which need not be whole, by the incomplete beta function."""
    share = special.betainc(np.maximum(n - counts, 1e-12), counts + 1, 1 - probability)
    return np.asarray(share, dtype=np.float64)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def ratio_of_quantiles(treatment: Interval, baseline: Interval) -> Interval:
    """Return the ratio of two quantiles with its interval, from those of both: the method of variance estimates
    recovery on logarithms (Zou and Donner, Statistics in Medicine 27, 2008).

    It takes the sides as independent; where blocks make both alike, it is too wide rather than too narrow. A bound
    that a side lacks makes that of the ratio 0 or infinite. Quantiles are times: above 0.
    """
    a, b = _log(treatment.estimate), _log(baseline.estimate)
    below = math.hypot(a - _log(treatment.low), _log(baseline.high) - b)
    above = math.hypot(_log(treatment.high) - a, b - _log(baseline.low))
    return Interval(
        math.exp(a - b), math.exp(a - b - below), math.exp(a - b + above), treatment.confidence
    )
