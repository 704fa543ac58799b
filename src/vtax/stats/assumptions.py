"""What Student's t takes for granted of a contrast, tested on its blocks: that they do not follow one another, and
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
OWN_LEVEL, POOLED_LEVEL = 0.05, 0.10  # of the tests for dependence: of one contrast, and of its family's average
FEWEST_TO_POOL = 3  # contrasts
UNTESTED = 0.5  # correlation that too few blocks to test it do not exclude
MOST_CORRELATED = 0.9
UNEQUAL_LEVEL, UNEQUAL = 0.05, 2.0  # of the test for unequal spreads, and the ratio from which they count
FEWEST_OF_UNEQUAL = 20  # blocks from which a verdict stands that favours the noisier side


def dependence(family: Sequence[Array]) -> list[float]:
    """Correlation of neighbouring blocks that each contrast's interval must allow for; 0 where none is seen.

    family: log-ratios in the order of the blocks, without NaN. A contrast's own lag-1 correlation is tested one-sided
    (normal approximation; Kendall, Note on bias in the estimation of autocorrelation, Biometrika 1954, for its bias),
    and the average of the family, since what makes blocks are autocorrelated is the host that all of them share.
    """
    found = _lags(family)
    known = [(r, logs.size) for r, logs in zip(found, family, strict=True) if r is not None]
    shared = 0.0
    if len(known) >= FEWEST_TO_POOL:
        n = min(size for _, size in known)
        mean = sum(r for r, _ in known) / len(known)
        shared = _unbiased(mean, n) if mean > _limit(n, POOLED_LEVEL, _share(len(known))) else 0.0
    result = []
    for r, logs in zip(found, family, strict=True):
        own = _unbiased(r, logs.size) if r is not None and r > _limit(logs.size, OWN_LEVEL) else 0.0
        result.append(max(own, shared) if r is not None else 0.0)
    return result


def plausible_correlations(family: Sequence[Array], errors: float) -> list[float]:
    """Upper limit of the correlation of neighbouring blocks of each contrast: so many standard errors above its
    estimate; of several contrasts above their mean, and never below a contrast's own estimate.

    family: as of `dependence`. UNTESTED below FEWEST_TO_TEST blocks; 0 where all blocks are equal.
    """
    found = _lags(family)
    known = [(r, logs.size) for r, logs in zip(found, family, strict=True) if r is not None]
    shared = 0.0
    if len(known) >= FEWEST_TO_POOL:
        n = min(size for _, size in known)
        shared = _unbiased(sum(r for r, _ in known) / len(known), n, errors * _share(len(known)))
    result = []
    for r, logs in zip(found, family, strict=True):
        if r is None:
            result.append(UNTESTED if logs.size < FEWEST_TO_TEST else 0.0)
        elif len(known) >= FEWEST_TO_POOL:
            result.append(max(_unbiased(r, logs.size), shared))
        else:
            result.append(_unbiased(r, logs.size, errors))
    return result


def effective_blocks(blocks: int, correlation: float) -> float:
    """How many independent blocks the mean of these is worth: n (1 - r) / (1 + r)."""
    return blocks * (1 - correlation) / (1 + correlation)


def allow_for_dependence(se: float, df: float, blocks: int, correlation: float) -> tuple[float, float]:
    """(standard error, degrees of freedom) of a mean of blocks with this lag-1 correlation (Bartlett 1946).

    The variance of so few dependent blocks is also estimated too small, which is undone.
    """
    times = (1 + correlation) / (1 - correlation)
    inflated = se * math.sqrt(times * (blocks - 1) / max(blocks - times, 1.0))
    left = (blocks * (1 - correlation**2) / (1 + correlation**2) - 1) / (blocks - 1)
    return inflated, max(df * left, 2.0)


def _lags(family: Sequence[Array]) -> list[float | None]:
    """Lag-1 correlation of each contrast; None of too few blocks to test, and of equal ones."""
    return [_lag(logs) if logs.size >= FEWEST_TO_TEST and float(np.ptp(logs)) > 1e-13 else None for logs in family]


def _share(contrasts: int) -> float:
    """Standard error of a mean over contrasts, of one's: those of one baseline share a quarter of their variance."""
    return math.sqrt((1 + (contrasts - 1) / 4) / contrasts)


def _lag(logs: Array) -> float:
    centred = logs - logs.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def _limit(blocks: int, level: float, share: float = 1.0) -> float:
    """The correlation that chance exceeds with this probability. share: of the standard error of one contrast."""
    se = (blocks - 2) / (blocks * math.sqrt(blocks - 1))
    return float(special.ndtri(1 - level)) * se * share - 1 / blocks


def _unbiased(r: float, blocks: int, errors: float = 0.0) -> float:
    """The correlation without its bias, and so many standard errors more."""
    above = errors * (blocks - 2) / ((blocks - 3) * math.sqrt(blocks - 1))
    return float(min(max((blocks * r + 1) / (blocks - 3) + above, 0.0), MOST_CORRELATED))


def unequal_noise(treatment: Array, baseline: Array) -> float:
    """How many times noisier the treatment is than the baseline, where that is no chance; else 1.

    Logarithms of both sides, block by block. Pitman and Morgan's test of the variances of paired values (1939): the
    sum and the difference of the two are correlated when their variances differ. 1 below five blocks.
    """
    n = treatment.size
    sides = treatment - treatment.mean(), baseline - baseline.mean()
    first, second, difference, total = (
        float(each @ each) for each in (*sides, sides[0] - sides[1], sides[0] + sides[1])
    )
    if n < 5 or min(first, second, difference, total) <= 1e-26 * n:
        return 1.0
    r = (first - second) / math.sqrt(difference * total)
    t = abs(r) * math.sqrt((n - 2) / max(1 - r * r, 1e-12))
    times = math.sqrt(first / second)
    is_unequal = t > t_quantile(1 - UNEQUAL_LEVEL / 2, n - 2) and max(times, 1 / times) >= UNEQUAL
    return times if is_unequal else 1.0


def spread_ratio(treatment: Array, baseline: Array) -> float:
    """How many times noisier the treatment is in these blocks, by chance or not: 1 where `unequal_noise` has none."""
    if treatment.size < 5:
        return 1.0
    spreads = float(treatment.std()), float(baseline.std())
    return spreads[0] / spreads[1] if min(spreads) > 1e-13 else 1.0


def skewness_z(logs: Array) -> float:
    """Skewness as a standard normal deviate of normal values (D'Agostino, Biometrika 1970); 0 of too few blocks."""
    n, g = logs.size, skewness_of(logs)
    if g == 0.0:
        return 0.0
    y = g * math.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    b = 3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9))
    w = math.sqrt(2 * (b - 1)) - 1
    return math.asinh(y / math.sqrt(2 / (w - 1))) / math.sqrt(math.log(w) / 2)


def skewness_of(logs: Array) -> float:
    """The moment coefficient g1; 0 of fewer than FEWEST_TO_TEST blocks, which do not show it, and of equal ones."""
    centred = logs - logs.mean()
    square = float((centred**2).mean())
    if logs.size < FEWEST_TO_TEST or square <= 1e-26:
        return 0.0
    return float((centred**3).mean() / square**1.5)
