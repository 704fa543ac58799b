"""What renderers of whole pages share: the parts of a document in order, and tables without sketches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vtax.report.document import Column, Group, Inline, Row, Table, Warning
from vtax.report.renderers.format import Formatter


@dataclass(frozen=True)
class Grid:
    """A table as text. lines: (title of a group, "") or ("", cells)."""

    titles: tuple[str, ...]
    is_number: tuple[bool, ...]
    wraps: tuple[bool, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...]


def grid_of(table: Table, formatter: Formatter) -> Grid:
    """Return every column but sketches, every cell as text."""
    shown = [(n, column) for n, column in enumerate(table.columns) if column.room != "sketch"]
    return Grid(
        tuple(one_line(formatter.text(column.title)) for _, column in shown),
        tuple(column.is_number for _, column in shown),
        tuple(column.wraps for _, column in shown),
        tuple(line for group in table.groups for line in _lines(group, shown, formatter)),
    )


def titles_of(table: Table) -> list[Inline]:
    """Return the titles of the columns of a grid, with their lines."""
    return [column.title for column in table.columns if column.room != "sketch"]


def _lines(
    group: Group, shown: Sequence[tuple[int, Column]], formatter: Formatter
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if group.title != "":
        yield one_line(formatter.text(group.title)), ()
    for row in group.rows:
        yield "", tuple(one_line(formatter.text(_cell(row, n))) for n, _ in shown)


def _cell(row: Row, n: int) -> Inline:
    return row.cells[n] if n < len(row.cells) else ""


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.splitlines())


def warning_lines(warning: Warning, formatter: Formatter) -> tuple[str, str]:
    """Return (the sentence with how often it was given, every place where it holds)."""
    places = "; ".join(formatter.text(place.inline) for place in warning.places)
    return formatter.sentence(warning) + formatter.times(warning), places
