"""Verdicts that stand on an assumption which the blocks do not support are withheld, or carry it as a warning.

Noise that one side alone has is dangerous in one direction: slow blocks that did not happen yet make the noisier side
look better. A verdict against it needs no such caution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vtax.messages import Note
from vtax.stats.assumptions import allow_for_dependence, plausible_correlation
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.contrasts import Contrast
from vtax.stats.margin import holds_interval
from vtax.stats.ratio import Ratio, exp, widened
from vtax.stats.resolution import Resolution, band
from vtax.stats.rules import Rule
from vtax.stats.verdict import Verdict, p_equivalence

MOST_LOST = 0.02  # difference of the shares of failed trials above which no verdict favours the side that lost more
ROOMY = 10  # blocks, from which one standard deviation of a block is room enough, see `room_of`
SHOWS_DEPENDENCE = 10  # blocks, from which `assumes-independence` tells true words from others
GUARDED, WARNED = 1.0, 3.0
"""Standard errors above its estimate: for a correlation that a verdict allows for, and for its warning."""
_CLOCK, _COARSE, _TIMER = "withheld-clock", "withheld-resolution", "withheld-timer"
_ZEROS, _OTHER = "withheld-zeros", "withheld-other-quantity"


def warranted(
    verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule, *, is_absence: bool = False
) -> Verdict:
    """Return the verdict, with a warning where it needs independent blocks, or `undecided` with the reason.

    is_absence: it says that something is absent, such as a slowdown beyond a margin; `equivalent` always does.

    Over several sessions blocks are not asked for their dependence: what they have in common is part of the session.
    """
    verdict = for_failures(verdict, contrast)
    if verdict.kind == "undecided":
        return verdict
    note = _objection(verdict, ratio, contrast)
    if note is not None or ratio.n_sessions > 1 or ratio.n_blocks < 2:
        return verdict if note is None else _withheld(verdict, note)
    if is_absence or verdict.kind == "equivalent":
        guarded_contrast = _correlated(ratio, contrast, GUARDED)
        if not _stands(verdict, guarded_contrast.ratio, rule):
            return _withheld(
                verdict,
                Note(
                    "withheld-likely-dependent", correlation=round(guarded_contrast.correlation, 2)
                ),
            )
    if ratio.n_blocks < SHOWS_DEPENDENCE:
        return verdict
    warned_contrast = _correlated(ratio, contrast, WARNED)
    if _stands(verdict, warned_contrast.ratio, rule):
        return verdict
    note = Note("assumes-independence", correlation=round(warned_contrast.correlation, 2))
    return replace(verdict, warnings=(*verdict.warnings, note))


def for_resolution(verdict: Verdict, ratio: Ratio, resolution: Resolution) -> Verdict:
    """Return the verdict, but none that a step to either side of the ratio would undo: figures are not known so well.

    `equivalent` needs a step within the margin. Where noise is smaller than a step that is not, and so is the
    difference, no further blocks decide either.
    """
    if resolution.share == 0 or ratio.n_blocks < MINIMUM_BLOCKS:
        return verdict
    bounds = band(ratio, resolution)
    is_coarse = resolution.share > verdict.margin
    if verdict.kind == "undecided":
        if not (is_coarse and bounds == (ratio.low, ratio.high) and bounds[0] < 1 < bounds[1]):
            return verdict
    elif not (verdict.kind == "equivalent" and is_coarse) and _agrees(verdict, *bounds):
        return verdict
    code = _TIMER if resolution.is_timer else _COARSE
    return _withheld(verdict, Note(code, percent=resolution.percent))


def for_clock(verdict: Verdict) -> Verdict:
    """Return the verdict on a figure in the time of a wrong clock: not `equivalent`, whatever the blocks show.

    The figure is off by more than the margin, so it cannot show that two platforms differ by less.
    """
    return _withheld(verdict, Note(_CLOCK)) if verdict.kind == "equivalent" else verdict


def for_failures(verdict: Verdict, contrast: Contrast) -> Verdict:
    """Return the verdict, but none that favours the side of which more trials failed: slow trials fail first."""
    spared = "faster" if contrast.lost > 0 else "slower"
    if abs(contrast.lost) > MOST_LOST and verdict.kind in (spared, "equivalent"):
        return _withheld(verdict, Note("withheld-failures"))
    return verdict


def for_work(verdict: Verdict, contrast: Contrast) -> Verdict:
    """Return no verdict where a side did other work than was asked, or none in a block: the ratio is not of that."""
    if contrast.is_other_quantity:
        return _withheld(verdict, Note(_OTHER))
    if contrast.zeros and verdict.kind != "undecided":
        return _withheld(verdict, Note(_ZEROS, count=contrast.zeros))
    return verdict


def is_for_good(verdict: Verdict) -> bool:
    """Return whether a verdict is withheld for good: for a wrong clock, coarse figures, a block of zero, or other work."""
    codes = {warning.code for warning in verdict.warnings if isinstance(warning, Note)}
    return bool(codes & {_CLOCK, _COARSE, _TIMER, _ZEROS, _OTHER})


def _withheld(verdict: Verdict, note: Note) -> Verdict:
    warnings = (*verdict.warnings, note)
    return replace(
        verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=warnings
    )


@dataclass(frozen=True)
class _Correlated:
    """A ratio under a correlation of neighbouring blocks. ratio: with the interval and tests that allow for it."""

    correlation: float
    ratio: Ratio


def _correlated(ratio: Ratio, contrast: Contrast, errors: float) -> _Correlated:
    """Return the ratio under the plausible correlation so many standard errors above its estimate.

    An interval that allows for dependence already stays as it is.
    """
    correlation = plausible_correlation(contrast.logs[contrast.logs == contrast.logs], errors)
    if ratio.effective_blocks is not None:
        return _Correlated(correlation, ratio)
    se, df = allow_for_dependence(ratio.se_log, ratio.df, ratio.n_blocks, correlation)
    return _Correlated(correlation, widened(ratio, ratio.confidence, se, df, ratio.skewness))


def _stands(verdict: Verdict, ratio: Ratio, rule: Rule) -> bool:
    """Return whether the tests of this ratio support the verdict, in its family and at this look."""
    error = verdict.alpha / verdict.family
    if verdict.kind == "equivalent":
        return p_equivalence(ratio, verdict.margin) <= rule.test_level(error, ratio.n_blocks)
    return ratio.p_value <= 2 * rule.test_level(error / 2, ratio.n_blocks)


def _objection(verdict: Verdict, ratio: Ratio, contrast: Contrast) -> Note | None:
    unlucky = "faster" if contrast.noise > 1 else "slower"
    if contrast.noise != 1 and verdict.kind in (unlucky, "equivalent"):
        if not _has_room(verdict, ratio, contrast):
            return Note("withheld-noisier", times=round(max(contrast.noise, 1 / contrast.noise), 1))
    elif ratio.effective_blocks is not None and not _agrees(verdict, ratio.low, ratio.high):
        return Note("withheld-dependent")
    return None


def _agrees(verdict: Verdict, low: float, high: float) -> bool:
    if verdict.kind == "equivalent":
        return holds_interval(low, high, verdict.margin)
    return low > 1 or high < 1


def room_of(blocks: int) -> float:
    """Return the room that a verdict for the noisier side needs, in standard deviations of a block.

    Of ten blocks none was slow, so at most about three in ten are (the rule of three, at 95 %): the mean moves by one
    standard deviation if those are about three slower. Fewer blocks show less of a skewed noise, and their own
    standard deviation is too small. bench/statistics/room.py simulates it.
    """
    return max(1.0, (ROOMY / blocks) ** 2)


def _has_room(verdict: Verdict, ratio: Ratio, contrast: Contrast) -> bool:
    """Return whether the interval supports the verdict from so far that unseen slow blocks cannot undo it.

    Noise of 0.1 % that is all on one side has no weight beside a margin of 2 %.
    """
    logs = contrast.logs[contrast.logs == contrast.logs]
    room = room_of(logs.size) * float(logs.std(ddof=1)) if logs.size > 1 else math.inf
    return _agrees(verdict, ratio.low * exp(-room), ratio.high * exp(room))
