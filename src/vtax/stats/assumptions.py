"""Assumptions of Student's t about a contrast, tested on its blocks: that they do not follow one another, and
that noise is not on one side alone. What is found widens the interval, and can withhold a verdict.

Both tests see what blocks show. Five blocks show neither; a rare slow block that did not occur is shown by none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from vtax.stats.checks import Array
from vtax.stats.intervals import t_quantile

FEWEST_TO_TEST = 8  # blocks
OWN_LEVEL, POOLED_LEVEL = 0.05, 0.10
"""Levels of the tests for dependence: of one contrast, and of its family's average."""
MANY, LEVEL_OF_MANY = 40, 0.01
"""Blocks that show dependence well, and the level of both tests from there on: bench/statistics/guard.py."""
FEWEST_TO_POOL = 3  # contrasts
UPPER = 1.645  # standard errors: the upper 95 % limit of a correlation that a test has found
PRIOR_SD = 0.2  # of the correlation of neighbouring blocks, before they are seen
MOST_CORRELATED = 0.9
UNEQUAL_LEVEL, UNEQUAL = 0.05, 2.0
"""Level of the test for unequal spreads, and the ratio from which they count."""


def dependence(family: Sequence[Array]) -> list[float]:
    """Return the correlation of neighbouring blocks that each contrast's interval must allow for; 0 where there is none.

    family: log-ratios in the order of the blocks, without NaN. A contrast's own lag-1 correlation is tested one-sided
    (normal approximation; Kendall, Note on bias in the estimation of autocorrelation, Biometrika 1954, for its bias),
    and the average of the family, since what makes blocks are autocorrelated is the host that all of them share.
    """
    lags = _lags(family)
    sizes, known_lags = [], []
    for logs, lag in zip(family, lags, strict=True):
        if lag is not None:
            sizes.append(logs.size)
            known_lags.append(lag)
    shared = 0.0
    if len(known_lags) >= FEWEST_TO_POOL:
        n, mean = min(sizes), sum(known_lags) / len(known_lags)
        if mean > _limit(n, _pooled_level(n), _share(len(known_lags))):
            shared = _unbiased(mean, n)
    correlations = []
    for logs, lag in zip(family, lags, strict=True):
        correlation = 0.0
        if lag is not None:
            is_own = lag > _limit(logs.size, _own_level(logs.size))
            own_correlation = plausible_correlation(logs, UPPER) if is_own else 0.0
            correlation = max(own_correlation, shared)
        correlations.append(correlation)
    return correlations


def _own_level(blocks: int) -> float:
    return LEVEL_OF_MANY if blocks >= MANY else OWN_LEVEL


def _pooled_level(blocks: int) -> float:
    return LEVEL_OF_MANY if blocks >= MANY else POOLED_LEVEL


def plausible_correlation(logs: Array, errors: float) -> float:
    """Return a plausible correlation of neighbouring blocks, above its estimate; 0 where all blocks are equal.

    A normal prior of PRIOR_SD shrinks the lag-1 correlation to 0, since the order of platforms is random in every
    block: an effect of the host on all of them alike leaves log-ratios of neighbouring blocks uncorrelated, and 287
    contrasts of real runs showed -0.02 +- 0.02.

    logs: log-ratios in the order of the blocks, without NaN.
    errors: by how many standard errors it is above its estimate.
    """
    n = logs.size
    if n < 4 or float(np.ptp(logs)) <= 1e-13:
        return errors * PRIOR_SD if n < 4 else 0.0
    unbiased_lag = (n * _lag(logs) + 1) / (n - 3)  # without its bias: Kendall 1954
    se = _lag_error(n)
    posterior_variance = unseen_correlation(n) ** 2
    return float(
        min(
            max(
                posterior_variance * unbiased_lag / se**2 + errors * math.sqrt(posterior_variance),
                0.0,
            ),
            MOST_CORRELATED,
        )
    )


