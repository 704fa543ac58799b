"""Which platform a workload should run on: scores of weighted resources, see `stats.scores`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.report import document as doc
from vtax.report.analysis.result import tried
from vtax.report.analysis.values import Analysis, ResultPoint, Section
from vtax.report.analysis.warnings import merged, noted
from vtax.report.answers.gate.compute import require_block
from vtax.report.answers.recommend.ranking import (
    Contribution,
    RankSwitch,
    Recommendation,
    Standing,
    Unranked,
)
from vtax.report.answers.recommend.resources import host_cpu_of
from vtax.report.answers.recommend.workload import (
    Missing,
    Weighted,
    WorkloadMetric,
    figures_of,
    link_limits,
    missing_of,
    of_figures,
    unmeasured_of,
    weighted_of,
)
from vtax.report.document import levels_of, msg
from vtax.stats import scores
from vtax.stats.intervals import Interval
from vtax.stats.margin import edges
from vtax.stats.withholding import MOST_LOST
from vtax.store.records import PlatformRecord

FEW_BLOCKS = 5  # as of ranks: below, an interval of blocks is at the mercy of their noise's shape
_OF_VERDICTS = frozenset(
    {"few-blocks", "one-block", "no-trial-went-well"}
)  # said here in other words


def recommend(
    analysis: Analysis, weights: Mapping[str, float] | None = None, choices: Sequence[str] = ()
) -> Recommendation:
    """Return the ranking of the platforms for weights of resources.

    analysis: of the whole run. weights: resource -> weight; all measured resources alike where it is None. choices:
    the platforms to rank; all where it is empty, without the baseline where that leaves two. Raises BadInput for
    a resource or platform that does not exist, for weights that are no weights or of nothing that the run measures,
    and for a run without two platforms to rank or without a figure of its baseline.
    """
    require_block(analysis)
    weighted = weighted_of(analysis, weights)
    named = _choices(analysis, choices)
    figures, units, left_out = figures_of(analysis, {each.name: each.share for each in weighted})
    if not figures:
        what = f"{analysis.baseline}, the baseline, has no values of {', '.join(_used(weighted))}"
        raise BadInput(what, where=analysis.name, hint=f"vtax show {analysis.name} prints why")
    weighted = of_figures(weighted, figures)
    ranked = [p for p in named if any(p.name in figure.values for figure in figures)]
    lacking = {p.name: missing_of(analysis, p, figures) for p in ranked}
    full = [p for p in ranked if not lacking[p.name]]
    given: list[Note] = (
        [Note("few-blocks-for-places", blocks=units)] if 1 < units < FEW_BLOCKS else []
    )
    shares = np.array([each.share for each in weighted])
    standings: list[Standing] = []
    contributions: tuple[Contribution, ...] = ()
    switches: tuple[RankSwitch, ...] = ()
    if full:
        effects, correlation = _effects(analysis, figures, weighted, [p.name for p in full])
        if correlation > 0:
            given.append(Note("dependent-places", correlation=correlation))
        order = np.argsort(-effects.score(shares), kind="stable").tolist()
        is_flattered = _lost_more(full[order[0]].name, figures, {each.name for each in full})
        standings = _full(analysis, effects, weighted, full, order, is_flattered=is_flattered)
        if len(full) > 1:
            contributions = _contributions(analysis, effects, weighted, order)
            switches = _switches(effects, weighted, full)
    partial = _partial(figures, weighted, ranked, lacking, standings)
    standings = sorted(
        (*_beside(standings, partial), *partial), key=lambda each: (*each.place, bool(each.missing))
    )
    if len(standings) < 2:
        raise BadInput(
            f"{analysis.name} has one platform to rank: {', '.join(p.name for p in ranked) or 'none'}",
            hint=f"name another beside it with --platform, such as {analysis.baseline}",
        )
    return Recommendation(
        analysis,
        weighted,
        tuple(standings),
        _reference(analysis, named),
        analysis.baseline,
        tuple(_unranked(named, ranked)),
        contributions,
        switches,
        unmeasured_of(analysis, weights, weighted),
        units,
        len(analysis.sessions) > 1,
        analysis.rule.confidence,
        _warnings(analysis, figures, standings, given, left_out),
        link_limits(analysis, figures),
        host_cpu_of(analysis),
    )


def _used(weighted: Sequence[Weighted]) -> list[str]:
    return [each.name for each in weighted if each.share > 0]


def _choices(analysis: Analysis, choices: Sequence[str]) -> list[PlatformRecord]:
    """Return the platforms to rank.

    The baseline is what the others are compared with; it is a choice where it is named, or fewer than two are left.
    """
    there = {platform.name: platform for platform in analysis.platforms}
    if choices:
        return [there[name] for name in dict.fromkeys(choices)]
    others = [p for p in analysis.platforms if not p.is_baseline]
    return others if sum(p.available for p in others) > 1 else list(analysis.platforms)


def _reference(analysis: Analysis, named: Sequence[PlatformRecord]) -> PlatformRecord | None:
    return next((p for p in analysis.platforms if p.is_baseline and p not in named), None)


def _unranked(
    named: Sequence[PlatformRecord], ranked: Sequence[PlatformRecord]
) -> Iterator[Unranked]:
    for platform in named:
        if platform not in ranked:
            why = msg("no trial succeeded") if platform.available else platform.reason
            yield Unranked(platform, why)


def _effects(
    analysis: Analysis,
    figures: Sequence[WorkloadMetric],
    weighted: Sequence[Weighted],
    names: Sequence[str],
) -> tuple[scores.Effects, float]:
    number = {each.name: n for n, each in enumerate(weighted)}
    items = [
        scores.Item(number[f.resource], f.share, np.array([f.values[name] for name in names]))
        for f in figures
    ]
    whole = [item for item in items if item.complete.any()]
    if len(whole) < len(items):
        names_of = ", ".join(names)
        raise BadInput(
            f"no block of {analysis.name} holds all of {names_of}",
            hint="rank those that were measured together with --platform",
        )
    effects = scores.effects_of(items, len(weighted))
    if len(analysis.sessions) > 1:
        return effects, 0.0
    return scores.allow_for_order(effects, items, np.array([each.share for each in weighted]))


def _full(
    analysis: Analysis,
    effects: scores.Effects,
    weighted: Sequence[Weighted],
    full: Sequence[PlatformRecord],
    order: Sequence[int],
    *,
    is_flattered: bool,
) -> list[Standing]:
    shares, confidence = np.array([each.share for each in weighted]), analysis.rule.confidence
    is_judged = effects.df > 0 and not is_flattered
    of_all = 1 - (1 - confidence) / max(1, len(full) - 1)  # Bonferroni over the others
    unit = np.eye(len(weighted))
    standings = []
    for place, n in enumerate(order, 1):
        of_resources = {}
        for k, each in enumerate(weighted):
            if each.share:
                of_resources[each.name] = _ratio(effects.interval(unit[k], n, None, confidence))
        to_first = None
        if is_judged and n != order[0]:
            to_first = _ratio(effects.interval(shares, n, order[0], of_all))
            to_first = replace(to_first, confidence=confidence)
        score = _ratio(effects.interval(shares, n, None, confidence))
        standings.append(Standing(full[n], score, of_resources, (place, place), to_first))
    return standings


def _lost_more(first: str, figures: Sequence[WorkloadMetric], ranked: AbstractSet[str]) -> bool:
    """Whether the first failed in a larger share of trials than another, as `withholding.for_failures` has it."""
    for figure in figures:
        shares = {row.platform.name: row.failed / max(tried(row), 1) for row in figure.point.rows}
        fewest = min(share for name, share in shares.items() if name in ranked)
        if shares[first] - fewest > MOST_LOST:
            return True
    return False


def _ratio(interval: Interval) -> Interval:
    with np.errstate(over="ignore"):
        estimate, low, high = (
            float(np.exp(each)) for each in (interval.estimate, interval.low, interval.high)
        )
    return Interval(estimate, low, high, interval.confidence)


def _contributions(
    analysis: Analysis, effects: scores.Effects, weighted: Sequence[Weighted], order: Sequence[int]
) -> tuple[Contribution, ...]:
    unit, found = np.eye(len(weighted)), []
    for number, each in enumerate(weighted):
        if each.share:
            ratio = _ratio(
                effects.interval(unit[number], order[0], order[1], analysis.rule.confidence)
            )
            found.append(Contribution(each.name, ratio, ratio.estimate**each.share))
    return tuple(sorted(found, key=lambda each: -each.factor))


def _switches(
    effects: scores.Effects, weighted: Sequence[Weighted], full: Sequence[PlatformRecord]
) -> tuple[RankSwitch, ...]:
    """Find the switches of resources that were weighed: of others the figures were not read."""
    weights = np.array([each.weight for each in weighted])
    found = scores.crossings(effects.means, weights)
    return tuple(
        RankSwitch(weighted[c.resource].name, full[c.platform].name, c.weight, c.above)
        for c in found
        if weighted[c.resource].weight > 0
    )


def _partial(
    figures: Sequence[WorkloadMetric],
    weighted: Sequence[Weighted],
    ranked: Sequence[PlatformRecord],
    lacking: Mapping[str, Sequence[Missing]],
    full: Sequence[Standing],
) -> list[Standing]:
    """Platforms that lack something, with the range of their scores and places."""
    share_of = {each.name: each.share for each in weighted}
    ranges: dict[str, tuple[float, float]] = {}
    needed: dict[str, float | None] = {}
    lead = max((float(np.log(each.score.estimate)) for each in full), default=None)
    for platform in ranked:
        if not lacking[platform.name]:
            continue
        low = high = known = open_share = 0.0
        for figure in figures:
            share = share_of[figure.resource] * figure.share
            if platform.name in figure.values:
                known += share * figure.mean(platform.name)
                continue
            others = [figure.mean(name) for name in figure.values]
            low += share * min(others)
            high += share * max(others)
            open_share += share
        ranges[platform.name] = (known + low, known + high)
        needed[platform.name] = None
        if lead is not None:
            needed[platform.name] = float(np.exp((lead - known) / open_share))
    scores_of = {each.platform.name: float(np.log(each.score.estimate)) for each in full}
    limits = {name: (score, score) for name, score in scores_of.items()} | ranges
    found = []
    for platform in ranked:
        if platform.name not in ranges:
            continue
        low, high = ranges[platform.name]
        rivals = [bounds for name, bounds in limits.items() if name != platform.name]
        first_place = 1 + sum(worst > high for worst, _ in rivals)
        last_place = 1 + sum(best > low for _, best in rivals)
        lacks = {missing.resource for missing in lacking[platform.name]}
        resources = {}
        for name, share in share_of.items():
            if share and name not in lacks:
                of_resource = [figure for figure in figures if figure.resource == name]
                mean = sum(figure.share * figure.mean(platform.name) for figure in of_resource)
                resources[name] = _ratio(Interval(mean, np.nan, np.nan))
        found.append(
            Standing(
                platform,
                _ratio(Interval((low + high) / 2, low, high, np.nan)),
                resources,
                (first_place, last_place),
                missing=tuple(lacking[platform.name]),
                needed=needed[platform.name],
            )
        )
    return sorted(found, key=lambda each: -each.score.high)


def _beside(full: Sequence[Standing], partial: Sequence[Standing]) -> list[Standing]:
    """Return the platforms that lack nothing, with places among all: behind each that is certainly ahead, and a range
    where one that lacks something may be."""
    found = []
    for each in full:
        ahead = sum(other.score.low > each.score.estimate for other in partial)
        perhaps = sum(other.score.high > each.score.estimate for other in partial)
        found.append(replace(each, place=(each.place[0] + ahead, each.place[1] + perhaps)))
    return found


def _warnings(
    analysis: Analysis,
    figures: Sequence[WorkloadMetric],
    standings: Sequence[Standing],
    given: Sequence[Note],
    left_out: Sequence[tuple[Section, ResultPoint]],
) -> tuple[doc.Warning, ...]:
    """Warnings of the ranking itself, then those of the run that are about what was weighed."""
    names = {each.platform.name for each in standings} | {analysis.baseline, ""}
    subjects = {"", *(f.section.label for f in figures), *(f.section.name for f in figures)}
    own = [noted(note) for note in given]
    better = Note("better-than-baseline", baseline=analysis.baseline)
    for each in standings:
        for resource, ratio in each.resources.items():
            if ratio.estimate > edges(analysis.rule.margin)[1] and ratio.low > 1:
                own.append(noted(better, doc.WarnedPlace(each.platform.name, subject=resource)))
    for section, point in left_out:
        place = doc.WarnedPlace(subject=section.name, levels=levels_of(point.levels))
        own.append(noted(Note("no-baseline-here"), place))
    travelling = []
    for warning in analysis.warnings:
        is_minor = not warning.is_primary or warning.severity == "note"
        if is_minor or warning.code in _OF_VERDICTS:
            continue
        weighed = [p for p in warning.places if p.platform in names and p.subject in subjects]
        if weighed or not warning.places:
            travelling.append(warning)
    return (*merged(own), *travelling)
