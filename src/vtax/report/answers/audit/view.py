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
    found: Audit, analysis: Analysis, *, every_field: bool, is_report: bool = False
) -> doc.Document:
    """Return the document of an audit. is_report: with the platforms that differ beside each other."""
    parts = [
        *_differences(found, is_report=is_report),
        *_changes(found, analysis),
        *changes_part(found.host_changes),
        *_clocks(found, analysis),
        *(_fields(found) if every_field else ()),
    ]
    return doc.Document(VIEW.title, tuple(parts), data=_plain(found))


def legend(found: Audit) -> doc.Inline:
    """Return how to read the findings; empty without findings."""
    texts = [text for finding in found.findings for _, text in finding.shown]
    notes: list[doc.Inline] = []
    if any(text == COMMON or text.startswith("+") for text in texts):
        notes.append(
            msg("+ marks items that some platforms lack; items of all platforms are omitted.")
        )
    fields = {finding.field for finding in found.findings}
    return joined([*notes, *(note for field, note in _NOTES.items() if field in fields)], " ")


def _differences(found: Audit, *, is_report: bool) -> Iterator[doc.Part]:
    if not found.findings:
        if len(found.compared) > 1:
            yield doc.Paragraph(msg("The audit shows no difference between guests."))
        else:
            yield doc.Paragraph(msg("Fewer than two platforms have an audit."))
        return
    text = legend(found)
    notes = [doc.Paragraph(text, "muted")] if text != "" else []
    tables = _tables_by_side(found) if is_report else [_difference_table(found)]
    yield doc.Titled(msg("Differences between guests"), (*tables, *notes), key="differences")


def _name(finding: UnevenFact) -> doc.Inline:
    where = muted(f"({finding.where})") if finding.where else ""
    return joined([finding.field, where], " ")


def _tables_by_side(found: Audit) -> Iterator[doc.Table]:
    """Yield a table for all facts in which the same platforms differ from the same others, one column for each side."""
    by_sides: dict[tuple[str, ...], list[UnevenFact]] = {}
    for finding in found.findings:
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


def _difference_table(found: Audit) -> doc.Table:
    rows = []
    for finding in found.findings:
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


def _changes(found: Audit, analysis: Analysis) -> Iterator[doc.Part]:
    if not found.changes:
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
        for change in found.changes
    ]
    table = doc.table_of(columns, rows, key="changes", label=msg("Changes"), style="facts")
    yield doc.Titled(msg("Changes between guests of one platform"), (table,), key="changes")


def _clocks(found: Audit, analysis: Analysis) -> Iterator[doc.Part]:
    """Yield the guests whose clock differs from the host's by what is shown of it."""
    if not found.clocks:
        return
    apart = []
    for name, offset_s in found.clocks.items():
        if abs(offset_s) >= _CLOCK_STEP_S:
            platform = analysis.platform_of(name)
            apart.append(joined([platform, doc.Offset(offset_s)], " "))
    if not apart:
        text = msg("Every guest's wall clock is within 1 ms of the host's.")
    elif len(apart) == len(found.clocks):
        text = msg(
            "Largest offsets of guests' wall clocks from the host's: {guests}.",
            guests=listed(apart),
        )
    else:
        text = msg(
            "Largest offsets of guests' wall clocks from the host's: {guests}; all others within 1 ms.",
            guests=listed(apart),
        )
    yield doc.Paragraph(text)


def _fields(found: Audit) -> Iterator[doc.Part]:
    for (platform, how), facts in found.guests.items():
        columns = (doc.Column("fact", msg("fact")), doc.Column("value", msg("value"), wraps=True))
        rows = [(field, text_of(value, field)) for field, value in sorted(facts.items())]
        table = doc.table_of(
            columns, rows, key=f"facts {platform} {how}".strip(), label=platform, style="facts"
        )
        yield doc.Titled(platform + (f" ({how})" if how else ""), (table,))


def _plain(found: Audit) -> dict[str, Any]:
    """Return the same as plain data, with every field of each platform's first guests."""
    return {
        "differences": [
            {
                "field": f.field,
                "where": f.where,
                "shown": [{"platforms": list(p), "value": t} for p, t in f.shown],
            }
            for f in found.findings
        ],
        "changes": found.changes,
        "host_changes": found.host_changes,
        "clocks": [
            {"platform": name, "max_offset_s": offset_s} for name, offset_s in found.clocks.items()
        ],
        "guests": [
            {"platform": platform, "started": how, "facts": dict(facts)}
            for (platform, how), facts in found.guests.items()
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
