"""The published findings of a study, each with what a run of it says, and the published numbers beside the run's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from vtax.described import values_of
from vtax.levels import BENCHMARK, METRIC
from vtax.report import document as doc
from vtax.report.analysis.claim_cells import mapping_of
from vtax.report.analysis.source import Source
from vtax.report.analysis.values import Analysis
from vtax.report.analysis.warnings import merged, noted
from vtax.report.answers.claims.compute import (
    ClaimedComparison,
    Claims,
    JudgedClaim,
    claims,
    named_in_claims,
)
from vtax.report.document import factors, joined, more_blocks, msg, plural, styled, term
from vtax.report.parts import published as published_numbers
from vtax.report.parts import shared
from vtax.report.views.base import Options, View, register_view
from vtax.stats.claims import Judgement
from vtax.study.claims import CheckTable

_BRIEF = 6  # comparisons of a claim
_WORDS: Mapping[str, doc.Inline] = {
    "reproduced": styled(msg("reproduced"), "strong"),
    "contradicted": styled(msg("contradicted"), "error"),
    "inconclusive": styled(msg("inconclusive"), "caution"),
    "not tested": styled(msg("not tested here"), "muted"),
}
_IN_PART: Mapping[str, doc.Inline] = {
    "reproduced": styled(msg("reproduced in part"), "strong"),
    "contradicted": styled(msg("contradicted in part"), "error"),
}


def document(source: Source, options: Options) -> doc.Document:
    """Every claim of the run's study; claims are judged by the whole run."""
    analysis = source.whole.analysis
    mapped = mapping_of(options.mapped, *named_in_claims(analysis))
    return document_of(
        claims(analysis, mapped),
        is_full=options.depth != "brief",
        is_folded=options.depth == "report",
    )


def document_of(claims: Claims, *, is_full: bool, is_folded: bool = False) -> doc.Document:
    """Return the document of judged claims. is_full: list all comparisons of every claim. is_folded: those of judged
    claims on demand, in a report, which has named the publication."""
    analysis = claims.analysis
    with_reasons = tuple(replace(claim, why=_why(claim, analysis)) for claim in claims.claims)
    data = values_of(replace(claims, claims=with_reasons))
    if not claims.claims and not claims.published:
        return doc.empty_document(VIEW.title, msg("the study of this run has no claims"), data)
    parts: list[doc.Part] = []
    if claims.claims:
        parts += [] if is_folded else published_numbers.of_publication(analysis)
        parts += [*_mapping(claims), _overview(claims), *_method(claims)]
        differences = list(published_numbers.differences(analysis))
        if is_folded:
            parts += _folded(msg("Judged claims in full"), list(_judged(claims)))
            parts += _folded(msg("Differences from the publication"), differences)
        else:
            shown_claims = [c for c in claims.claims if is_full or c.judgement is not None]
            parts += [_section(claim, claims, is_full=is_full) for claim in shown_claims]
            parts += differences
    parts += published_numbers.parts_of(claims.published, analysis, is_folded=is_folded)
    lead = (joined([analysis.name, joined(_counts(claims.claims))], ": "),) if claims.claims else ()
    return doc.Document(VIEW.title, tuple(parts), lead, data=data, colours=analysis.colours)


def _folded(title: doc.Inline, parts: Sequence[doc.Part]) -> list[doc.Part]:
    """Return parts on demand, if there are any."""
    return [doc.Titled(title, tuple(parts), is_folded=True)] if parts else []


def _counts(claims: Sequence[JudgedClaim]) -> list[doc.Inline]:
    """How many claims have each word, those judged in part by themselves; without words that none has."""
    counts: Counter[str] = Counter()
    counts_in_part: Counter[str] = Counter()
    for claim in claims:
        words = counts_in_part if claim.missing and claim.word in _IN_PART else counts
        words[claim.word] += 1
    counted_words = (
        (
            counts["reproduced"],
            plural("{count} reproduced", "{count} reproduced", counts["reproduced"]),
        ),
        (
            counts_in_part["reproduced"],
            plural(
                "{count} reproduced in part",
                "{count} reproduced in part",
                counts_in_part["reproduced"],
            ),
        ),
        (
            counts["contradicted"],
            plural("{count} contradicted", "{count} contradicted", counts["contradicted"]),
        ),
        (
            counts_in_part["contradicted"],
            plural(
                "{count} contradicted in part",
                "{count} contradicted in part",
                counts_in_part["contradicted"],
            ),
        ),
        (
            counts["inconclusive"],
            plural("{count} inconclusive", "{count} inconclusive", counts["inconclusive"]),
        ),
        (
            counts["not tested"],
            plural("{count} not tested here", "{count} not tested here", counts["not tested"]),
        ),
    )
    return [text for count, text in counted_words if count]


