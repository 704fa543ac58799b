"""The one call for a whole family of contrasts: intervals and verdicts that fit the rule which ended the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vtax.stats.checks import Array, Better, StatsError
from vtax.stats.intervals import bootstrap_means
from vtax.stats.ratio import Ratio, exp, ratio_of_logs
from vtax.stats.sequential import sequential_verdicts
from vtax.stats.stopping import Rule, interval_confidence, look_level
from vtax.stats.verdict import Kind, Verdict, blocks_needed, judge_family


@dataclass(frozen=True)
class Contrast:
    """One log-ratio per block in the order of the blocks (NaN: none), and which way is better for its metric."""

    logs: Array
    better: Better


@dataclass(frozen=True)
class Comparison:
    """ratio: its interval holds at rule.confidence under the rule. verdict: over the family it was judged in.

    Under the rule "verdict", verdict.kind comes from the boundaries and its p-values are those of a single look.
    """

    ratio: Ratio
    verdict: Verdict


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
            ratios[name] = ratio_of_logs(contrast.logs, interval_confidence(rule, blocks))
        except StatsError as error:
            result[name] = error
    if resamples:
        ratios = _with_bootstrap(ratios, contrasts, resamples)
    ratios = {name: replace(ratio, confidence=rule.confidence) for name, ratio in ratios.items()}
    names = list(ratios)
    better: list[Better] = [contrasts[name].better for name in names]
    alpha = look_level(rule, max((ratio.n_blocks for ratio in ratios.values()), default=0))
    verdicts = judge_family([ratios[name] for name in names], rule.margin, better, alpha)
    if rule.stop == "verdict":
        logs = [contrasts[name].logs for name in names]
        words = sequential_verdicts(logs, rule.margin, rule.alpha, *rule.looks)
        kinds = [_kind(word, b) for word, b in zip(words, better, strict=True)]
        verdicts = tuple(
            _with_kind(v, k, ratios[name], rule) for v, k, name in zip(verdicts, kinds, names, strict=True)
        )
    result.update({name: Comparison(ratios[name], v) for name, v in zip(names, verdicts, strict=True)})
    return {name: result[name] for name in contrasts}


def _with_bootstrap(
    ratios: Mapping[str, Ratio], contrasts: Mapping[str, Contrast], resamples: int
) -> dict[str, Ratio]:
    """The ratios with their BCa intervals, each at the confidence of its ratio; none from a single block."""
    result = dict(ratios)
    for confidence in {ratio.confidence for ratio in ratios.values()}:
        names = [name for name, r in ratios.items() if r.confidence == confidence and r.n_blocks > 1]
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
    needed = 0 if kind != "undecided" else blocks_needed(ratio, rule.margin, rule.alpha, verdict.family)
    return replace(verdict, kind=kind, blocks_needed=needed)
