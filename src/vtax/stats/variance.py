"""Where noise comes from, level by level, and how many blocks and trials are worth their time.

The nested model and the optimal numbers are those of Kalibera & Jones (Rigorous Benchmarking in Reasonable Time,
ISMM 2013, sections 6 and 7): block (with its fresh guest), trial in the guest, sample in the trial.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from vtax.messages import Note
from vtax.stats.checks import Array, StatsError, Values, as_array, without_missing
from vtax.stats.intervals import t_quantile

Labels = Sequence[Hashable] | npt.NDArray[Any]


@dataclass(frozen=True)
class Components:
    """Relative variances (squares of a coefficient of variation) of one cell.

    between_blocks: of blocks and their guests; between_trials: of trials in a guest (noise within trials included
    when there are no samples); within_trial: of samples in a trial, 0 without samples. blocks, trials, samples: how
    many there were, the latter two per block and per trial (harmonic means).
    """

    mean: float
    between_blocks: float
    between_trials: float
    within_trial: float
    blocks: int
    trials: float
    samples: float
    warnings: tuple[str, ...]
    trial_means: float | None

    @property
    def shares(self) -> tuple[float, float, float]:
        """The three as shares of their sum (all 0 without noise)."""
        total = self.between_blocks + self.between_trials + self.within_trial or 1.0
        blocks, trials = self.between_blocks / total, self.between_trials / total
        return blocks, trials, self.within_trial / total


def components(values: Values, blocks: Labels, trials: Labels | None = None) -> Components:
    """Return the variance components of one cell's values.

    A level that occurs once everywhere is not separable from the one above: its share is part of that, with a warning.
    A negative estimate becomes 0, with a warning.

    values: NaN are left out.
    blocks: of each value.
    trials: of each value, when several samples come from one trial; labels may repeat between blocks.

    Raises StatsError without values or with a mean of zero.
    """
    all_values = as_array(values)
    array, warnings = without_missing(all_values)
    is_known = ~np.isnan(all_values)
    block = np.unique(np.asarray(blocks)[is_known], return_inverse=True)[1]
    inner = np.arange(array.size)
    if trials is not None:
        inner = np.unique(np.asarray(trials)[is_known], return_inverse=True)[1]
    if block.size != array.size or inner.size != array.size:
        raise StatsError("blocks and trials must have one label for each value")
    mean = float(array.mean())
    if mean == 0.0:
        raise StatsError(Note("zero-mean-no-noise"))
    trial, block_of_trial = _nest(block, inner)
    trial_means, within, samples = _level(array, trial)
    block_means, of_trials, per_block = _level(trial_means, block_of_trial)
    if block_means.size < 2:
        warnings = (*warnings, Note("one-block-no-noise"))
    top = float(block_means.var(ddof=1)) if block_means.size > 1 else 0.0
    variances, notes = _unbiased(
        top, of_trials, within, per_block, samples, sampled=trials is not None
    )
    a, b, c = (variance / mean / mean for variance in variances)
    if not math.isfinite(a + b + c):
        raise StatsError(Note("tiny-mean-no-noise"))
    relative_variance_of_trials = None if math.isnan(of_trials) else of_trials / mean / mean
    return Components(
        mean,
        a,
        b,
        c,
        block_means.size,
        per_block,
        samples,
        (*warnings, *notes),
        relative_variance_of_trials,
    )


def _nest(
    block: npt.NDArray[np.intp], inner: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return (index of the trial of each value, block of each trial)."""
    code = block.astype(np.int64) * (int(inner.max()) + 1) + inner
    names, index = np.unique(code, return_inverse=True)
    return index, names // (int(inner.max()) + 1)


def _level(values: Array, group: npt.NDArray[Any]) -> tuple[Array, float, float]:
    """Return (means of groups, pooled variance in groups or nan, harmonic mean of group sizes)."""
    counts = np.bincount(group)
    means = np.bincount(group, weights=values) / counts
    df = int((counts - 1).sum())
    pooled = float(((values - means[group]) ** 2).sum() / df) if df else math.nan
    return means, pooled, float(counts.size / (1 / counts).sum())


def _unbiased(
    top: float, middle: float, bottom: float, per_block: float, samples: float, *, sampled: bool
) -> tuple[tuple[float, float, float], tuple[str, ...]]:
    """Return T squared of every level, its variance of means less what the level below explains, and notes on it."""
    notes = []
    if math.isnan(bottom):
        bottom = 0.0
        if sampled:
            notes.append(Note("one-sample"))
    if math.isnan(middle):
        middle = 0.0
        notes.append(Note("one-trial"))
        return (max(top - bottom / samples, 0.0), 0.0, bottom), tuple(notes)
    of_trials, of_blocks = middle - bottom / samples, top - middle / per_block
    if of_trials < 0 or of_blocks < 0:
        notes.append(Note("negative-variance"))
    return (max(of_blocks, 0.0), max(of_trials, 0.0), bottom), tuple(notes)


