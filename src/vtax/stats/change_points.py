"""Change points in a series: E-divisive with its permutation test.

Matteson & James, A nonparametric approach for multiple change point analysis of multivariate data, J. Am. Stat.
Assoc. 2014. The two parts of a split are compared by their energy distance (exponent 1), times n m / (n + m). The
split with the largest value is a change point when few random orders of the series have one as large; then its parts
are searched alike, in random orders within the parts. Nothing is assumed about the distribution, but that the values
could stand in any order where nothing changed. Of packages with this method, apache-otava needs clients of cloud
services, and signal-processing-algorithms a numpy before 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
_SEED = 2014
_AT_ONCE, _ORDERS = 1 << 22, 100  # elements of an array of permuted distances, and orders at a time

Order = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ChangePoint:
    """index: of the first value after the change. p_value: of its permutation test alone."""

    index: int
    p_value: float


def change_points_of(series: Sequence[Values], level: float = 0.05) -> list[tuple[ChangePoint, ...]]:
    """The change points of each of several series, ascending; values are in the order of time.

    level: the probability that any series has one although nothing changed in any (Holm over the first tests of all
    series). Raises StatsError for a value that is not a finite number.
    """
    permutations = max(_PERMUTATIONS, math.ceil(5 * len(series) / level) - 1)
    searches = [_Search(values, level, permutations) for values in series]
    first = [search.next() for search in searches]
    if not series:
        return []
    adjusted = holm([each.p_value if each else 1.0 for each in first]).tolist()
    for search, point, p_value in zip(searches, first, adjusted, strict=True):
        further = point if p_value <= level else None
        while further is not None and further.p_value <= level:
            search.add(further)
            further = search.next()
    return [tuple(search.found) for search in searches]


class _Search:
    """found: the change points of one series so far, ascending."""

    def __init__(self, values: Values, level: float, permutations: int) -> None:
        given = as_array(values, "values")
        if np.isnan(given).any():
            raise StatsError(Note("not-numbers", what="values"))
        self.found: list[ChangePoint] = []
        self._distances = np.abs(given[:, None] - given[None, :])
        self._level, self._permutations = level, permutations
        self._random = np.random.default_rng(_SEED)

    def add(self, point: ChangePoint) -> None:
        self.found = sorted([*self.found, point], key=lambda each: each.index)

    def next(self) -> ChangePoint | None:
        """The best further split, with the p-value of its test; None where no part can be split.

        The test ends as soon as its p-value cannot be below the level any more.
        """
        edges = [0, *(each.index for each in self.found), len(self._distances)]
        parts = [
            (start, self._distances[start:end, start:end])
            for start, end in pairwise(edges)
            if end - start >= 2 * _SHORTEST
        ]
        if not parts:
            return None
        best, index = 0.0, -1
        for start, distances in parts:
            gains = _gains(distances, np.arange(len(distances))[None, :])[0]
            if gains.max() > best:
                best, index = float(gains.max()), start + _SHORTEST + int(gains.argmax())
        if index < 0:  # all values are equal
            return None
        as_large = done = 0
        at_once = min(_ORDERS, max(1, _AT_ONCE // max(len(distances) for _, distances in parts) ** 2))
        while done < self._permutations and 1 + as_large <= self._level * (1 + self._permutations):
            count = min(at_once, self._permutations - done)
            done += count
            largest = np.zeros(count)
            for _, distances in parts:
                orders = self._random.permuted(np.tile(np.arange(len(distances)), (count, 1)), axis=1)
                largest = np.maximum(largest, _gains(distances, orders).max(axis=1))
            as_large += int((largest >= best * (1 - 1e-9)).sum())
        return ChangePoint(index, (1 + as_large) / (1 + done))


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
