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
from vtax.report.document import joined, more_blocks, msg, plural, styled, term
from vtax.report.parts import published as published_numbers
from vtax.report.views.base import Options, View, register_view
from vtax.stats.claims import Judgement
from vtax.study.claims import CheckTable

Marks = Mapping[str, Sequence[str]]
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
        analysis,
        is_full=options.depth != "brief",
        is_folded=options.depth == "report",
    )


def document_of(
    found: Claims, analysis: Analysis, *, is_full: bool, is_folded: bool = False
) -> doc.Document:
    """Return the document of judged claims. is_full: list all comparisons of every claim. is_folded: these on demand,
    in a report, which has named the publication."""
    data = values_of(
        replace(
            found, claims=tuple(replace(each, why=_why(each, analysis)) for each in found.claims)
        )
    )
    if not found.claims and not found.published:
        return doc.empty_document(VIEW.title, msg("the study of this run has no claims"), data)
    parts: list[doc.Part] = []
    if found.claims:
        parts += [] if is_folded else published_numbers.of_publication(analysis)
        parts += [*_mapping(found), _overview(found, analysis), *_method(found, analysis)]
        marks = {platform.name: platform.marks for platform in analysis.platforms}
        shown = (each for each in found.claims if is_full or each.judgement is not None)
        sections = [_section(each, found, marks, is_full=is_full) for each in shown]
        if is_folded:
            sections = [doc.Titled(msg("Every claim in full"), tuple(sections), is_folded=True)]
        parts += sections
        parts += published_numbers.differences(analysis)
    parts += published_numbers.parts_of(found.published, analysis)
    lead = (joined([analysis.name, joined(_counts(found.claims))], ": "),) if found.claims else ()
    return doc.Document(VIEW.title, tuple(parts), lead, data=data, colours=analysis.colours)


def _counts(judged: Sequence[JudgedClaim]) -> list[doc.Inline]:
    """How many claims have each word, those judged in part by themselves; without words that none has."""
    full: Counter[str] = Counter()
    part: Counter[str] = Counter()
    for each in judged:
        words = part if each.missing and each.word in _IN_PART else full
        words[each.word] += 1
    counted = (
        (
            full["reproduced"],
            plural("{count} reproduced", "{count} reproduced", full["reproduced"]),
        ),
        (
            part["reproduced"],
            plural("{count} reproduced in part", "{count} reproduced in part", part["reproduced"]),
        ),
        (
            full["contradicted"],
            plural("{count} contradicted", "{count} contradicted", full["contradicted"]),
        ),
        (
            part["contradicted"],
            plural(
                "{count} contradicted in part", "{count} contradicted in part", part["contradicted"]
            ),
        ),
        (
            full["inconclusive"],
            plural("{count} inconclusive", "{count} inconclusive", full["inconclusive"]),
        ),
        (
            full["not tested"],
            plural("{count} not tested here", "{count} not tested here", full["not tested"]),
        ),
    )
    return [text for count, text in counted if count]


def _mapping(found: Claims) -> Iterator[doc.Part]:
    if found.mapped:
        pairs = joined(
            [msg("{here} for {there}", here=h, there=t) for t, h in found.mapped.items()]
        )
        text = msg(
            "Mapped by request: {pairs}. What a publication says of one platform is judged by another.",
            pairs=pairs,
        )
        yield doc.Paragraph(text, "caution")


def _overview(found: Claims, analysis: Analysis) -> doc.Table:
    columns = (
        doc.Column("claim", msg("claim"), wraps=True),
        doc.Column("finding", msg("finding"), wraps=True),
        doc.Column("judgement", msg("judgement")),
        doc.Column("why", msg("why, or what decides it"), wraps=True),
    )
    rows = [
        (each.claim.id, _statement(each), _word(each), _why(each, analysis))
        for each in found.claims
    ]
    return doc.table_of(columns, rows, key="claims", label=msg("judged claims"), style="list")


def _word(each: JudgedClaim) -> doc.Inline:
    return (_IN_PART if each.missing else _WORDS).get(each.word, _WORDS[each.word])


def _statement(each: JudgedClaim) -> doc.Inline:
    return doc.Translated(each.claim.statement, {"pt": each.claim.statement_pt})


def _why(each: JudgedClaim, analysis: Analysis) -> doc.Inline:
    """Why there is no word, and how many further blocks decide; of a word, on how many intervals it rests."""
    found = each.judgement
    if found is None:
        return each.why
    if found.kind != "inconclusive":
        total = doc.Count(len(each.compared))
        if found.kind == "reproduced":
            inside = doc.Count(sum(c.is_inside for c in each.compared))
            rests = msg(
                "{inside} of {total} intervals inside the range", inside=inside, total=total
            )
        else:
            outside = doc.Count(sum(c.is_outside for c in each.compared))
            rests = msg(
                "{outside} of {total} intervals outside the range", outside=outside, total=total
            )
        return joined([rests, *each.missing, *_sentences(found.assumptions)], "; ")
    needed: list[doc.Inline] = [*_although(each, found, analysis), *_sentences(found.warnings)]
    if found.blocks_low and found.blocks_needed:
        needed.append(
            msg(
                "{blocks} would decide it",
                blocks=more_blocks(found.blocks_low, found.blocks_needed),
            )
        )
    elif not found.warnings and any(
        c.tested and c.tested.ratio.n_sessions > 1 for c in each.compared
    ):
        needed.append(msg("only more sessions would decide"))
    elif not found.warnings and (noisiest := _noisiest(each.compared)):
        needed.append(
            msg(
                "too noisy: {comparison} varies between blocks",
                comparison=_named(noisiest),
            )
        )
    return joined([*needed, *each.notes], "; ")


