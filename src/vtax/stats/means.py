"""Averaging trials within a block: the right mean depends on what a trial holds fixed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from vtax.stats.checks import Array, StatsError, Values, as_array, check_positive

Average = Literal["arithmetic", "harmonic", "geometric"]
TRIAL_TIME = "trial_time"
"""The setting of a cell whose trials hold a count of work that lasts so long: every one the same."""
Groups = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]  # see grouped


def average_with(average: Average, fixed_work: str, parameters: Mapping[str, Any]) -> Average:
    """Return how a metric's trials are averaged with these parameters of its benchmark.

    average: as long as fixed_work, the name of the parameter that fixes the work in place of the time, is not given.
    """
    is_fixed = parameters.get(fixed_work) is not None or TRIAL_TIME in parameters
    return "harmonic" if fixed_work and is_fixed else average


def average_of(values: Values, average: Average = "arithmetic") -> float:
    """Return the mean of values: `block_means` with a single block."""
    array = as_array(values)
    return float(block_means(np.zeros(array.size, dtype=np.int64), array, average)[1][0])


def block_means(
    blocks: Sequence[Hashable] | npt.NDArray[Any], values: Values, average: Average = "arithmetic"
) -> tuple[npt.NDArray[Any], Array]:
    """(blocks, their means), sorted by block, NaN left out; a block of NaN only is absent.

    average: "arithmetic" for times, and for rates over a fixed time (iperf for 10 s: total work / total time);
    "harmonic" for rates over fixed work (dd of 1 GiB: again total work / total time; Smith, Characterizing computer
    performance with a single number, CACM 1988); "geometric" for ratios.
    Raises StatsError when nothing is left, when a harmonic mean meets a negative number, and when a geometric one
    meets one that is not positive. The harmonic mean of rates of which one is 0 is 0: that work never ended.
    """
    array, labels = as_array(values), np.asarray(blocks)
    if labels.shape != array.shape:
        raise StatsError(f"{labels.size} blocks do not match {array.size} values")
    is_known = ~np.isnan(array)
    if not is_known.any():
        raise StatsError("there are no values")
    groups = grouped(labels[is_known])
    return groups[0], means_of(groups, array[is_known], average)


def means_of(groups: Groups, values: Array, average: Average) -> Array:
    """Return the mean of each group's values, none of them NaN. average, StatsError: see block_means."""
    if average == "geometric" or (average == "harmonic" and (values < 0).any()):
        check_positive(values, f"values of a {average} mean")
    _, index, counts = groups
    with np.errstate(divide="ignore"):
        return _unfold(np.bincount(index, weights=_fold(values, average)) / counts, average)


def medians_of(groups: Groups, values: Array) -> Array:
    """Return the median of each group's values, none of them NaN."""
    _, index, counts = groups
    if counts.size and (counts == counts[0]).all() and (index[1:] >= index[:-1]).all():
        sorted_values = np.sort(values.reshape(counts.size, -1), axis=1).reshape(-1)
    else:
        sorted_values = values[np.lexsort((values, index))]
    starts = np.cumsum(counts) - counts
    return np.asarray(
        (sorted_values[starts + (counts - 1) // 2] + sorted_values[starts + counts // 2]) / 2
    )


def median_of(values: Array) -> float:
    """Return the median of values, none of them NaN; several times faster than numpy's, which looks for NaN."""
    sorted_values, n = np.sort(values), values.size
    return float((sorted_values[(n - 1) // 2] + sorted_values[n // 2]) / 2)


def sd_of(values: Array) -> float:
    """Return the standard deviation of two values or more; of few several times faster than numpy's, and equal to it."""
    distances = values - np.add.reduce(values) / values.size
    return math.sqrt(np.add.reduce(distances * distances) / (values.size - 1))


def grouped(labels: npt.NDArray[Any]) -> Groups:
    """Return (labels, sorted and each once; the index of every given one among them; how often each is given).

    Those of trials ascend, as they were measured; sorting is for others.
    """
    if not labels.size or (labels[1:] < labels[:-1]).any():
        return np.unique(labels, return_inverse=True, return_counts=True)
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    edges = np.concatenate(([0], changes, [labels.size]))
    starts, counts = edges[:-1], edges[1:] - edges[:-1]
    return labels[starts], np.repeat(np.arange(starts.size), counts), counts


def _fold(array: Array, average: Average) -> Array:
    if average == "harmonic":
        return np.asarray(1 / array)
    return np.asarray(np.log(array)) if average == "geometric" else array


def _unfold(array: Array, average: Average) -> Array:
    if average == "harmonic":
        return np.asarray(1 / array)
    return np.asarray(np.exp(array)) if average == "geometric" else array
