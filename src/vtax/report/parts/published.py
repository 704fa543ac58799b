"""A publication beside a run: its numbers, and where the study differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vtax.report.analysis.published import Published, repeated
from vtax.report.analysis.values import Analysis
from vtax.report.document import (
    Column,
    Factor,
    Group,
    Inline,
    IntervalCell,
    Number,
    Paragraph,
    Part,
    Share,
    Table,
    TableRow,
    Titled,
    joined,
    msg,
    muted,
    scale_for,
    stored,
)
from vtax.report.document.notes import sentence_of
from vtax.report.document.stored_texts import unit_of
from vtax.study.changes import StudyChange, listed


def parts_of(numbers: Sequence[Published], analysis: Analysis) -> Iterator[Part]:
    """Yield the numbers of the publication beside those of the run."""
    if not numbers:
        return
    columns = (
        Column("platform", msg("platform")),
        Column("statistic", msg("quantity"), wraps=True),
        Column("published", msg("published"), is_number=True),
        Column("here", msg("here"), is_number=True),
        Column("source", msg("source"), wraps=True, room="wide"),
    )
    rows = []
    for each in numbers:
        name: Inline = each.platform
        marks = next((platform.marks for platform in analysis.platforms if platform.name == each.here), ())
        if each.here != each.platform:
            name = msg("{here} for {there}", here=each.here, there=each.platform)
        if marks and each.mean is not None:
            name = msg("{side} ({marks})", side=name, marks=joined(map(stored, marks)))
        source = joined([stored(each.table.source), stored(each.table.note)], "; ")
        rows.append(TableRow((name, _quantity(each), _with_deviation(each), _own(each), source)))
    label = msg("published numbers beside those of this run")
    table = Table(columns, (Group(tuple(rows)),), key="published", label=label)
    text = msg("Published numbers are of other hardware: compare ratios of platforms, not rates.")
    parts = (table, Paragraph(text, "muted"))
    yield Titled(msg("Published numbers"), parts, key="published numbers")


def _quantity(each: Published) -> Inline:
    name = joined([each.table.benchmark, each.table.metric], " ")
    what: Inline = msg("largest CV of {metric}", metric=name) if each.table.statistic == "largest_cv" else name
    return joined([what, Factor(each.point)] if each.point else [what], ", ")


def _with_deviation(each: Published) -> Inline:
    if each.table.statistic == "largest_cv":
        return Share(each.value)
    number: Inline = joined([Number(each.value, 4), unit_of(each.unit)], " ")
    if not each.plus_minus:
        return number
    return msg("{number} ± {deviation}", number=number, deviation=Number(each.plus_minus, 3))


def _own(each: Published) -> Inline:
    if each.mean is None:
        return muted(msg("not measured"))
    if each.table.statistic == "largest_cv":
        return Share(each.mean)
    number: Inline = joined([Number(each.mean, 4), unit_of(each.unit)], " ")
    if each.low is None or each.high is None:
        return number
    return joined([number, IntervalCell(each.low, each.high, "quantity", scale_for(each.unit, ()))], " ")


def cited(analysis: Analysis) -> Iterator[Inline]:
    """`Publication: ...` of a study that repeats one."""
    if text := repeated(analysis).publication:
        yield msg("Publication: {citation}", citation=text)


def changes_of(analysis: Analysis, labels: Sequence[str] | None = None) -> Iterator[Inline]:
    """Yield what --scale and --protocol changed of the study; labels: of these benchmarks only, None for all."""
    others = {section.label for section in analysis.sections} - set(labels or ())
    for change in map(StudyChange.model_validate, repeated(analysis).changed_by):
        parts = [part for part in change.parts if labels is None or part.label not in others]
        yield sentence_of("study-changed", {"option": change.option, "changes": listed(parts)})


def of_publication(analysis: Analysis) -> Iterator[Paragraph]:
    """Yield the publication, and what was changed of the study that repeats it."""
    yield from (Paragraph(text, "muted") for text in cited(analysis))
    yield from (Paragraph(text, "caution") for text in changes_of(analysis))


def differences(analysis: Analysis) -> Iterator[Part]:
    """Yield where the study differs from its publication, in the words of its file."""
    if given := repeated(analysis).differences:
        columns = (
            Column("what", msg("what differs"), wraps=True),
            Column("paper", msg("in the publication"), wraps=True),
            Column("here", msg("here"), wraps=True),
        )
        rows = tuple(TableRow((each["what"], each["paper"], each["here"])) for each in given)
        yield Table(
            columns, (Group(rows),), key="differences", label=msg("differences from the publication"), style="list"
        )
