"""Whether a ratio lies inside a range or outside of it: of a published finding, of a gate, and of the word `at-most`.

A ratio is either inside its range or not, so of the two null hypotheses exactly one holds. Holm's steps over the
smaller p-value of each ratio therefore bound the chance of any false answer in a family by alpha.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from vtax.described import Means, Only
from vtax.stats.checks import MINIMUM_BLOCKS, Values
from vtax.stats.contrasts import Contrast
from vtax.stats.margin import edges, margin_between
from vtax.stats.outlook import Outlook
from vtax.stats.ratio import Ratio, exp, p_above, p_below
from vtax.stats.rules import Rule
from vtax.stats.verdict import Kind, Verdict, holm
from vtax.stats.withholding import for_clock, for_failures, for_resolution, for_work, warranted

DECIDED = Outlook(0, 0)
Sample = tuple[Values, Values]
"""(one logarithm for each block, the session of each)."""


@dataclass(frozen=True)
class Claimed:
    """A ratio with the range that is claimed for it.

    contrast: the logarithms of the ratio; empty with `apart` and `why_not`.
    low: of the range; 0 for none.
    high: of the range; infinity for none.
    is_withheld: whether no word may rest on the ratio being inside, such as where a clock is wrong.
    blocks_each: how many blocks each logarithm of the contrast is made of.
    apart: the two samples, with the sessions of their logarithms, of sides that share no block, such as two hosts.
    why_not: a note of why there is nothing to judge.
    """

    contrast: Contrast
    low: float
    high: float
    is_withheld: bool = False
    blocks_each: int = 1
    apart: tuple[Sample, Sample] | None = None
    why_not: str = ""

    @property
    def is_paired(self) -> bool:
        """Whether its contrast is to be judged."""
        return self.apart is None and not self.why_not

    @property
    def logs(self) -> tuple[float, float]:
        """The logarithms of the bounds."""
        return (math.log(self.low) if self.low > 0 else -math.inf), math.log(self.high)


@dataclass(frozen=True)
class Tested:
    """A comparison with its ratio.

    p_inside, p_outside: at most 1 - confidence where the interval lies inside or outside the range.
    outlook: how many further blocks decide.
    is_early: whether its blocks lie beyond doubt, so that a word may rest on fewer than others need (`early`).
    """

    claimed: Claimed
    ratio: Annotated[Ratio, Only("estimate", "low", "high")]
    p_inside: Annotated[float, Means("of the ratio being inside the range, unadjusted")]
    p_outside: Annotated[float, Means("of it being outside")]
    outlook: Outlook = DECIDED
    is_early: bool = False

    @property
    def n_blocks(self) -> Annotated[int, Means("blocks of the ratio", name="blocks")]:
        """The blocks that its logarithms are made of: two for each logarithm of a spread over blocks."""
        return self.ratio.n_blocks * self.claimed.blocks_each

    @property
    def p_of_word(self) -> tuple[float, float]:
        """Both p-values, as far as a word may rest on them: 1 of too few blocks."""
        if self.ratio.n_blocks < MINIMUM_BLOCKS and not self.is_early:
            return 1.0, 1.0
        return self.p_inside, self.p_outside

    @property
    def is_above(self) -> bool:
        """Whether the estimate lies above the middle of the range, or above its only bound."""
        low, high = self.claimed.logs
        if math.isinf(high):
            return self.ratio.mean_log > low
        return self.ratio.mean_log > (high if math.isinf(low) else (low + high) / 2)


def at_most(
    contrast: Contrast, margin: float, apart: tuple[Sample, Sample] | None = None
) -> Claimed:
    """Return the claim that a platform loses at most a margin: the bound of the word `at-most`, and of every gate.

    contrast: of the platform, to the baseline.
    margin: on the logarithm: of a time up to 1 + margin, of a rate down to 1 / (1 + margin).
    apart: see Claimed.
    """
    lowest, highest = edges(margin)
    low, high = (lowest, math.inf) if contrast.better == "higher" else (0.0, highest)
    return Claimed(contrast, low, high, apart=apart)


@dataclass(frozen=True)
class HolmStep:
    """Both p-values of one ratio, adjusted over its family. count: ratios that Holm's step corrected it for."""

    p_inside: float
    p_outside: float
    count: int


def holm_of_ranges(ps: Sequence[tuple[float, float]]) -> list[HolmStep]:
    """Return Holm's steps over the smaller p-value of each ratio; the larger is corrected for the whole family.

    ps: of every ratio the p-values that it is inside its range, and outside.
    """
    steps = []
    for (inside, outside), p in zip(ps, holm([min(pair) for pair in ps]).tolist(), strict=True):
        p_inside = min(1.0, max(p, inside * len(ps)))
        p_outside = min(1.0, max(p, outside * len(ps)))
        if inside <= outside:
            p_inside = p
        else:
            p_outside = p
        smaller = min(inside, outside)
        count = math.ceil(p / smaller - 1e-9) if smaller > 0 else len(ps)
        steps.append(HolmStep(p_inside, p_outside, count))
    return steps


def p_values(ratio: Ratio, claimed: Claimed, rule: Rule) -> tuple[float, float]:
    """Return (p that the ratio is inside its range, p that it is outside), as they hold under the rule; 1 from a block.

    Twice the one-sided p-values, so that each is at most alpha where the two-sided interval lies inside or outside.
    """
    if ratio.n_blocks < 2:
        return 1.0, 1.0
    low, high = claimed.logs
    inside, outside = 0.0, 1.0
    if math.isfinite(low):
        inside, outside = p_above(ratio, low), p_below(ratio, low)
    if math.isfinite(high):
        inside, outside = max(inside, p_below(ratio, high)), min(outside, p_above(ratio, high))
    return min(1.0, 2 * rule.valid_p(inside, ratio)), min(1.0, 2 * rule.valid_p(outside, ratio))


def range_verdict(
    rule: Rule, answer: Tested, is_inside: bool, alpha: float, family: int
) -> Verdict:
    """Return the verdict that a comparison amounts to, as far as it is warranted (`withholding`).

    The ratio is divided by the bound that is in question, or by the middle of the range, so that it is judged
    against 1 as every other ratio. A range that holds 1 says that something is absent.
    """
    low, high = answer.claimed.logs
    ratio, contrast = answer.ratio, answer.claimed.contrast
    margin, bound = rule.margin, 0.0
    kind: Kind = "equivalent"
    if is_inside and math.isfinite(low) and math.isfinite(high):
        bound, margin = (low + high) / 2, margin_between(low, high)
    else:
        is_above = math.isfinite(low) if is_inside else answer.is_above
        bound = low if is_above == is_inside else high
        kind = "faster" if is_above == (contrast.better == "higher") else "slower"
    p = answer.p_inside if is_inside else answer.p_outside
    verdict = Verdict(
        kind, margin, alpha / 2 if kind == "equivalent" else alpha, family, p, p, 0, ()
    )
    if answer.claimed.is_withheld:
        verdict = for_clock(verdict)
    moved_ratio = replace(
        ratio,
        mean_log=ratio.mean_log - bound,
        estimate=exp(ratio.mean_log - bound),
        low=ratio.low * exp(-bound),
        high=ratio.high * exp(-bound),
        p_value=p,
    )
    verdict = for_work(verdict, contrast)
    verdict = for_resolution(verdict, moved_ratio, contrast.resolution)
    if answer.claimed.apart:
        return for_failures(verdict, contrast)
    at_bound = replace(contrast, logs=contrast.logs - bound)
    once = rule.of_findings
    return warranted(verdict, moved_ratio, at_bound, once, is_absence=is_inside and low < 0 < high)
