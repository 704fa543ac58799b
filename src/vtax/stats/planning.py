"""How small an effect a number of blocks can settle, given the noise of one block's ratio.

The normal approximation to the power of the two-sided t-test on log-ratios: an effect d is settled with the given
power when (t quantile + normal quantile of the power) sd / sqrt(n) <= d (Cohen, Statistical Power Analysis, 1988,
section 2.4, with t for z). For a measured ratio, which is not known exactly, see `outlook`.
"""

from __future__ import annotations

import math

from scipy import special

from vtax.messages import Note
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError
from vtax.stats.intervals import t_quantile
from vtax.stats.ratio import Ratio
from vtax.stats.variance import Components

POWER = 0.8  # of the number of blocks said to be needed
_ALPHA = 0.05


def detectable_distance(
    sd_log: float, blocks: int, probability: float, power: float = POWER
) -> float:
    """Return the distance of log-ratios that a t-test at a quantile `probability` settles with the given power."""
    return (
        (t_quantile(probability, blocks - 1) + float(special.ndtri(power)))
        * sd_log
        / math.sqrt(blocks)
    )


def blocks_needed(
    sd_log: float, distance: float, probability: float, power: float, max_blocks: int
) -> int | None:
    """Return the fewest blocks, at least those of a verdict, that settle a distance of log-ratios; None above `max_blocks`.

    The others are as of `detectable_distance`.
    """
    for blocks in range(MINIMUM_BLOCKS, max_blocks + 1):
        if detectable_distance(sd_log, blocks, probability, power) <= distance:
            return blocks
    return None


def smallest_overhead(sd_log: float, blocks: int) -> float:
    """Return the smallest overhead (share of the baseline's performance lost, 0 to 1) that blocks settle at 5 % with
    power 0.8.

    sd_log: standard deviation of one block's log-ratio. Raises StatsError with fewer than two blocks.
    """
    _check(sd_log, blocks)
    return -math.expm1(-detectable_distance(sd_log, blocks, 1 - _ALPHA / 2))


def detectable_overhead(ratio: Ratio, alpha: float = 0.05, family: int = 1) -> float | None:
    """Return the smallest overhead (share of the baseline's performance) that a measured ratio had a power of 0.8 to
    detect.

    A verdict needs significance, at worst at alpha / family (Holm).
    Its noise is that of its interval: over sessions, where it has several. None where it has too few blocks.
    """
    if ratio.n_blocks < MINIMUM_BLOCKS or not math.isfinite(ratio.se_log):
        return None
    return -math.expm1(-detectable_log(ratio, alpha, family))


def detectable_log(ratio: Ratio, alpha: float, family: int) -> float:
    """Return the smallest distance of a true log-ratio from a bound that its two-sided test finds with a power of
    0.8.

    At worst at alpha / family (Holm's first step): (t + 0.84) standard errors, the most of blocks, sessions
    and hosts.
    """
    level = 1 - alpha / family / 2
    return max(
        (t_quantile(level, df) + float(special.ndtri(POWER))) * se for se, df in ratio.errors
    )


def of_ratio(variance: float, blocks: int, sides: tuple[Components, Components]) -> Components:
    """Return the noise of a log-ratio, halved: of either side, were they alike. variance: of the blocks' log-ratios.

    What trials explain is taken from trials alone, and only where both sides have several in a block.
    """
    a, b = sides
    if a.trial_means is None or b.trial_means is None:
        return Components(1.0, variance / 2, 0.0, 0.0, blocks, 1.0, 1.0, (), None)
    total = a.trial_means + b.trial_means
    explained = a.trial_means / a.trials + b.trial_means / b.trials
    trials, residual_variance = (
        total / explained if explained else 1.0,
        max(variance - explained, 0.0),
    )
    return Components(
        1.0, residual_variance / 2, total / 2, 0.0, blocks, trials, 1.0, (), total / 2
    )


def _check(sd_log: float, blocks: int) -> None:
    if blocks < 2:
        raise StatsError(Note("plan-needs-blocks"))
    if not (math.isfinite(sd_log) and sd_log >= 0):
        raise StatsError(f"a standard deviation of {sd_log} is not a number from zero on")
