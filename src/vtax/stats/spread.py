"""How much values vary, as one number for every block or two, so that ratios of spreads have intervals."""

from __future__ import annotations

import numpy as np

from vtax.stats.checks import Array, StatsError
from vtax.stats.notes import Note

FEWEST = 3  # points
BLOCKS_OF_A_SPREAD = 2


def spread_over_blocks(logs: Array) -> Array:
    """The logarithm of the absolute difference of every two successive blocks; a last one alone is left out.

    logs: one logarithm per block, without NaN. The mean difference of two such arrays is the logarithm of how many
    times one standard deviation is the other, where both noises have one shape. The pairs are independent, and
    between noises of one shape the differences are symmetric whatever it is, so that Student's t holds. The F-test of
    variances and the jackknife of their logarithm are false far more often than they say where a block in 20 is slow.
    Successive differences (von Neumann and others, The mean square successive difference, Ann. Math. Statist. 1941)
    leave out what changes slowly. Raises StatsError for fewer than two pairs, and where one does not differ.
    """
    pairs = logs[: logs.size // BLOCKS_OF_A_SPREAD * BLOCKS_OF_A_SPREAD].reshape(-1, BLOCKS_OF_A_SPREAD)
    if len(pairs) < 2:
        raise StatsError(Note("few-for-spread", count=logs.size, minimum=2 * BLOCKS_OF_A_SPREAD))
    differences = np.abs(pairs[:, 0] - pairs[:, 1])
    if float(differences.min()) <= 1e-13 * max(1.0, float(np.abs(logs).max())):
        raise StatsError(Note("no-spread"))
    return np.asarray(np.log(differences))


def spread_over_points(logs: Array) -> Array:
    """The logarithm of the standard deviation over points, of every block.

    logs: shape (points, blocks). NaN for a block that lacks a point. Raises StatsError for fewer than three points,
    and where they are all equal in a block.
    """
    if logs.shape[0] < FEWEST:
        raise StatsError(Note("few-for-spread", count=logs.shape[0], minimum=FEWEST))
    spread = logs.std(axis=0, ddof=1)
    if np.isnan(spread).all() or np.nanmin(spread) <= 1e-13:
        raise StatsError(Note("no-spread"))
    return np.asarray(np.log(spread))
