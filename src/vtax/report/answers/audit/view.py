"""The equivalence audit: what differs between guests, what changed between those of one platform, their clocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vtax.guest.audit import ABSENT, COMMON, text_of
from vtax.report import document as doc
from vtax.report.analysis import Analysis
from vtax.report.analysis.source import Source
from vtax.report.answers.audit.compute import Audit, UnevenFact, audit
from vtax.report.answers.sessions import changes_part
from vtax.report.document import joined, listed, msg, muted
from vtax.report.views.base import Options, View, register_view

_WORDS: dict[str, doc.Message] = {ABSENT: msg("(not reported)"), COMMON: msg("(common items only)")}
_CLOCK_STEP_S = 0.001
_NOTES: dict[str, doc.Message] = {
    "tcp_congestion_control": msg(
        "tcp_congestion_control is the kernel's default. In a lab every route sets its own, equal at every end "
        "(except in gVisor's own network stack)."
    ),
}


def document(source: Source, options: Options) -> doc.Document:
    """Differences and changes; with `all` also every fact of each platform's first guest."""
    return document_of(
        audit(source.analysis),
        source.analysis,
        every_field=options.depth == "all",
        is_report=options.depth == "report",
    )


def document_of(
    audit_of_run: Audit, analysis: Analysis, *, every_field: bool, is_report: bool = False
) -> doc.Document:
    """Return the document of an audit. is_report: with the platforms that differ beside each other."""
    parts = [
        *_differences(audit_of_run, is_report=is_report),
        *_changes(audit_of_run, analysis),
        *changes_part(audit_of_run.host_changes),
        *_clocks(audit_of_run, analysis),
        *(_fields(audit_of_run) if every_field else ()),
    ]
    return doc.Document(VIEW.title, tuple(parts), data=_plain(audit_of_run))


def legend(audit_of_run: Audit) -> doc.Inline:
    """Return how to read the findings; empty without findings."""
    texts = [text for finding in audit_of_run.findings for _, text in finding.shown]
    notes: list[doc.Inline] = []
    if any(text == COMMON or text.startswith("+") for text in texts):
        notes.append(
            msg("+ marks items that some platforms lack; items of all platforms are omitted.")
        )
    fields = {finding.field for finding in audit_of_run.findings}
    return joined([*notes, *(note for field, note in _NOTES.items() if field in fields)], " ")


def _differences(audit_of_run: Audit, *, is_report: bool) -> Iterator[doc.Part]:
    if not audit_of_run.findings:
        if len(audit_of_run.compared) > 1:
            yield doc.Paragraph(msg("The audit shows no difference between guests."))
        else:
            yield doc.Paragraph(msg("Fewer than two platforms have an audit."))
        return
    text = legend(audit_of_run)
    notes = [doc.Paragraph(text, "muted")] if text != "" else []
    tables = _tables_by_side(audit_of_run) if is_report else [_difference_table(audit_of_run)]
    yield doc.Titled(msg("Differences between guests"), (*tables, *notes), key="differences")


def _name(finding: UnevenFact) -> doc.Inline:
    restriction = muted(f"({finding.where})") if finding.where else ""
    return joined([finding.field, restriction], " ")


def _tables_by_side(audit_of_run: Audit) -> Iterator[doc.Table]:
    """Yield a table for all facts in which the same platforms differ from the same others, one column for each side."""
    by_sides: dict[tuple[str, ...], list[UnevenFact]] = {}
    for finding in audit_of_run.findings:
        sides = tuple(", ".join(platforms) for platforms, _ in finding.shown)
        by_sides.setdefault(sides, []).append(finding)
    for sides, findings in by_sides.items():
        columns = [doc.Column("fact", msg("fact"))]
        columns += [doc.Column(side, side, wraps=True) for side in sides]
        rows = []
        for finding in findings:
            rows.append((_name(finding), *(_value(text) for _, text in finding.shown)))
        key = f"differences {' '.join(sides)}"
        yield doc.table_of(columns, rows, key=key, label=msg("Differences"), style="facts")


