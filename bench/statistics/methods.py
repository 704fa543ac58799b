"""Rules applied to many simulated studies at once: vtax's, by its own functions where they take arrays, and others'.

`logs` is always of shape (studies, contrasts, blocks): log-ratios to the first platform.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from noise import Array
from scipy import special

from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.rules import width_share
from vtax.stats.sequential import Looks, decide_studies

UNDECIDED, ABOVE, BELOW, EQUIVALENT = range(4)
Codes = npt.NDArray[np.int64]


def log_ratios(values: Array) -> Array:
    """From values (studies, platforms, blocks, trials): trials averaged, then logarithms against platform 0."""
    means = values[..., 0].copy()
    for k in range(1, values.shape[-1]):  # numpy is slow along an axis as short as this
        means += values[..., k]
    means /= values.shape[-1]
    np.log(means, out=means)
    return means[:, 1:] - means[:, :1]


def running(logs: Array) -> tuple[Array, Array, Array]:
    """(number, mean, standard error) after every block."""
    n = np.arange(1, logs.shape[-1] + 1, dtype=float)
    mean = np.cumsum(logs, axis=-1) / n
    square = np.maximum(np.cumsum(logs**2, axis=-1) - n * mean**2, 0)
    return n, mean, np.sqrt(square / np.maximum(n - 1, 1) / n)


def after(each: Array, at: npt.NDArray[np.int64]) -> Array:
    """What `running` gives of every contrast after block at + 1."""
    return np.take_along_axis(each, at[..., None], -1)[..., 0]


def holm_passes(p: Array, alpha: Array | float) -> npt.NDArray[np.bool_]:
    """Holm's step-down along the last axis."""
    order = np.argsort(p, axis=-1)
    m = p.shape[-1]
    passed = np.take_along_axis(p, order, -1) * (m - np.arange(m)) <= np.asarray(alpha)[..., None]
    result = np.zeros_like(passed)
    np.put_along_axis(result, order, np.logical_and.accumulate(passed, axis=-1), -1)
    return result


def verdicts(mean: Array, se: Array, n: Array, margin: float, alpha: float) -> Codes:
    """vtax's verdicts from summaries of shape (studies, contrasts), n too or (studies, 1)."""
    low, high = -np.log1p(margin), np.log1p(margin)
    different = holm_passes(2 * special.stdtr(n - 1, -np.abs(mean) / se), alpha)
    inside = holm_passes(special.stdtr(n - 1, -np.minimum(mean - low, high - mean) / se), alpha)
    different &= n >= MINIMUM_BLOCKS
    inside &= n >= MINIMUM_BLOCKS
    return np.where(
        inside, EQUIVALENT, np.where(different, np.where(mean > 0, ABOVE, BELOW), UNDECIDED)
    )


def fixed(logs: Array, margin: float, alpha: float = 0.05) -> Codes:
    n = np.full((logs.shape[0], 1), float(logs.shape[-1]))
    se = logs.std(axis=-1, ddof=1) / np.sqrt(logs.shape[-1])
    return verdicts(logs.mean(axis=-1), se, n, margin, alpha)


def precision(
    logs: Array, target: float, margin: float, min_blocks: int, share: float | None = None
) -> tuple[npt.NDArray[np.bool_], Codes, Array]:
    """(whether the interval covers 0, codes, blocks used), each of every contrast, under the rule `precision`.

    A contrast is left out of further blocks once its own interval is narrow. share 1 is the naive rule.
    """
    alpha = 0.05 * (width_share(min_blocks) if share is None else share)
    n, mean, se = running(logs)
    half = special.stdtrit(np.maximum(n - 1, 1), 1 - alpha / 2) * se
    narrow = np.sinh(half) <= target
    narrow[..., : min_blocks - 1] = False
    narrow[..., -1] = True
    at = narrow.argmax(axis=-1)
    mean, se, half = (after(each, at) for each in (mean, se, half))
    return np.abs(mean) <= half, verdicts(mean, se, n[at], margin, alpha), n[at]


def sequential(logs: Array, margin: float, min_blocks: int) -> tuple[Codes, Array]:
    """(codes, blocks at which the study stopped) under the rule `verdict`."""
    last = logs.shape[-1]
    codes, at = decide_studies(logs, margin, 0.05, [Looks(min_blocks, last)] * logs.shape[1])
    return codes, np.minimum(at.max(axis=1), last).astype(float)


# What others do: `values` of shape (studies, platforms, trials), all trials of a platform in a row in one boot.


def welch(values: Array, counts: Array | None = None) -> tuple[Array, Array, Array]:
    """(log-ratio to platform 0, its standard error, degrees of freedom), trials taken as independent."""
    n = np.full(values.shape[:2], values.shape[2]) if counts is None else counts
    used = np.arange(values.shape[2]) < n[..., None]
    mean = np.where(used, values, 0).sum(-1) / n
    var = (
        np.where(used, (values - mean[..., None]) ** 2, 0).sum(-1) / (n - 1) / n / mean**2
    )  # of log mean, delta
    total = var[:, 1:] + var[:, :1]
    df = total**2 / (var[:, 1:] ** 2 / (n[:, 1:] - 1) + var[:, :1] ** 2 / (n[:, :1] - 1))
    return np.log(mean[:, 1:] / mean[:, :1]), np.sqrt(total), df


def netperf_counts(values: Array) -> Array:
    """Repetitions netperf would make of each platform with -i 10,3 -I 95,5.

    The formula is calculate_confidence() of netperf 2.7's netlib.c.
    """
    n, mean, se = running(values[..., :10])
    narrow = 2 * special.stdtrit(np.maximum(n - 1, 1), 0.975) * se / mean <= 0.05
    narrow[..., :2] = False
    narrow[..., -1] = True
    return narrow.argmax(axis=-1) + 1.0
