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
    resources = weighted_of(analysis, weights)
    candidates = _choices(analysis, choices)
    figures, left_out = figures_of(
        analysis, {resource.name: resource.share for resource in resources}
    )
    if not figures:
        used = ", ".join(resource.name for resource in resources if resource.share > 0)
        sentence = f"{analysis.baseline}, the baseline, has no values of {used}"
        raise BadInput(sentence, where=analysis.name, hint=f"vtax show {analysis.name} prints why")
    resources = of_figures(resources, figures)
    ranked_platforms = [p for p in candidates if any(p.name in figure.values for figure in figures)]
    lacking = {p.name: missing_of(analysis, p, figures) for p in ranked_platforms}
    complete_platforms = [p for p in ranked_platforms if not lacking[p.name]]
    units_by_platform = {p.name: _fewest_units(p, figures) for p in ranked_platforms}
    most_units = max(units_by_platform.values(), default=0)
    units = min((n for n in units_by_platform.values() if n > most_units / 2), default=0)
    notes: list[Note] = (
        [Note("few-blocks-for-places", blocks=units)] if 1 < units < FEW_BLOCKS else []
    )
    shares = np.array([resource.share for resource in resources])
    standings: list[Standing] = []
    contributions: tuple[Contribution, ...] = ()
    switches: tuple[RankSwitch, ...] = ()
    if complete_platforms:
        effects = _effects(analysis, figures, resources, [p.name for p in complete_platforms])
        if effects.correlation > 0:
            notes.append(Note("dependent-places", correlation=effects.correlation))
        order = np.argsort(-effects.score(shares), kind="stable").tolist()
        is_flattered = _lost_more(
            complete_platforms[order[0]].name,
            figures,
            {platform.name for platform in complete_platforms},
        )
        standings = _full(
            analysis, effects, resources, complete_platforms, order, is_flattered=is_flattered
        )
        if len(complete_platforms) > 1:
            contributions = _contributions(analysis, effects, resources, order)
            switches = _switches(effects, resources, complete_platforms)
    partial = _partial(figures, resources, ranked_platforms, lacking, standings)
    standings = sorted(
        (
            replace(
                standing,
                units=units_by_platform[standing.platform.name],
                has_left=_has_left(standing.platform, figures),
            )
            for standing in (*_beside(standings, partial), *partial)
        ),
        key=lambda standing: (*standing.place, bool(standing.missing)),
    )
    if len(standings) < 2:
        raise BadInput(
            f"{analysis.name} has one platform to rank: {', '.join(p.name for p in ranked_platforms) or 'none'}",
            hint=f"name another beside it with --platform, such as {analysis.baseline}",
        )
    return Recommendation(
        analysis,
        resources,
        tuple(standings),
        _reference(analysis, candidates),
        analysis.baseline,
        tuple(_unranked(candidates, ranked_platforms)),
        contributions,
        switches,
        unmeasured_of(analysis, weights, resources),
        units,
        len(analysis.sessions) > 1,
        analysis.rule.confidence,
        _warnings(analysis, figures, standings, notes, left_out),
        link_limits(analysis, figures),
        host_cpu_of(analysis),
    )


def _choices(analysis: Analysis, choices: Sequence[str]) -> list[PlatformRecord]:
    """Return the platforms to rank.

    The baseline is what the others are compared with; it is a choice where it is named, or fewer than two are left.
    """
    platforms = {platform.name: platform for platform in analysis.platforms}
    if choices:
        return [platforms[name] for name in dict.fromkeys(choices)]
    other_platforms = [p for p in analysis.platforms if not p.is_baseline]
    return (
        other_platforms
        if sum(p.available for p in other_platforms) > 1
        else list(analysis.platforms)
    )


def _reference(analysis: Analysis, candidates: Sequence[PlatformRecord]) -> PlatformRecord | None:
    return next((p for p in analysis.platforms if p.is_baseline and p not in candidates), None)


def _unranked(
    candidates: Sequence[PlatformRecord], ranked_platforms: Sequence[PlatformRecord]
) -> Iterator[Unranked]:
    for platform in candidates:
        if platform not in ranked_platforms:
            reason = msg("no trial succeeded") if platform.available else platform.reason
            yield Unranked(platform, reason)


