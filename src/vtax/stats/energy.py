"""Energy distance of samples of numbers: how far two distributions are apart, whatever differs in them.

E(F, G) = sqrt(2 E|X - Y| - E|X - X'| - E|Y - Y'|), which for numbers is sqrt(2 * integral of (F(t) - G(t))^2 dt)
(Székely & Rizzo, Energy statistics: a class of statistics based on distances, 2013). Of logarithms: two points that
differ by a factor of 1 + e are sqrt(2e) apart, scatter that both have takes from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vtax.messages import Note
from vtax.stats.checks import Array, StatsError, Values, as_array


def one_against_the_rest(samples: Sequence[Values]) -> Array:
    """Return the energy distance of each sample from all others, which count alike however large they are.

    It has the root of the samples' unit. Raises StatsError for fewer than two samples, an empty one, or what is no
    finite number.
    """
    arrays = [np.sort(as_array(each, "samples")) for each in samples]
    if (
        len(arrays) < 2
        or not all(each.size for each in arrays)
        or any(np.isnan(each).any() for each in arrays)
    ):
        raise StatsError(Note("nothing", what="samples"))
    grid = np.sort(np.concatenate(arrays))
    steps = np.diff(grid)
    total = sum((_distribution(each, grid) for each in arrays), np.zeros(grid.size - 1))
    found = np.empty(len(arrays))
    for i, each in enumerate(arrays):
        own = _distribution(each, grid)
        apart = own - (total - own) / (len(arrays) - 1)
        found[i] = np.sqrt(2 * np.sum(apart**2 * steps))
    return found


def _distribution(sample: Array, grid: Array) -> Array:
    """Return the share of a sorted sample that is at most each point of a grid, but its last one."""
    at = np.searchsorted(grid, sample)
    return np.cumsum(np.bincount(at, minlength=grid.size))[:-1] / sample.size
