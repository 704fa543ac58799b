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
from vtax.stats.needed import needed
from vtax.stats.outlook import Levels, settled
from vtax.stats.ratio import Ratio, ratio_of_logs, widened
from vtax.stats.resolution import coarsened
from vtax.stats.sequential import sequential_verdicts
from vtax.stats.sessions import ratio_over_sessions
from vtax.stats.stopping import (
    LOOKS_AGAIN,
    Rule,
    interval_confidence,
    look_level,
    test_level,
    tests_of,
)
from vtax.stats.typical import Typical, found_pauses, typical_ratio
from vtax.stats.verdict import Kind, Verdict, holm, judge_family, single_look, with_outlook
from vtax.stats.withholding import for_clock, for_resolution, for_zeros, is_for_good, warranted


@dataclass(frozen=True)
class Comparison:
    """ratio: its interval holds at rule.confidence under the rule. verdict: over the family it was judged in.

    Under the rule "verdict", verdict.kind comes from the boundaries and its p-values are those of a single look.
    typical: beside the ratio, where trials and blocks suffice; no verdict looks at it.
    """

    ratio: Ratio
    verdict: Verdict
    typical: Typical | None = None


def analyse(rule: Rule, contrasts: Mapping[str, Contrast]) -> dict[str, Comparison | StatsError]:
    """Ratio and verdict of every contrast of one family; a contrast without an answer has its StatsError instead.

    The family is what is passed in one call: state it beside the results.
    """
    result: dict[str, Comparison | StatsError] = {}
    ratios: dict[str, Ratio] = {}
    rules = {name: rule.of(contrast.logs) for name, contrast in contrasts.items()}
    for name, contrast in contrasts.items():
        try:
            ratios[name] = _ratio(contrast, rules[name])
        except StatsError as error:
            result[name] = error
    ratios = _without_assumptions(ratios, contrasts)
    ratios = {name: coarsened(r, contrasts[name].resolution) for name, r in ratios.items()}
    ratios = {name: replace(ratio, confidence=rule.confidence) for name, ratio in ratios.items()}
    names = list(ratios)
    better: list[Better] = [contrasts[name].better for name in names]
    alpha = look_level(rule, max((ratio.n_blocks for ratio in ratios.values()), default=0))
    verdicts = judge_family(
        [ratios[name] for name in names], rule.margin, better, alpha, tests_of(rule)
    )
    if rule.stop == "open":
        verdicts = tuple(
            _with_levels(v, ratios[name], rule) for v, name in zip(verdicts, names, strict=True)
        )
    if rule.stop == "verdict" and all(ratio.n_sessions == 1 for ratio in ratios.values()):
        logs = [contrasts[name].logs for name in names]
        words = sequential_verdicts(
            logs, rule.margin, rule.alpha, [rules[name].looks for name in names]
        )
        kinds = [_kind(word, b) for word, b in zip(words, better, strict=True)]
        verdicts = tuple(
            _with_levels(replace(v, kind=k), ratios[name], rule)
            for v, k, name in zip(verdicts, kinds, names, strict=True)
        )
    verdicts = tuple(
        warranted(v, ratios[name], contrasts[name], rules[name])
        for name, v in zip(names, verdicts, strict=True)
    )
    verdicts = tuple(for_zeros(v, contrasts[name]) for name, v in zip(names, verdicts, strict=True))
    verdicts = tuple(
        for_resolution(v, ratios[name], contrasts[name].resolution)
        for name, v in zip(names, verdicts, strict=True)
    )
    verdicts = tuple(
        for_clock(v) if contrasts[name].clock_is_wrong else v
        for name, v in zip(names, verdicts, strict=True)
    )
    verdicts = tuple(
        _with_needed(v, ratios[name], rules[name]) for name, v in zip(names, verdicts, strict=True)
    )
    typical = _typical(rules, ratios, contrasts)
    result.update(
        {
            name: Comparison(ratios[name], v, typical.get(name))
            for name, v in zip(names, verdicts, strict=True)
        }
    )
    return {name: result[name] for name in contrasts}


def _ratio(contrast: Contrast, rule: Rule) -> Ratio:
    if contrast.sessions is None:
        there = contrast.logs == contrast.logs
        return ratio_of_logs(contrast.logs, interval_confidence(rule, int(there.sum())))
    return ratio_over_sessions(
        contrast.logs, contrast.sessions, lambda units: interval_confidence(rule, units)
    )


def missed(
    rule: Rule, contrasts: Mapping[str, Contrast], families: Mapping[str, str]
) -> dict[str, bool]:
    """Contrasts that miss the target of a rule that looks at figures, each judged in its family as by `analyse`;
    and of each whether further blocks may help.

    For `stopping.decide`, so that a run ends when its result has what was declared, neither sooner nor later.
    """
    members: dict[str, dict[str, Contrast]] = {}
    for name, contrast in contrasts.items():
        members.setdefault(families.get(name, ""), {})[name] = contrast
    found = {
        name: answer
        for family in members.values()
        for name, answer in analyse(rule, family).items()
    }
    return missed_of(rule, {name: found[name] for name in contrasts})


