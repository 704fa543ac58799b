"""Reports: the views of a run as chapters of one document, and the first page of several runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from vtax.report import document as doc
from vtax.report.analysis import Analysis, every_row
from vtax.report.analysis.source import Source
from vtax.report.answers.claims import mapping
from vtax.report.answers.hosts.fleet import fleet_of
from vtax.report.answers.hosts.show_summary import fleet_answer
from vtax.report.document import joined, msg, plural, term
from vtax.report.parts import shared
from vtax.report.parts.first_screen import answer_line, caution_line
from vtax.report.parts.header import header_of, hosts_line, status_word
from vtax.report.parts.published import changes_of, cited
from vtax.report.parts.sentences import is_measured
from vtax.report.views.base import REPORT, Options, View
from vtax.report.views.registry import in_reports
from vtax.stats.verdict import Kind
from vtax.store.records import PlatformRecord

_COUNTED: tuple[Kind, ...] = ("slower", "faster", "equivalent", "at-most", "undecided")
_FOLDED = frozenset(
    {
        "audit",
        "counters",
        "explain",
        "guests",
        "host",
        "method",
        "reproduce",
        "sessions",
        "variance",
        "warnings",
    }
)
"""Chapters that answer what few readers ask: a page shows their summaries, and the rest on demand."""

_POOLED = frozenset({"claims", "explain", "figures", "recommend", "variance"})
"""Chapters over all sessions of a run, which answer nothing where a planned change lies between these."""


def report(source: Source, options: Options = REPORT, *, is_whole: bool = True) -> doc.Document:
    """Return the report of a run.

    is_whole: with the question, and with the chapters that a page folds; else the warnings are the only one of these.

    Raises BadInput for a mapping that neither claims nor figures know, or to a platform that was not measured.
    """
    analysis = source.analysis
    mapping.check(analysis, options.mapped)
    title, lead = header_of(analysis)
    question = term(str(analysis.declared.get("question") or "") if is_whole else "")
    parts: list[doc.Part] = []
    fleet = source.of_whole(fleet_of)
    is_of_two_states = fleet is not None and fleet.planned_change
    left_out = _POOLED if is_of_two_states else frozenset()
    if not is_whole:
        left_out |= _FOLDED - {"warnings"}
    for view in in_reports():
        if view.name in left_out:
            continue
        document = view.document(source, options)
        if document.nothing == "":
            parts += _chapters(view, document)
    lead = (*((question,) if question else ()), *lead, *cited(analysis), *changes_of(analysis))
    return doc.Document(title, tuple(parts), lead, colours=analysis.colours)


def _chapters(view: View, document: doc.Document) -> list[doc.Part]:
    """Return the sections of a view as chapters of their own, where it asks for that; else one chapter with its
    title."""
    if view.has_chapters:
        return list(document.parts)
    if view.name not in _FOLDED:
        return [doc.Titled(view.title, document.parts, key=view.name)]
    summary = [
        part for part in document.parts if isinstance(part, doc.Titled) and part.role == "summary"
    ]
    other_parts = tuple(part for part in document.parts if part not in summary)
    folded = doc.Titled(view.about or view.help, other_parts, is_folded=True)
    return [doc.Titled(view.title, (*summary, folded), key=view.name)]


def several(analyses: Sequence[Analysis], keys: Sequence[str]) -> doc.Document:
    """Return a row for every run, which links its chapter. keys: of the chapters, see renderers.html.chapter_key."""
    columns = (
        doc.Column("run", msg("run")),
        doc.Column("study", msg("study"), wraps=True),
        doc.Column("start", msg("start")),
        doc.Column("blocks", msg("blocks"), is_number=True),
        doc.Column("platforms", msg("platforms"), wraps=True),
        doc.Column("slower", msg("slower"), is_number=True),
        doc.Column("faster", msg("faster"), is_number=True),
        doc.Column("equivalent", msg("equivalent"), is_number=True),
        doc.Column("at_most", msg("costs at most the margin"), is_number=True),
        doc.Column("undecided", msg("undecided"), is_number=True),
    )
    rows = [_row(analysis, key) for analysis, key in zip(analyses, keys, strict=True)]
    title = plural("Report of {count} run", "Report of {count} runs", len(analyses))
    lines = [
        hosts_line(analysis) for analysis in analyses
    ]  # what is shown, since anonymous hosts have no identity
    hosts = [line for n, line in enumerate(lines) if line not in lines[:n]]
    lead: tuple[doc.Inline, ...] = tuple(
        joined([msg("host"), host], ": ") for host in hosts if host != ""
    )
    table: list[doc.Part] = [
        doc.table_of(columns, rows, key="runs", label=msg("Runs"), style="list"),
        *_emulated(analyses),
    ]
    answers = tuple(_answer(analysis, key) for analysis, key in zip(analyses, keys, strict=True))
    summary = doc.Titled(msg("Summary"), answers, key="answers", role="summary")
    return doc.Document(title, (summary, doc.Titled(msg("Runs"), tuple(table), key="runs")), lead)


def answer(analysis: Analysis) -> tuple[doc.Part, ...]:
    """Return the sentence that answers the question of a run; nothing where nothing was measured."""
    if not is_measured(analysis):
        return ()
    fleet = fleet_of(analysis)
    return tuple(fleet_answer(fleet, analysis) if fleet else answer_line(analysis))


def _answer(analysis: Analysis, key: str) -> doc.Titled:
    """Return the answer of one run, and the cautions."""
    parts = answer(analysis)
    if is_measured(analysis):
        parts = (*parts, *caution_line(analysis, key))
    name = joined([doc.Link(analysis.name, key), header_of(analysis)[0]], ": ")
    return doc.Titled(name, parts or (doc.Paragraph(msg("Nothing was measured.")),))


def _emulated(analyses: Sequence[Analysis]) -> Iterator[doc.Part]:
    available = [p for analysis in analyses for p in analysis.platforms if p.available]
    if any(map(_is_emulated, available)):
        yield doc.Paragraph(msg("Verdicts on emulated platforms are not counted."), "muted")


def _is_emulated(platform: PlatformRecord) -> bool:
    return "emulated" in platform.marks


def _row(analysis: Analysis, key: str) -> doc.TableRow:
    verdicts: Counter[str] = Counter()
    for *_, row in every_row(analysis.primary):
        if row.verdict is not None and not _is_emulated(row.platform):
            verdicts[row.verdict.kind] += 1
    name: doc.Inline = doc.Link(analysis.name, key)
    if analysis.status != "finished":
        name = joined([name, status_word(analysis.status)], ": ")
    counts = [doc.Count(verdicts[kind]) if verdicts else doc.Nothing() for kind in _COUNTED]
    platforms = joined(
        [shared.platform_of(platform) for platform in analysis.platforms if platform.available]
    )
    title = header_of(analysis)[0]
    return doc.TableRow(
        (
            name,
            title,
            doc.Moment(analysis.started_at),
            doc.Count(analysis.blocks),
            platforms,
            *counts,
        )
    )
