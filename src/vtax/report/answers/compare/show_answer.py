"""The sentence that answers a comparison, and what to do about what it leaves undecided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vtax.report import document as doc
from vtax.report.analysis.compared import Compared, Contrasts
from vtax.report.analysis.next_step import UndecidedRow, next_step_of
from vtax.report.analysis.sentences import SpokenComparison, words_of
from vtax.report.analysis.values import Row
from vtax.report.document import joined, levels_of, msg, styled
from vtax.report.parts import shared
from vtax.report.parts.first_screen import next_line


def answer_of(found: Contrasts, shown: Sequence[Compared]) -> Iterator[doc.Part]:
    """Yield the sentence. shown: of the comparisons."""
    if shown:
        words = words_of([_judged(each, found) for each in shown], found.baseline.text)
        answer = msg(
            "{treatment} against {baseline}: {parts}.",
            parts=words,
            treatment=found.treatment.text,
            baseline=found.baseline.text,
        )
        yield doc.Paragraph(styled(answer, "strong"))


def _judged(each: Compared, found: Contrasts) -> SpokenComparison:
    """`iperf3 direction=send`; of runs `podman on iperf3`."""
    name: doc.Inline = shared.name_of(each.section, (other.section for other in found.compared))
    name = joined([name, doc.Factor(levels_of(each.levels)) if each.levels else ""], " ")
    if found.treatment.is_run:
        name = msg(
            "{platforms} on {name}",
            platforms=shared.platform_of(each.treatment.platform),
            name=name,
        )
    return SpokenComparison(name, each.section, _row(each))


def _row(each: Compared) -> Row:
    """Return the treatment with the ratio of these two sides."""
    return replace(each.treatment, ratio=each.ratio, verdict=each.verdict, reason=each.reason)


def next_of(found: Contrasts, shown: Sequence[Compared]) -> Iterator[doc.Part]:
    """Yield what would decide: blocks within a run, sessions across runs."""
    undecided = [
        each
        for each in shown
        if each.ratio and (not each.verdict or each.verdict.kind == "undecided")
    ]
    if not undecided:
        return
    if not found.is_paired:
        yield doc.Paragraph(
            msg(
                "Next: measure both sides in several sessions, by further runs or vtax resume --session."
            )
            if any(each.verdict is None for each in undecided)
            else msg("Next: only more sessions would decide.")
        )
        return
    analysis = found.treatment.analysis
    rows = [
        UndecidedRow(each.section, each.section.point_of(each.treatment), _row(each))
        for each in undecided
        if each.verdict
    ]
    yield from next_line(analysis, next_step_of(analysis, rows))
