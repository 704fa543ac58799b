"""Which platform a workload should run on: places, what decides them, what would change them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from vtax.errors import BadInput
from vtax.grouping import by_key
from vtax.report import document as doc
from vtax.report.analysis.source import Source
from vtax.report.answers.recommend.compute import recommend
from vtax.report.answers.recommend.ranking import RankSwitch, Recommendation, Standing
from vtax.report.answers.recommend.workload import CPU, Missing, Unmeasured
from vtax.report.document import joined, listed, msg, plural, range_of, styled
from vtax.report.parts import shared
from vtax.report.parts.first_screen import answer_line
from vtax.report.parts.header import run_line
from vtax.report.views.base import Options, View, register_view
from vtax.stats.intervals import Interval


def document(source: Source, options: Options) -> doc.Document:
    """Return the ranking of the whole run; all resources count alike."""
    try:
        ranking = recommend(source.whole.analysis, None, source.analysis.filter.platforms)
    except BadInput:
        return doc.empty_document(VIEW.title, msg("There is nothing to rank."))
    return document_of(ranking)


def document_of(ranking: Recommendation) -> doc.Document:
    """Return the answer, the places, what decides between the first two, and the warnings."""
    parts: list[doc.Part] = [
        doc.Titled(msg("Summary"), tuple(_summary(ranking)), key="answer", role="summary"),
        doc.Titled(msg("Places"), (_places(ranking), *_notes(ranking)), key="places"),
    ]
    if ranking.contributions:
        parts.append(
            doc.Titled(
                msg("What decides"), (_contributions(ranking), *_switches(ranking)), key="decides"
            )
        )
    parts += shared.warnings_part(ranking.warnings)
    run = joined([ranking.analysis.name, run_line(ranking.analysis)], ": ")
    return doc.Document(VIEW.title, tuple(parts), (run, _weights(ranking)), data=ranking)


def _weights(ranking: Recommendation) -> doc.Inline:
    resource_texts = [
        msg(
            "{resource} {share} ({benchmarks})",
            resource=shared.resource(r.name),
            share=doc.Share(r.share, "whole"),
            benchmarks=", ".join(r.labels),
        )
        for r in ranking.resources
        if r.share
    ]
    without = [shared.resource(r.name) for r in ranking.resources if not r.weight]
    text = msg("weights: {weights}", weights=joined(resource_texts))
    return joined(
        [text, msg("without weight: {resources}", resources=joined(without)) if without else ""],
        "; ",
    )


def _summary(ranking: Recommendation) -> Iterator[doc.Part]:
    """Yield the answer, what was not tested, then what bears on all of it."""
    yield from answer_line(ranking.analysis)
    if ranking.complete:
        decides = [_decides(ranking)] if ranking.contributions else []
        answer = joined([_choice(ranking), *decides, *_host_cpu(ranking)], "; ")
        yield doc.Paragraph(styled(answer, "strong"))
    items = [_unmeasured(resource) for resource in ranking.unmeasured]
    items += [
        _could_be_first(standing, ranking)
        for standing in ranking.standings
        if standing.missing and standing.place[0] == 1
    ]
    items += [
        msg("{platform} is not ranked: {reason}", platform=out.platform.name, reason=out.reason)
        for out in ranking.unranked
    ]
    if items:
        yield doc.Titled(msg("Not tested"), (doc.Bullets(tuple(items)),))
    if cautions := list(_cautions(ranking)):
        yield doc.Paragraph(joined([msg("Caution:"), joined(cautions, "; ")], " "), "caution")


def _unmeasured(resource: Unmeasured) -> doc.Inline:
    """Say what has a weight and is in no score."""
    return msg(
        "{resource} was not tested: {reason}; it has {share} of the weight, and the places are of the rest",
        resource=shared.resource(resource.resource),
        reason=resource.reason,
        share=doc.Share(resource.share, "whole"),
    )


def _cautions(ranking: Recommendation) -> Iterator[doc.Inline]:
    if ranking.complete and "emulated" in (first := ranking.complete[0].platform).marks:
        yield msg(
            "{platform} is emulated: its score says how fast emulation is here, not how fast it is with hardware "
            "virtualization",
            platform=first.name,
        )
    if ranking.link_limits_mbit_s:
        rates = listed([doc.Number(rate) for rate in ranking.link_limits_mbit_s])
        yield msg(
            "measured through a link limited to {rates} Mbit/s: platforms that fill it look alike",
            rates=rates,
        )


def _choice(ranking: Recommendation) -> doc.Inline:
    """Return the platform with the best score, and which others are within noise of it."""
    first = ranking.complete[0]
    data: dict[str, doc.Inline] = {
        "platform": shared.platform_of(first.platform),
        "score": _score(first.score.estimate, ranking),
    }
    if not ranking.judged:
        return msg(
            "{platform} has the best score, {score}; how sure that is cannot be said", **data
        )
    if not ranking.close:
        return msg(
            "{platform} has the best score, {score}, ahead of the others beyond noise", **data
        )
    return msg(
        "{platform} has the best score, {score}, within noise of {others}",
        others=listed(shared.platform_of(standing.platform) for standing in ranking.close),
        **data,
    )


def _decides(ranking: Recommendation) -> doc.Inline:
    """Return the resource with most of the lead of the first over the second, or that none is beyond noise."""
    contribution = ranking.contributions[0]
    data: dict[str, doc.Inline] = {
        "resource": shared.resource(contribution.resource),
        "first": ranking.complete[0].platform.name,
        "share": shared.amount_of(contribution.ratio),
        "second": ranking.complete[1].platform.name,
    }
    if not math.isfinite(contribution.ratio.high):
        data = {**data, "unit": msg("session") if ranking.is_of_sessions else msg("block")}
        return msg(
            "one {unit} in common: differences cannot be judged; most of this one is {resource}, where {first} "
            "reaches {share} of {second}, the second",
            **data,
        )
    if contribution.ratio.low > 1:
        return msg(
            "what decides: {resource}, where {first} reaches {share} of {second}, the second",
            **data,
        )
    return msg(
        "{first} and {second}, the second, differ within noise; most of it is {resource}, where {first} reaches "
        "{share} of {second}",
        **data,
    )


def _host_cpu(ranking: Recommendation) -> Iterator[doc.Inline]:
    """Yield what the first and those that noise does not tell from it cost the host, which no score has."""
    names = [
        standing.platform.name
        for standing in (ranking.complete[0], *ranking.close)
        if standing.platform.name in ranking.host_cpu
    ]
    if names and all(resource.name != CPU for resource in ranking.resources if resource.weight):
        costs = [joined([name, shared.amount_of(ranking.host_cpu[name])], " ") for name in names]
        yield msg(
            "host CPU for the same work, percent of {baseline}: {costs}",
            baseline=ranking.baseline,
            costs=joined(costs),
        )


def _could_be_first(standing: Standing, ranking: Recommendation) -> doc.Inline:
    resources = listed([_lacks(m) for m in standing.missing])
    if standing.needed is None or not ranking.complete:
        return msg(
            "{platform} could be the first: {resources} not tested",
            platform=standing.platform.name,
            resources=resources,
        )
    return msg(
        "{platform} could be the first: {resources} not tested; it would overtake {first} from {needed} "
        "there",
        platform=standing.platform.name,
        resources=resources,
        first=ranking.complete[0].platform.name,
        needed=_score(standing.needed, ranking),
    )


def _places(ranking: Recommendation) -> doc.Table:
    resources = [resource for resource in ranking.resources if resource.share]
    has_missing = any(standing.missing for standing in ranking.standings)
    has_cpu = bool(ranking.host_cpu)
    columns = (
        doc.Column("place", msg("place"), is_number=True),
        shared.PLATFORM,
        doc.Column("score", _with_interval(msg("score"), ranking), is_number=True),
        *(
            doc.Column(resource.name, shared.resource(resource.name), is_number=True)
            for resource in resources
        ),
        *(
            [doc.Column("host-cpu-cost", msg("host CPU,\nless is better"), is_number=True)]
            * has_cpu
        ),
        *([doc.Column("missing", msg("not tested"), wraps=True)] if has_missing else []),
    )
    rows = [
        _row(standing, [r.name for r in resources], ranking.host_cpu)
        for standing in ranking.standings
    ]
    if ranking.reference is not None:
        whole = doc.Share(1.0, "whole")
        cells: tuple[doc.Inline, ...] = ("", shared.platform_of(ranking.reference), whole)
        rows.append(
            doc.TableRow((*cells, *(whole for _ in resources), *[whole] * has_cpu), "baseline")
        )
    return doc.table_of(columns, rows, key="places", label=msg("places of the platforms"))


def _score(share: float, ranking: Recommendation) -> doc.Relative:
    """Return a share of the baseline in a sentence."""
    return doc.Relative(share, baseline=ranking.baseline)


def _with_interval(title: doc.Inline, ranking: Recommendation) -> doc.Inline:
    """Return the head of a column of shares, with what stands in brackets where they have intervals."""
    if not ranking.has_intervals:
        return title
    level = doc.Share(ranking.confidence, "declared")
    return msg("{title}\n[{level} interval]", title=title, level=level)


def _row(
    standing: Standing, resources: list[str], host_cpu: Mapping[str, Interval]
) -> doc.TableRow:
    place = range_of(*map(doc.Count, standing.place))
    scores = [standing.resources.get(name) for name in resources]
    cells: list[doc.Inline] = [
        doc.Relative(score.estimate) if score else doc.Nothing() for score in scores
    ]
    score: doc.Inline = styled(
        doc.Relative(standing.score.estimate, standing.score.low, standing.score.high), "strong"
    )
    if standing.missing:
        score = doc.Range(doc.Relative(standing.score.low), doc.Relative(standing.score.high))
    if host_cpu:
        cpu = host_cpu.get(standing.platform.name)
        is_baseline = standing.platform.is_baseline
        unknown: doc.Inline = doc.Share(1.0, "whole") if is_baseline else doc.Nothing()
        cells.append(shared.amount_of(cpu) if cpu else unknown)
    reasons = joined([joined([_lacks(m), m.reason], ": ") for m in standing.missing], "; ")
    reason_cells = (reasons,) if standing.missing else ()
    return doc.TableRow(
        (place, shared.platform_of(standing.platform), score, *cells, *reason_cells)
    )


def _of_fewer(ranking: Recommendation) -> Iterator[doc.Inline]:
    """Yield `those of gvisor from 3, having left early`, of platforms alike together."""
    platforms_by_units = by_key(
        ((standing.units, standing.has_left), shared.platform_of(standing.platform))
        for standing in ranking.standings
        if standing.units < ranking.units
    )
    for (units, has_left), platforms in platforms_by_units.items():
        data: dict[str, doc.Inline] = {"platforms": listed(platforms), "count": doc.Count(units)}
        if has_left:
            yield msg("those of {platforms} from {count}, having left early", **data)
        else:
            yield msg("those of {platforms} from {count}", **data)


def _lacks(missing: Missing) -> doc.Inline:
    """`disk`, or `disk in part (fio direct)`."""
    if missing.whole:
        return shared.resource(missing.resource)
    return msg(
        "{resource} in part ({benchmarks})",
        resource=shared.resource(missing.resource),
        benchmarks=", ".join(missing.labels),
    )


def _notes(ranking: Recommendation) -> Iterator[doc.Paragraph]:
    yield doc.Paragraph(
        msg(
            "score: weighted geometric mean of the percents of {baseline} over the resources",
            baseline=ranking.baseline,
        ),
        "muted",
    )
    if ranking.has_intervals:
        text = plural(
            "intervals are from {count} block", "intervals are from {count} blocks", ranking.units
        )
        if ranking.is_of_sessions:
            text = plural(
                "intervals are from {count} session",
                "intervals are from {count} sessions",
                ranking.units,
            )
        yield doc.Paragraph(joined([text, *_of_fewer(ranking)], "; "), "muted")
    if ranking.reference is not None:
        yield doc.Paragraph(
            msg(
                "{baseline} is the reference and no choice; --platform names the platforms to rank",
                baseline=ranking.baseline,
            ),
            "muted",
        )
    elif any(standing.platform.is_baseline for standing in ranking.standings):
        yield doc.Paragraph(
            msg(
                "{baseline}, the baseline, is ranked too: it was named, or fewer than two others are left",
                baseline=ranking.baseline,
            ),
            "muted",
        )
    if any(standing.missing for standing in ranking.standings):
        ranges = msg(
            "where a resource was not tested, score and place are ranges: it is taken as anything from the worst "
            "to the best of this run there"
        )
        yield doc.Paragraph(ranges, "caution")


def _contributions(ranking: Recommendation) -> doc.Table:
    first, second = (standing.platform.name for standing in ranking.complete[:2])
    shares = {resource.name: resource.share for resource in ranking.resources}
    columns = (
        doc.Column("resource", msg("resource")),
        doc.Column("share", msg("weight"), is_number=True),
        doc.Column(
            "ratio",
            _with_interval(
                msg("{first}, percent of {second}", first=first, second=second), ranking
            ),
            is_number=True,
        ),
        doc.Column("contribution", msg("the same\nof the scores"), is_number=True),
    )
    rows = [
        (
            shared.resource(contribution.resource),
            doc.Share(shares[contribution.resource], "whole"),
            shared.amount_of(contribution.ratio),
            doc.Relative(contribution.factor, is_of="amount"),
        )
        for contribution in ranking.contributions
    ]
    return doc.table_of(
        columns, rows, key="contributions", label=msg("what decides the first place")
    )


def _switches(ranking: Recommendation) -> Iterator[doc.Part]:
    weight_of = {resource.name: resource.weight for resource in ranking.resources}
    if not ranking.switches:
        if len(ranking.contributions) > 1:
            first = ranking.complete[0].platform.name
            yield doc.Paragraph(
                msg("{platform} stays the first whatever one of the weights is", platform=first)
            )
        return
    yield doc.Bullets(
        tuple(_switch(switch, ranking, weight_of[switch.resource]) for switch in ranking.switches)
    )
    yield doc.Paragraph(msg("one weight changed at a time, by the estimates"), "muted")


def _switch(switch: RankSwitch, ranking: Recommendation, weight: float) -> doc.Inline:
    data: dict[str, doc.Inline] = {
        "platform": switch.platform,
        "first": ranking.complete[0].platform.name,
        "resource": switch.resource,
        "weight": doc.Number(switch.weight, 3),
        "given": doc.Number(weight, 3),
    }
    if switch.above:
        return msg("{platform} overtakes {first} above {resource}={weight} (now {given})", **data)
    return msg("{platform} overtakes {first} below {resource}={weight} (now {given})", **data)


VIEW = register_view(
    View(
        "recommend",
        msg("Recommendation"),
        msg("The platforms ranked over all resources alike; vtax recommend takes weights."),
        document,
        command="recommend",
    )
)
