"""The one call for a whole family of contrasts: intervals and verdicts that fit the rule which ended the run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtax.stats.assumptions import (
    allow_for_dependence,
    dependence,
    effective_blocks,
    plausible_correlations,
    skewness_of,
    skewness_z,
)
from vtax.stats.checks import Better, StatsError
from vtax.stats.contrasts import Contrast as Contrast
from vtax.stats.intervals import bootstrap_means
from vtax.stats.moderation import moderate_family
from vtax.stats.notes import Note
from vtax.stats.ratio import Ratio, exp, ratio_of_logs, widened
from vtax.stats.sequential import sequential_verdicts, t_levels
from vtax.stats.sessions import ratio_over_sessions
from vtax.stats.stopping import Rule, interval_confidence, look_level
from vtax.stats.typical import Typical, found_pauses, typical_ratio
from vtax.stats.verdict import Kind, Verdict, holm, judge_family, with_outlook
from vtax.stats.withholding import Doubt, Others, for_clock, is_for_good, standard_errors, warranted


@dataclass(frozen=True)
class Comparison:
    """ratio: its interval holds at rule.confidence under the rule. verdict: over the family it was judged in.

    Under the rule "verdict", verdict.kind comes from the boundaries and its p-values are those of a single look.
    typical: beside the ratio under method 2, where trials and blocks suffice; no verdict looks at it.
    """

    ratio: Ratio
    verdict: Verdict
    typical: Typical | None = None


def analyse(
    rule: Rule, contrasts: Mapping[str, Contrast], *, resamples: int = 0
) -> dict[str, Comparison | StatsError]:
    """Ratio and verdict of every contrast of one family; a contrast without an answer has its StatsError instead.

    The family is what is passed in one call: state it beside the results. resamples: of the BCa bootstrap.
    """
    result: dict[str, Comparison | StatsError] = {}
    ratios: dict[str, Ratio] = {}
    for name, contrast in contrasts.items():
        try:
            blocks = int((contrast.logs == contrast.logs).sum())
            ratios[name] = _ratio(contrast, interval_confidence(rule, blocks))
        except StatsError as error:
            result[name] = error
    if resamples:
        ratios = _with_bootstrap(ratios, contrasts, resamples)
    doubts: dict[str, Doubt] = {}
    if rule.method > 1:
        ratios, doubts = _without_assumptions(rule, ratios, contrasts)
    ratios = {name: replace(ratio, confidence=rule.confidence) for name, ratio in ratios.items()}
    names = list(ratios)
    better: list[Better] = [contrasts[name].better for name in names]
    alpha = look_level(rule, max((ratio.n_blocks for ratio in ratios.values()), default=0))
    verdicts = judge_family([ratios[name] for name in names], rule.margin, better, alpha)
    if rule.stop == "verdict" and all(ratio.n_sessions == 1 for ratio in ratios.values()):
        logs = [contrasts[name].logs for name in names]
        groups = [contrasts[name].group for name in names] if rule.is_moderated else None
        words = sequential_verdicts(logs, rule.margin, rule.alpha, *rule.looks, groups)
        kinds = [_kind(word, b) for word, b in zip(words, better, strict=True)]
        verdicts = tuple(
            _with_kind(v, k, ratios[name], rule) for v, k, name in zip(verdicts, kinds, names, strict=True)
        )
    if rule.method > 1:
        verdicts = tuple(
            warranted(v, ratios[name], contrasts[name], rule, others, doubts.get(name))
            for name, v, others in zip(names, verdicts, _others(names, contrasts), strict=True)
        )
    verdicts = tuple(
        for_clock(v) if contrasts[name].clock_is_wrong else v for name, v in zip(names, verdicts, strict=True)
    )
    typical = _typical(rule, ratios, contrasts) if rule.method > 1 else {}
    result.update(
        {name: Comparison(ratios[name], v, typical.get(name)) for name, v in zip(names, verdicts, strict=True)}
    )
    return {name: result[name] for name in contrasts}


def _ratio(contrast: Contrast, confidence: float) -> Ratio:
    if contrast.sessions is None:
        return ratio_of_logs(contrast.logs, confidence)
    return ratio_over_sessions(contrast.logs, contrast.sessions, confidence)


def missed(rule: Rule, contrasts: Mapping[str, Contrast], families: Mapping[str, str]) -> dict[str, bool]:
    """Contrasts that miss the target of the rule `precision` or `verdict`, each judged in its family as by `analyse`;
    and of each whether further blocks may help.

    For `stopping.decide`, so that a run ends when its result has what was declared, neither sooner nor later.
    """
    members: dict[str, dict[str, Contrast]] = {}
    for name, contrast in contrasts.items():
        members.setdefault(families.get(name, ""), {})[name] = contrast
    found = {name: answer for family in members.values() for name, answer in analyse(rule, family).items()}
    return missed_of(rule, {name: found[name] for name in contrasts})


def missed_of(rule: Rule, answers: Mapping[str, Comparison | StatsError | None]) -> dict[str, bool]:
    """The same from the answers; None: there is none."""
    return {
        name: not (rule.stop == "verdict" and isinstance(answer, Comparison) and is_for_good(answer.verdict))
        for name, answer in answers.items()
        if answer is None or misses(rule, answer)
    }


def misses(rule: Rule, answer: Comparison | StatsError) -> bool:
    """Whether a contrast misses the target of the rule `precision` or `verdict`; one without an answer does."""
    if isinstance(answer, StatsError):
        return True
    if rule.stop == "verdict":
        return answer.verdict.kind == "undecided"
    return answer.ratio.n_blocks < rule.min_blocks or not answer.ratio.half_width <= rule.precision


def _without_assumptions(
    rule: Rule, ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast]
) -> tuple[dict[str, Ratio], dict[str, Doubt]]:
    """The ratios with intervals and tests that allow for what their blocks show, each with a warning of it; and the
    same if neighbouring blocks correlated as much as is plausible.

    Those over several sessions stay: what blocks have in common is a part of their session there.
    """
    names = [n for n, ratio in ratios.items() if ratio.n_blocks > 1 and ratio.se_log > 0 and ratio.n_sessions == 1]
    family = [contrasts[name].logs[~np.isnan(contrasts[name].logs)] for name in names]
    groups = [contrasts[name].group for name in names]
    borrowed = moderate_family(family, groups) if rule.is_moderated else None
    result, doubts = dict(ratios), dict[str, Doubt]()
    plausible = plausible_correlations(family, standard_errors(rule))
    for name, ratio in ratios.items():
        if ratio.n_sessions > 1 and contrasts[name].lost:
            result[name] = replace(ratio, warnings=(*ratio.warnings, _failures(contrasts[name])))
    for place, (name, logs, correlation) in enumerate(zip(names, family, dependence(family), strict=True)):
        ratio, noise = ratios[name], contrasts[name].noise
        se, df, is_moderated, notes = ratio.se_log, ratio.df, False, list[str]()
        if borrowed is not None:
            variance, df, is_moderated = borrowed[place]
            se = math.sqrt(variance / ratio.n_blocks)
        effective = None
        if contrasts[name].lost:
            notes.append(_failures(contrasts[name]))
        largest = max(plausible[place], correlation)
        doubtful = allow_for_dependence(se, df, ratio.n_blocks, largest)
        if correlation:
            se, df = allow_for_dependence(se, df, ratio.n_blocks, correlation)
            effective = effective_blocks(ratio.n_blocks, correlation)
            notes.append(Note("dependent-blocks", blocks=ratio.n_blocks, effective=round(effective, 1)))
        skewness = skewness_of(logs) if noise != 1 else 0.0
        if skewness:
            notes.append(Note("unequal-noise", times=round(max(noise, 1 / noise), 1)))
        doubts[name] = Doubt(largest, widened(ratio, ratio.confidence, *doubtful, skewness))
        found = widened(ratio, ratio.confidence, se, df, skewness)
        result[name] = replace(
            found, effective_blocks=effective, is_moderated=is_moderated, warnings=(*found.warnings, *notes)
        )
    return result, doubts


def _others(names: Sequence[str], contrasts: Mapping[str, Contrast]) -> Iterator[Others]:
    """For each contrast what the others of its group show."""
    logs = {name: contrasts[name].logs[~np.isnan(contrasts[name].logs)] for name in names}
    known = {name: (float(x.var(ddof=1)), skewness_z(x)) for name, x in logs.items() if x.size > 1}
    for name in names:
        group = contrasts[name].group
        shown = [each for other, each in known.items() if other != name and contrasts[other].group == group]
        if not shown:
            yield Others()
            continue
        variances, deviates = zip(*shown, strict=True)
        yield Others(sum(variances) / len(shown), sum(deviates) / math.sqrt(len(shown)))


def _typical(rule: Rule, ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast]) -> dict[str, Typical]:
    """The typical ratios that can be given, and which of them show pauses: judged as one family.

    None over several sessions: their interval takes blocks as independent.
    """
    found: dict[str, Typical] = {}
    for name, ratio in ratios.items():
        logs, medians, trials = contrasts[name].logs, contrasts[name].medians, contrasts[name].trials
        level = interval_confidence(rule, ratio.n_blocks)
        if medians is None or ratio.n_sessions > 1:
            continue
        typical = typical_ratio(ratio, logs, medians, trials, level)
        if typical is not None:
            found[name] = typical
    adjusted = holm([typical.p_value for typical in found.values()]).tolist()
    return {
        name: found_pauses(typical, ratios[name], p, contrasts[name].better, rule.margin, rule.alpha)
        for (name, typical), p in zip(found.items(), adjusted, strict=True)
    }


def _failures(contrast: Contrast) -> Note:
    (failed, others), (tried, total) = contrast.failed, contrast.tried
    return Note("failures-differ", failed=failed, tried=tried, others=others, total=total)


def _with_bootstrap(
    ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast], resamples: int
) -> dict[str, Ratio]:
    """The ratios with their BCa intervals, each at the confidence of its ratio; none from a single block, nor over
    several sessions, whose blocks are not independent."""
    result = dict(ratios)
    for confidence in {ratio.confidence for ratio in ratios.values()}:
        names = [name for name, r in ratios.items() if r.confidence == confidence and r.n_blocks > 1 == r.n_sessions]
        found = bootstrap_means([contrasts[name].logs for name in names], confidence, resamples)
        for name, interval in zip(names, found, strict=True):
            result[name] = replace(ratios[name], bootstrap_low=exp(interval.low), bootstrap_high=exp(interval.high))
    return result


def _kind(word: str, better: Better) -> Kind:
    if word == "equivalent":
        return "equivalent"
    if word == "undecided":
        return "undecided"
    return "faster" if (word == "above") == (better == "higher") else "slower"


def _with_kind(verdict: Verdict, kind: Kind, ratio: Ratio, rule: Rule) -> Verdict:
    first, last = rule.looks

    def levels(blocks: int) -> tuple[float, float]:
        if not first <= blocks <= last:
            return 0.0, 0.0
        different, inside = (t_levels(a / verdict.family, first, last) for a in (rule.alpha / 2, rule.alpha))
        return float(different[blocks - first]), float(inside[blocks - first])

    return with_outlook(replace(verdict, kind=kind), ratio, levels)