def _sentences(notes: Sequence[str]) -> Iterator[doc.Inline]:
    """Why a word is withheld, or what to distrust in it: one sentence of those that differ in numbers alone."""
    return (warning.text for warning in merged(noted(text) for text in notes))


def _although(each: JudgedClaim, found: Judgement, analysis: Analysis) -> Iterator[doc.Inline]:
    """Yield what intervals at their own level would say, where the correction or an objection leaves the claim open.

    Nothing across runs of which a side has one session only: such an interval leaves out what a session changes.
    """
    for compared in each.compared:
        tested = compared.tested
        if tested and tested.claimed.apart and tested.ratio.n_sessions == 1:
            return
    is_inside, is_outside = True, False
    for check in each.claim.check:
        of_check = [compared for compared in each.compared if compared.check == check]
        needed = _needed(each, check)
        is_inside &= sum(compared.is_inside for compared in of_check) >= needed
        is_outside |= sum(not compared.is_outside for compared in of_check) < needed
    outside = sum(compared.is_outside for compared in each.compared)
    if not is_inside and not (is_outside and outside):
        return
    total, level = doc.Count(len(each.compared)), analysis.level
    if is_inside:
        yield msg("intervals inside the range at {level}", level=level)
    else:
        yield msg(
            "{outside} of {total} intervals outside the range at {level}",
            outside=doc.Count(outside),
            total=total,
            level=level,
        )
    if not found.warnings:
        yield msg(
            "not after the correction for multiple comparisons (claims: {family}, comparisons of this one: {total})",
            total=total,
            family=doc.Count(found.family),
        )


def _needed(each: JudgedClaim, check: CheckTable) -> int:
    """How many comparisons of a check must be inside."""
    total = sum(c.check == check for c in each.compared)
    return total if check.needs == "each" else total // 2 + 1


def _noisiest(compared: Sequence[ClaimedComparison]) -> ClaimedComparison | None:
    """Return the comparison with the widest interval of those that need no known number of blocks."""
    open_ = [each for each in compared if each.tested and each.tested.outlook.high is None]
    return max(
        open_, key=lambda each: each.tested.ratio.half_width if each.tested else 0.0, default=None
    )


def _named(compared: ClaimedComparison) -> doc.Inline:
    """`docker / native, size=64`: a comparison in a sentence."""
    sides = " / ".join(side.text for side in (compared.of, compared.to) if side)
    levels = tuple(
        (factor, level) for factor, level in compared.point if factor not in (BENCHMARK, METRIC)
    )
    return joined([sides, doc.Factor(levels)] if levels else [sides], ", ")


def _method(found: Claims, analysis: Analysis) -> Iterator[doc.Part]:
    if not found.family:
        return
    yield doc.Paragraph(
        msg(
            "Reproduced: the interval lies inside the claimed range. Contradicted: it lies outside. Judgements are "
            "corrected for the number of claims, {family} (Holm): at most {alpha} of such tables hold a false one. "
            "The intervals, from blocks, hold at {level} for each ratio alone. So an interval may lie inside or "
            "outside and its claim be inconclusive: after the correction, or for the reason that stands beside it.",
            family=doc.Count(found.family),
            alpha=doc.Share(found.alpha, "declared"),
            level=analysis.level,
        ),
        "muted",
    )


def _section(each: JudgedClaim, found: Claims, marks: Marks, *, is_full: bool) -> doc.Titled:
    """One claim: where it stands, how it was judged, and its comparisons."""
    source = doc.Paragraph(msg("Source: {source}", source=term(each.claim.source)), "muted")
    parts: list[doc.Part] = [doc.Paragraph(_statement(each)), source]
    if each.claim.note:
        parts.append(doc.Paragraph(msg("Note: {note}", note=term(each.claim.note)), "muted"))
    if each.judgement is None:
        parts.append(doc.Paragraph(msg("Not tested here: {reason}", reason=each.why)))
    elif each.compared:
        ordered = sorted(each.compared, key=_certainty) if not is_full else list(each.compared)
        shown = ordered if is_full else ordered[:_BRIEF]
        parts.append(_comparisons(each, shown, found, marks))
        if len(shown) < len(ordered):
            more = len(ordered) - len(shown)
            parts.append(
                doc.Paragraph(
                    plural("{count} comparison more", "{count} comparisons more", more), "muted"
                )
            )
    parts += [doc.Paragraph(note, "caution") for note in each.notes]
    title = joined([each.claim.id, _word(each)], ": ")
    return doc.Titled(title, tuple(parts), key=f"claim {each.claim.id}")


