"""The one call for a whole family of contrasts: intervals and verdicts that fit the rule which ended the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from vtax.stats.assumptions import (
    FEWEST_OF_UNEQUAL,
    allow_for_dependence,
    dependence,
    effective_blocks,
    skewness_of,
)
from vtax.stats.checks import Array, Better, StatsError
from vtax.stats.intervals import bootstrap_means
from vtax.stats.moderation import moderate_family
from vtax.stats.notes import Note
from vtax.stats.ratio import Ratio, exp, ratio_of_logs, widened
from vtax.stats.sequential import sequential_verdicts, t_levels
from vtax.stats.sessions import Labels, ratio_over_sessions
from vtax.stats.stopping import Rule, interval_confidence, look_level
from vtax.stats.typical import Typical, found_pauses, typical_ratio
from vtax.stats.verdict import Kind, Verdict, holm, judge_family, with_outlook

MOST_LOST = 0.02  # difference of the shares of failed trials above which no verdict favours the side that lost more


@dataclass(frozen=True)
class Contrast:
    """One log-ratio per block in the order of the blocks (NaN: none), and which way is better for its metric.

    noise: how many times noisier the treatment is than the baseline, see `assumptions.unequal_noise`. group:
    contrasts of one group lend each other degrees of freedom, see `moderation.lending_groups`. failed, tried: trials
    of the treatment and of the baseline. medians: as logs, of the medians of the blocks' trials. trials: fewest of a
    block on either side. sessions: of each log-ratio the number of its session; None: all are of one.
    """

    logs: Array
    better: Better
    noise: float = 1.0
    group: str = ""
    failed: tuple[int, int] = (0, 0)
    tried: tuple[int, int] = (0, 0)
    medians: Array | None = None
    trials: int = 1
    sessions: Labels | None = None

    @property
    def lost(self) -> float:
        """Share of the treatment's trials that failed, less the baseline's: slow trials fail first."""
        shares = [failed / tried if tried else 0.0 for failed, tried in zip(self.failed, self.tried, strict=True)]
        return shares[0] - shares[1]


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
    if rule.method > 1:
        ratios = _without_assumptions(rule, ratios, contrasts)
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
            _warranted(v, ratios[name], contrasts[name], rule) for name, v in zip(names, verdicts, strict=True)
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


def _without_assumptions(
    rule: Rule, ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast]
) -> dict[str, Ratio]:
    """The ratios with intervals and tests that allow for what their blocks show, each with a warning of it.

    Those over several sessions stay: what blocks have in common is a part of their session there.
    """
    names = [n for n, ratio in ratios.items() if ratio.n_blocks > 1 and ratio.se_log > 0 and ratio.n_sessions == 1]
    family = [contrasts[name].logs[~np.isnan(contrasts[name].logs)] for name in names]
    groups = [contrasts[name].group for name in names]
    borrowed = moderate_family(family, groups) if rule.is_moderated else None
    result = dict(ratios)
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
        if correlation:
            se, df = allow_for_dependence(se, df, ratio.n_blocks, correlation)
            effective = effective_blocks(ratio.n_blocks, correlation)
            notes.append(Note("dependent-blocks", blocks=ratio.n_blocks, effective=round(effective, 1)))
        skewness = skewness_of(logs) if noise != 1 else 0.0
        if skewness:
            notes.append(Note("unequal-noise", times=round(max(noise, 1 / noise), 1)))
        found = widened(ratio, ratio.confidence, se, df, skewness)
        result[name] = replace(
            found, effective_blocks=effective, is_moderated=is_moderated, warnings=(*found.warnings, *notes)
        )
    return result


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


def _warranted(verdict: Verdict, ratio: Ratio, contrast: Contrast, rule: Rule) -> Verdict:
    """The verdict, withheld where it stands on an assumption that the blocks contradict or are too few to test."""
    if verdict.kind == "undecided":
        return verdict
    inside = ratio.low > 1 - rule.margin and ratio.high < 1 + rule.margin
    agrees = inside if verdict.kind == "equivalent" else (ratio.low > 1 or ratio.high < 1)
    unlucky = "faster" if contrast.noise > 1 else "slower"
    times = round(max(contrast.noise, 1 / contrast.noise), 1)
    note = None
    spared = "faster" if contrast.lost > 0 else "slower"
    if abs(contrast.lost) > MOST_LOST and verdict.kind in (spared, "equivalent"):
        note = Note("withheld-failures")
    elif contrast.noise != 1 and verdict.kind in (unlucky, "equivalent"):
        if ratio.n_blocks < FEWEST_OF_UNEQUAL or not agrees:
            note = Note("withheld-noisier", times=times, minimum=FEWEST_OF_UNEQUAL)
    elif ratio.effective_blocks is not None and not agrees:
        note = Note("withheld-dependent")
    if note is None:
        return verdict
    return replace(
        verdict, kind="undecided", blocks_needed=None, blocks_needed_low=None, warnings=(*verdict.warnings, note)
    )


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
