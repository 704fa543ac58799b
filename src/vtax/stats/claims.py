"""Whether published findings hold: ranges that a paper states for ratios, judged on intervals from blocks.

A finding is a set of comparisons, each with the range that is claimed for its ratio. It is `reproduced` when the
intervals lie inside the ranges, `contradicted` when too many of them lie outside, else `inconclusive`. Of a finding
that needs u of n comparisons, the p-values are those of Benjamini and Heller (Screening for partial conjunction
hypotheses, Biometrics 2008): all n inside is an intersection-union test, any outside a Bonferroni test.

How a ratio is tested against a range, and Holm's steps over findings, are those of `ranges`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Annotated, Literal

from vtax.described import Means
from vtax.messages import Note
from vtax.stats.checks import MINIMUM_BLOCKS, StatsError, Values, as_array
from vtax.stats.contrasts import unpaired_ratio_of_logs
from vtax.stats.judge import Comparison, analyse
from vtax.stats.outlook import Outlook, range_outlook
from vtax.stats.ranges import (
    Claimed,
    Tested,
    holm_of_ranges,
    p_values,
    range_verdict,
)
from vtax.stats.resolution import coarsened
from vtax.stats.rules import Rule
from vtax.stats.sessions import unpaired_over_sessions

Word = Literal["reproduced", "contradicted", "inconclusive"]
Needs = Literal["each", "most"]


@dataclass(frozen=True)
class RangeTest:
    """Comparisons of which each or most must be inside their ranges."""

    comparisons: tuple[Claimed, ...]
    needs: Needs = "each"


@dataclass(frozen=True)
class Judgement:
    """The word about a finding.

    p_reproduced, p_contradicted: adjusted over `family` findings at level alpha.
    answers: on its comparisons, check by check; a StatsError where there is none.
    blocks_needed: None when noise leaves more than a factor of ten open.
    assumptions: notes on what the word assumes beside its blocks.
    """

    kind: Word
    p_reproduced: Annotated[float, Means("p-value, Holm-adjusted over the claims")]
    p_contradicted: Annotated[float, Means("likewise")]
    family: int
    alpha: float
    answers: tuple[tuple[Tested | StatsError, ...], ...]
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
    claimed_comparisons: list[Claimed] = []
    for checks in claims.values():
        for check in checks:
            claimed_comparisons += check.comparisons
    pairs = {
        str(n): claimed.contrast
        for n, claimed in enumerate(claimed_comparisons)
        if claimed.is_paired
    }
    answers = analyse(rule, pairs)
    comparisons = [answer for answer in answers.values() if isinstance(answer, Comparison)]
    blocks = max((comparison.ratio.n_blocks for comparison in comparisons), default=0)
    alpha = rule.plain_level(blocks)
    results: list[Tested | StatsError] = []
    for n, claimed in enumerate(claimed_comparisons):
        if claimed.is_paired:
            results.append(_tested(rule, claimed, answers[str(n)]))
        else:
            results.append(_tested_apart(rule, claimed))
    remaining = iter(results)
    answers_by_claim, ps, family = {}, {}, len(claims)
    for name, checks in claims.items():
        answers_by_claim[name] = [
            list(islice(remaining, len(check.comparisons))) for check in checks
        ]
        ps[name] = _p_values(checks, answers_by_claim[name])
    if not ps:
        return {}
    judgements = {}
    for (name, checks), step in zip(claims.items(), holm_of_ranges(list(ps.values())), strict=True):
        p_pair = (step.p_inside, step.p_outside)
        judgement = _judgement(
            rule, checks, answers_by_claim[name], p_pair, (family, step.count), alpha
        )
        judgements[name] = _looking_ahead(judgement, checks) if looks_ahead else judgement
    return judgements


def withheld(judgement: Judgement, cautions: Sequence[str]) -> Judgement:
    """Return the judgement without its word where there is a reason to distrust all of its comparisons.

    What is inconclusive anyway stays as it is. cautions: notes that say why; none: the word stands.
    """
    if judgement.kind == "inconclusive" or not cautions:
        return judgement
    return replace(
        judgement,
        kind="inconclusive",
        warnings=(*judgement.warnings, *cautions),
        blocks_low=None,
        blocks_needed=None,
        assumptions=(),
    )


def _tested(rule: Rule, claimed: Claimed, answer: Comparison | StatsError) -> Tested | StatsError:
    if isinstance(answer, StatsError):
        return answer
    ps = p_values(answer.ratio, claimed, rule)
    return Tested(claimed, answer.ratio, *ps, is_early=answer.is_early)


def _tested_apart(rule: Rule, claimed: Claimed) -> Tested | StatsError:
    """Return a comparison over the sessions of both sides, or why there is none.

    With one session on a side there is a ratio and no answer: the effect of that session is in it.
    """
    samples = claimed.apart
    if samples is None:
        return StatsError(claimed.why_not)
    level = rule.interval_confidence(min(len(logs) for logs, _ in samples))
    try:
        over_sessions = unpaired_over_sessions(*samples, level)
        ratio = over_sessions or unpaired_ratio_of_logs(samples[0][0], samples[1][0], level)
    except StatsError as error:
        return error
    warnings = (*ratio.warnings, *claimed.contrast.notes)
    ratio = replace(ratio, confidence=rule.confidence, warnings=warnings)
    ratio = coarsened(ratio, claimed.contrast.resolution)
    ps = p_values(ratio, claimed, rule) if over_sessions else (1.0, 1.0)
    return Tested(claimed, ratio, *ps)


def partial_conjunction(p_given: Values, count: int) -> float:
    """P-value against fewer than `count` of the null hypotheses being false; see the module."""
    p = sorted(as_array(p_given, "p-values").tolist())
    return float(min(1.0, (len(p) - count + 1) * p[count - 1]))


def _needed(check: RangeTest) -> int:
    n = len(check.comparisons)
    return n if check.needs == "each" else n // 2 + 1


def _p_values(
    checks: Sequence[RangeTest], answers_by_check: Sequence[Sequence[Tested | StatsError]]
) -> tuple[float, float]:
    """Return (p of all checks holding, p of any of them failing) of one finding, unadjusted for other findings."""
    p_of_holding, p_of_failing = [], []
    for check, answers in zip(checks, answers_by_check, strict=True):
        inside, outside = [1.0] * len(answers), [1.0] * len(answers)
        for n, answer in enumerate(answers):
            if isinstance(answer, Tested):
                inside[n], outside[n] = answer.p_of_word
        needed = _needed(check)
        p_of_holding.append(partial_conjunction(inside, needed))
        p_of_failing.append(partial_conjunction(outside, len(answers) - needed + 1))
    return max(p_of_holding), min(1.0, len(checks) * min(p_of_failing))


def _judgement(
    rule: Rule,
    checks: Sequence[RangeTest],
    answers_by_check: Sequence[Sequence[Tested | StatsError]],
    ps: tuple[float, float],
    families: tuple[int, int],
    alpha: float,
) -> Judgement:
    """Return the word about a finding, without the further blocks that decide it.

    rule: of the run.
    checks: of the finding.
    answers_by_check: of their comparisons.
    ps: the adjusted p-values that it is reproduced, and contradicted.
    families: how many findings there are, and how many Holm's step corrected this one for.
    alpha: level of the family.
    """
    family, steps = families
    kind: Word = "inconclusive"
    if min(ps) <= alpha:
        kind = "reproduced" if ps[0] <= ps[1] else "contradicted"
    notes: list[str] = []
    assumptions: list[str] = []
    if kind != "inconclusive":
        notes, assumptions = _doubts(rule, checks, answers_by_check, kind, alpha, steps)
        kind = "inconclusive" if notes else kind
    answers = list(chain.from_iterable(answers_by_check))
    tested_answers = [answer for answer in answers if isinstance(answer, Tested)]
    fewest = min(tested_answers, key=lambda answer: answer.ratio.n_blocks, default=None)
    if fewest and fewest.ratio.n_blocks < MINIMUM_BLOCKS and not fewest.is_early:
        minimum = MINIMUM_BLOCKS * fewest.claimed.blocks_each
        notes.append(Note("few-blocks-for-claim", count=fewest.n_blocks, minimum=minimum))
    notes += [answer.note for answer in answers if isinstance(answer, StatsError)]
    if any(answer.claimed.apart and answer.ratio.n_sessions == 1 for answer in tested_answers):
        notes.append(Note("one-session"))
    return Judgement(
        kind,
        *ps,
        family,
        alpha,
        answers=tuple(map(tuple, answers_by_check)),
        blocks_low=0,
        blocks_needed=0,
        warnings=tuple(dict.fromkeys(notes)),
        assumptions=() if kind == "inconclusive" else tuple(assumptions),
    )


def _looking_ahead(judgement: Judgement, checks: Sequence[RangeTest]) -> Judgement:
    """Return the judgement with the further blocks that decide it; not known where the word was withheld."""
    if judgement.kind != "inconclusive":
        return judgement
    level = judgement.alpha / judgement.family
    answers_by_check = []
    for check, answers in zip(checks, judgement.answers, strict=True):
        count = len(check.comparisons)
        answers_by_check.append(tuple(_with_outlook(answer, level, count) for answer in answers))
    low = high = None
    if min(judgement.p_reproduced, judgement.p_contradicted) > judgement.alpha:
        low, high = _blocks(list(chain.from_iterable(answers_by_check)))
    return replace(judgement, answers=tuple(answers_by_check), blocks_low=low, blocks_needed=high)


def _with_outlook(answer: Tested | StatsError, level: float, count: int) -> Tested | StatsError:
    """Return the comparison with the blocks that it still needs.

    answer: the comparison.
    level: of one finding of a family.
    count: of the comparisons of its check.
    """
    if isinstance(answer, StatsError):
        return answer
    ratio, times = answer.ratio, answer.claimed.blocks_each
    if ratio.n_blocks < 2 or ratio.n_sessions > 1 or answer.claimed.apart:
        return replace(answer, outlook=Outlook(None, None))
    has_blocks = answer.is_early or ratio.n_blocks >= MINIMUM_BLOCKS
    if has_blocks and min(answer.p_inside, answer.p_outside * count) <= level:
        return answer
    if ratio.se_log == 0.0:
        missing_blocks = max(0, MINIMUM_BLOCKS - ratio.n_blocks) * times or None
        return replace(answer, outlook=Outlook(missing_blocks, missing_blocks))
    outlook = range_outlook(
        ratio.mean_log,
        ratio.se_log * math.sqrt(ratio.n_blocks),
        ratio.n_blocks,
        ratio.df,
        answer.claimed.logs,
        (level / 2, level / 2 / count),
    )
    if outlook.low is not None and outlook.high is not None:
        outlook = Outlook(outlook.low * times, outlook.high * times)
    return replace(answer, outlook=outlook)


def _blocks(answers: Sequence[Tested | StatsError]) -> tuple[int | None, int | None]:
    """Return the largest of the ranges of all comparisons; None where one has none."""
    lows, highs = [], []
    for answer in answers:
        if isinstance(answer, StatsError):
            return None, None
        outlook = answer.outlook
        if outlook.low is None or outlook.high is None:
            return None, None
        lows.append(outlook.low)
        highs.append(outlook.high)
    return max(lows, default=None), max(highs, default=None)


def _doubts(
    rule: Rule,
    checks: Sequence[RangeTest],
    answers_by_check: Sequence[Sequence[Tested | StatsError]],
    kind: Word,
    alpha: float,
    family: int,
) -> tuple[list[str], list[str]]:
    """Return (why the word is withheld, what it assumes), by the verdicts of the comparisons that it needs."""
    notes: list[str] = []
    assumptions: list[str] = []
    is_inside = kind == "reproduced"
    for check, answers in zip(checks, answers_by_check, strict=True):
        total, needed = len(check.comparisons), _needed(check)
        if not is_inside:
            needed = total - needed + 1
        level = alpha / (total - needed + 1)
        objections, decided_count = [], 0
        for answer in answers:
            if isinstance(answer, StatsError):
                continue
            if (answer.p_inside if is_inside else answer.p_outside) > level:
                continue
            decided_count += 1
            verdict = range_verdict(rule, answer, is_inside, alpha, family)
            if verdict.kind == "undecided":
                objections.append(verdict.warnings[-1])
            else:
                assumptions += verdict.warnings
        if objections and decided_count - len(objections) < needed:
            notes += objections
    return list(dict.fromkeys(notes)), list(dict.fromkeys(assumptions))
