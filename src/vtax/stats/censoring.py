"""What trials that timed out still say: of fixed work, each of them lasts at least as long as it was given."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vtax.messages import Note
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError
from vtax.stats.intervals import t_quantile
from vtax.stats.ratio import BlockMeans, block_contrast, ratio_of_logs


@dataclass(frozen=True)
class Timeouts:
    """timed_out, tried: trials of the treatment. timeout_s: after which they were ended, the longest of several.

    slower_at_least: lower bound of how many times as long as on the baseline a trial lasts; 0 where there is none.
    """

    timed_out: int
    tried: int
    timeout_s: float
    slower_at_least: float

    @property
    def note(self) -> Note:
        """The sentence of the bound; of the time-outs alone where there is none."""
        shown = {"failed": self.timed_out, "tried": self.tried, "timeout": float(self.timeout_s)}
        if self.slower_at_least <= 1:
            return Note("timed-out", **shown)
        return Note("timed-out-at-least", **shown, times=floored(self.slower_at_least))


def floored(times: float) -> float:
    """To two digits, never rounded up: a bound stays one."""
    unit = 10.0 ** (math.floor(math.log10(times)) - 1)
    return round(math.floor(times / unit) * unit, 10)


def slower_at_least(treatment_s: BlockMeans, baseline_s: BlockMeans, level: float) -> float:
    """One-sided lower bound, of that level, of the geometric mean of the blocks' ratios of durations; 0 for none.

    treatment_s: mean duration of each block's trials, in which one that timed out counts as long as it was given.
    That is less than it would have taken, so the mean of these is at most the true one, and a lower bound of theirs
    is one of it. No bound below MINIMUM_BLOCKS blocks of both.
    """
    try:
        ratio = ratio_of_logs(block_contrast(treatment_s, baseline_s), level)
    except StatsError:
        return 0.0
    if ratio.n_blocks < MINIMUM_BLOCKS:
        return 0.0
    return math.exp(ratio.mean_log - t_quantile(level, ratio.df) * ratio.se_log)
