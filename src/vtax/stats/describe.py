"""Description of one cell's values: the papers' numbers, robust ones beside them, and what to beware of."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from vtax.described import Means, Warnings
from vtax.messages import Note
from vtax.stats.checks import Array, StatsError, Values, as_array, without_missing
from vtax.stats.intervals import mean_interval, median_interval
from vtax.stats.means import Average, grouped, means_of, median_of, medians_of, sd_of

OUTLIER_Z = 3.5  # Iglewicz & Hoaglin 1993, p. 12
MIN_FOR_OUTLIERS = (
    10  # simulated, normal noise alone has an outlier in 20 % of fives, in 13 % of tens
)
NORMAL_MAD = 0.6745  # median absolute deviation of a standard normal
NORMAL_MEAN_AD = 0.7979  # mean absolute deviation of a standard normal


@dataclass(frozen=True)
class Summary:
    """The values of one cell; without blocks each value is one. values: those that are no NaN, as given."""

    n: Annotated[int, Means("trials")]
    blocks: Annotated[int, Means("blocks")]
    mean: Annotated[float, Means("mean of the blocks' means", unit="unit")]
    sd: Annotated[float, Means("standard deviation of all trials", unit="unit")]
    cv: Annotated[float, Means("coefficient of variation of all trials, sd / mean")]
    low: Annotated[
        float, Means("lower bound of the mean's t-interval; null with one block", unit="unit")
    ]
    high: Annotated[float, Means("upper bound of it", unit="unit")]
    confidence: Annotated[float, Means("confidence level of it")]
    median: Annotated[float, Means("median of the blocks' medians", unit="unit")]
    median_low: Annotated[
        float, Means("lower bound of the median's interval, an order statistic", unit="unit")
    ]
    median_high: Annotated[float, Means("upper bound of it", unit="unit")]
    median_confidence: Annotated[float, Means("what it covers")]
    minimum: Annotated[float, Means("min of all trials", unit="unit")]
    maximum: Annotated[float, Means("max of all trials", unit="unit")]
    outliers: Annotated[
        tuple[int, ...], Means("positions of trials of modified z above 3.5, which are kept")
    ]
    warnings: Warnings
    values: Array = field(repr=False, compare=False)

    @property
    def effective_n(
        self,
    ) -> Annotated[
        float | None, Means("independent values that the trials are worth; null with few")
    ]:
        """The `effective_size` of its values; computed where it is shown, since it takes long."""
        return effective_size(self.values)


def describe(
    values: Values,
    confidence: float = 0.95,
    *,
    blocks: Sequence[Hashable] | npt.NDArray[Any] | None = None,
    average: Average = "arithmetic",
) -> Summary:
    """Return the summary of the values of one cell.

    values: in the order in which they were measured; NaN are left out with a warning.
    confidence: of the intervals.
    blocks: of each value. Mean, median and intervals are then of the blocks' means and medians, because trials in one
        guest are not independent.
    average: how trials are averaged (`means`).

    Raises StatsError when nothing is left, on infinities, and on values that `average` cannot take.
    """
    return describe_blocks(values, confidence, blocks=blocks, average=average)[0]


def describe_blocks(
    values: Values,
    confidence: float = 0.95,
    *,
    blocks: Sequence[Hashable] | npt.NDArray[Any] | None = None,
    average: Average = "arithmetic",
) -> tuple[Summary, npt.NDArray[Any], Array]:
    """Return (the summary of `describe`, the blocks, their means).

    Arguments and errors are those of `describe`. Without blocks each value is one.
    """
    all_values = as_array(values)
    array, warnings = without_missing(all_values)
    is_complete = array.size == all_values.size
    positions = np.arange(array.size) if is_complete else np.flatnonzero(~np.isnan(all_values))
    if blocks is None:
        names, units, middles = positions, array, array
    else:
        labels = np.asarray(blocks)
        if labels.shape[:1] != all_values.shape:
            raise StatsError(f"{labels.shape[0]} blocks do not match {all_values.size} values")
        groups = grouped(labels if is_complete else labels[positions])
        names = groups[0]
        units, middles = means_of(groups, array, average), medians_of(groups, array)
    interval = mean_interval(units, confidence)
    middle = median_interval(middles, confidence)
    sd = sd_of(array) if array.size > 1 else float("nan")
    outlying = np.flatnonzero(np.abs(modified_z(array)) > OUTLIER_Z)
    further_warnings = _warnings(
        array, units.size, interval.estimate, outlying.size, blocks is not None
    )
    summary = Summary(
        n=array.size,
        blocks=units.size,
        mean=interval.estimate,
        sd=sd,
        cv=sd / abs(interval.estimate) if interval.estimate != 0 else float("nan"),
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        median=middle.estimate,
        median_low=middle.low,
        median_high=middle.high,
        median_confidence=middle.confidence,
        minimum=float(array.min()),
        maximum=float(array.max()),
        outliers=tuple(positions[outlying].tolist()),
        warnings=(*warnings, *further_warnings),
        values=array,
    )
    return summary, names, units


def _warnings(
    array: Array, units: int, mean: float, outliers: int, blocked: bool
) -> tuple[str, ...]:
    notes: list[str] = []
    if units == 1:
        notes.append(Note("one-block" if blocked else "one-value"))
    if array.size > 1 and float(np.ptp(array)) == 0.0:
        notes.append(Note("equal-values"))
    if mean == 0.0:
        notes.append(Note("zero-mean-no-cv"))
    notes += outlier_warnings(outliers, array.size, "values")
    effective = None if blocked else effective_size(array)
    if effective is not None and effective < array.size / 2:
        notes.append(Note("dependent-values", values=array.size, effective=round(effective)))
    return tuple(notes)


def outlier_warnings(outliers: int, n: int, of: str) -> tuple[str, ...]:
    """Return a note on outliers; none about fewer than ten values, which say too little.

    outliers: how many.
    n: number of all values.
    of: what they are, `values` or `blocks`.
    """
    if not outliers or n < MIN_FOR_OUTLIERS:
        return ()
    return (Note("outliers", count=outliers, total=n, what=of, limit=OUTLIER_Z),)


def modified_z(values: Array) -> Array:
    """Return the modified z-scores 0.6745 (x - median) / MAD (Iglewicz & Hoaglin 1993) of values, none of them NaN.

    When more than half of the values are equal the MAD is zero and the mean absolute deviation takes its place; when
    all are equal every score is zero.
    """
    distance = values - median_of(values)
    absolute_distance = np.abs(distance)
    spread = median_of(absolute_distance) / NORMAL_MAD
    if spread == 0.0:
        spread = float(np.mean(absolute_distance)) / NORMAL_MEAN_AD
    if spread == 0.0:
        return np.zeros(values.size)
    with np.errstate(
        over="ignore"
    ):  # a spread next to nothing makes z infinite, which is far enough out
        return np.asarray(distance / spread, dtype=np.float64)


def effective_size(values: Values) -> float | None:
    """How many independent values the given ones, in time order, are worth for their mean.

    n / (1 + 2 sum of autocorrelations), the sum cut by Geyer's initial positive sequence (Practical Markov chain
    Monte Carlo, Statistical Science 1992). Never above n; None where autocorrelation cannot be estimated: below 20
    values, and of equal ones.
    """
    array, _ = without_missing(as_array(values))
    n = array.size
    if n < 20 or float(np.ptp(array)) == 0.0:
        return None
    centred = array - array.mean()
    spectrum = np.fft.rfft(
        centred / np.abs(centred).max(), 2 * n
    )  # squares of which neither over- nor underflow
    covariance = np.fft.irfft(spectrum * np.conj(spectrum))[:n]
    correlation = covariance / covariance[0]
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)  # rho(2k) + rho(2k+1)
    negative = np.flatnonzero(pairs <= 0)
    leading_pairs = pairs[: negative[0]] if negative.size else pairs
    return float(min(n, n / max(2 * leading_pairs.sum() - 1, 1e-12)))
