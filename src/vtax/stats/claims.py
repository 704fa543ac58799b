"""Whether published findings hold: ranges that a paper states for ratios, judged on intervals from blocks.

A finding is a set of comparisons, each with the range that is claimed for its ratio. It is `reproduced` when the
intervals lie inside the ranges, `contradicted` when too many of them lie outside, else `inconclusive`. Of a finding
that needs u of n comparisons, the p-values are those of Benjamini and Heller (Screening for partial conjunction
hypotheses, Biometrics 2008): all n inside is an intersection-union test, any outside a Bonferroni test.

A finding is either true or false, so of its two null hypotheses exactly one holds. Holm's steps over the smaller
p-value of each finding therefore bound the chance of any false word in the whole family by alpha.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from vtax.described import Means, Only
from vtax.messages import Note
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError, Values, as_array
from vtax.stats.contrasts import unpaired_ratio_of_logs
from vtax.stats.judge import Comparison, Contrast, analyse
from vtax.stats.outlook import Outlook, range_outlook
from vtax.stats.ratio import Ratio, exp, p_above, p_below
from vtax.stats.resolution import coarsened
from vtax.stats.sessions import unpaired_over_sessions
from vtax.stats.stopping import Rule, interval_confidence, tests_of
from vtax.stats.verdict import Kind, Verdict, holm
from vtax.stats.withholding import for_clock, for_failures, for_resolution, warranted

Word = Literal["reproduced", "contradicted", "inconclusive"]
Needs = Literal["each", "most"]


DECIDED = Outlook(0, 0)
Sample = tuple[Values, Values]
"""(one logarithm for each block, the session of each)."""


@dataclass(frozen=True)
class Claimed:
    """A ratio with the range that is claimed for it.

    low: 0 for none. high: infinity for none. is_withheld: no word may rest on it being inside, such as where a clock
    is wrong. blocks_each: that one logarithm of the contrast is of. apart: the two samples of blocks, each with the
    sessions of its logarithms, of sides that share no block, such as two hosts; the contrast has no blocks then.
    why_not: a note of why there is nothing to judge, with an empty contrast too.
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


@dataclass(frozen=True)
class Tested:
    """A comparison with its ratio. p_inside, p_outside: at most 1 - confidence where the interval lies so. outlook:
    further blocks that decide."""

    claimed: Claimed
    ratio: Annotated[Ratio, Only("estimate", "low", "high")]
    p_inside: Annotated[float, Means("of the ratio being inside the range, unadjusted")]
    p_outside: Annotated[float, Means("of it being outside")]
    outlook: Outlook = DECIDED

    @property
    def n_blocks(self) -> Annotated[int, Means("blocks of the ratio", name="blocks")]:
        """The blocks that its logarithms are of: of a spread over blocks two each."""
        return self.ratio.n_blocks * self.claimed.blocks_each

    @property
    def is_above(self) -> bool:
        """Whether the estimate lies above the middle of the range, or above its only bound."""
        low, high = _logs(self.claimed)
        if math.isinf(high):
            return self.ratio.mean_log > low
        return self.ratio.mean_log > (high if math.isinf(low) else (low + high) / 2)


@dataclass(frozen=True)
class RangeTest:
    """Comparisons of which each or most must be inside their ranges."""

    compared: tuple[Claimed, ...]
    needs: Needs = "each"


@dataclass(frozen=True)
class Judgement:
    """The word about a finding. tested: its comparisons, check by check; those without an answer have a StatsError.

    p_reproduced, p_contradicted: adjusted over `family` findings at level alpha. blocks_needed: None when noise
    leaves more than a factor of ten open. assumptions: what a word rests on beside its blocks.
    """

    kind: Word
    p_reproduced: Annotated[float, Means("p-value, Holm-adjusted over the claims")]
    p_contradicted: Annotated[float, Means("likewise")]
    family: int
    alpha: float
    tested: tuple[tuple[Tested | StatsError, ...], ...]
    blocks_low: Annotated[
        int | None,
        Means(
            "smallest number of further blocks that decides it; 0 when decided",
            name="blocks_needed_low",
        ),
    ]
    blocks_needed: Annotated[int | None, Means("largest number of them")]
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...] = ()


