"""The ratio of typical trials, a second estimate beside the ratio of averages: how a platform does between pauses.

Within a block the median of the trials stands for a platform, and over the blocks a trimmed mean of the log-ratios.
Single slow trials and single slow blocks do not move it, so on hosts with pauses its interval is narrow. It says
nothing of what pauses cost, so it decides no verdict. Where it differs from the ratio of averages by more than chance
and the margin, a side may pause: few slow trials or blocks make such a difference, and a single slow block can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from vtax.described import Means, Warnings
from vtax.messages import Note
from vtax.stats.assumptions import allow_for_dependence
from vtax.stats.checks import Array, Better
from vtax.stats.intervals import Interval, t_quantile, t_tail
from vtax.stats.margin import log_margin
from vtax.stats.ratio import Ratio, exp

FEWEST_BLOCKS = 10  # with five, trimming leaves three
FEWEST_TRIALS = 3  # a block, of either side: the median of two is their mean
TRIMMED = 0.2  # of the blocks, from each end


@dataclass(frozen=True)
class Typical:
    """The ratio of typical trials. A side that pauses has an average that single trials or blocks make worse."""

    estimate: Annotated[
        float, Means("20 % trimmed mean of the ratios of medians within blocks, by logarithms")
    ]
    low: Annotated[float, Means("bounds of its t-interval (Yuen)")]
    high: Annotated[float, Means("bounds of its t-interval (Yuen)")]
    confidence: Annotated[float, Means("confidence level of it")]
    n_blocks: Annotated[int, Means("blocks with both sides, before trimming")]
    trials: Annotated[int, Means("trials of the block and side that has the fewest")]
    mean_log: Annotated[float, Means("trimmed mean of the logarithms")]
    p_value: Annotated[float, Means("Holm-adjusted, that it is the ratio of averages")]
    pauses: Annotated[
        Literal["", "treatment", "baseline"],
        Means("the side that may pause; empty where none is seen"),
    ] = ""
    warnings: Warnings = ()

    def efficiency(self, better: Better) -> Interval:
        """Return the performance as a share of the baseline's, as `Ratio.efficiency` does."""
        share = self.estimate, self.low, self.high
        if better == "lower":
            share = exp(-self.mean_log), 1 / self.high, 1 / self.low
        return Interval(*share, self.confidence, self.warnings)


def typical_ratio(
    ratio: Ratio, logs: Array, medians: Array, trials: int, level: float
) -> Typical | None:
    """Return the typical ratio beside a ratio; None where blocks or trials are too few, or equal blocks leave no
    interval.

    logs, medians: log-ratio of every block's averages and of its medians, NaN where a block has none. level: of the
    interval. Blocks that follow one another widen it as they do that of the ratio.
    """
    present = ~(np.isnan(logs) | np.isnan(medians))
    y, n = medians[present], int(present.sum())
    if n < FEWEST_BLOCKS or trials < FEWEST_TRIALS:
        return None
    mean, se, influence = trimmed_mean(y)
    if se <= 1e-13:
        return None
    df = n - 2.0 * _cut(n) - 1
    if ratio.effective_blocks is not None:
        correlation = (n - ratio.effective_blocks) / (n + ratio.effective_blocks)
        se, df = allow_for_dependence(se, df, n, correlation)
    half = t_quantile((1 + level) / 2, df) * se
    apart = float((logs[present] - influence).std(ddof=1))
    difference = float(logs[present].mean()) - mean
    p = 1.0
    if apart > 1e-13:
        p = min(1.0, 2 * t_tail(abs(difference) / apart * math.sqrt(n), n - 1))
    return Typical(
        exp(mean), exp(mean - half), exp(mean + half), ratio.confidence, n, trials, mean, p
    )


def trimmed_mean(values: Array) -> tuple[float, float, Array]:
    """(trimmed mean, its standard error, what every value contributes to it).

    The standard error is that of Tukey & McLaughlin (Sankhya A 1963) in the form of Yuen (The two-sample trimmed t
    for unequal population variances, Biometrika 1974): from the winsorized squares, of h - 1 degrees of freedom when
    h values are left. The contributions average to the estimate and scatter as it does.
    """
    n, cut = values.size, _cut(values.size)
    left = n - 2 * cut
    ordered = np.sort(values)
    mean = float(ordered[cut : n - cut].mean())
    winsorized = np.clip(values, ordered[cut], ordered[n - cut - 1])
    centred = winsorized - winsorized.mean()
    se = math.sqrt(float((centred**2).sum()) / (left * (left - 1)))
    return mean, se, np.asarray(mean + centred * n / left)


def _cut(n: int) -> int:
    return int(TRIMMED * n)


def found_pauses(
    typical: Typical, ratio: Ratio, p_value: float, better: Better, margin: float, alpha: float
) -> Typical:
    """Return the typical ratio with its finding: it differs from the ratio of averages by more than chance and the
    margin.

    p_value: adjusted over the family. Of a metric where lower is better the treatment pauses when its average is
    longer than its typical trial.
    """
    difference = ratio.mean_log - typical.mean_log
    if p_value > alpha or abs(difference) <= log_margin(margin):
        return replace(typical, p_value=p_value)
    percent = round(100 * abs(math.expm1(difference)), 1)
    p = max(0.001, math.ceil(1000 * p_value) / 1000)
    if (difference < 0) == (better == "higher"):
        return replace(
            typical,
            p_value=p_value,
            pauses="treatment",
            warnings=(Note("pauses", percent=percent, p=p),),
        )
    note = Note("pauses-of-baseline", percent=percent, p=p)
    return replace(typical, p_value=p_value, pauses="baseline", warnings=(note,))
