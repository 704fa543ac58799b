"""Bounds from trials that timed out: of fixed work, each of them lasts at least as long as it was given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from vtax.described import Means
from vtax.messages import Note
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError
from vtax.stats.intervals import t_quantile
from vtax.stats.ratio import BlockMeans, block_contrast, ratio_of_logs


@dataclass(frozen=True)
class Timeouts:
    """Trials of fixed work that timed out on the treatment."""

    timed_out: Annotated[int, Means("trials that the timeout ended")]
    tried: Annotated[int, Means("trials")]
    timeout_s: Annotated[
        float, Means("after which they were ended; the longest of several", unit="s")
    ]
    slower_at_least: Annotated[
        float,
        Means(
            "lower bound of how many times as long as the baseline's a trial lasts; 0 without one"
        ),
    ]

    @property
    def note(self) -> Note:
        """The sentence of the bound; of the time-outs alone where there is none."""
        data = {"failed": self.timed_out, "tried": self.tried, "timeout": float(self.timeout_s)}
        if self.slower_at_least <= 1:
            return Note("timed-out", **data)
        return Note("timed-out-at-least", **data, times=floored(self.slower_at_least))


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