def judge_claims(
    rule: Rule, claims: Mapping[str, Sequence[RangeTest]], *, looks_ahead: bool = True
) -> dict[str, Judgement]:
    """Return the word about every finding of one family. Each has at least one check with at least one comparison.

    looks_ahead: whether to compute the further blocks that decide what is open, which costs most of the time.
    """
    contrasts = {
        f"{name} {c} {n}": each.contrast
        for name, checks in claims.items()
        for c, check in enumerate(checks)
        for n, each in enumerate(check.compared)
        if each.is_paired
    }
    answers = analyse(rule, contrasts)
    blocks = max(
        (a.ratio.n_blocks for a in answers.values() if isinstance(a, Comparison)), default=0
    )
    alpha = rule.alpha if rule.stop == "open" else 1 - interval_confidence(rule, blocks)
    family = len(claims)
    tested: dict[str, list[list[Tested | StatsError]]] = {
        name: [
            [
                _tested(rule, each, answers[f"{name} {c} {n}"])
                if each.is_paired
                else _tested_apart(rule, each)
                for n, each in enumerate(check.compared)
            ]
            for c, check in enumerate(checks)
        ]
        for name, checks in claims.items()
    }
    ps = {name: _p_values(claims[name], tested[name]) for name in claims}
    adjusted = (
        dict(zip(ps, holm([min(pair) for pair in ps.values()]).tolist(), strict=True)) if ps else {}
    )
    found = {}
    for name, checks in claims.items():
        inside, outside = ps[name]
        both = [min(1.0, max(adjusted[name], p * family)) for p in (inside, outside)]
        both[0 if inside <= outside else 1] = adjusted[name]
        steps = (
            math.ceil(adjusted[name] / min(inside, outside) - 1e-9)
            if min(inside, outside) > 0
            else family
        )
        word = _judgement(rule, checks, tested[name], (both[0], both[1]), (family, steps), alpha)
        found[name] = _looking_ahead(word, checks) if looks_ahead else word
    return found


def _logs(claimed: Claimed) -> tuple[float, float]:
    """Return the logarithms of the bounds."""
    return (math.log(claimed.low) if claimed.low > 0 else -math.inf), math.log(claimed.high)


def _tested(rule: Rule, claimed: Claimed, answer: Comparison | StatsError) -> Tested | StatsError:
    if isinstance(answer, StatsError):
        return answer
    return Tested(claimed, answer.ratio, *p_values(answer.ratio, claimed, rule))


def _tested_apart(rule: Rule, claimed: Claimed) -> Tested | StatsError:
    """Return a comparison over the sessions of both sides, or why there is none. With one session on a side there is
    a ratio and no answer: the effect of that session is in it."""
    samples = claimed.apart
    if samples is None:
        return StatsError(claimed.why_not)
    level = interval_confidence(rule, min(len(logs) for logs, _ in samples))
    try:
        over_sessions = unpaired_over_sessions(*samples, level)
        ratio = over_sessions or unpaired_ratio_of_logs(samples[0][0], samples[1][0], level)
    except StatsError as error:
        return error
    warnings = (*ratio.warnings, *claimed.contrast.notes)
    ratio = replace(ratio, confidence=rule.confidence, warnings=warnings)
    ratio = coarsened(ratio, claimed.contrast.resolution)
    return Tested(
        claimed, ratio, *(p_values(ratio, claimed, rule) if over_sessions else (1.0, 1.0))
    )


def p_values(ratio: Ratio, claimed: Claimed, rule: Rule) -> tuple[float, float]:
    """(p that the ratio is inside its range, p that it is outside), as they hold under the rule; 1 from a block.

    Twice the one-sided p-values, so that each is at most alpha where the two-sided interval lies inside or outside.
    """
    if ratio.n_blocks < 2:
        return 1.0, 1.0
    low, high = _logs(claimed)
    above_low = p_above(ratio, low) if math.isfinite(low) else 0.0
    below_high = p_below(ratio, high) if math.isfinite(high) else 0.0
    below_low = p_below(ratio, low) if math.isfinite(low) else 1.0
    above_high = p_above(ratio, high) if math.isfinite(high) else 1.0
    valid = tests_of(rule)
    inside, outside = (
        valid(p, ratio) for p in (max(above_low, below_high), min(below_low, above_high))
    )
    return min(1.0, 2 * inside), min(1.0, 2 * outside)