def _fewest_units(platform: PlatformRecord, figures: Sequence[WorkloadMetric]) -> int:
    """Return the blocks (or sessions) of the figure that has the fewest, of those that the platform has."""
    return min(
        int((~np.isnan(figure.values[platform.name])).sum())
        for figure in figures
        if platform.name in figure.values
    )


def _has_left(platform: PlatformRecord, figures: Sequence[WorkloadMetric]) -> bool:
    """Whether the platform was let go of before the end, since a comparison was decided; see `result.settled`."""
    return any(
        row.settled
        for figure in figures
        for row in figure.point.rows
        if row.platform.name == platform.name
    )


def _effects(
    analysis: Analysis,
    figures: Sequence[WorkloadMetric],
    resources: Sequence[Weighted],
    names: Sequence[str],
) -> scores.Effects:
    number = {resource.name: n for n, resource in enumerate(resources)}
    items = [
        scores.Item(number[f.resource], f.share, np.array([f.values[name] for name in names]))
        for f in figures
    ]
    effects = scores.effects_of(items, len(resources))
    if len(analysis.sessions) > 1:
        return effects
    return scores.allow_for_order(
        effects, items, np.array([resource.share for resource in resources])
    )


def _full(
    analysis: Analysis,
    effects: scores.Effects,
    resources: Sequence[Weighted],
    platforms: Sequence[PlatformRecord],
    order: Sequence[int],
    *,
    is_flattered: bool,
) -> list[Standing]:
    shares, confidence = (
        np.array([resource.share for resource in resources]),
        analysis.rule.confidence,
    )
    of_all = 1 - (1 - confidence) / max(1, len(platforms) - 1)  # Bonferroni over the others
    unit = np.eye(len(resources))
    standings = []
    for place, n in enumerate(order, 1):
        of_resources = {}
        for k, resource in enumerate(resources):
            if resource.share:
                of_resources[resource.name] = _ratio(effects.interval(unit[k], n, None, confidence))
        to_first = None
        if not is_flattered and n != order[0]:
            interval = effects.interval(shares, n, order[0], of_all)
            if np.isfinite(interval.high):
                to_first = replace(_ratio(interval), confidence=confidence)
        score = _ratio(effects.interval(shares, n, None, confidence))
        standings.append(Standing(platforms[n], score, of_resources, (place, place), to_first))
    return standings


def _lost_more(
    first: str, figures: Sequence[WorkloadMetric], platform_names: AbstractSet[str]
) -> bool:
    """Whether the first failed in a larger share of trials than another, as `withholding.for_failures` has it."""
    for figure in figures:
        shares = {row.platform.name: row.failed / max(tried(row), 1) for row in figure.point.rows}
        fewest = min(share for name, share in shares.items() if name in platform_names)
        if shares[first] - fewest > MOST_LOST:
            return True
    return False


def _ratio(interval: Interval) -> Interval:
    with np.errstate(over="ignore"):
        estimate, low, high = (
            float(np.exp(log)) for log in (interval.estimate, interval.low, interval.high)
        )
    return Interval(estimate, low, high, interval.confidence)


def _contributions(
    analysis: Analysis, effects: scores.Effects, resources: Sequence[Weighted], order: Sequence[int]
) -> tuple[Contribution, ...]:
    unit, contributions = np.eye(len(resources)), []
    for number, resource in enumerate(resources):
        if resource.share:
            ratio = _ratio(
                effects.interval(unit[number], order[0], order[1], analysis.rule.confidence)
            )
            contributions.append(Contribution(resource.name, ratio, ratio.estimate**resource.share))
    return tuple(sorted(contributions, key=lambda contribution: -contribution.factor))


def _switches(
    effects: scores.Effects, resources: Sequence[Weighted], platforms: Sequence[PlatformRecord]
) -> tuple[RankSwitch, ...]:
    """Find the switches of resources that were weighed: of others the figures were not read."""
    weights = np.array([resource.weight for resource in resources])
    crossings = scores.crossings(effects.means, weights)
    return tuple(
        RankSwitch(resources[c.resource].name, platforms[c.platform].name, c.weight, c.above)
        for c in crossings
        if resources[c.resource].weight > 0
    )


