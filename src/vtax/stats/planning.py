"""How small an effect a number of blocks can settle, given the noise of one block's ratio; and the other way round.

The normal approximation to the power of the two-sided t-test on log-ratios: an effect d is settled with the given
power when (t quantile + normal quantile of the power) sd / sqrt(n) <= d (Cohen, Statistical Power Analysis, 1988,
section 2.4, with t for z). For a measured ratio, which is not known
exactly, see `outlook`. How many trials a block is worth: `allocate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from vtax.stats.checks import StatsError
from vtax.stats.intervals import t_quantile
from vtax.stats.ratio import Ratio
from vtax.stats.variance import Components, between_blocks
from vtax.stats.verdict import fewest_to_judge

POWER = 0.8  # of the number of blocks said to be needed
MAX_BLOCKS = 10_000  # needing more than this is said as None


def detectable_distance(sd_log: float, blocks: int, probability: float, power: float = POWER) -> float:
    """The distance of log-ratios that a t-test at a quantile `probability` settles with the given power."""
    return (t_quantile(probability, blocks - 1) + float(special.ndtri(power))) * sd_log / math.sqrt(blocks)


def min_blocks_for(sd_log: float, distance: float, probability: float, low: int) -> int | None:
    """The fewest blocks from low to MOST_BLOCKS that see a distance; None when not even those do."""
    high = MAX_BLOCKS
    if detectable_distance(sd_log, high, probability) > distance:
        return None
    while low < high:
        middle = (low + high) // 2
        if detectable_distance(sd_log, middle, probability) <= distance:
            high = middle
        else:
            low = middle + 1
    return low


def smallest_overhead(sd_log: float, blocks: int, alpha: float = 0.05) -> float:
    """The smallest overhead (share of the baseline's performance lost, 0 to 1) that blocks settle with power 0.8.

    sd_log: standard deviation of one block's log-ratio. Raises StatsError with fewer than two blocks.
    """
    _check(sd_log, blocks)
    return -math.expm1(-detectable_distance(sd_log, blocks, 1 - alpha / 2))


def detectable_overhead(ratio: Ratio, margin: float, alpha: float = 0.05, family: int = 1) -> float | None:
    """The smallest overhead (share of the baseline's performance) that a measured ratio had a power of 0.8 to detect.

    A verdict needs significance, at worst at alpha / family (Holm), and a size beyond the margin, whichever is more.
    Its noise is that of its interval: over sessions, where it has several. None where it has too few blocks.
    """
    if ratio.n_blocks < fewest_to_judge(ratio) or not math.isfinite(ratio.se_log):
        return None
    return max(-math.expm1(-detectable_log(ratio, alpha, family)), margin)


def detectable_log(ratio: Ratio, alpha: float, family: int) -> float:
    """The smallest distance of a true log-ratio from a bound that its two-sided test finds with a power of 0.8.

    At worst at alpha / family (Holm's first step): (t + 0.84) standard errors, over sessions the larger of both.
    """
    level = 1 - alpha / family / 2
    errors = [(ratio.se_log, ratio.df), *([ratio.within] if ratio.within is not None else [])]
    return max((t_quantile(level, df) + float(special.ndtri(POWER))) * se for se, df in errors)


def blocks_for(sd_log: float, overhead: float, alpha: float = 0.05, low: int = 5) -> int | None:
    """The fewest blocks, at least low, that settle an overhead with power 0.8; None when more than MOST_BLOCKS."""
    _check(sd_log, low)
    if not 0 < overhead < 1:
        raise StatsError(f"an overhead of {overhead} is not between 0 and 1")
    return min_blocks_for(sd_log, -math.log1p(-overhead), 1 - alpha / 2, low)


def noise_upper(sd_log: float, blocks: int, confidence: float = 0.95) -> float:
    """The upper confidence bound of a standard deviation estimated from blocks (chi-squared, one-sided)."""
    _check(sd_log, blocks)
    df = blocks - 1
    return sd_log * math.sqrt(df / float(special.chdtri(df, confidence)))


@dataclass(frozen=True)
class Allocation:
    """Trials of every cell in a block, and what they were chosen by.

    start_s: what a block costs before its first trials, over all its guests; trial_s: what one trial of every cell
    adds. between, within: standard deviations of the widest contrast's log-ratio, of blocks and of one trial on
    either side. widest: which of the contrasts that is. time_saved: the share of the time to the same interval that
    one trial a block would take, which the choice saves.
    """

    trials: int
    start_s: float
    trial_s: float
    between: float
    within: float
    widest: int
    time_saved: float


MAX_ALLOCATED = 30  # trials of a cell in a block: beyond, the optimum is flat and guests grow old


def allocate(
    noises: Sequence[Components], start_s: float, trial_s: float, *, half_width: float | None = None,
    confidence: float = 0.95, blocks: int = 5,
) -> Allocation:  # fmt: skip
    """The trials a block that reach any half-width of the widest contrast's interval in the least time.

    noises: of contrasts, as `of_ratio` gives them, with several trials in a block. Time grows with
    (start_s + n trial_s) (between + within / n); of one contrast its least is at
    n = sqrt(start_s / trial_s x within / between), the optimum of two-stage sampling (Cochran, Sampling Techniques,
    1977, section 10.6; for benchmarks Kalibera & Jones 2013, equation 1). half_width: fewer trials are enough where
    `blocks` blocks, that are made in any case, reach it. Where no noise between blocks was found, trials are chosen
    for its upper 80 % confidence limit. Raises StatsError without a noise of trials.
    """
    if start_s < 0 or trial_s <= 0:
        raise StatsError("times must be above zero")
    known = [(2 * _between(noise), 2 * noise.trial_means) for noise in noises if noise.trial_means is not None]
    places = [place for place, noise in enumerate(noises) if noise.trial_means is not None]
    if not known:
        raise StatsError("the noise between trials needs several of them in a block")

    def time(n: int) -> float:
        return (start_s + n * trial_s) * variance(n)

    def variance(n: int) -> float:
        return max(between + within / n for between, within in known)

    trials = min(range(1, MAX_ALLOCATED + 1), key=time)
    if half_width is not None:
        quantile = t_quantile((1 + confidence) / 2, blocks - 1)
        enough = (n for n in range(1, trials) if quantile * math.sqrt(variance(n) / blocks) <= half_width)
        trials = next(enough, trials)
    at = max(range(len(known)), key=lambda k: known[k][0] + known[k][1] / trials)
    saved = 1 - time(trials) / time(1) if time(1) > 0 else 0.0
    between, within = (math.sqrt(part) for part in known[at])
    return Allocation(trials, start_s, trial_s, between, within, places[at], saved)


def of_ratio(variance: float, blocks: int, sides: tuple[Components, Components]) -> Components:
    """The noise of a log-ratio, halved: of either side, were they alike. variance: of the blocks' log-ratios.

    What trials explain is taken from trials alone, and only where both sides have several in a block.
    """
    repeated = [side.trial_means for side in sides]
    known = [v for v in repeated if v is not None]
    if len(known) < len(repeated):
        return Components(1.0, variance / 2, 0.0, 0.0, blocks, 1.0, 1.0, (), None)
    explained = sum(v / side.trials for v, side in zip(known, sides, strict=True))
    trials, left = sum(known) / explained if explained else 1.0, max(variance - explained, 0.0)
    return Components(1.0, left / 2, sum(known) / 2, 0.0, blocks, trials, 1.0, (), sum(known) / 2)


def _between(noise: Components) -> float:
    """The variance between blocks to plan with; where none was found, what it is below with 80 % confidence."""
    _, estimate, high = between_blocks(noise, 0.6)
    return estimate or high


def _check(sd_log: float, blocks: int) -> None:
    if blocks < 2:
        raise StatsError("noise between blocks needs at least two blocks")
    if not (math.isfinite(sd_log) and sd_log >= 0):
        raise StatsError(f"a standard deviation of {sd_log} is not a number from zero on")
