"""Which platform is best, second, last, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vtax.stats.checks import Array, Better, StatsError
from vtax.stats.notes import Note


@dataclass(frozen=True)
class Ranking:
    """probabilities[i, r]: share of bootstrap samples in which platform i has rank r (0 is best). blocks: used."""

    order: tuple[int, ...]
    probabilities: Array
    blocks: int
    warnings: tuple[str, ...]

    @property
    def best(self) -> Array:
        """Probability of each platform to be the best."""
        return np.asarray(self.probabilities[:, 0])

    @property
    def last(self) -> Array:
        """Probability of each platform to be the last."""
        return np.asarray(self.probabilities[:, -1])


def rank(values: npt.NDArray[np.float64], better: Better, *, resamples: int = 4999, seed: int = 0) -> Ranking:
    """Ranks of platforms by bootstrap over blocks.

    values: shape (platforms, blocks), positive block averages; a block that lacks a platform is left out with a
    warning. Whole blocks are drawn, so what platforms share in a block stays shared. Ties share their ranks evenly.
    Raises StatsError with fewer than two complete blocks, since drawing from one draws it every time, and when a
    value is not positive and finite.
    """
    if values.ndim != 2 or values.shape[0] < 1:
        raise StatsError("ranking needs a matrix of platforms and blocks")
    complete = ~np.isnan(values).any(axis=0)
    if not complete.any():
        raise StatsError(Note("no-common-block"))
    if complete.sum() < 2:
        raise StatsError(Note("one-common-block"))
    kept = values[:, complete]
    if not np.isfinite(kept).all() or (kept <= 0).any():
        raise StatsError(Note("ranking-not-positive"))
    warnings: list[str] = []
    if kept.shape[1] < values.shape[1]:
        warnings.append(Note("incomplete-blocks", missing=values.shape[1] - kept.shape[1], total=values.shape[1]))
    if kept.shape[1] < 5:
        warnings.append(Note("few-blocks-for-ranks", blocks=kept.shape[1]))
    score = np.log(kept) * (1 if better == "higher" else -1)
    weights = _weights(score.shape[1], resamples, seed)
    means = np.round(weights @ score.T / score.shape[1], 12)  # (resamples, platforms)
    probabilities = rank_shares(means)
    order = tuple(int(i) for i in np.argsort(-score.mean(axis=1), kind="stable"))
    return Ranking(order, probabilities, kept.shape[1], tuple(warnings))


@lru_cache(maxsize=4)
def _weights(blocks: int, resamples: int, seed: int) -> Array:
    """How often each block is drawn in each resample: the same at every point of a run, so kept."""
    drawn = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples)
    return drawn.astype(np.float64)


def rank_shares(means: Array) -> Array:
    """Share of rows in which each column has each rank; equal numbers share the ranks they span."""
    above = (means[:, None, :] > means[:, :, None]).sum(axis=2)
    equal = (means[:, None, :] == means[:, :, None]).sum(axis=2)
    platforms = means.shape[1]
    shares = np.zeros((platforms, platforms))
    for r in range(platforms):
        shares[:, r] = (((above <= r) & (r < above + equal)) / equal).mean(axis=0)
    return shares