def _partial(
    figures: Sequence[WorkloadMetric],
    resources: Sequence[Weighted],
    platforms: Sequence[PlatformRecord],
    lacking: Mapping[str, Sequence[Missing]],
    standings: Sequence[Standing],
) -> list[Standing]:
    """Platforms that lack something, with the range of their scores and places."""
    share_of = {resource.name: resource.share for resource in resources}
    ranges: dict[str, tuple[float, float]] = {}
    needed: dict[str, float | None] = {}
    lead = max((float(np.log(standing.score.estimate)) for standing in standings), default=None)
    for platform in platforms:
        if not lacking[platform.name]:
            continue
        low = high = known_sum = open_share = 0.0
        for figure in figures:
            share = share_of[figure.resource] * figure.share
            if platform.name in figure.values:
                known_sum += share * figure.mean(platform.name)
                continue
            other_means = [figure.mean(name) for name in figure.values]
            low += share * min(other_means)
            high += share * max(other_means)
            open_share += share
        ranges[platform.name] = (known_sum + low, known_sum + high)
        needed[platform.name] = None
        if lead is not None:
            needed[platform.name] = float(np.exp((lead - known_sum) / open_share))
    scores_of = {
        standing.platform.name: float(np.log(standing.score.estimate)) for standing in standings
    }
    limits = {name: (score, score) for name, score in scores_of.items()} | ranges
    partial = []
    for platform in platforms:
        if platform.name not in ranges:
            continue
        low, high = ranges[platform.name]
        rivals = [bounds for name, bounds in limits.items() if name != platform.name]
        first_place = 1 + sum(lowest > high for lowest, _ in rivals)
        last_place = 1 + sum(highest > low for _, highest in rivals)
        missing_resources = {missing.resource for missing in lacking[platform.name]}
        ratios = {}
        for name, share in share_of.items():
            if share and name not in missing_resources:
                of_resource = [figure for figure in figures if figure.resource == name]
                mean = sum(figure.share * figure.mean(platform.name) for figure in of_resource)
                ratios[name] = _ratio(Interval(mean, np.nan, np.nan))
        partial.append(
            Standing(
                platform,
                _ratio(Interval((low + high) / 2, low, high, np.nan)),
                ratios,
                (first_place, last_place),
                missing=tuple(lacking[platform.name]),
                needed=needed[platform.name],
            )
        )
    return sorted(partial, key=lambda standing: -standing.score.high)


def _beside(standings: Sequence[Standing], partial: Sequence[Standing]) -> list[Standing]:
    """Return the platforms that lack nothing, with places among all: behind each that is certainly ahead, and a range
    where one that lacks something may be."""
    placed_standings = []
    for standing in standings:
        ahead = sum(
            partial_standing.score.low > standing.score.estimate for partial_standing in partial
        )
        perhaps = sum(
            partial_standing.score.high > standing.score.estimate for partial_standing in partial
        )
        placed_standings.append(
            replace(standing, place=(standing.place[0] + ahead, standing.place[1] + perhaps))
        )
    return placed_standings


def _warnings(
    analysis: Analysis,
    figures: Sequence[WorkloadMetric],
    standings: Sequence[Standing],
    notes: Sequence[Note],
    left_out: Sequence[tuple[Section, ResultPoint]],
) -> tuple[doc.Warning, ...]:
    """Warnings of the ranking itself, then those of the run that are about what was weighed."""
    names = {standing.platform.name for standing in standings} | {analysis.baseline, ""}
    subjects = {"", *(f.section.label for f in figures), *(f.section.name for f in figures)}
    warnings = [noted(note) for note in notes]
    better = Note("better-than-baseline", baseline=analysis.baseline)
    for standing in standings:
        for resource, ratio in standing.resources.items():
            if ratio.estimate > edges(analysis.rule.margin)[1] and ratio.low > 1:
                warnings.append(
                    noted(better, doc.WarnedPlace(standing.platform.name, subject=resource))
                )
    for section, point in left_out:
        place = doc.WarnedPlace(subject=section.name, levels=levels_of(point.levels))
        warnings.append(noted(Note("no-baseline-here"), place))
    travelling = []
    for warning in analysis.warnings:
        is_minor = not warning.is_primary or warning.severity == "note"
        if is_minor or warning.code in _OF_VERDICTS:
            continue
        weighed = [p for p in warning.places if p.platform in names and p.subject in subjects]
        if weighed or not warning.places:
            travelling.append(warning)
    return (*merged(warnings), *travelling)
