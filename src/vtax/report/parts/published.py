"""A publication beside a run: its numbers, and where the study differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtax.report import document as doc
from vtax.report.analysis.published import Published, repeated
from vtax.report.analysis.values import Analysis
from vtax.report.document import factors, joined, msg, muted, scale_for, term
from vtax.report.document.notes import sentence_of
from vtax.report.document.terms import unit_of
from vtax.study.changes import StudyChange, listed


def parts_of(
    numbers: Sequence[Published], analysis: Analysis, *, is_folded: bool
) -> Iterator[doc.Part]:
    """Yield the numbers of the publication beside those of the run. is_folded: on demand."""
    if not numbers:
        return
    columns = (
        doc.Column("platform", msg("platform")),
        doc.Column("statistic", msg("quantity"), wraps=True),
        doc.Column("published", msg("published"), is_number=True),
        doc.Column("here", msg("here"), is_number=True),
        doc.Column("source", msg("source"), wraps=True, room="wide"),
    )
    rows = []
    for entry in numbers:
        name: doc.Inline = entry.platform
        marks = analysis.platform_of(entry.here).marks
        if entry.here != entry.platform:
            name = msg("{here} for {there}", here=entry.here, there=entry.platform)
        if marks and entry.mean is not None:
            name = msg("{side} ({marks})", side=name, marks=joined(map(term, marks)))
        texts = (term(entry.table.source), term(entry.table.note), entry.table.in_part)
        source = joined(texts, "; ")
        rows.append(
            doc.TableRow((name, _quantity(entry), _with_deviation(entry), _own(entry), source))
        )
    label = msg("published numbers beside those of this run")
    table = doc.table_of(columns, rows, key="published", label=label)
    text = msg("Published numbers are of other hardware: compare ratios of platforms, not rates.")
    parts = (table, doc.Paragraph(text, "muted"))
    yield doc.Titled(msg("Published numbers"), parts, key="published numbers", is_folded=is_folded)


def _quantity(entry: Published) -> doc.Inline:
    name = joined([entry.table.benchmark, entry.table.metric], " ")
    quantity: doc.Inline = (
        msg("largest CV of {metric}", metric=name)
        if entry.table.statistic == "largest_cv"
        else name
    )
    return joined([quantity, factors(entry.levels)], ", ")


def _amount(value: float, entry: Published) -> doc.Inline:
    if entry.table.statistic == "largest_cv":
        return doc.Share(value)
    return joined([doc.Number(value, 4), unit_of(entry.unit)], " ")


def _with_deviation(entry: Published) -> doc.Inline:
    number = _amount(entry.value, entry)
    if not entry.plus_minus or entry.table.statistic == "largest_cv":
        return number
    return msg("{number} ± {deviation}", number=number, deviation=doc.Number(entry.plus_minus, 3))


def _own(entry: Published) -> doc.Inline:
    if entry.mixed:
        return muted(msg("several cells, by {factors}", factors=", ".join(entry.mixed)))
    if entry.mean is None:
        return muted(msg("not measured"))
    number = _amount(entry.mean, entry)
    if entry.low is None or entry.high is None:
        return number
    return joined(
        [number, doc.IntervalCell(entry.low, entry.high, "quantity", scale_for(entry.unit, ()))],
        " ",
    )


def cited(analysis: Analysis) -> Iterator[doc.Inline]:
    """`Publication: ...` of a study that repeats one."""
    if text := repeated(analysis).publication:
        yield msg("Publication: {citation}", citation=text)


def changes_of(analysis: Analysis, labels: Sequence[str] | None = None) -> Iterator[doc.Inline]:
    """Yield what --scale and --protocol changed of the study; labels: of these benchmarks only, None for all."""
    other_labels = {section.label for section in analysis.sections} - set(labels or ())
    for change in map(StudyChange.model_validate, repeated(analysis).changed_by):
        parts = [part for part in change.parts if labels is None or part.label not in other_labels]
        yield sentence_of("study-changed", {"option": change.option, "changes": listed(parts)})


def of_publication(analysis: Analysis) -> Iterator[doc.Paragraph]:
    """Yield the publication, and what was changed of the study that repeats it."""
    yield from (doc.Paragraph(text, "muted") for text in cited(analysis))
    yield from (doc.Paragraph(text, "caution") for text in changes_of(analysis))


def differences(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield where the study differs from its publication, in the words of its file."""
    if changes := repeated(analysis).differences:
        columns = (
            doc.Column("what", msg("what differs"), wraps=True),
            doc.Column("paper", msg("in the publication"), wraps=True),
            doc.Column("here", msg("here"), wraps=True),
        )
        rows = [
            (difference["what"], difference["paper"], difference["here"]) for difference in changes
        ]
        yield doc.table_of(
            columns,
            rows,
            key="differences",
            label=msg("differences from the publication"),
            style="list",
        )
