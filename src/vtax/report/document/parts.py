"""Parts of a document: sections, tables of typed cells, figures as specifications, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vtax.report.document.figures import Figure
from vtax.report.document.text import Inline, Role
from vtax.report.document.warnings import Warning


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: Inline
    role: Role = ""


@dataclass(frozen=True)
class Bullets:
    """A list. key: what it is made of, for renderers with colours (`answers`)."""

    items: tuple[Inline, ...]
    key: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    key: its name for programs. room: `wide` columns are left out where there is little of it, `spare` ones where rows
    would take more than a line; a `sketch` draws what other columns say in numbers, for renderers without figures.
    of: the key of a column of the same table that it says more of, such as an interval of its estimate: it is not
    shown without that one. joins: where there is little room it shares the cell of the column before it, which it
    is of. is_number: whether its cells end flush.
    """

    key: str
    title: Inline
    is_number: bool = False
    room: Literal["", "wide", "spare", "sketch"] = ""
    of: str = ""
    joins: bool = False
    wraps: bool = False


@dataclass(frozen=True)
class TableRow:
    """Cells in the order of the columns; those at the end may be left out. role: of the whole row."""

    cells: tuple[Inline, ...]
    role: Literal["", "baseline"] = ""


@dataclass(frozen=True)
class Group:
    """Rows under a line of their own; without a title they stand alone."""

    rows: tuple[TableRow, ...]
    title: Inline = ""
    is_indented: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of typed cells. label: what it is, for those who cannot see it. repeats: whether all that it says stands
    in other tables too, so that a renderer without colours may leave it out. style: `result`, `facts`, `overview`,
    `list` (of texts, a block each in narrow windows), `beside` (narrow, beside the figures of its section)."""

    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    key: str = ""
    label: Inline = ""
    style: Literal["", "result", "facts", "overview", "list", "beside"] = ""
    repeats: bool = False


def number_columns(titles: Mapping[str, Inline]) -> Iterator[Column]:
    """Yield columns of numbers. titles: by their keys."""
    for key, title in titles.items():
        yield Column(key, title, is_number=True)


def table_of(
    columns: Iterable[Column],
    rows: Iterable[TableRow | Sequence[Inline]],
    *,
    key: str,
    label: Inline,
    style: Literal["", "result", "facts", "overview", "list", "beside"] = "",
) -> Table:
    """Return a table whose rows are one group. rows: each as its cells, or as a row where it has a role."""
    table_rows = []
    for row in rows:
        table_rows.append(row if isinstance(row, TableRow) else TableRow(tuple(row)))
    return Table(tuple(columns), (Group(tuple(table_rows)),), key, label, style)


@dataclass(frozen=True)
class Code:
    """Lines that are typed or kept as they are. title: of what may be folded away."""

    text: str
    title: Inline = ""


@dataclass(frozen=True)
class Warnings:
    """Warnings, merged. shows_code: whether each begins with its code."""

    warnings: tuple[Warning, ...]
    shows_code: bool = True


@dataclass(frozen=True)
class Titled:
    """Parts under a title. role: `summary` is what a reader should see first. is_folded: shown on demand where that
    can be."""

    title: Inline
    parts: tuple[Part, ...]
    key: str = ""
    subtitle: Inline = ""
    role: Literal["", "summary"] = ""
    is_folded: bool = False


Part = Paragraph | Bullets | Table | Figure | Code | Warnings | Titled


@dataclass(frozen=True)
class Case:
    """One thing that was checked. group: what it belongs to, such as a platform with its marks. kind: the finding as
    a word for programs. text: why it is not `passed`. seconds: of its trials."""

    group: Inline
    name: Inline
    outcome: Literal["passed", "failed", "error", "skipped"]
    kind: str
    text: Inline = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Suite:
    """All cases of a check. started_at: Unix time. properties: name -> value, of what all cases share."""

    name: str
    started_at: float
    cases: tuple[Case, ...]
    properties: Mapping[str, Inline] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A document.

    lead: lines under the title.
    data: the same as plain values for programs, or a function that returns them, where that takes long; the tables
    when None.
    colours: name of a platform -> its number, see Platform.
    nothing: why the run has nothing to show here, then a report leaves the document out.
    suite: of a check, its cases.
    """

    title: Inline
    parts: tuple[Part, ...]
    lead: tuple[Inline, ...] = ()
    data: Any = None
    colours: Mapping[str, int] = field(default_factory=dict)
    nothing: Inline = ""
    suite: Suite | None = None

    def tables(self) -> Iterator[Table]:
        """Yield every table, in order."""
        yield from (part for part in _flat(self.parts) if isinstance(part, Table))

    def figures(self) -> Iterator[Figure]:
        """Yield every figure, in order."""
        yield from (part for part in _flat(self.parts) if isinstance(part, Figure))


def empty_document(title: Inline, reason: Inline, data: Any = None) -> Document:
    """Return the document of a view that has nothing to show of a run, and why. data: as of a Document."""
    return Document(title, (Paragraph(reason),), data=data, nothing=reason)


def _flat(parts: tuple[Part, ...]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Titled):
            yield from _flat(part.parts)


def without_figures(document: Document) -> Document:
    """Return a document without its figures, and without the sections that have nothing else."""
    return replace(document, parts=_without_figures(document.parts))


def _without_figures(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    parts_kept: list[Part] = []
    for part in parts:
        if not isinstance(part, Titled):
            parts_kept += () if isinstance(part, Figure) else (part,)
        elif inner := _without_figures(part.parts):
            parts_kept.append(replace(part, parts=inner))
    return tuple(parts_kept)