def _mapping(claims: Claims) -> Iterator[doc.Part]:
    if claims.mapped:
        pairs = joined(
            [msg("{here} for {there}", here=h, there=t) for t, h in claims.mapped.items()]
        )
        text = msg(
            "Mapped by request: {pairs}. What a publication says of one platform is judged by another.",
            pairs=pairs,
        )
        yield doc.Paragraph(text, "caution")


def _overview(claims: Claims) -> doc.Table:
    columns = (
        doc.Column("claim", msg("claim"), wraps=True),
        doc.Column("finding", msg("finding"), wraps=True),
        doc.Column("judgement", msg("judgement")),
        doc.Column("why", msg("why, or what decides it"), wraps=True),
    )
    rows = [
        (claim.claim.id, _statement(claim), _word(claim), _why(claim, claims.analysis))
        for claim in claims.claims
    ]
    return doc.table_of(columns, rows, key="claims", label=msg("judged claims"), style="list")


def _word(claim: JudgedClaim) -> doc.Inline:
    return (_IN_PART if claim.missing else _WORDS).get(claim.word, _WORDS[claim.word])


def _statement(claim: JudgedClaim) -> doc.Inline:
    return doc.Translated(claim.claim.statement, {"pt": claim.claim.statement_pt})


def _why(claim: JudgedClaim, analysis: Analysis) -> doc.Inline:
    """Why there is no word, and how many further blocks decide; of a word, on how many intervals it rests."""
    judgement = claim.judgement
    if judgement is None:
        return claim.why
    if judgement.kind != "inconclusive":
        total = doc.Count(len(claim.comparisons))
        if judgement.kind == "reproduced":
            inside = doc.Count(sum(c.is_inside for c in claim.comparisons))
            rests = msg(
                "{inside} of {total} intervals inside the range", inside=inside, total=total
            )
        else:
            outside = doc.Count(sum(c.is_outside for c in claim.comparisons))
            rests = msg(
                "{outside} of {total} intervals outside the range", outside=outside, total=total
            )
        return joined([rests, *claim.missing, *_sentences(judgement.assumptions)], "; ")
    needed: list[doc.Inline] = [
        *_although(claim, judgement, analysis),
        *_sentences(judgement.warnings),
    ]
    if judgement.blocks_low and judgement.blocks_needed:
        needed.append(
            msg(
                "{blocks} would decide it",
                blocks=more_blocks(judgement.blocks_low, judgement.blocks_needed),
            )
        )
    elif not judgement.warnings and any(
        c.answer and c.answer.ratio.n_sessions > 1 for c in claim.comparisons
    ):
        needed.append(msg("only more sessions would decide"))
    elif not judgement.warnings and (noisiest := _noisiest(claim.comparisons)):
        needed.append(
            msg(
                "too noisy: {comparison} varies between blocks",
                comparison=_named(noisiest),
            )
        )
    return joined([*needed, *claim.notes], "; ")


def _sentences(notes: Sequence[str]) -> Iterator[doc.Inline]:
    """Why a word is withheld, or what to distrust in it: one sentence of those that differ in numbers alone."""
    return (warning.text for warning in merged(noted(text) for text in notes))


