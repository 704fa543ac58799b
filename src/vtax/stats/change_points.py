"""Change points in a series: E-divisive with its permutation test.

Matteson & James, A nonparametric approach for multiple change point analysis of multivariate data, J. Am. Stat.
Assoc. 2014. The two parts of a split are compared by their energy distance (exponent 1), times n m / (n + m). The
split with the largest value is a change point when few random orders of the series have one as large; then its parts
are searched alike, in random orders within the parts. That takes the values as independent of one another. So a split
must also be larger than all but few of normal series without a change whose neighbours correlate, by as much as the
values around it leave plausible. Of packages with this method, apache-otava needs clients of cloud
services, and signal-processing-algorithms a numpy before 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from vtax.messages import Note
from vtax.stats.checks import Array, StatsError, Values, as_array
from vtax.stats.verdict import holm

FEWEST = 8
"""Values from which a change in one series can be found at 5 %: 2 of the 70 ways to halve 8 values separate most."""
_SHORTEST = 2  # values of a part
_PERMUTATIONS = 999
_PRIOR_SD, _MOST_CORRELATED = 0.4, 0.9
"""Prior and limit of the correlation of neighbouring runs: larger than for blocks, whose order is random."""
_GUARDED, _WARNED = 1.0, 1.645
"""Standard errors above its estimate: for a correlation that a change point allows for, and for its warning."""
_SEED = 2014
_AT_ONCE, _ORDERS = 1 << 22, 100  # elements of an array of permuted distances, and orders at a time

Order = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ChangePoint:
    """A change in a series.

    index: of the first value after it.
    p_value: of its test alone, where neighbours correlate plausibly.
    is_sure: whether it also stands where neighbours correlate by the upper limit of what is plausible.
    """

    index: int
    p_value: float
    is_sure: bool = True


def change_points_of(
    series: Sequence[Values], level: float = 0.05
) -> list[tuple[ChangePoint, ...]]:
    """Return the change points of each of several series, ascending; values are in the order of time.

    level: the probability that any series has one although nothing changed in any (Holm over the first tests of all
    series). Raises StatsError for a value that is not a finite number.
    """
    permutations = max(_PERMUTATIONS, math.ceil(5 * len(series) / level) - 1)
    searches = [_Search(values, level, permutations) for values in series]
    if not series:
        return []
    first = [search.next() for search in searches]
    for search, point, p_value in zip(searches, first, _adjusted(first), strict=True):
        next_point = point if p_value <= level else None
        while next_point is not None and next_point.p_value <= level:
            search.points.append(next_point)
            next_point = search.next()
    guarded_points = [search.dependent(_GUARDED) for search in searches]
    warned_points = [search.dependent(_WARNED) for search in searches]
    guarded_firsts = _adjusted([points[0] if points else None for points in guarded_points])
    warned_firsts = _adjusted([points[0] if points else None for points in warned_points])
    result = []
    for n, points in enumerate(guarded_points):
        standing: list[ChangePoint] = []
        for point, limit in zip(points, warned_points[n], strict=True):
            p_value, upper = point.p_value, limit.p_value
            if not standing:  # the first of a series is tested over all series
                p_value, upper = guarded_firsts[n], warned_firsts[n]
            if p_value > level:
                break
            standing.append(replace(point, is_sure=upper <= level))
        result.append(tuple(sorted(standing, key=lambda point: point.index)))
    return result


def _adjusted(points: Sequence[ChangePoint | None]) -> list[float]:
    """Return the p-values of one test per series, adjusted for their number; 1 for a series without a test."""
    return list(map(float, holm([point.p_value if point else 1.0 for point in points])))


class _Search:
    """The search of one series. points: the change points so far, in the order of the search."""

    def __init__(self, values: Values, level: float, permutations: int) -> None:
        self._values = as_array(values, "values")
        if np.isnan(self._values).any():
            raise StatsError(Note("not-numbers", what="values"))
        self.points: list[ChangePoint] = []
        self._distances = np.abs(self._values[:, None] - self._values[None, :])
        self._level, self._permutations = level, permutations
        self._random = np.random.default_rng(_SEED)

    def _edges(self, count: int) -> list[int]:
        """Return where parts begin and end after so many change points."""
        return sorted([0, *(point.index for point in self.points[:count]), len(self._values)])

    def next(self) -> ChangePoint | None:
        """Return the best further split, with the p-value of its test; None where no part can be split.

        The test ends as soon as its p-value cannot be below the level any more.
        """
        parts = _parts(self._distances, self._edges(len(self.points)))
        largest_gain, index = _best(parts)
        if index < 0:  # all values are equal, or no part can be split
            return None
        as_large = permutation_count = 0
        longest = max(len(distances) for _, distances in parts)
        at_once = min(_ORDERS, max(1, _AT_ONCE // longest**2))
        while permutation_count < self._permutations and 1 + as_large <= self._level * (
            1 + self._permutations
        ):
            count = min(at_once, self._permutations - permutation_count)
            permutation_count += count
            largest = np.zeros(count)
            for _, distances in parts:
                orders = self._random.permuted(
                    np.tile(np.arange(len(distances)), (count, 1)), axis=1
                )
                largest = np.maximum(largest, _gains(distances, orders).max(axis=1))
            as_large += int((largest >= largest_gain * (1 - 1e-9)).sum())
        return ChangePoint(index, (1 + as_large) / (1 + permutation_count))

    def dependent(self, errors: float) -> list[ChangePoint]:
        """Return the change points with their p-values where neighbours correlate plausibly.

        A p-value is the share of normal series with that correlation and no change that have so large a split, scaled
        by the mean distance of their values.
        errors: by how many standard errors the correlation is above its estimate.
        """
        if not self.points:
            return []
        correlation = _plausible_correlation(self._values, self._edges(len(self.points)), errors)
        result = []
        for count, point in enumerate(self.points):
            edges = self._edges(count)
            parts = _parts(self._distances, edges)
            size = _best(parts)[0] / _mean_distance(parts)
            random, as_large, series_count = np.random.default_rng(_SEED), 0, 0
            limit = self._level * (1 + self._permutations)
            while series_count < self._permutations and 1 + as_large <= limit:
                series_count += 1
                values = _correlated(random.standard_normal(len(self._values)), correlation)
                parts = _parts(np.abs(values[:, None] - values[None, :]), edges)
                as_large += _best(parts)[0] >= size * _mean_distance(parts)
            result.append(
                replace(point, p_value=max(point.p_value, (1 + as_large) / (1 + series_count)))
            )
        return result


def _correlated(noise: Array, correlation: float) -> Array:
    """Return the noise as an autoregressive series."""
    values = noise.tolist()
    for n in range(1, len(values)):
        values[n] = correlation * values[n - 1] + math.sqrt(1 - correlation**2) * values[n]
    return np.array(values)


def _parts(distances: Array, edges: list[int]) -> list[tuple[int, Array]]:
    """Return (first value, distances) of the parts between edges that can be split."""
    parts = []
    for start, end in pairwise(edges):
        if end - start >= 2 * _SHORTEST:
            parts.append((start, distances[start:end, start:end]))
    return parts


def _best(parts: Sequence[tuple[int, Array]]) -> tuple[float, int]:
    """Return (the largest gain of a split, the first value after it); (0, -1) without one."""
    largest_gain, index = 0.0, -1
    for start, distances in parts:
        gains = _gains(distances, np.arange(len(distances))[None, :])[0]
        if gains.max() > largest_gain:
            largest_gain, index = float(gains.max()), start + _SHORTEST + int(gains.argmax())
    return largest_gain, index


def _mean_distance(parts: Sequence[tuple[int, Array]]) -> float:
    total = sum(distances.sum() for _, distances in parts)
    return float(total / sum(distances.size for _, distances in parts))


def _plausible_correlation(values: Array, edges: Sequence[int], errors: float) -> float:
    """Return a plausible correlation of neighbouring values within parts.

    A normal prior of _PRIOR_SD shrinks its estimate to 0. Every part's own mean takes 3 r + 1 from it (Kendall 1954).

    values: of the series.
    edges: where parts begin and end.
    errors: by how many standard errors the correlation is above its estimate.
    """
    centred = [values[start:end] - values[start:end].mean() for start, end in pairwise(edges)]
    square = sum(float(part @ part) for part in centred)
    n, df = len(values), max(len(values) - 3 * len(centred), 1)
    if square <= 1e-26:
        return 0.0
    lag = sum(float(part[1:] @ part[:-1]) for part in centred) / square
    se = (n - 2) / (df * math.sqrt(n - 1))
    posterior_variance = 1 / (1 / _PRIOR_SD**2 + 1 / se**2)
    estimate = posterior_variance * (n * lag + len(centred)) / df / se**2
    return float(min(max(estimate + errors * math.sqrt(posterior_variance), 0.0), _MOST_CORRELATED))


def _gains(distances: Array, orders: Order) -> Array:
    """Scaled energy distances, shape (orders, splits), of the values in each order; splits leave _SHORTEST a side."""
    n = len(distances)
    earlier = np.tril(distances[orders[:, :, None], orders[:, None, :]], -1).sum(axis=2)
    later = distances.sum(axis=1)[orders] - earlier
    left = earlier.cumsum(axis=1)[:, _SHORTEST - 1 : n - _SHORTEST]
    right = later[:, ::-1].cumsum(axis=1)[:, ::-1][:, _SHORTEST : n - _SHORTEST + 1]
    between = earlier.sum(axis=1)[:, None] - left - right
    a = np.arange(_SHORTEST, n - _SHORTEST + 1, dtype=float)
    b = n - a
    energy = 2 * between / (a * b) - 2 * left / (a * (a - 1)) - 2 * right / (b * (b - 1))
    gains: Array = energy * a * b / n
    return gains
