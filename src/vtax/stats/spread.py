"""How much values vary, as one number for every block or two, so that ratios of spreads have intervals."""

from __future__ import annotations

import numpy as np

from vtax.messages import Note
from vtax.stats.checks import Array, StatsError

FEWEST = 3  # points
BLOCKS_OF_A_SPREAD = 2


def spread_over_blocks(logs: Array) -> Array:
    """Return the logarithm of the absolute difference of every two successive blocks; a last one alone is left out.

    logs: one logarithm per block, without NaN. The mean difference of two such arrays is the logarithm of how many
    times one standard deviation is the other, where both noises have one shape. The pairs are independent, and
    between noises of one shape the differences are symmetric whatever it is, so that Student's t holds. The F-test of
    variances and the jackknife of their logarithm are false far more often than they say where a block in 20 is slow.
    Successive differences (von Neumann and others, The mean square successive difference, Ann. Math. Statist. 1941)
    leave out what changes slowly. Raises StatsError for fewer than two pairs, and where one does not differ.
    """
    return _log_sizes(_differences(logs), logs)


def spread_of_guests(first: Array, second: Array) -> Array:
    """Compare pairs of successive blocks: how far apart guests are, over how far apart trials in one guest are.

    first, second: the logarithms of the first two trials of every block, which has a fresh guest. The mean is the
    logarithm of the ratio of standard deviations: of single trials of different guests, whatever makes them differ,
    the time between them too, and of trials of one guest. Where guests do not differ, trials of two blocks and of one
    are exchangeable, so the values are symmetric. Raises StatsError as `spread_over_blocks`.
    """
    within_guests = (first - second)[
        : first.size // BLOCKS_OF_A_SPREAD * BLOCKS_OF_A_SPREAD : BLOCKS_OF_A_SPREAD
    ]
    return _log_sizes(_differences(first), first) - _log_sizes(within_guests, first)


def spread_of_pairing(of: Array, to: Array) -> Array:
    """Compare pairs of successive blocks: the spread of `of` / `to` of the same block, over that across blocks.

    of, to: one logarithm per block. Across blocks, the difference of `to` is that of the next two blocks (of the
    first ones after the last), as if the sides had been measured at different times. The mean is the logarithm of
    the ratio of standard deviations, sqrt(1 - r) for equal noises of correlation r within a block. Neighbouring
    values share a difference with opposite signs, so that Student's t errs on the safe side. Raises StatsError as
    `spread_over_blocks`.
    """
    a, b = _differences(of), _differences(to)
    return _log_sizes(a - b, of) - _log_sizes(a - np.roll(b, -1), of)


def _differences(logs: Array) -> Array:
    """Subtract blocks in pairs; a last one alone is left out. Raises StatsError for fewer than two pairs."""
    pairs = logs[: logs.size // BLOCKS_OF_A_SPREAD * BLOCKS_OF_A_SPREAD].reshape(
        -1, BLOCKS_OF_A_SPREAD
    )
    if len(pairs) < 2:
        raise StatsError(Note("few-for-spread", count=logs.size, minimum=2 * BLOCKS_OF_A_SPREAD))
    return np.asarray(pairs[:, 0] - pairs[:, 1])


def _log_sizes(differences: Array, logs: Array) -> Array:
    """Return the logarithm of each absolute difference. logs: what they are of. Raises StatsError where one is
    zero."""
    sizes = np.abs(differences)
    if float(sizes.min()) <= 1e-13 * max(1.0, float(np.abs(logs).max())):
        raise StatsError(Note("no-spread"))
    return np.asarray(np.log(sizes))


def spread_over_points(logs: Array) -> Array:
    """Return the logarithm of the standard deviation over points, of every block.

    logs: shape (points, blocks). NaN for a block that lacks a point. Raises StatsError for fewer than three points,
    and where they are all equal in a block.
    """
    if logs.shape[0] < FEWEST:
        raise StatsError(Note("few-for-spread", count=logs.shape[0], minimum=FEWEST))
    spread = logs.std(axis=0, ddof=1)
    if np.isnan(spread).all() or np.nanmin(spread) <= 1e-13:
        raise StatsError(Note("no-spread"))
    return np.asarray(np.log(spread))
