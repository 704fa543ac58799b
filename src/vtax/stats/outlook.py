"""How many further blocks a verdict takes, as a range: what the ratio and its noise leave open, drawn and played out.

From each plausible pair of true ratio and true noise, given what was measured, a future of further blocks is drawn,
and the verdict's own conditions (significance and size, or both sides of the equivalence test) are asked at growing
numbers of blocks. The range is from where one future in five has a verdict to where about four in five have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
import numpy.typing as npt
from scipy import special

from vtax.described import Means
from vtax.stats.checks import Array
from vtax.stats.margin import log_margin
from vtax.stats.terms import MINIMUM_BLOCKS

FUTURES = 400
LOW, HIGH = (
    0.2,
    0.85,
)  # of futures that have a verdict: the latter settles about 0.8, see docs/proof.md
FARTHEST = 200  # times the blocks that were made
WIDEST = 10.0  # high / low of a range that is worth a sentence

Levels = Callable[
    [int], tuple[float, float]
]  # blocks -> one-sided levels: of a difference, of an end of the margin


@dataclass(frozen=True)
class Outlook:
    """Further blocks, from low to high; None where the range is too wide to be of use: then noise decides."""

    low: int | None
    high: int | None


@dataclass(frozen=True)
class Needed:
    """Blocks in all that a comparison takes at its present noise, from the low to the high limit of that.

    A high one of None is too many to count.
    """

    equal: Annotated[
        tuple[int, int | None],
        Means("until it is `equivalent`, if both sides are equal: low, high"),
    ]
    size: Annotated[float, Means("the difference of `different`, as a ratio - 1")]
    different: Annotated[
        tuple[int, int | None], Means("until a difference of `size` is shown: low, high")
    ]


@lru_cache(maxsize=64)
def _draws(df: float) -> tuple[Array, Array, Array, Array]:
    """(noise over the estimate, and standard normal draws of the ratio, of the future's mean and of its spread).

    Each draw is made with both signs, so that a ratio and its inverse have the same futures.
    """
    rng = np.random.default_rng(14)
    half_count = FUTURES // 2
    spread = np.tile(np.sqrt(df / rng.chisquare(df, half_count)), 2)
    ratio, drift, wiggle = (rng.standard_normal(half_count) for _ in range(3))
    return spread, np.append(ratio, -ratio), np.append(drift, -drift), np.tile(wiggle, 2)


def outlook(
    mean: float, sd: float, blocks: int, df: float, margin: float, levels: Levels
) -> Outlook:
    """Return the range for a mean log-ratio, its standard deviation from block to block with df, and blocks made.

    levels: what a verdict after so many blocks is tested at, (0, 0) where none can fall.
    """
    start = max(MINIMUM_BLOCKS, blocks + 1)
    most_blocks = FARTHEST * blocks
    ns = np.unique(np.round(np.geomspace(start, max(most_blocks, start + 1), 40)).astype(int))
    at = [levels(int(n)) for n in ns]
    return _reached(settled(mean, sd, blocks, df, margin, ns, np.array(at)), ns, blocks)


def range_outlook(
    mean: float,
    sd: float,
    blocks: int,
    df: float,
    bounds: tuple[float, float],
    levels: tuple[float, float],
) -> Outlook:
    """Return the same until a log-ratio is certain to lie inside bounds (infinite: none), or outside of them.

    levels: one-sided, of being inside each bound and of being outside one.
    """
    start = max(MINIMUM_BLOCKS, blocks + 1)
    ns = np.unique(np.round(np.geomspace(start, max(FARTHEST * blocks, start + 1), 40)).astype(int))
    final, se, final_df = _futures(mean, sd, blocks, df, ns)
    inside = -special.stdtrit(final_df, levels[0]) * se
    outside = -special.stdtrit(final_df, levels[1]) * se
    low, high = bounds
    is_inside = (final - low >= inside) & (high - final >= inside)
    is_outside = (low - final >= outside) | (final - high >= outside)
    return _reached(np.asarray((is_inside | is_outside).mean(axis=0)), ns, blocks)


def _reached(share: Array, ns: npt.NDArray[np.int64], blocks: int) -> Outlook:
    """Return the range from where few futures have a verdict to where most have."""
    low, high = np.flatnonzero(share >= LOW), np.flatnonzero(share >= HIGH)
    if not high.size or ns[high[0]] - blocks > WIDEST * (ns[low[0]] - blocks):
        return Outlook(None, None)
    return Outlook(int(ns[low[0]]) - blocks, int(ns[high[0]]) - blocks)


def settled(
    mean: float,
    sd: float,
    blocks: int,
    df: float,
    margin: float,
    ns: npt.NDArray[np.int64],
    levels: Array,
) -> Array:
    """Return the share of futures that have a verdict after each number of blocks; the same for the inverse ratio."""
    final, se, final_df = _futures(mean, sd, blocks, df, ns)
    bound = [-special.stdtrit(final_df, np.maximum(levels[:, k], 1e-300)) for k in (0, 1)]
    distance, end = np.abs(final), log_margin(margin)
    different = (distance >= bound[0] * se) & (levels[:, 0] > 0)
    inside = (end - distance >= bound[1] * se) & (levels[:, 1] > 0)
    return np.asarray((different | inside).mean(axis=0))


def share_beyond(
    mean: float,
    sd: float,
    blocks: int,
    df: float,
    bound: float,
    blocks_in_all: int,
    level: float,
) -> float:
    """Return the share of futures whose log-ratio is certain to lie above a bound after so many blocks in all.

    mean, sd, blocks, df: as of `outlook`. level: one-sided.
    """
    if level <= 0:
        return 0.0
    final, se, final_df = _futures(mean, sd, blocks, df, np.array([blocks_in_all]))
    return float((final - bound >= -special.stdtrit(final_df, level) * se).mean())


def _futures(
    mean: float, sd: float, blocks: int, df: float, ns: npt.NDArray[np.int64]
) -> tuple[Array, Array, Array]:
    """Return (mean, standard error) of every future, a row each, after each number of blocks; degrees of freedom."""
    spread, ratio, drift, wiggle = (draw[:, None] for draw in _draws(df))
    sigma = sd * spread
    truth = mean + sigma * ratio / math.sqrt(blocks)
    further_blocks = (ns - blocks)[None, :].astype(float)
    future = truth + sigma * drift / np.sqrt(further_blocks)
    final = (blocks * mean + further_blocks * future) / ns
    chi = np.maximum(
        further_blocks - 1 + wiggle * np.sqrt(2 * np.maximum(further_blocks - 1, 0)), 0.0
    )
    square = df * sd**2 + sigma**2 * chi + blocks * further_blocks / ns * (future - mean) ** 2
    se = np.sqrt(square / (df + further_blocks) / ns)
    return final, se, np.maximum(further_blocks[0] + df, 1.0)
