"""The way through a document of renderers that write text: the blocks of every part, in order, without figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vtax.report import document as doc
from vtax.report.renderers.columns import aligned
from vtax.report.renderers.format import Formatter


class TextPage(ABC):
    """Base of renderers of text. level: of a heading, from 0."""

    def __init__(self, formatter: Formatter) -> None:
        self.formatter = formatter

    def blocks(self, document: doc.Document) -> Iterator[str]:
        """Yield all blocks of a document below its title."""
        yield from map(self.paragraph, document.lead)
        for part in document.parts:
            yield from self._part(part, 0)

    def _part(self, part: doc.Part, level: int) -> Iterator[str]:
        if isinstance(part, doc.Titled):
            if inner := [
                block for inner_part in part.parts for block in self._part(inner_part, level + 1)
            ]:
                yield from self.heading(part, level)
                yield from inner
        elif isinstance(part, doc.Table):
            yield self.table(part)
        elif isinstance(part, doc.Bullets):
            yield self.items(map(self.text, part.items))
        elif isinstance(part, doc.Warnings):
            yield self.items(self.warning(warning, part.shows_code) for warning in part.warnings)
        elif isinstance(part, doc.Code):
            yield self.code(part)
        elif not isinstance(part, doc.Figure):
            yield self.paragraph(part.text)

    @abstractmethod
    def heading(self, section: doc.Titled, level: int) -> Iterator[str]:
        """Return the title of a section, and the line below it."""

    @abstractmethod
    def paragraph(self, text: doc.Inline) -> str:
        """Take running text."""

    @abstractmethod
    def text(self, inline: doc.Inline) -> str:
        """Return a text on one line, whose characters mean nothing to the format."""

    @abstractmethod
    def items(self, items: Iterable[str]) -> str:
        """Return a list of texts."""

    @abstractmethod
    def table(self, table: doc.Table) -> str:
        """Return a table; the title of a group stands in a line of its own."""

    @abstractmethod
    def warning(self, warning: doc.Warning, shows_code: bool) -> str:
        """Return a warning on one line."""

    @abstractmethod
    def code(self, code: doc.Code) -> str:
        """Return lines that are typed."""


@dataclass(frozen=True)
class Grid:
    """A table as text. lines: (title of a group, "") or ("", cells)."""

    titles: tuple[str, ...]
    is_number: tuple[bool, ...]
    wraps: tuple[bool, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...]


def grid_of(table: doc.Table, formatter: Formatter) -> Grid:
    """Return every column but sketches, every cell as text, with digits alike within a column."""
    table = aligned(table)
    shown = [(n, column) for n, column in enumerate(table.columns) if column.room != "sketch"]
    return Grid(
        tuple(one_line(formatter.text(column.title)) for _, column in shown),
        tuple(column.is_number for _, column in shown),
        tuple(column.wraps for _, column in shown),
        tuple(line for group in table.groups for line in _lines(group, shown, formatter)),
    )


def titles_of(table: doc.Table) -> list[doc.Inline]:
    """Return the titles of the columns of a grid, with their lines."""
    return [column.title for column in table.columns if column.room != "sketch"]


def _lines(
    group: doc.Group, shown: Sequence[tuple[int, doc.Column]], formatter: Formatter
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if group.title != "":
        yield one_line(formatter.text(group.title)), ()
    for row in group.rows:
        yield "", tuple(one_line(formatter.text(_cell(row, n))) for n, _ in shown)


def _cell(row: doc.TableRow, n: int) -> doc.Inline:
    return row.cells[n] if n < len(row.cells) else ""


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.splitlines())


def warning_lines(warning: doc.Warning, formatter: Formatter) -> tuple[str, str]:
    """Return (the sentence with how often it was given, every place where it holds)."""
    places = "; ".join(formatter.text(place.inline) for place in warning.places)
    return formatter.sentence(warning) + formatter.times(warning), places