def unseen_correlation(blocks: int) -> float:
    """Return the standard error of the correlation after so many independent blocks, at least 4."""
    return 1 / math.sqrt(1 / PRIOR_SD**2 + 1 / _lag_error(blocks) ** 2)


def _lag_error(blocks: int) -> float:
    return (blocks - 2) / ((blocks - 3) * math.sqrt(blocks - 1))


def effective_blocks(blocks: int, correlation: float) -> float:
    """Return how many independent blocks the mean of these is worth: n (1 - r) / (1 + r)."""
    return blocks * (1 - correlation) / (1 + correlation)


def allow_for_dependence(
    se: float, df: float, blocks: int, correlation: float
) -> tuple[float, float]:
    """Return (standard error, degrees of freedom) of a mean of blocks with this lag-1 correlation (Bartlett 1946).

    The variance of so few dependent blocks is also estimated too small, which is undone.
    """
    times = (1 + correlation) / (1 - correlation)
    inflated = se * math.sqrt(times * (blocks - 1) / max(blocks - times, 1.0))
    df_share = (blocks * (1 - correlation**2) / (1 + correlation**2) - 1) / (blocks - 1)
    return inflated, max(df * df_share, 2.0)


def unmet_share(blocks: int) -> float:
    """Return the largest share of blocks that a state may be in though none of so many was, at 95 %: about 3 / n."""
    return float(1 - 0.05 ** (1 / blocks))


def _lags(family: Sequence[Array]) -> list[float | None]:
    """Return the lag-1 correlation of each contrast; None of too few blocks to test, and of equal ones."""
    return [
        _lag(logs) if logs.size >= FEWEST_TO_TEST and float(np.ptp(logs)) > 1e-13 else None
        for logs in family
    ]


def _share(contrasts: int) -> float:
    """Return the standard error of a mean over contrasts, as a share of that of one contrast.

    Contrasts of one baseline share a quarter of their variance.
    """
    return math.sqrt((1 + (contrasts - 1) / 4) / contrasts)


def _lag(logs: Array) -> float:
    centred = logs - logs.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def _limit(blocks: int, level: float, share: float = 1.0) -> float:
    """Return the correlation that chance exceeds with a probability.

    blocks: of a contrast.
    level: the probability.
    share: of the standard error of one contrast.
    """
    se = (blocks - 2) / (blocks * math.sqrt(blocks - 1))
    return float(special.ndtri(1 - level)) * se * share - 1 / blocks


def _unbiased(r: float, blocks: int) -> float:
    """Return the correlation without its bias."""
    return float(min(max((blocks * r + 1) / (blocks - 3), 0.0), MOST_CORRELATED))


def unequal_noise(treatment: Array, baseline: Array) -> float:
    """Return how many times noisier the treatment is than the baseline, where that is no chance; else 1.

    Logarithms of both sides, block by block. Pitman and Morgan's test of the variances of paired values (1939): the
    sum and the difference of the two are correlated when their variances differ. 1 below five blocks.
    """
    n = treatment.size
    a, b = treatment - treatment.mean(), baseline - baseline.mean()
    first, second = float(a @ a), float(b @ b)
    difference, total = float((a - b) @ (a - b)), float((a + b) @ (a + b))
    if n < 5 or min(first, second, difference, total) <= 1e-26 * n:
        return 1.0
    r = (first - second) / math.sqrt(difference * total)
    t = abs(r) * math.sqrt((n - 2) / max(1 - r * r, 1e-12))
    times = math.sqrt(first / second)
    is_unequal = t > t_quantile(1 - UNEQUAL_LEVEL / 2, n - 2) and max(times, 1 / times) >= UNEQUAL
    return times if is_unequal else 1.0


def skewness_of(logs: Array) -> float:
    """Return the moment coefficient g1; 0 of fewer than FEWEST_TO_TEST blocks, which do not show it, and of equal
    ones."""
    centred = logs - logs.mean()
    square = float((centred**2).mean())
    if logs.size < FEWEST_TO_TEST or square <= 1e-26:
        return 0.0
    return float((centred**3).mean() / square**1.5)
