"""From a ratio to a word: slower, faster, equivalent, or undecided and how much more would decide it.

`slower` and `faster`: the two-sided t-test rejects a ratio of 1; by how much is told by the bound of the loss
(`Ratio.loss`), not by the estimate, which is too large where only a large one is significant. `equivalent`: two
one-sided t-tests reject both ends of the margin (TOST, Schuirmann 1987); a difference that is significant, but shown to
be within the margin, is `equivalent`. Over a family of contrasts both kinds of p-values are Holm-adjusted (Holm 1979),
each kind by itself, so that the chance of any false word of a kind in the family is at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, cast

import numpy as np

from vtax.described import Means, Warnings
from vtax.messages import Note
from vtax.stats.checks import MINIMUM_BLOCKS, Array, Better, StatsError, Values, as_array
from vtax.stats.margin import check_margin, log_margin
from vtax.stats.outlook import Levels, Needed, Outlook, outlook
from vtax.stats.ratio import Ratio, p_above, p_below
from vtax.stats.terms import WORDS_OF_COST

Kind = Literal[
    "slower",
    "faster",
    "equivalent",
    "at-most",
    "undecided",
    "costs-more",
    "costs-less",
    "equal-cost",
]
"""Words on a speed, and on a cost in place of the first three, see `worded`. `at-most`: it costs at most the margin,
which `faster` and `equivalent` say, too."""


@dataclass(frozen=True)
class Verdict:
    """A word about one ratio. `outlook` and `needed` compute the blocks that it needs."""

    kind: Annotated[
        Kind,
        Means(
            "`slower`, `faster`, `equivalent`, `at-most` (it costs at most the margin) or `undecided`; of a cost "
            "`costs-more`, `costs-less` or `equal-cost` in place of the first three"
        ),
    ]
    margin: Annotated[float, Means("margin of equivalence")]
    alpha: Annotated[float, Means("error rate of the family")]
    family: Annotated[int, Means("comparisons that it is corrected for")]
    p_difference: Annotated[float, Means("Holm-adjusted p-value of a difference")]
    p_equivalence: Annotated[float, Means("Holm-adjusted p-value of equivalence")]
    blocks_needed: Annotated[
        int | None,
        Means(
            "further blocks until it is slower, faster or equivalent, in about four of five; 0 when it is, null when not known"
        ),
    ]
    warnings: Warnings
    blocks_needed_low: Annotated[int | None, Means("the same in one case of five, or null")] = 0
    needed: Annotated[
        Needed | None, Means("of one that is not settled, blocks in all at its noise, or null")
    ] = None
    p_at_most: Annotated[
        float,
        Means("Holm-adjusted p-value, two-sided, of costing at most the margin"),
    ] = 1.0

    @property
    def is_settled(self) -> bool:
        """Whether it is slower, faster or equivalent, so that no stronger word can follow."""
        return self.kind not in ("at-most", "undecided")

    @property
    def text(self) -> Annotated[str, Means("the same in words")]:
        """`slower`, or `undecided (about 7 to 20 more blocks)`."""
        if self.kind != "undecided":
            return self.kind
        if self.blocks_needed is None:
            return "undecided"
        blocks_text = f"{self.blocks_needed} more block{'s' if self.blocks_needed != 1 else ''}"
        if self.blocks_needed_low in (None, self.blocks_needed):
            return f"undecided (about {blocks_text})"
        return f"undecided (about {self.blocks_needed_low} to {blocks_text})"


def worded(verdict: Verdict | None, role: str) -> Verdict | None:
    """Return a verdict in the words that suit its metric; None for a metric that has none, such as a size.

    role: of the metric, see `stats.terms`.
    """
    if verdict is None or role == "speed":
        return verdict
    if role != "cost":
        return None
    return replace(verdict, kind=cast(Kind, WORDS_OF_COST.get(verdict.kind, verdict.kind)))


def judge(ratio: Ratio, margin: float, better: Better, alpha: float = 0.05) -> Verdict:
    """Return the verdict on a single contrast: `judge_family` of one."""
    return judge_family([ratio], [margin], [better], alpha)[0]


def judge_family(
    ratios: Sequence[Ratio],
    margins: Sequence[float],
    better: Sequence[Better],
    alpha: float = 0.05,
    valid: Callable[[float, Ratio], float] = lambda p, _: p,
) -> tuple[Verdict, ...]:
    """Return one verdict per ratio.

    ratios: the family.
    margins: of equivalence, of each.
    better: of each ratio's metric.
    alpha: error rate of the family.
    valid: makes one-sided p-values those of a rule.

    Raises StatsError unless 0 < margin < 1.
    """
    for margin in margins:
        check_margin(margin)
    different = [min(1.0, 2 * valid(ratio.p_value / 2, ratio)) for ratio in ratios]
    equivalent = []
    for ratio, margin in zip(ratios, margins, strict=True):
        equivalent.append(valid(p_equivalence(ratio, margin), ratio))
    ps = zip(holm(different).tolist(), holm(equivalent).tolist(), strict=True)
    verdicts = []
    tests_of_ratios = zip(ratios, margins, better, ps, strict=True)
    for ratio, margin, direction, (p_difference, p_equivalent) in tests_of_ratios:
        family = (alpha, len(ratios), p_difference, p_equivalent)
        verdicts.append(verdict_of(ratio, margin, direction, *family))
    return tuple(verdicts)


def verdict_of(
    ratio: Ratio,
    margin: float,
    better: Better,
    alpha: float,
    family: int,
    p_difference: float,
    p_equivalent: float,
) -> Verdict:
    """Return the verdict that adjusted p-values give together.

    ratio: with its number of blocks.
    margin: of equivalence.
    better: of its metric.
    alpha, family: error rate and number of comparisons of the family.
    p_difference, p_equivalent: Holm-adjusted.
    """
    kind: Kind = "undecided"
    warnings: tuple[str, ...] = ()
    if ratio.n_blocks < MINIMUM_BLOCKS:
        warnings = (Note("few-blocks", count=ratio.n_blocks, minimum=MINIMUM_BLOCKS),)
    elif p_equivalent <= alpha:
        kind = "equivalent"
    elif p_difference <= alpha:
        kind = "faster" if (ratio.mean_log > 0) == (better == "higher") else "slower"
    verdict = Verdict(kind, margin, alpha, family, p_difference, p_equivalent, 0, warnings)
    return with_outlook(verdict, ratio, single_look(alpha, family))


def with_outlook(verdict: Verdict, ratio: Ratio, levels: Levels) -> Verdict:
    """Return the verdict with the blocks it still needs: none when it is settled."""
    if verdict.is_settled:
        return replace(verdict, blocks_needed=0, blocks_needed_low=0)
    further_outlook = further_blocks(ratio, verdict.margin, levels)
    return replace(
        verdict, blocks_needed=further_outlook.high, blocks_needed_low=further_outlook.low
    )


def p_equivalence(ratio: Ratio, margin: float) -> float:
    """Return the p-value of the two one-sided tests: small when the ratio is within the margin; 1 of a single block."""
    if ratio.n_blocks < 2:
        return 1.0
    return max(p_above(ratio, -log_margin(margin)), p_below(ratio, log_margin(margin)))


def p_text(p: float) -> str:
    """Return a p-value as sentences give it: `p = 0.012`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def holm(p_values: Values) -> Array:
    """Return p-values adjusted for their number by Holm's step-down method (1979), in the order given."""
    p = as_array(p_values, "p-values")
    if np.isnan(p).any() or (p < 0).any() or (p > 1).any():
        raise StatsError("p-values must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum(1.0, np.maximum.accumulate(p[order] * (p.size - np.arange(p.size))))
    result = np.empty_like(p)
    result[order] = adjusted
    return result


def further_blocks(ratio: Ratio, margin: float, levels: Levels) -> Outlook:
    """Return the range of further blocks after which the verdict falls, by `outlook`.

    It is unknown from one block, where all blocks are equal and enough, and over several sessions, which more blocks of
    the last session would not settle.

    ratio: so far.
    margin: of equivalence.
    levels: of the tests of the verdict.
    """
    if ratio.n_blocks < 2 or ratio.n_sessions > 1:
        return Outlook(None, None)
    if ratio.se_log == 0.0:
        missing_blocks = MINIMUM_BLOCKS - ratio.n_blocks
        return (
            Outlook(missing_blocks, missing_blocks) if missing_blocks > 0 else Outlook(None, None)
        )
    sd = ratio.se_log * math.sqrt(ratio.n_blocks)
    return outlook(ratio.mean_log, sd, ratio.n_blocks, ratio.df, margin, levels)


def single_look(alpha: float, family: int) -> Levels:
    """Return the levels of a verdict that is judged once, in a family, as if it were the last of Holm's steps."""
    return lambda _: (alpha / 2 / family, alpha / family)