def missed_of(rule: Rule, answers: Mapping[str, Comparison | StatsError | None]) -> dict[str, bool]:
    """Return the same from the answers; None: there is none."""
    return {
        name: not (
            rule.stop in LOOKS_AGAIN
            and isinstance(answer, Comparison)
            and is_for_good(answer.verdict)
        )
        for name, answer in answers.items()
        if answer is None or misses(rule, answer)
    }


def misses(rule: Rule, answer: Comparison | StatsError) -> bool:
    """Whether a contrast misses the target of `precision`, `verdict` or `open`; one without an answer does."""
    if isinstance(answer, StatsError):
        return True
    if rule.stop in LOOKS_AGAIN:
        return answer.verdict.kind == "undecided"
    return answer.ratio.n_blocks < rule.min_blocks or not answer.ratio.half_width <= rule.precision


def _without_assumptions(
    ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast]
) -> dict[str, Ratio]:
    """Return the ratios with intervals and tests that allow for what their blocks show, each with a warning of it.

    Those over several sessions stay: what blocks have in common is a part of their session there.
    """
    names = [
        n
        for n, ratio in ratios.items()
        if ratio.n_blocks > 1 and ratio.se_log > 0 and ratio.n_sessions == 1
    ]
    family = [contrasts[name].logs[~np.isnan(contrasts[name].logs)] for name in names]
    result = dict(ratios)
    for name, logs, correlation in zip(names, family, dependence(family), strict=True):
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
        found = widened(ratio, ratio.confidence, se, df, skewness)
        result[name] = replace(
            found, effective_blocks=effective, warnings=(*found.warnings, *notes)
        )
    for name, contrast in contrasts.items():
        if name in result and (name in names or result[name].n_sessions > 1):
            warnings = (*result[name].warnings, *contrast.notes)
            result[name] = replace(result[name], warnings=warnings)
    return result


def _typical(
    rules: Mapping[str, Rule], ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast]
) -> dict[str, Typical]:
    """Return the typical ratios that can be given, and which of them show pauses: judged as one family.

    None over several sessions: their interval takes blocks as independent.
    """
    found: dict[str, Typical] = {}
    for name, ratio in ratios.items():
        logs, medians, trials = (
            contrasts[name].logs,
            contrasts[name].medians,
            contrasts[name].trials,
        )
        level = interval_confidence(rules[name], ratio.n_blocks)
        if medians is None or ratio.n_sessions > 1:
            continue
        typical = typical_ratio(ratio, logs, medians, trials, level)
        if typical is not None:
            found[name] = typical
    adjusted = holm([typical.p_value for typical in found.values()]).tolist()
    return {
        name: found_pauses(
            typical, ratios[name], p, contrasts[name].better, rules[name].margin, rules[name].alpha
        )
        for (name, typical), p in zip(found.items(), adjusted, strict=True)
    }


def _kind(word: str, better: Better) -> Kind:
    if word == "equivalent":
        return "equivalent"
    if word == "undecided":
        return "undecided"
    return "faster" if (word == "above") == (better == "higher") else "slower"


def _with_needed(verdict: Verdict, ratio: Ratio, rule: Rule) -> Verdict:
    """Return an undecided verdict with what would decide it."""
    if verdict.kind != "undecided":
        return verdict
    return replace(verdict, needed=needed(rule.going_on, ratio, verdict.margin, verdict.family))


def decided_after(rule: Rule, verdict: Verdict, ratio: Ratio, more: int) -> float:
    """Return the share of plausible futures in which so many further blocks decide a comparison, of one session
    alone."""
    if ratio.n_blocks < 2 or ratio.se_log == 0 or ratio.n_sessions > 1:
        return 0.0
    levels = (
        single_look(verdict.alpha, verdict.family)
        if rule.stop not in LOOKS_AGAIN
        else _levels(verdict, rule)
    )
    blocks, sd = ratio.n_blocks + more, ratio.se_log * math.sqrt(ratio.n_blocks)
    at = np.array([levels(blocks) if blocks >= MINIMUM_BLOCKS else (0.0, 0.0)])
    ns = np.array([blocks])
    return float(settled(ratio.mean_log, sd, ratio.n_blocks, ratio.df, verdict.margin, ns, at)[0])


def _with_levels(verdict: Verdict, ratio: Ratio, rule: Rule) -> Verdict:
    """Return the verdict with the blocks it still needs at the levels of a rule that looks again and again."""
    return with_outlook(verdict, ratio, _levels(verdict, rule))


def _levels(verdict: Verdict, rule: Rule) -> Levels:
    """Return the levels of a rule that looks again and again, after every number of blocks."""

    def levels(blocks: int) -> tuple[float, float]:
        if rule.stop == "verdict" and not rule.looks.first <= blocks <= rule.looks.last:
            return 0.0, 0.0
        error = rule.alpha / verdict.family
        return test_level(rule.going_on, error / 2, blocks), test_level(
            rule.going_on, error, blocks
        )

    return levels
