"""Checks of every function here for numbers that are missing, infinite or not positive: one place, one answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vtax.messages import Note
from vtax.stats.terms import MINIMUM_BLOCKS as MINIMUM_BLOCKS
from vtax.stats.terms import Better as Better
from vtax.stats.terms import StatsError as StatsError

Array = npt.NDArray[np.float64]
Values = Sequence[float] | npt.NDArray[np.floating] | npt.NDArray[np.integer]


LARGEST = 1e90  # that is computed with: third powers of a million of such numbers still sum


def as_array(values: Values, what: str = "values") -> Array:
    """`values` as a flat float array. Raises StatsError when they are not a flat list of numbers, or too large."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StatsError(Note("not-numbers", what=what)) from error
    if array.ndim != 1:
        raise StatsError(f"{what} must be one flat list, not of shape {array.shape}")
    if (np.abs(array) > LARGEST).any():
        if np.isinf(array).any():
            raise StatsError(Note("infinite", what=what))
        raise StatsError(Note("too-large", what=what, largest=f"{LARGEST:.0e}".replace("e+", "e")))
    return array


def without_missing(array: Array, what: str = "values") -> tuple[Array, tuple[str, ...]]:
    """`array` without NaN, and a warning when there were any. Raises StatsError when nothing is left."""
    is_missing = np.isnan(array)
    missing_count = int(np.count_nonzero(is_missing))
    if missing_count == array.size:
        raise StatsError(Note("nothing", what=what))
    if not missing_count:
        return array, ()
    return array[~is_missing], (Note("missing", count=missing_count, total=array.size, what=what),)


def check_positive(array: Array, what: str) -> None:
    """Raise StatsError when a number is zero or below: its logarithm, and so its ratio, is not defined."""
    if (array <= 0).any():
        raise StatsError(Note("not-positive", what=what))


def positive_logs(array: Array, what: str) -> Array:
    """Natural logarithms; NaN of what is zero or below, of which there is no ratio. Such a block is lost, and not the
    comparison, as long as most have one: raises StatsError where half of the numbers or more have none."""
    is_lost = array <= 0
    if is_lost.any() and 2 * np.count_nonzero(is_lost) >= np.count_nonzero(~np.isnan(array)):
        raise StatsError(Note("not-positive", what=what))
    return np.asarray(np.log(np.where(is_lost, np.nan, array)))


def check_confidence(confidence: float) -> None:
    """Raise StatsError unless 0 < confidence < 1."""
    if not 0 < confidence < 1:
        raise StatsError(f"a confidence of {confidence} is not between 0 and 1")
