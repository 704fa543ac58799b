"""A publication beside a run: its numbers, and where the study differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtax.report import document as doc
from vtax.report.analysis.published import Published, repeated
from vtax.report.analysis.values import Analysis
from vtax.report.document import joined, msg, muted, scale_for, term
from vtax.report.document.notes import sentence_of
from vtax.report.document.terms import unit_of
from vtax.study.changes import StudyChange, listed


def parts_of(numbers: Sequence[Published], analysis: Analysis) -> Iterator[doc.Part]:
    """Yield the numbers of the publication beside those of the run."""
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
    for each in numbers:
        name: doc.Inline = each.platform
        marks = next(
            (platform.marks for platform in analysis.platforms if platform.name == each.here), ()
        )
        if each.here != each.platform:
            name = msg("{here} for {there}", here=each.here, there=each.platform)
        if marks and each.mean is not None:
            name = msg("{side} ({marks})", side=name, marks=joined(map(term, marks)))
        texts = (term(each.table.source), term(each.table.note), each.table.in_part)
        source = joined(texts, "; ")
        rows.append(
            doc.TableRow((name, _quantity(each), _with_deviation(each), _own(each), source))
        )
    label = msg("published numbers beside those of this run")
    table = doc.table_of(columns, rows, key="published", label=label)
    text = msg("Published numbers are of other hardware: compare ratios of platforms, not rates.")
    parts = (table, doc.Paragraph(text, "muted"))
    yield doc.Titled(msg("Published numbers"), parts, key="published numbers")


def _quantity(each: Published) -> doc.Inline:
    name = joined([each.table.benchmark, each.table.metric], " ")
    what: doc.Inline = (
        msg("largest CV of {metric}", metric=name) if each.table.statistic == "largest_cv" else name
    )
    return joined([what, doc.Factor(each.point)] if each.point else [what], ", ")


def _with_deviation(each: Published) -> doc.Inline:
    if each.table.statistic == "largest_cv":
        return doc.Share(each.value)
    number: doc.Inline = joined([doc.Number(each.value, 4), unit_of(each.unit)], " ")
    if not each.plus_minus:
        return number
    return msg("{number} ± {deviation}", number=number, deviation=doc.Number(each.plus_minus, 3))


def _own(each: Published) -> doc.Inline:
    if each.mixed:
        return muted(msg("several cells, by {factors}", factors=", ".join(each.mixed)))
    if each.mean is None:
        return muted(msg("not measured"))
    if each.table.statistic == "largest_cv":
        return doc.Share(each.mean)
    number: doc.Inline = joined([doc.Number(each.mean, 4), unit_of(each.unit)], " ")
    if each.low is None or each.high is None:
        return number
    return joined(
        [number, doc.IntervalCell(each.low, each.high, "quantity", scale_for(each.unit, ()))], " "
    )


def cited(analysis: Analysis) -> Iterator[doc.Inline]:
    """`Publication: ...` of a study that repeats one."""
    if text := repeated(analysis).publication:
        yield msg("Publication: {citation}", citation=text)


def changes_of(analysis: Analysis, labels: Sequence[str] | None = None) -> Iterator[doc.Inline]:
    """Yield what --scale and --protocol changed of the study; labels: of these benchmarks only, None for all."""
    others = {section.label for section in analysis.sections} - set(labels or ())
    for change in map(StudyChange.model_validate, repeated(analysis).changed_by):
        parts = [part for part in change.parts if labels is None or part.label not in others]
        yield sentence_of("study-changed", {"option": change.option, "changes": listed(parts)})


def of_publication(analysis: Analysis) -> Iterator[doc.Paragraph]:
    """Yield the publication, and what was changed of the study that repeats it."""
    yield from (doc.Paragraph(text, "muted") for text in cited(analysis))
    yield from (doc.Paragraph(text, "caution") for text in changes_of(analysis))


def differences(analysis: Analysis) -> Iterator[doc.Part]:
    """Yield where the study differs from its publication, in the words of its file."""
    if given := repeated(analysis).differences:
        columns = (
            doc.Column("what", msg("what differs"), wraps=True),
            doc.Column("paper", msg("in the publication"), wraps=True),
            doc.Column("here", msg("here"), wraps=True),
        )
        rows = [(each["what"], each["paper"], each["here"]) for each in given]
        yield doc.table_of(
            columns,
            rows,
            key="differences",
            label=msg("differences from the publication"),
            style="list",
        )