def _difference_table(audit_of_run: Audit) -> doc.Table:
    rows = []
    for finding in audit_of_run.findings:
        name = _name(finding)
        for platforms, text in finding.shown:
            rows.append((name, ", ".join(platforms), _value(text)))
            name = ""
    columns = (
        doc.Column("fact", msg("fact")),
        doc.Column("platforms", msg("platforms"), wraps=True),
        doc.Column("value", msg("value"), wraps=True),
    )
    return doc.table_of(columns, rows, key="differences", label=msg("Differences"), style="facts")


def _value(text: str) -> doc.Inline:
    return _WORDS.get(text, text)


def _changes(audit_of_run: Audit, analysis: Analysis) -> Iterator[doc.Part]:
    if not audit_of_run.changes:
        return
    columns = (
        doc.Column("platform", msg("platform")),
        doc.Column("fact", msg("fact")),
        doc.Column("values", msg("values, in order"), wraps=True),
    )
    rows = [
        (
            analysis.platform_of(change.platform),
            change.field,
            joined(map(_value, change.values), "; "),
        )
        for change in audit_of_run.changes
    ]
    table = doc.table_of(columns, rows, key="changes", label=msg("Changes"), style="facts")
    yield doc.Titled(msg("Changes between guests of one platform"), (table,), key="changes")


def _clocks(audit_of_run: Audit, analysis: Analysis) -> Iterator[doc.Part]:
    """Yield the guests whose clock differs from the host's by what is shown of it."""
    if not audit_of_run.clocks:
        return
    guests = []
    for name, offset_s in audit_of_run.clocks.items():
        if abs(offset_s) >= _CLOCK_STEP_S:
            platform = analysis.platform_of(name)
            guests.append(joined([platform, doc.Offset(offset_s)], " "))
    if not guests:
        text = msg("Every guest's wall clock is within 1 ms of the host's.")
    elif len(guests) == len(audit_of_run.clocks):
        text = msg(
            "Largest offsets of guests' wall clocks from the host's: {guests}.",
            guests=listed(guests),
        )
    else:
        text = msg(
            "Largest offsets of guests' wall clocks from the host's: {guests}; all others within 1 ms.",
            guests=listed(guests),
        )
    yield doc.Paragraph(text)


def _fields(audit_of_run: Audit) -> Iterator[doc.Part]:
    for (platform, start), facts in audit_of_run.guests.items():
        columns = (doc.Column("fact", msg("fact")), doc.Column("value", msg("value"), wraps=True))
        rows = [(field, text_of(value, field)) for field, value in sorted(facts.items())]
        table = doc.table_of(
            columns, rows, key=f"facts {platform} {start}".strip(), label=platform, style="facts"
        )
        yield doc.Titled(platform + (f" ({start})" if start else ""), (table,))


def _plain(audit_of_run: Audit) -> dict[str, Any]:
    """Return the same as plain data, with every field of each platform's first guests."""
    return {
        "differences": [
            {
                "field": f.field,
                "where": f.where,
                "shown": [{"platforms": list(p), "value": t} for p, t in f.shown],
            }
            for f in audit_of_run.findings
        ],
        "changes": audit_of_run.changes,
        "host_changes": audit_of_run.host_changes,
        "clocks": [
            {"platform": name, "max_offset_s": offset_s}
            for name, offset_s in audit_of_run.clocks.items()
        ],
        "guests": [
            {"platform": platform, "started": start, "facts": dict(facts)}
            for (platform, start), facts in audit_of_run.guests.items()
        ],
    }


VIEW = register_view(
    View(
        "audit",
        msg("Audit"),
        msg("Differences between guests; with --all, every fact."),
        document,
        40,
        about=msg("Differences between guests."),
    )
)