def partial_conjunction(p_given: Values, count: int) -> float:
    """P-value against fewer than `count` of the null hypotheses being false; see the module."""
    p = sorted(as_array(p_given, "p-values").tolist())
    return float(min(1.0, (len(p) - count + 1) * p[count - 1]))


def _needed(check: RangeTest) -> int:
    n = len(check.compared)
    return n if check.needs == "each" else n // 2 + 1


def _p_values(
    checks: Sequence[RangeTest], tested: Sequence[Sequence[Tested | StatsError]]
) -> tuple[float, float]:
    """(p of all checks holding, p of any of them failing) of one finding, unadjusted for other findings."""
    inside, outside = [], []
    for check, answers in zip(checks, tested, strict=True):
        pairs = [
            (a.p_inside, a.p_outside)
            if isinstance(a, Tested) and a.ratio.n_blocks >= MINIMUM_BLOCKS
            else (1.0, 1.0)
            for a in answers
        ]
        needed = _needed(check)
        inside.append(partial_conjunction([p for p, _ in pairs], needed))
        outside.append(partial_conjunction([p for _, p in pairs], len(pairs) - needed + 1))
    return max(inside), min(1.0, len(checks) * min(outside))


def _judgement(
    rule: Rule,
    checks: Sequence[RangeTest],
    tested: Sequence[Sequence[Tested | StatsError]],
    ps: tuple[float, float],
    families: tuple[int, int],
    alpha: float,
) -> Judgement:
    """families: how many findings there are, and how many Holm's step corrected this one for."""
    family, steps = families
    kind: Word = "inconclusive"
    if min(ps) <= alpha:
        kind = "reproduced" if ps[0] <= ps[1] else "contradicted"
    notes: list[str] = []
    assumptions: list[str] = []
    if kind != "inconclusive":
        notes, assumptions = _doubts(rule, checks, tested, kind, alpha, steps)
        kind = "inconclusive" if notes else kind
    answers = [a for each in tested for a in each if isinstance(a, Tested)]
    fewest = min(answers, key=lambda a: a.ratio.n_blocks, default=None)
    if fewest and fewest.ratio.n_blocks < MINIMUM_BLOCKS:
        minimum = MINIMUM_BLOCKS * fewest.claimed.blocks_each
        notes.append(Note("few-blocks-for-claim", count=fewest.n_blocks, minimum=minimum))
    notes += [a.note for each in tested for a in each if isinstance(a, StatsError)]
    if any(a.claimed.apart and a.ratio.n_sessions == 1 for a in answers):
        notes.append(Note("one-session"))
    answered = tuple(map(tuple, tested))
    rests_on = () if kind == "inconclusive" else tuple(assumptions)
    return Judgement(
        kind, *ps, family, alpha, answered, 0, 0, tuple(dict.fromkeys(notes)), rests_on
    )


def _looking_ahead(found: Judgement, checks: Sequence[RangeTest]) -> Judgement:
    """Return the judgement with the further blocks that decide it; not known where the word was withheld."""
    if found.kind != "inconclusive":
        return found
    level = found.alpha / found.family
    tested = tuple(
        tuple(_with_outlook(a, level, len(check.compared)) for a in each)
        for check, each in zip(checks, found.tested, strict=True)
    )
    is_withheld = min(found.p_reproduced, found.p_contradicted) <= found.alpha
    low, high = (None, None) if is_withheld else _blocks(tested)
    return replace(found, tested=tested, blocks_low=low, blocks_needed=high)