def _certainty(compared: ClaimedComparison) -> float:
    """Comparisons that speak least for the claim come first."""
    return -compared.tested.p_inside if compared.tested else -2.0


def _comparisons(
    each: JudgedClaim, shown: Sequence[ClaimedComparison], found: Claims, marks: Marks
) -> doc.Table:
    alike = _alike(each.compared)
    has_published = each.claim.published is not None
    columns = (
        doc.Column("compared", msg("compared"), wraps=True),
        doc.Column("claimed", msg("claimed")),
        *((doc.Column("published", msg("published"), is_number=True),) if has_published else ()),
        doc.Column("percent", msg("here\n[interval]"), is_number=True),
        doc.Column("blocks", msg("blocks"), is_number=True, room="wide"),
    )
    rows = []
    for compared in shown:
        published_here: tuple[doc.Inline, ...] = ()
        if has_published:
            first = each.claim.published if compared.check == each.claim.check[0] else None
            published_here = (_amount(first) if first is not None else doc.Nothing(),)
        cells: tuple[doc.Inline, ...] = (styled(compared.reason, "error"),)
        if compared.tested is not None:
            ratio = compared.tested.ratio
            share = doc.Relative(ratio.estimate, ratio.low, ratio.high, "amount")
            cells = (share, doc.Count(compared.tested.n_blocks))
        rows.append(
            doc.TableRow(
                (_what(compared, found, marks, alike), _range(compared), *published_here, *cells)
            )
        )
    return doc.table_of(
        columns,
        rows,
        key=each.claim.id,
        label=msg("comparisons of {claim}", claim=each.claim.id),
        style="list",
    )


def _what(
    compared: ClaimedComparison, found: Claims, marks: Marks, alike: Collection[str]
) -> doc.Inline:
    """`xen-pv / native, link.mtu=500`, with what stands for a platform of the publication, and marks.

    alike: factors that say nothing, since all comparisons of the claim share their level.
    """
    check = compared.check
    what = _side(compared, compared.of.text, compared.of.platform, found, marks)
    if compared.to is not None:
        to = _side(compared, compared.to.text, compared.to.platform, found, marks)
        what = joined([what, to], " / ")
    if check.reference:
        here = found.mapped.get(check.reference, check.reference)
        reference = _side(compared, here, here, found, marks)
        what = msg("{ratio}, both relative to {reference}", ratio=what, reference=reference)
    if check.kind == "monotone":
        what = msg("{ratio}, for each doubling of {factor}", ratio=what, factor=str(check.along))
    elif check.kind == "link_rate":
        what = msg("{side} relative to the rate limit of its link", side=what)
    elif check.kind == "spread" and check.over == "points":
        what = msg("spread of {ratio} over points", ratio=what)
    elif check.over == "trials":
        what = msg("spread of {side} over guests / within a guest", side=what)
    elif check.over == "pairing":
        what = msg("spread of {ratio} within blocks / across blocks", ratio=what)
    elif check.kind == "spread":
        what = msg("spread of {ratio} over blocks", ratio=what)
    if check.average_over:
        what = msg(
            "{ratio}, averaged over {factors}", ratio=what, factors=", ".join(check.average_over)
        )
    point = tuple((factor, level) for factor, level in compared.point if factor not in alike)
    return joined([what, doc.Factor(point)] if point else [what], ", ")


def _side(
    compared: ClaimedComparison, text: str, platform: str, found: Claims, marks: Marks
) -> doc.Inline:
    """Return a side with the platform that it stands for, and the marks of its own."""
    named = compared.check.platforms("")
    original = next(
        (there for there, here in found.mapped.items() if here == platform and there in named), ""
    )
    side: doc.Inline = (
        msg("{side} (for {platform})", side=text, platform=original) if original else text
    )
    if not marks[platform]:
        return side
    return msg("{side} ({marks})", side=side, marks=joined(map(term, marks[platform])))


def _alike(compared: Sequence[ClaimedComparison]) -> set[str]:
    """`benchmark` and `metric` where all comparisons of a claim have the same."""
    points = [dict(each.point) for each in compared]
    return {name for name in (BENCHMARK, METRIC) if len({point.get(name) for point in points}) == 1}


def _amount(ratio: float) -> doc.Relative:
    """Return what one side is of the other, of any quantity: as a claim states it."""
    return doc.Relative(ratio, is_of="amount")


def _range(compared: ClaimedComparison) -> doc.Inline:
    if compared.low > 0 and math.isfinite(compared.high):
        return msg("{low} to {high}", low=_amount(compared.low), high=_amount(compared.high))
    if compared.low > 0:
        return msg("above {bound}", bound=_amount(compared.low))
    return msg("below {bound}", bound=_amount(compared.high))


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