def _although(claim: JudgedClaim, judgement: Judgement, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what intervals at their own level would say, where the correction or an objection leaves the claim open.

    Nothing across runs of which a side has one session only: such an interval leaves out what a session changes.
    """
    for comparison in claim.comparisons:
        answer = comparison.answer
        if answer and answer.claimed.apart and answer.ratio.n_sessions == 1:
            return
    is_inside, is_outside = True, False
    for check in claim.claim.check:
        of_check = [comparison for comparison in claim.comparisons if comparison.check == check]
        needed = _needed(claim, check)
        is_inside &= sum(comparison.is_inside for comparison in of_check) >= needed
        is_outside |= sum(not comparison.is_outside for comparison in of_check) < needed
    outside = sum(comparison.is_outside for comparison in claim.comparisons)
    if not is_inside and not (is_outside and outside):
        return
    total, level = doc.Count(len(claim.comparisons)), analysis.level
    if is_inside:
        yield msg("intervals inside the range at {level}", level=level)
    else:
        yield msg(
            "{outside} of {total} intervals outside the range at {level}",
            outside=doc.Count(outside),
            total=total,
            level=level,
        )
    if not judgement.warnings:
        yield msg(
            "not after the correction for multiple comparisons (claims: {family}, comparisons of this one: {total})",
            total=total,
            family=doc.Count(judgement.family),
        )


def _needed(claim: JudgedClaim, check: CheckTable) -> int:
    """How many comparisons of a check must be inside."""
    total = sum(c.check == check for c in claim.comparisons)
    return total if check.needs == "each" else total // 2 + 1


def _noisiest(comparisons: Sequence[ClaimedComparison]) -> ClaimedComparison | None:
    """Return the comparison with the widest interval of those that need no known number of blocks."""
    open_comparisons = [
        comparison
        for comparison in comparisons
        if comparison.answer and comparison.answer.outlook.high is None
    ]
    return max(
        open_comparisons,
        key=lambda comparison: comparison.answer.ratio.half_width if comparison.answer else 0.0,
        default=None,
    )


def _named(comparison: ClaimedComparison) -> doc.Inline:
    """`docker / native, size=64`: a comparison in a sentence."""
    sides = " / ".join(side.text for side in (comparison.of, comparison.to) if side)
    levels = {name: level for name, level in comparison.point if name not in (BENCHMARK, METRIC)}
    return joined([sides, factors(levels)], ", ")


def _method(claims: Claims) -> Iterator[doc.Part]:
    if not claims.family:
        return
    yield doc.Paragraph(
        msg(
            "Reproduced: the interval lies inside the claimed range. Contradicted: it lies outside. Judgements are "
            "corrected for the number of claims, {family} (Holm): at most {alpha} of such tables hold a false one. "
            "The intervals, from blocks, hold at {level} for each ratio alone. So an interval may lie inside or "
            "outside and its claim be inconclusive: after the correction, or for the reason that stands beside it.",
            family=doc.Count(claims.family),
            alpha=doc.Share(claims.alpha, "declared"),
            level=claims.analysis.level,
        ),
        "muted",
    )


def _section(claim: JudgedClaim, claims: Claims, *, is_full: bool) -> doc.Titled:
    """One claim: where it stands, how it was judged, and its comparisons."""
    source = doc.Paragraph(msg("Source: {source}", source=term(claim.claim.source)), "muted")
    parts: list[doc.Part] = [doc.Paragraph(_statement(claim)), source]
    if claim.claim.note:
        parts.append(doc.Paragraph(msg("Note: {note}", note=term(claim.claim.note)), "muted"))
    if claim.judgement is None:
        parts.append(doc.Paragraph(msg("Not tested here: {reason}", reason=claim.why)))
    elif claim.comparisons:
        comparisons = (
            sorted(claim.comparisons, key=_certainty) if not is_full else list(claim.comparisons)
        )
        shown_comparisons = comparisons if is_full else comparisons[:_BRIEF]
        parts.append(_comparisons(claim, shown_comparisons, claims))
        if len(shown_comparisons) < len(comparisons):
            hidden_count = len(comparisons) - len(shown_comparisons)
            parts.append(
                doc.Paragraph(
                    plural("{count} comparison more", "{count} comparisons more", hidden_count),
                    "muted",
                )
            )
    parts += [doc.Paragraph(note, "caution") for note in claim.notes]
    title = joined([claim.claim.id, _word(claim)], ": ")
    return doc.Titled(title, tuple(parts), key=f"claim {claim.claim.id}")


def _certainty(comparison: ClaimedComparison) -> float:
    """Comparisons that speak least for the claim come first."""
    return -comparison.answer.p_inside if comparison.answer else -2.0


def _comparisons(
    claim: JudgedClaim, comparisons: Sequence[ClaimedComparison], claims: Claims
) -> doc.Table:
    has_published = claim.claim.published is not None
    return doc.table_of(
        _columns(has_published=has_published),
        _rows(claim, comparisons, claims, has_published=has_published),
        key=claim.claim.id,
        label=msg("comparisons of {claim}", claim=claim.claim.id),
        style="list",
    )


def _judged(claims: Claims) -> Iterator[doc.Table]:
    """Yield one table of the comparisons of every judged claim, below where it stands and what is to know of it."""
    judged_claims = [claim for claim in claims.claims if claim.judgement and claim.comparisons]
    has_published = any(claim.claim.published is not None for claim in judged_claims)
    groups = []
    for claim in judged_claims:
        rows = _rows(claim, claim.comparisons, claims, has_published=has_published)
        name = joined([claim.claim.id, _word(claim)], ": ")
        title = joined([name, term(claim.claim.source), term(claim.claim.note)], "; ")
        groups.append(doc.Group(tuple(rows), title))
    if groups:
        label = msg("Judged claims in full")
        columns = tuple(_columns(has_published=has_published))
        yield doc.Table(columns, tuple(groups), key="judged", label=label, style="list")


def _columns(*, has_published: bool) -> Iterator[doc.Column]:
    yield doc.Column("compared", msg("compared"), wraps=True)
    yield doc.Column("claimed", msg("claimed"))
    if has_published:
        yield doc.Column("published", msg("published"), is_number=True)
    yield doc.Column("percent", msg("here\n[interval]"), is_number=True)
    yield doc.Column("blocks", msg("blocks"), is_number=True, room="wide")


def _rows(
    claim: JudgedClaim,
    comparisons: Sequence[ClaimedComparison],
    claims: Claims,
    *,
    has_published: bool,
) -> Iterator[doc.TableRow]:
    """Yield a row for each comparison. has_published: whether the table has a column for what is published."""
    shared_factors = _alike(claim.comparisons)
    for comparison in comparisons:
        published_here: tuple[doc.Inline, ...] = ()
        if has_published:
            is_first = comparison.check == claim.claim.check[0]
            published = claim.claim.published if is_first else None
            published_here = (_amount(published) if published is not None else doc.Nothing(),)
        cells: tuple[doc.Inline, ...] = (styled(comparison.reason, "error"),)
        if comparison.answer is not None:
            share = shared.amount_of(comparison.answer.ratio)
            cells = (share, doc.Count(comparison.answer.n_blocks))
        what = _what(comparison, claims, shared_factors)
        yield doc.TableRow((what, _range(comparison), *published_here, *cells))


def _what(
    comparison: ClaimedComparison, claims: Claims, shared_factors: Collection[str]
) -> doc.Inline:
    """`xen-pv / native, link.mtu=500`, with what stands for a platform of the publication, and marks.

    shared_factors: factors that say nothing, since all comparisons of the claim share their level.
    """
    check = comparison.check
    text = _side(comparison, comparison.of.text, comparison.of.platform, claims)
    if comparison.to is not None:
        to = _side(comparison, comparison.to.text, comparison.to.platform, claims)
        text = joined([text, to], " / ")
    if check.reference:
        stand_in = claims.mapped.get(check.reference, check.reference)
        reference = _side(comparison, stand_in, stand_in, claims)
        text = msg("{ratio}, both relative to {reference}", ratio=text, reference=reference)
    if check.kind == "monotone":
        text = msg("{ratio}, for each doubling of {factor}", ratio=text, factor=str(check.along))
    elif check.kind == "link_rate":
        text = msg("{side} relative to the rate limit of its link", side=text)
    elif check.kind == "spread" and check.over == "points":
        text = msg("spread of {ratio} over points", ratio=text)
    elif check.over == "trials":
        text = msg("spread of {side} over guests / within a guest", side=text)
    elif check.over == "pairing":
        text = msg("spread of {ratio} within blocks / across blocks", ratio=text)
    elif check.kind == "spread":
        text = msg("spread of {ratio} over blocks", ratio=text)
    if check.average_over:
        text = msg(
            "{ratio}, averaged over {factors}", ratio=text, factors=", ".join(check.average_over)
        )
    levels = {name: level for name, level in comparison.point if name not in shared_factors}
    return joined([text, factors(levels)], ", ")


def _side(comparison: ClaimedComparison, text: str, platform: str, claims: Claims) -> doc.Inline:
    """Return a side with the platform that it stands for, and the marks of its own."""
    published_names = comparison.check.platforms("")
    original = next(
        (
            there
            for there, here in claims.mapped.items()
            if here == platform and there in published_names
        ),
        "",
    )
    side: doc.Inline = (
        msg("{side} (for {platform})", side=text, platform=original) if original else text
    )
    marks = claims.analysis.platform_of(platform).marks
    if not marks:
        return side
    return msg("{side} ({marks})", side=side, marks=joined(map(term, marks)))


def _alike(comparisons: Sequence[ClaimedComparison]) -> set[str]:
    """`benchmark` and `metric` where all comparisons of a claim have the same."""
    points = [dict(comparison.point) for comparison in comparisons]
    return {name for name in (BENCHMARK, METRIC) if len({point.get(name) for point in points}) == 1}


def _amount(ratio: float) -> doc.Relative:
    """Return what one side is of the other, of any quantity: as a claim states it."""
    return doc.Relative(ratio, is_of="amount")


def _range(comparison: ClaimedComparison) -> doc.Inline:
    if comparison.low > 0 and math.isfinite(comparison.high):
        return msg("{low} to {high}", low=_amount(comparison.low), high=_amount(comparison.high))
    if comparison.low > 0:
        return msg("above {bound}", bound=_amount(comparison.low))
    return msg("below {bound}", bound=_amount(comparison.high))


VIEW = register_view(
    View(
        "claims",
        msg("Published findings"),
        msg("What this run says of the published findings of its study."),
        document,
        place=15,
        command="claims",
    )
)