def _with_outlook(answer: Tested | StatsError, level: float, of: int) -> Tested | StatsError:
    """Return the comparison with the blocks that it still needs, at the level of one finding of a family."""
    if isinstance(answer, StatsError):
        return answer
    ratio = answer.ratio
    if ratio.n_blocks < 2 or ratio.n_sessions > 1 or answer.claimed.apart:
        return replace(answer, outlook=Outlook(None, None))
    if ratio.n_blocks >= MINIMUM_BLOCKS and min(answer.p_inside, answer.p_outside * of) <= level:
        return answer
    missing = max(0, MINIMUM_BLOCKS - ratio.n_blocks)
    if ratio.se_log == 0.0:
        blocks = missing * answer.claimed.blocks_each
        return replace(answer, outlook=Outlook(blocks, blocks) if missing else Outlook(None, None))
    sd = ratio.se_log * math.sqrt(ratio.n_blocks)
    found = range_outlook(
        ratio.mean_log,
        sd,
        ratio.n_blocks,
        ratio.df,
        _logs(answer.claimed),
        (level / 2, level / 2 / of),
        MINIMUM_BLOCKS,
    )
    times = answer.claimed.blocks_each
    if found.low is None or found.high is None or times == 1:
        return replace(answer, outlook=found)
    return replace(answer, outlook=Outlook(found.low * times, found.high * times))


def _blocks(tested: Sequence[Sequence[Tested | StatsError]]) -> tuple[int | None, int | None]:
    """Return the largest of the ranges of all comparisons; None where one has none."""
    found = [
        a.outlook if isinstance(a, Tested) else Outlook(None, None) for each in tested for a in each
    ]
    if not found or any(o.low is None or o.high is None for o in found):
        return None, None
    return max(o.low or 0 for o in found), max(o.high or 0 for o in found)


def _doubts(
    rule: Rule,
    checks: Sequence[RangeTest],
    tested: Sequence[Sequence[Tested | StatsError]],
    kind: Word,
    alpha: float,
    family: int,
) -> tuple[list[str], list[str]]:
    """(why the word is withheld, what it assumes), by the verdicts that the comparisons it needs amount to."""
    notes: list[str] = []
    assumptions: list[str] = []
    for check, answers in zip(checks, tested, strict=True):
        is_inside, total = kind == "reproduced", len(check.compared)
        needed = _needed(check) if is_inside else total - _needed(check) + 1
        level = alpha / (total - needed + 1)
        there = [a for a in answers if isinstance(a, Tested)]
        decided = [a for a in there if (a.p_inside if is_inside else a.p_outside) <= level]
        verdicts = [_verdict(rule, a, is_inside, alpha, family) for a in decided]
        objected = [v.warnings[-1] for v in verdicts if v.kind == "undecided"]
        assumptions += [note for v in verdicts if v.kind != "undecided" for note in v.warnings]
        if objected and len(decided) - len(objected) < needed and (is_inside or decided):
            notes += objected
    return list(dict.fromkeys(notes)), list(dict.fromkeys(assumptions))


def _verdict(rule: Rule, tested: Tested, is_inside: bool, alpha: float, family: int) -> Verdict:
    """Return the verdict that a comparison amounts to, as far as it is warranted; see `withholding`.

    The ratio is divided by the bound that is in question, or by the middle of the range, so that it is judged
    against 1 as every other ratio. A range that holds 1 says that something is absent.
    """
    low, high = _logs(tested.claimed)
    ratio, contrast = tested.ratio, tested.claimed.contrast
    margin, bound = rule.margin, 0.0
    kind: Kind = "equivalent"
    if is_inside and math.isfinite(low) and math.isfinite(high):
        bound, margin = (low + high) / 2, 1 - math.exp(-(high - low) / 2)
    else:
        is_above = math.isfinite(low) if is_inside else tested.is_above
        bound = low if is_above == is_inside else high
        kind = "faster" if is_above == (contrast.better == "higher") else "slower"
    p = tested.p_inside if is_inside else tested.p_outside
    verdict = Verdict(
        kind, margin, alpha / 2 if kind == "equivalent" else alpha, family, p, p, 0, ()
    )
    if tested.claimed.is_withheld:
        verdict = for_clock(verdict)
    moved = replace(
        ratio,
        mean_log=ratio.mean_log - bound,
        estimate=exp(ratio.mean_log - bound),
        low=ratio.low * exp(-bound),
        high=ratio.high * exp(-bound),
        p_value=p,
    )
    verdict = for_resolution(verdict, moved, contrast.resolution)
    if tested.claimed.apart:
        return for_failures(verdict, contrast)
    at_bound = replace(contrast, logs=contrast.logs - bound)
    at_margin = replace(rule, stop="open" if rule.stop == "open" else "fixed", margin=margin)
    return warranted(verdict, moved, at_bound, at_margin, is_absence=is_inside and low < 0 < high)
