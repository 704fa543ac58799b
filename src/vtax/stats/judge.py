"""The one call for a whole family of contrasts: intervals and verdicts that fit the rule which ended the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vtax.messages import Note
from vtax.stats.assumptions import allow_for_dependence, dependence, effective_blocks, skewness_of
from vtax.stats.checks import MINIMUM_BLOCKS, Better, StatsError
from vtax.stats.contrasts import Contrast as Contrast
from vtax.stats.early import decided_early
from vtax.stats.margin import log_margin
from vtax.stats.needed import needed
from vtax.stats.outlook import Levels, settled, share_beyond
from vtax.stats.ranges import (
    Claimed,
    Tested,
    at_most,
    holm_of_ranges,
    p_values,
    range_verdict,
)
from vtax.stats.ratio import Ratio, ratio_of_logs, widened
from vtax.stats.resolution import band, coarsened
from vtax.stats.rules import Rule
from vtax.stats.sequential import sequential_verdicts
from vtax.stats.sessions import bounds_at, ratio_over_sessions
from vtax.stats.verdict import Kind, Verdict, judge_family, single_look, with_outlook
from vtax.stats.withholding import (
    for_clock,
    for_failures,
    for_resolution,
    for_work,
    is_for_good,
    warranted,
)


@dataclass(frozen=True)
class Comparison:
    """The answer about one contrast.

    ratio: its interval holds at rule.confidence under the rule.
    verdict: over the family it was judged in. Under the rule "verdict" its kind comes from the boundaries, and its
        p-values are those of a single look.
    is_early: whether the verdict stands on the first blocks alone, which lie beyond doubt (`stats.early`).
    """

    ratio: Ratio
    verdict: Verdict
    is_early: bool = False


def analyse(rule: Rule, contrasts: Mapping[str, Contrast]) -> dict[str, Comparison | StatsError]:
    """Return ratio and verdict of every contrast of one family; a contrast without an answer has its StatsError.

    The family is what is passed in one call: state it beside the results.
    """
    rules = {name: rule.of(contrast.logs) for name, contrast in contrasts.items()}
    ratios, errors = _ratios(rules, contrasts)
    bounds = _family_bounds(ratios, rules, contrasts)
    for name, ratio in ratios.items():
        low, high = bounds[name]
        ratios[name] = replace(ratio, confidence=rule.confidence, family_low=low, family_high=high)
    early = _decided_early(rule, ratios, contrasts)
    verdicts = _family_verdicts(rule, rules, ratios, contrasts, early)
    for name, ratio in ratios.items():
        if name in early:
            verdicts[name] = for_work(
                for_failures(verdicts[name], contrasts[name]), contrasts[name]
            )
        else:
            verdicts[name] = _as_warranted(verdicts[name], ratio, contrasts[name], rules[name])
    blocks = max((ratio.n_blocks for ratio in ratios.values()), default=0)
    claims = {name: at_most(contrasts[name], rule.margin) for name in ratios}
    verdicts = say_at_most(verdicts, ratios, claims, rule, rule.plain_level(blocks))
    answers: dict[str, Comparison | StatsError] = dict(errors)
    for name, ratio in ratios.items():
        is_early = name in early and verdicts[name].is_settled
        answers[name] = Comparison(ratio, verdicts[name], is_early)
    return {name: answers[name] for name in contrasts}


def _ratios(
    rules: Mapping[str, Rule], contrasts: Mapping[str, Contrast]
) -> tuple[dict[str, Ratio], dict[str, StatsError]]:
    """Return (the ratio of every contrast, with what its blocks show of assumptions; why others have none)."""
    ratios: dict[str, Ratio] = {}
    errors: dict[str, StatsError] = {}
    for name, contrast in contrasts.items():
        try:
            ratios[name] = _ratio(contrast, rules[name])
        except StatsError as error:
            errors[name] = error
    ratios = _without_assumptions(ratios, contrasts)
    for name, ratio in ratios.items():
        ratios[name] = coarsened(ratio, contrasts[name].resolution)
    return ratios, errors


def _family_bounds(
    ratios: Mapping[str, Ratio], rules: Mapping[str, Rule], contrasts: Mapping[str, Contrast]
) -> dict[str, tuple[float, float]]:
    """Return the bounds of every ratio that hold for all of them at once, by Bonferroni.

    So few blocks that no interval is as certain have no bounds.
    """
    in_family = {}
    for rule in dict.fromkeys(rules[name] for name in ratios):
        in_family[rule] = replace(rule, confidence=1 - rule.alpha / len(ratios))
    bounds = {}
    for name, ratio in ratios.items():
        try:
            low, high = bounds_at(ratio, in_family[rules[name]].interval_confidence)
        except StatsError:
            bounds[name] = 0.0, math.inf
            continue
        least, most = band(ratio, contrasts[name].resolution)
        bounds[name] = min(least, low), max(most, high)
    return bounds


def say_at_most(
    verdicts: Mapping[str, Verdict],
    ratios: Mapping[str, Ratio],
    claims: Mapping[str, Claimed],
    rule: Rule,
    alpha: float,
) -> dict[str, Verdict]:
    """Return the verdicts of a family, `at-most` in place of `undecided` where the loss is within the margin.

    It is what lets a gate pass: the same test, over the same family, withheld for the same reasons (`ranges`).

    verdicts, ratios: by name.
    claims: likewise, of `ranges.at_most`.
    rule: of the run, with the margin.
    alpha: error rate of the family.
    """
    answers = []
    for name, ratio in ratios.items():
        answers.append(Tested(claims[name], ratio, *p_values(ratio, claims[name], rule)))
    steps = holm_of_ranges([answer.p_of_word for answer in answers])
    result = {}
    for name, answer, step in zip(ratios, answers, steps, strict=True):
        verdict = replace(verdicts[name], p_at_most=step.p_inside)
        is_shown = step.p_inside <= alpha and step.p_inside <= step.p_outside
        if verdict.kind == "undecided" and is_shown and not answer.claimed.contrast.clock_is_wrong:
            word = range_verdict(rule, answer, True, alpha, step.count)
            if word.kind != "undecided":
                verdict = replace(verdict, kind="at-most", warnings=word.warnings)
        result[name] = verdict
    return result


def _decided_early(
    rule: Rule, ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast]
) -> dict[str, str]:
    """Return the contrasts beyond doubt, with the side on which they lie, under a rule that lets them leave."""
    early: dict[str, str] = {}
    for name, ratio in ratios.items():
        if rule.leaves_early and ratio.n_sessions == 1:
            side = decided_early(
                contrasts[name].logs,
                rule.alpha / 2 / len(ratios),
                step=contrasts[name].resolution.share,
                goes_on=not rule.leaves_settled,
            )
            if side:
                early[name] = side
    return early


def _as_warranted(verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule) -> Verdict:
    """Return a verdict as far as its blocks warrant it; an undecided one with what would decide it."""
    verdict = warranted(verdict, ratio, contrast, rule)
    verdict = for_work(verdict, contrast)
    verdict = for_resolution(verdict, ratio, contrast.resolution)
    if contrast.clock_is_wrong:
        verdict = for_clock(verdict)
    if verdict.is_settled:
        return verdict
    return replace(verdict, needed=needed(rule.going_on, ratio, verdict.margin, verdict.family))


def _family_verdicts(
    rule: Rule,
    rules: Mapping[str, Rule],
    ratios: Mapping[str, Ratio],
    contrasts: Mapping[str, Contrast],
    early: Mapping[str, str],
) -> dict[str, Verdict]:
    """Return the verdict on every ratio, before any is withheld.

    Those that are decided early leave the family to the others, as those that Holm's step-down has rejected do.

    rule: of the run.
    rules, ratios, contrasts: by the name of the contrast.
    early: sides of those beyond doubt.
    """
    better = [contrasts[name].better for name in ratios]
    alpha = rule.look_level(max((ratio.n_blocks for ratio in ratios.values()), default=0))
    family = judge_family(
        list(ratios.values()), [rule.margin] * len(ratios), better, alpha, rule.valid_p
    )
    verdicts = dict(zip(ratios, family, strict=True))
    has_one_session = all(ratio.n_sessions == 1 for ratio in ratios.values())
    if rule.looks is not None and not has_one_session:
        return verdicts
    other_names = [name for name in ratios if name not in early]
    looks = [look for look in (rules[name].looks for name in other_names) if look]
    if rule.looks is not None:
        logs = [contrasts[name].logs for name in other_names]
        words = sequential_verdicts(logs, rule.margin, rule.alpha, looks)
        for name, word in zip(other_names, words, strict=True):
            kind = _kind(word, contrasts[name].better)
            verdicts[name] = replace(verdicts[name], kind=kind)
    if rule.allows_for_looks:
        for name, verdict in verdicts.items():
            verdicts[name] = _with_levels(verdict, ratios[name], rule)
    for name, side in early.items():
        kind = _kind(side, contrasts[name].better)
        verdicts[name] = replace(
            verdicts[name], kind=kind, warnings=(), blocks_needed=0, blocks_needed_low=0
        )
    return verdicts


def _ratio(contrast: Contrast, rule: Rule) -> Ratio:
    if contrast.sessions is None:
        blocks = np.count_nonzero(~np.isnan(contrast.logs))
        return ratio_of_logs(contrast.logs, rule.interval_confidence(int(blocks)))
    return ratio_over_sessions(contrast.logs, contrast.sessions, rule.interval_confidence)


def analyse_families(
    rule: Rule,
    contrasts: Mapping[str, Contrast],
    families: Mapping[str, str],
    margins: Mapping[str, float],
) -> dict[str, Comparison | StatsError]:
    """Return what `analyse` returns of each family.

    rule: of the run.
    contrasts: by name.
    families: name -> family.
    margins: of the families that have one of their own.
    """
    members: dict[str, dict[str, Contrast]] = {}
    for name, contrast in contrasts.items():
        members.setdefault(families.get(name, ""), {})[name] = contrast
    answers: dict[str, Comparison | StatsError] = {}
    for name, family in members.items():
        answers |= analyse(rule.within(margins.get(name)), family)
    return {name: answers[name] for name in contrasts}


def missed_of(rule: Rule, answers: Mapping[str, Comparison | StatsError | None]) -> dict[str, bool]:
    """Return the contrasts that miss the target of a rule that looks at figures: name -> whether further blocks help.

    They are judged as in the result, so that a run ends when that has what was declared, neither sooner nor later.

    rule: of the run.
    answers: of `analyse`; None for a contrast without one.
    """
    helps = {}
    for name, answer in answers.items():
        if answer is None or misses(rule, answer):
            helps[name] = not (
                rule.allows_for_looks
                and isinstance(answer, Comparison)
                and is_for_good(answer.verdict)
            )
    return helps


def misses(rule: Rule, answer: Comparison | StatsError) -> bool:
    """Return whether a contrast misses the target of `precision`, `verdict` or `open`; one without an answer does."""
    if isinstance(answer, StatsError):
        return True
    target = rule.target_half_width
    if answer.is_early:
        return False
    if rule.leaves_early and not rule.leaves_settled:
        return True
    if target is None:
        return not answer.verdict.is_settled
    return answer.ratio.n_blocks < rule.min_blocks or not answer.ratio.half_width <= target


def _without_assumptions(
    ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast]
) -> dict[str, Ratio]:
    """Return the ratios with intervals and tests that allow for what their blocks show, each with a warning of it.

    Those over several sessions stay: what blocks have in common is a part of their session there.
    """
    family = {}
    for name, ratio in ratios.items():
        if ratio.n_blocks > 1 and ratio.se_log > 0 and ratio.n_sessions == 1:
            logs = contrasts[name].logs
            family[name] = logs[~np.isnan(logs)]
    result = dict(ratios)
    correlations = dependence(list(family.values()))
    for (name, logs), correlation in zip(family.items(), correlations, strict=True):
        ratio, noise, notes = ratios[name], contrasts[name].noise, list[str]()
        se, df, effective = ratio.se_log, ratio.df, None
        if correlation:
            se, df = allow_for_dependence(se, df, ratio.n_blocks, correlation)
            effective = effective_blocks(ratio.n_blocks, correlation)
            notes.append(
                Note("dependent-blocks", blocks=ratio.n_blocks, effective=round(effective, 1))
            )
        skewness = skewness_of(logs) if noise != 1 else 0.0
        if skewness:
            notes.append(Note("unequal-noise", times=round(max(noise, 1 / noise), 1)))
        if not notes:
            continue
        wider = widened(ratio, ratio.confidence, se, df, skewness)
        result[name] = replace(
            wider, effective_blocks=effective, warnings=(*wider.warnings, *notes)
        )
    for name, contrast in contrasts.items():
        is_known = name in family or (name in result and result[name].n_sessions > 1)
        if contrast.notes and is_known:
            warnings = (*result[name].warnings, *contrast.notes)
            result[name] = replace(result[name], warnings=warnings)
    return result


def _kind(word: str, better: Better) -> Kind:
    if word == "equivalent":
        return "equivalent"
    if word == "undecided":
        return "undecided"
    return "faster" if (word == "above") == (better == "higher") else "slower"


def decided_after(rule: Rule, verdict: Verdict, ratio: Ratio, further_blocks: int) -> float:
    """Return the share of plausible futures in which further blocks decide a comparison; 0 over several sessions.

    rule: of the run.
    verdict, ratio: so far.
    further_blocks: how many.
    """
    if ratio.n_blocks < 2 or ratio.se_log == 0 or ratio.n_sessions > 1:
        return 0.0
    levels = single_look(verdict.alpha, verdict.family)
    if rule.allows_for_looks:
        levels = _levels(verdict, rule)
    blocks, sd = ratio.n_blocks + further_blocks, ratio.se_log * math.sqrt(ratio.n_blocks)
    at = np.array([levels(blocks) if blocks >= MINIMUM_BLOCKS else (0.0, 0.0)])
    ns = np.array([blocks])
    return float(settled(ratio.mean_log, sd, ratio.n_blocks, ratio.df, verdict.margin, ns, at)[0])


def chance_of_word(rule: Rule, answer: Comparison, better: Better, further_blocks: int) -> float:
    """Return the share of plausible futures in which further blocks give a comparison a word that it has not.

    It is 1 where that is not known: of few blocks, of several sessions, and without noise.

    rule: of the run.
    answer: so far, not settled.
    better: of its metric.
    further_blocks: how many.
    """
    ratio, verdict = answer.ratio, answer.verdict
    if ratio.n_blocks < MINIMUM_BLOCKS or ratio.n_sessions > 1 or ratio.se_log == 0:
        return 1.0
    settled_share = decided_after(rule, verdict, ratio, further_blocks)
    if verdict.kind == "at-most":
        return settled_share
    gain = ratio.mean_log if better == "higher" else -ratio.mean_log
    blocks, sd = ratio.n_blocks + further_blocks, ratio.se_log * math.sqrt(ratio.n_blocks)
    level = (1 - rule.going_on.interval_confidence(blocks)) / 2 / verdict.family
    at_most_share = share_beyond(
        gain, sd, ratio.n_blocks, ratio.df, -log_margin(verdict.margin), blocks, level
    )
    return max(settled_share, at_most_share)


def _with_levels(verdict: Verdict, ratio: Ratio, rule: Rule) -> Verdict:
    """Return the verdict with the blocks it still needs at the levels of a rule that looks again and again."""
    return with_outlook(verdict, ratio, _levels(verdict, rule))


def _levels(verdict: Verdict, rule: Rule) -> Levels:
    """Return the levels of a rule that looks again and again, after every number of blocks."""

    def levels(blocks: int) -> tuple[float, float]:
        if not rule.has_look(blocks):
            return 0.0, 0.0
        error, going_on = rule.alpha / verdict.family, rule.going_on
        return going_on.test_level(error / 2, blocks), going_on.test_level(error, blocks)

    return levels
