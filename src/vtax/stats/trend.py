"""A trend without assumptions about its noise: Theil and Sen's slope, Mann and Kendall's test.

The same numbers as scipy.stats.theilslopes and kendalltau (the tests hold them side by side), without the import of
scipy.stats, which takes longer than most commands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from vtax.stats.checks import Array

MAX_EXACT = 33
"""Values without ties up to which Kendall's distribution is computed, not approximated."""


@dataclass(frozen=True)
class Slope:
    """estimate, low, high: units of y per unit of x."""

    estimate: float
    low: float
    high: float


def theil_sen(x: Array, y: Array, confidence: float) -> Slope:
    """Return the median slope of all pairs, with Sen's interval.

    Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 1968, equation 2.6, for ties as well.
    x must hold two different numbers.
    """
    later_places, earlier_places = np.nonzero(np.greater.outer(x, x))
    slopes = np.sort((y[later_places] - y[earlier_places]) / (x[later_places] - x[earlier_places]))
    n = y.size
    variance = (
        n * (n - 1) * (2 * n + 5)
        - sum(float((k * (k - 1) * (2 * k + 5)).sum()) for k in _ties(x, y))
    ) / 18
    reach = -float(special.ndtri((1 - confidence) / 2)) * math.sqrt(variance)
    low = max(round((slopes.size - reach) / 2) - 1, 0)
    high = min(round((slopes.size + reach) / 2), slopes.size - 1)
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))


def kendall_p(x: Array, y: Array) -> float:
    """Return the two-sided p-value of Kendall's tau between x and y, neither of them constant.

    Without ties the exact distribution up to MAX_EXACT values, and where at most one pair is out of order; else the
    normal approximation with ties (Kendall, Rank Correlation Methods, 1970, chapters 4 and 5).
    """
    n = x.size
    pairs = n * (n - 1) // 2
    signs = np.sign(np.subtract.outer(x, x)) * np.sign(np.subtract.outer(y, y))
    score = int(signs.sum()) // 2
    ties = _ties(x, y)
    if not any(k.size for k in ties):
        discordant = (pairs - score) // 2
        fewest = min(discordant, pairs - discordant)
        if n <= MAX_EXACT or fewest <= 1:
            return min(1.0, 2 * _at_most(n, fewest))
    orders = float(n * (n - 1))
    scores, tied_pairs, tied_triples = 0.0, 1.0, 1.0
    for k in ties:
        scores += float((k * (k - 1) * (2 * k + 5)).sum())
        tied_pairs *= float((k * (k - 1)).sum())
        tied_triples *= float((k * (k - 1) * (k - 2)).sum())
    variance = (orders * (2 * n + 5) - scores) / 18
    variance += tied_pairs / (2 * orders) + tied_triples / (9 * orders * (n - 2))
    return 2 * float(special.ndtr(-abs(score) / math.sqrt(variance)))


def _ties(*samples: Array) -> list[Array]:
    """Return the sizes of the groups of tied values of each sample."""
    ties = []
    for sample in samples:
        counts = np.unique(sample, return_counts=True)[1].astype(np.float64)
        ties.append(counts[counts > 1])
    return ties


def _at_most(n: int, inversions: int) -> float:
    """Return the share of the permutations of n numbers that have at most so many inversions (Kendall 1970, section
    5.2)."""
    shares = np.ones(1)
    for size in range(2, n + 1):
        shares = np.convolve(shares, np.full(min(size, inversions + 1), 1 / size))[: inversions + 1]
    return float(shares.sum())
