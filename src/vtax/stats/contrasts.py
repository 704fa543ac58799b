"""Contrasts other than platform against baseline in the same block: across runs, hosts, or differing blocks.

Within one run every contrast is paired (`paired_ratio`): platform against platform, and level against level of a
factor, since a block holds every cell. Blocks of two runs have nothing in common, so their logarithms are compared as
two samples. A ratio of ratios (does the overhead differ between hosts?) is the same with log-ratios for values.
"""

from __future__ import annotations

import math

import numpy as np

from vtax.stats.checks import Values, as_array, check_confidence, check_positive, without_missing
from vtax.stats.intervals import t_quantile
from vtax.stats.notes import Note
from vtax.stats.ratio import Ratio, exp, standard_error, tail


def unpaired_ratio(left: Values, right: Values, confidence: float = 0.95) -> Ratio:
    """Ratio left / right of two samples of block averages that share no blocks (Welch's t-interval on logarithms).

    NaN are left out with a warning. Raises StatsError when a side is empty or holds zeros or negatives.
    """
    numerator, denominator = as_array(left, "values of the left side"), as_array(right, "values of the right side")
    check_positive(numerator, "values of the left side")
    check_positive(denominator, "values of the right side")
    return unpaired_ratio_of_logs(np.log(numerator), np.log(denominator), confidence)


def unpaired_ratio_of_logs(left: Values, right: Values, confidence: float = 0.95) -> Ratio:
    """The same from logarithms: of values, or of ratios for a ratio of ratios. n_blocks: of the smaller side."""
    check_confidence(confidence)
    a, warnings_a = without_missing(as_array(left, "logarithms"), "blocks of the left side")
    b, warnings_b = without_missing(as_array(right, "logarithms"), "blocks of the right side")
    mean, n = float(a.mean() - b.mean()), min(a.size, b.size)
    warnings = (*warnings_a, *warnings_b, Note("across-runs"))
    if n == 1:
        warnings = (*warnings, Note("one-block"))
        return Ratio(exp(mean), 0.0, math.inf, confidence, 1, mean, math.nan, 0.0, 1.0, None, None, (), warnings)
    var_a, var_b = standard_error(a) ** 2, standard_error(b) ** 2
    se = math.sqrt(var_a + var_b)
    df = float(a.size + b.size - 2)
    if se > 0:
        df = se**4 / (var_a**2 / (a.size - 1) + var_b**2 / (b.size - 1))  # Welch 1947
    else:
        warnings = (*warnings, Note("equal-blocks"))
    half = t_quantile((1 + confidence) / 2, df) * se
    return Ratio(
        estimate=exp(mean), low=exp(mean - half), high=exp(mean + half), confidence=confidence,
        n_blocks=n, mean_log=mean, se_log=se, df=df, p_value=min(1.0, 2 * tail(abs(mean), se, df)),
        bootstrap_low=None, bootstrap_high=None, outliers=(), warnings=warnings,
    )  # fmt: skip
