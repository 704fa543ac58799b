"""How evenly several guests share what they compete for."""

from __future__ import annotations

from vtax.stats.checks import Values, as_array, check_positive


def jain(values: Values) -> float:
    """Jain's fairness index: 1 when all are equal, 1/n when one has everything.

    (sum x)^2 / (n sum x^2) of n positive values (Jain, Chiu and Hawe, DEC Research Report TR-301, 1984). For a time,
    of which less is better, it is as defined, and says how even the times are.
    """
    array = as_array(values)
    check_positive(array, "values")
    return float(array.sum() ** 2 / (array.size * (array**2).sum()))


def lowest_share(values: Values) -> float:
    """Return the lowest of positive values as a share of the highest."""
    array = as_array(values)
    check_positive(array, "values")
    return float(array.min() / array.max())
