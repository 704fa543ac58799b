"""Verdicts that stand on an assumption which the blocks contradict, or are too few to test, are withheld.

Noise that one side alone has is dangerous in one direction: slow blocks that did not happen yet make the noisier side
look better. A verdict against it needs no such caution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy import special

from vtax.stats.assumptions import FEWEST_OF_UNEQUAL, allow_for_dependence, plausible_correlations, skewness_z
from vtax.stats.contrasts import Contrast
from vtax.stats.intervals import t_quantile
from vtax.stats.moderation import MINIMUM_BLOCKS
from vtax.stats.notes import Note
from vtax.stats.ratio import Ratio, exp, widened
from vtax.stats.sequential import t_levels
from vtax.stats.stopping import Rule, interval_confidence
from vtax.stats.verdict import Verdict, p_equivalence

MOST_LOST = 0.02  # difference of the shares of failed trials above which no verdict favours the side that lost more
SUSPECT = 1.3  # times noisier, by chance or not, from which a side is looked at for slow blocks that did not happen
ROOM = 8.0  # standard deviations of blocks between interval and bound from which unseen slow blocks do not matter
_CLOCK = "withheld-clock"
SKEWED_LEVEL, OTHERS_SKEWED_LEVEL = 0.2, 0.05  # one-sided; small samples hide most of a contrast's skewness


@dataclass(frozen=True)
class Others:
    """What the other contrasts of a group show: their mean variance from block to block, and their skewness, as a
    standard normal deviate of contrasts without any. 0 without others."""

    variance: float = 0.0
    skewness_z: float = 0.0


@dataclass(frozen=True)
class Doubt:
    """correlation: of neighbouring blocks, the largest that is plausible. ratio: with its interval and tests."""

    correlation: float
    ratio: Ratio


def standard_errors(rule: Rule) -> float:
    """How many of them a plausible correlation lies above its estimate: more where every block brings a look."""
    return 1.0 if rule.stop == "verdict" else 0.75


def doubt_alone(ratio: Ratio, contrast: Contrast, rule: Rule) -> Doubt | None:
    """Of a contrast that is judged by itself; None over several sessions, and where its interval allows for
    dependence already."""
    if ratio.n_sessions > 1 or ratio.n_blocks < 2 or ratio.effective_blocks is not None:
        return None
    [correlation] = plausible_correlations([contrast.logs[contrast.logs == contrast.logs]], standard_errors(rule))
    se, df = allow_for_dependence(ratio.se_log, ratio.df, ratio.n_blocks, correlation)
    return Doubt(correlation, widened(ratio, ratio.confidence, se, df, ratio.skewness))


def warranted(
    verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule, others: Others, doubt: Doubt | None
) -> Verdict:
    """The verdict, or `undecided` with the reason. doubt: None where blocks are not asked for their dependence."""
    note = None if verdict.kind == "undecided" else _objection(verdict, ratio, contrast, rule, others)
    if note is not None:
        return replace(
            verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=(*verdict.warnings, note)
        )
    if verdict.kind == "undecided" or doubt is None or _stands(verdict, doubt.ratio, rule):
        return verdict
    correlation = round(doubt.correlation, 2)
    if verdict.kind != "equivalent":
        return replace(verdict, warnings=(*verdict.warnings, Note("assumes-independence", correlation=correlation)))
    note = Note("withheld-likely-dependent", correlation=correlation)
    return replace(
        verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=(*verdict.warnings, note)
    )


def _stands(verdict: Verdict, ratio: Ratio, rule: Rule) -> bool:
    """Whether the tests of this ratio support the verdict, in its family and at this look."""
    level = verdict.alpha / verdict.family
    if rule.stop == "verdict":
        first, last = rule.looks
        look = min(max(ratio.n_blocks, first), last) - first
        if verdict.kind == "equivalent":
            level = float(t_levels(rule.alpha / verdict.family, first, last)[look])
        else:
            level = 2 * float(t_levels(rule.alpha / 2 / verdict.family, first, last)[look])
    p = p_equivalence(ratio, verdict.margin) if verdict.kind == "equivalent" else ratio.p_value
    return p <= level


def for_clock(verdict: Verdict) -> Verdict:
    """The verdict on a figure in the time of a wrong clock: not `equivalent`, whatever the blocks show.

    The figure is off by more than the margin, so it cannot show that two platforms differ by less.
    """
    if verdict.kind != "equivalent":
        return verdict
    warnings = (*verdict.warnings, Note(_CLOCK))
    return replace(verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=warnings)


def is_for_good(verdict: Verdict) -> bool:
    """Whether the verdict is withheld for what no further block changes: a wrong clock."""
    return any(isinstance(warning, Note) and warning.code == _CLOCK for warning in verdict.warnings)


def _objection(verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule, others: Others) -> Note | None:
    spared = "faster" if contrast.lost > 0 else "slower"
    if abs(contrast.lost) > MOST_LOST and verdict.kind in (spared, "equivalent"):
        return Note("withheld-failures")
    agrees = _agrees(verdict, ratio.low, ratio.high, rule.margin)
    unlucky = "faster" if contrast.noise > 1 else "slower"
    if contrast.noise != 1 and verdict.kind in (unlucky, "equivalent"):
        has_enough = ratio.n_blocks >= FEWEST_OF_UNEQUAL and agrees
        if not has_enough and not _has_room(verdict, ratio, contrast, rule):
            times = round(max(contrast.noise, 1 / contrast.noise), 1)
            return Note("withheld-noisier", times=times, minimum=FEWEST_OF_UNEQUAL)
    elif ratio.effective_blocks is not None and not agrees:
        return Note("withheld-dependent")
    if ratio.n_sessions > 1:
        return None  # blocks have too little say there to be looked at
    return _hidden_slow_blocks(verdict, ratio, contrast, rule, others)


def _agrees(verdict: Verdict, low: float, high: float, margin: float) -> bool:
    return (low > 1 - margin and high < 1 + margin) if verdict.kind == "equivalent" else (low > 1 or high < 1)


def _has_room(verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule) -> bool:
    """Whether the interval supports the verdict from so far that slow blocks like those of this run cannot undo it.

    Noise of 0.1 % that is all on one side has no weight beside a margin of 2 %. Never below five blocks: the noise of
    three may be ten times too small by chance. ROOM is from docs/statistics.md "Room for the noisier side", simulated
    by bench/statistics/room.py for 5, 10 and 16 blocks.
    """
    if ratio.n_blocks < MINIMUM_BLOCKS:
        return False
    room = ROOM * float(contrast.logs[contrast.logs == contrast.logs].std(ddof=1))
    return _agrees(verdict, ratio.low * exp(-room), ratio.high * exp(room), rule.margin)


def _hidden_slow_blocks(
    verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule, others: Others
) -> Note | None:
    """Whether the verdict favours a side that looks noisier and skewed, or is quieter than its like, which either
    are skewed towards slow blocks or look noisier than their baseline."""
    logs = contrast.logs[contrast.logs == contrast.logs]
    slow = 1.0 if contrast.better == "lower" else -1.0  # sign of a log-ratio when the treatment is slow
    limit = -float(special.ndtri(SKEWED_LEVEL))
    sides = ((slow, "faster", contrast.observed_noise), (-slow, "slower", 1 / contrast.observed_noise))
    for direction, favoured, noise in sides:
        if verdict.kind not in (favoured, "equivalent"):
            continue
        is_skewed = noise >= SUSPECT and direction * skewness_z(logs) > limit
        if is_skewed and not _has_room(verdict, ratio, contrast, rule):
            return Note("withheld-skewed", times=round(noise, 1))
        is_suspect = noise >= SUSPECT or direction * others.skewness_z > -float(special.ndtri(OTHERS_SKEWED_LEVEL))
        if is_suspect and others.variance > logs.var(ddof=1):
            level = interval_confidence(rule, logs.size)
            half = math.sqrt(others.variance / logs.size) * t_quantile((1 + level) / 2, logs.size - 1)
            if not _agrees(verdict, exp(ratio.mean_log - half), exp(ratio.mean_log + half), rule.margin):
                return Note("withheld-quiet")
    return None