@dataclass(frozen=True)
class Replication:
    """trials per block and blocks that reach a half-width most cheaply; time_s: what all that takes.

    blocks_low, blocks_high: the blocks at the ends of the confidence interval of the noise that the plan was made
    from; blocks_high is None above MOST_BLOCKS. half_width: what is reached, by the estimate.
    """

    trials: int
    blocks: int
    blocks_low: int
    blocks_high: int | None
    half_width: float
    time_s: float
    warnings: tuple[str, ...]


MAX_BLOCKS, MAX_TRIALS = 1_000_000, 100  # of a plan, and of a cell in one of its blocks


def plan(
    noise: Components,
    block_s: float,
    trial_s: float,
    half_width: float,
    confidence: float | Callable[[int], float] = 0.95,
    *,
    settled: int = 0,
    min_blocks: int = 5,
    noise_confidence: float = 0.95,
) -> Replication:
    """Return the cheapest trials per block and number of blocks for a ratio's relative half-width.

    Trials per block are sqrt(c2/c1 T1/T2) (Kalibera & Jones 2013, eq. 1: costs c, variances T squared); one, where
    noise has no trial_means, because the effect of more is not known. Where the estimate of the noise between blocks is
    0, trials are chosen for as much noise as the blocks do not rule out. The baseline is taken to be as noisy as the
    cell, which doubles the variance of a log-ratio.

    noise: of the cell.
    block_s: time to start the cell's guest once.
    trial_s: time of one trial.
    half_width: relative, that is wanted.
    confidence: of the ratio's interval; a function of the number of blocks where it depends on that.
    settled: number of blocks from which on `confidence` is constant. Before, it may rise faster than the width falls,
        so those numbers are tried one by one.
    min_blocks: fewest blocks of the plan.
    noise_confidence: of the interval behind blocks_low and blocks_high.

    Raises StatsError without two blocks.
    """
    if block_s < 0 or trial_s <= 0 or half_width <= 0:
        raise StatsError("times and the half-width must be above zero")
    warnings: tuple[str, ...] = noise.warnings
    low, between, high = between_blocks(noise, noise_confidence)
    of_trials, trials = noise.trial_means or 0.0, 1
    if of_trials:
        trials = math.ceil(math.sqrt(block_s / trial_s * of_trials / (between or high)))
    trials = max(1, min(MAX_TRIALS, trials))

    def reached(blocks: int, trials: int, between: float = between) -> float:
        variance = 2 * (between + of_trials / trials)
        level = confidence(blocks) if callable(confidence) else confidence
        return t_quantile((1 + level) / 2, blocks - 1) * math.sqrt(variance / blocks)

    def needed(between: float) -> int:
        def enough(n: int) -> bool:
            return reached(n, trials, between) <= half_width

        first = next(filter(enough, range(min_blocks, settled)), None)
        return first or _least(max(min_blocks, settled), MAX_BLOCKS, enough)

    blocks = needed(between)
    if reached(blocks, trials) > half_width:
        warnings = (*warnings, Note("too-many-blocks"))
    if blocks == min_blocks:  # fewer trials may do as well in the blocks that must be made anyway
        trials = _least(1, trials, lambda n: reached(blocks, n) <= half_width)
    maximum = needed(high)
    return Replication(
        trials,
        blocks,
        needed(low),
        None if reached(maximum, trials, high) > half_width else maximum,
        reached(blocks, trials),
        blocks * (block_s + trials * trial_s),
        warnings,
    )


def between_blocks(noise: Components, confidence: float) -> tuple[float, float, float]:
    """Return (lower limit, estimate, upper limit) of the variance between blocks that a plan reckons with.

    The limits are those of the variance of block means, chi-squared, less what trials explain of it. With one trial
    per block all noise is between blocks.
    """
    if noise.blocks < 2:
        raise StatsError(Note("plan-needs-blocks"))
    estimate, of_trials = noise.between_blocks, 0.0
    if noise.trial_means is None:
        estimate = estimate + noise.between_trials + noise.within_trial / noise.samples
    else:
        of_trials = noise.trial_means / noise.trials
    df, tail = noise.blocks - 1, (1 - confidence) / 2
    square = df * (estimate + of_trials)
    low = square / float(special.chdtri(df, tail))
    high = square / float(special.chdtri(df, 1 - tail))
    return max(low - of_trials, 0.0), estimate, max(high - of_trials, 0.0)


def _least(low: int, high: int, enough: Callable[[int], bool]) -> int:
    """Return the least number from low to high that is enough, high when none is."""
    return low + bisect_left(range(low, high), True, key=enough)
