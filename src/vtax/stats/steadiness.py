"""Is it steady? Warm-up at the start of a guest by change point, and drift over the whole run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vtax.stats.checks import Array, StatsError, Values, as_array, check_confidence, without_missing
from vtax.stats.notes import Note
from vtax.stats.ratio import LARGEST_LOG
from vtax.stats.verdict import p_text

MIN_TRIALS = 20  # below, the first of n values is the odd one out by chance alone with probability 1/n > 5 %


@dataclass(frozen=True)
class Warmup:
    """trials: how many at the start to leave out. steady: false when more than half would have to go.

    p_value: of the last change found (1 when none). level: mean of what is left.
    """

    trials: int
    steady: bool
    p_value: float
    level: float
    warnings: tuple[str, ...]


def find_warmup(values: Values, alpha: float = 0.05, *, permutations: int = 1999, seed: int = 0) -> Warmup:
    """How many trials of a fresh guest, in time order, come before its steady state.

    The most likely single change of the mean (likelihood ratio, Hinkley 1970) is tested by permutation; when
    significant, what is before it is cut off and the rest is tested again, until nothing is found. NaN are left out.
    """
    array, warnings = without_missing(as_array(values))
    if array.size < MIN_TRIALS:
        note = Note("few-trials-for-warmup", trials=array.size, minimum=MIN_TRIALS)
        return Warmup(0, True, 1.0, float(array.mean()), (*warnings, note))
    rng = np.random.default_rng(seed)
    start, p_found = 0, 1.0
    while array.size - start >= MIN_TRIALS:
        at, p = _change_point(array[start:], permutations, rng)
        if p > alpha:
            break
        start, p_found = start + at, p
    steady = start <= array.size // 2
    if not steady:
        warnings = (*warnings, Note("no-steady-state", trials=start, total=array.size))
    return Warmup(start, steady, p_found, float(array[start:].mean()), warnings)


def _change_point(array: Array, permutations: int, rng: np.random.Generator) -> tuple[int, float]:
    if float(np.ptp(array)) == 0.0:
        return 0, 1.0
    observed, at = _largest_shift(array[None, :])
    shuffled = rng.permuted(np.tile(array, (permutations, 1)), axis=1)
    beyond = int((_largest_shift(shuffled)[0] >= observed[0] * (1 - 1e-12)).sum())
    return int(at[0]), (1 + beyond) / (1 + permutations)


def _largest_shift(rows: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Of each row the largest standardized difference of the means before and after, and its place."""
    n = rows.shape[1]
    before = np.arange(1, n)
    sums = np.cumsum(rows - rows.mean(axis=1, keepdims=True), axis=1)[:, :-1]
    score = np.abs(sums) / np.sqrt(before * (n - before) / n)
    at = score.argmax(axis=1)
    return np.take_along_axis(score, at[:, None], axis=1)[:, 0], at + 1


@dataclass(frozen=True)
class Drift:
    """change, low, high: relative change from the first to the last position. p_value: of no trend."""

    change: float
    low: float
    high: float
    p_value: float
    confidence: float
    warnings: tuple[str, ...]


def find_drift(values: Values, positions: Values | None = None, confidence: float = 0.95) -> Drift:
    """Trend of one cell's values over the run: Theil-Sen slope with Mann-Kendall's test (both by scipy).

    The slope of positive values is that of their logarithms, so that neither end of the interval says that more than
    all is lost; values that are zero or negative change relative to their median.
    positions: place in the run of each value, default its order. Use one value per block: trials in a guest depend on
    each other. Blocking takes a drift out of the ratios; it is shown because means and intervals of cells hold it.
    Raises StatsError on unequal lengths or a median of zero. Fewer than 4 values show no trend, with a warning.
    """
    check_confidence(confidence)
    y = as_array(values)
    x = np.arange(y.size, dtype=np.float64) if positions is None else as_array(positions, "positions")
    if x.size != y.size:
        raise StatsError(f"{x.size} positions do not match {y.size} values")
    _, warnings = without_missing(y)
    keep = ~(np.isnan(y) | np.isnan(x))
    x, y = x[keep], y[keep]
    if y.size < 4 or np.ptp(x) == 0:
        return Drift(0.0, -np.inf, np.inf, 1.0, confidence, (*warnings, Note("few-values-for-trend", values=y.size)))
    level = float(np.median(y))
    if level == 0.0:
        raise StatsError(Note("zero-median-no-drift"))
    if np.ptp(y) == 0:
        return Drift(0.0, 0.0, 0.0, 1.0, confidence, warnings)
    is_positive = bool((y > 0).all())
    from scipy import stats  # slow to import, and most commands never come here

    slope = stats.theilslopes(np.log(y) if is_positive else y, x, alpha=confidence)
    p = float(stats.kendalltau(x, y).pvalue)
    span = float(np.ptp(x))
    changes = [float(each) * span for each in (slope.slope, slope.low_slope, slope.high_slope)]
    if is_positive:
        changes = [math.expm1(min(each, LARGEST_LOG)) for each in changes]
    else:
        changes = [each / level for each in changes]
    low, high = sorted(changes[1:])
    if p < 1 - confidence:
        warnings = (
            *warnings,
            f"values drift over the run by {changes[0] * 100:+.1f}\N{NO-BREAK SPACE}%".replace("-", "\N{MINUS SIGN}")
            + f" ({p_text(p)})",
        )
    return Drift(changes[0], low, high, p, confidence, warnings)
