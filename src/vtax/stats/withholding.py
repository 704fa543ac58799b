"""Verdicts that stand on an assumption which the blocks contradict, or are too few to test, are withheld.

Noise that one side alone has is dangerous in one direction: slow blocks that did not happen yet make the noisier side
look better. A verdict against it needs no such caution.
"""

from __future__ import annotations

import math
from dataclasses import replace

from scipy import special

from vtax.stats.assumptions import (
    FEWEST_OF_UNEQUAL,
    allow_for_dependence,
    likely_correlation,
    skewness_z,
)
from vtax.stats.contrasts import Contrast
from vtax.stats.intervals import t_quantile
from vtax.stats.notes import Note
from vtax.stats.ratio import Ratio, exp, widened
from vtax.stats.stopping import Rule, interval_confidence
from vtax.stats.verdict import Verdict, p_equivalence

MOST_LOST = 0.02  # difference of the shares of failed trials above which no verdict favours the side that lost more
SUSPECT = 1.3  # times noisier, by chance or not, from which a side is looked at for slow blocks that did not happen
SKEWED_LEVEL = 0.2  # one-sided, of the skewness of log-ratios; small samples hide most of it


def warranted(verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule, others: float) -> Verdict:
    """The verdict, or `undecided` with the reason.

    others: mean variance of the other contrasts of its group, from block to block; 0 without any.
    """
    note = None if verdict.kind == "undecided" else _objection(verdict, ratio, contrast, rule, others)
    if note is None:
        return verdict
    return replace(
        verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=(*verdict.warnings, note)
    )


def _objection(verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule, others: float) -> Note | None:
    spared = "faster" if contrast.lost > 0 else "slower"
    if abs(contrast.lost) > MOST_LOST and verdict.kind in (spared, "equivalent"):
        return Note("withheld-failures")
    agrees = _agrees(verdict, ratio.low, ratio.high, rule.margin)
    unlucky = "faster" if contrast.noise > 1 else "slower"
    if contrast.noise != 1 and verdict.kind in (unlucky, "equivalent"):
        if ratio.n_blocks < FEWEST_OF_UNEQUAL or not agrees:
            times = round(max(contrast.noise, 1 / contrast.noise), 1)
            return Note("withheld-noisier", times=times, minimum=FEWEST_OF_UNEQUAL)
    elif ratio.effective_blocks is not None and not agrees:
        return Note("withheld-dependent")
    if ratio.n_sessions > 1:
        return None  # blocks have too little say there to be looked at
    hidden = _hidden_slow_blocks(verdict, ratio, contrast, rule, others)
    return hidden or _likely_dependence(verdict, ratio, contrast)


def _agrees(verdict: Verdict, low: float, high: float, margin: float) -> bool:
    return (low > 1 - margin and high < 1 + margin) if verdict.kind == "equivalent" else (low > 1 or high < 1)


def _hidden_slow_blocks(verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule, others: float) -> Note | None:
    """Whether the verdict favours a side that looks noisier, and skewed or else quieter than its like."""
    logs = contrast.logs[contrast.logs == contrast.logs]
    slow = 1.0 if contrast.better == "lower" else -1.0  # sign of a log-ratio when the treatment is slow
    sides = ((slow, "faster", contrast.observed_noise), (-slow, "slower", 1 / contrast.observed_noise))
    for direction, favoured, noise in sides:
        if verdict.kind not in (favoured, "equivalent") or noise < SUSPECT:
            continue
        if direction * skewness_z(logs) > -float(special.ndtri(SKEWED_LEVEL)):
            return Note("withheld-skewed", times=round(noise, 1))
        if others > logs.var(ddof=1):
            level = interval_confidence(rule, logs.size)
            half = math.sqrt(others / logs.size) * t_quantile((1 + level) / 2, logs.size - 1)
            if not _agrees(verdict, exp(ratio.mean_log - half), exp(ratio.mean_log + half), rule.margin):
                return Note("withheld-quiet", times=round(noise, 1))
    return None


def _likely_dependence(verdict: Verdict, ratio: Ratio, contrast: Contrast) -> Note | None:
    """`equivalent` must stand with the estimated correlation of blocks too, which so few of them seldom prove."""
    correlation = likely_correlation(contrast.logs[contrast.logs == contrast.logs])
    if verdict.kind != "equivalent" or not correlation or ratio.effective_blocks is not None:
        return None
    se, df = allow_for_dependence(ratio.se_log, ratio.df, ratio.n_blocks, correlation)
    doubtful = widened(ratio, ratio.confidence, se, df, ratio.skewness)
    is_inside = p_equivalence(doubtful, verdict.margin) <= verdict.alpha / verdict.family
    return None if is_inside else Note("withheld-likely-dependent", correlation=round(correlation, 2))
