"""A table for the terminal that loses no character: it fits its columns to the width there is, and folds at worst.

Rich shrinks columns below their least width and then crops what overflows. Here the widest columns wrap first, at
spaces, and the first, which holds names, last; when not even the longest words stand side by side, the names get
lines of their own above the others; only then words are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from vtax.report.renderers.unbroken import prepared_text, release_spaces

_INDENT = 2


@dataclass(frozen=True)
class _Row:
    cells: tuple[Text, ...]
    indent: int


@dataclass(frozen=True)
class _Shape:
    """How a grid is drawn. widths: of the columns. gap: between them. is_stacked: the first has lines of its own."""

    widths: Sequence[int]
    gap: int
    is_stacked: bool


class TextGrid:
    """Columns under their titles, with rows that may stand under headings of the full width.

    title_style: of the titles of the columns.
    """

    def __init__(self, title_style: str = "dim") -> None:
        self._title_style = title_style
        self._titles: list[Text] = []
        self._right: list[bool] = []
        self._rows: list[_Row | Text] = []

    def add_column(self, title: str, *, right: bool = False) -> None:
        """Add a column. right: whether its cells end flush."""
        self._titles.append(prepared_text(Text(title)))
        self._right.append(right)

    def add_heading(self, text: Text) -> None:
        """Add a line above the rows that follow, over all columns."""
        self._rows.append(prepared_text(text))

    def add_row(self, *cells: str | Text, indent: bool = False) -> None:
        """Add a row; brackets in a str are no markup. indent: whether it belongs to a heading. Cells may lack."""
        texts = [prepared_text(Text(cell) if isinstance(cell, str) else cell) for cell in cells]
        texts += [Text()] * (len(self._titles) - len(texts))
        self._rows.append(_Row(tuple(texts), _INDENT if indent else 0))

    @property
    def natural_width(self) -> int:
        """Columns of a terminal in which no row wraps, though titles may, at the narrowest gaps."""
        titles, *rows = self._all_rows()
        columns = range(len(self._titles))
        widths = (
            max(_extent([titles], n, str.split), _extent(rows, n, _lines_of)) for n in columns
        )
        return sum(widths) + len(columns) - 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines(console, options.max_width):
            line.plain = release_spaces(line.plain)
            yield line

    def _lines(self, console: Console, room: int) -> Iterator[Text]:
        titles, *_ = rows = self._all_rows()
        columns = range(len(self._titles))
        natural = [_extent(rows, column, _lines_of) for column in columns]
        minimum = [_extent(rows, column, str.split) for column in columns]
        gap = 2 if sum(natural) + 2 * (len(columns) - 1) <= room else 1
        gaps = gap * (len(columns) - 1)
        if natural[0] + sum(minimum[1:]) + gaps <= room:
            minimum[0] = natural[0]
        is_stacked = len(columns) > 1 and sum(minimum) + gaps > room
        if is_stacked:
            inside = room - 2 * _INDENT - gaps + gap
            widths = [room, *fitted(natural[1:], minimum[1:], max(inside, len(columns) - 1))]
        else:
            widths = fitted(natural, minimum, max(room - gaps, len(columns)))
        shape = _Shape(widths, gap, is_stacked)
        yield from self._drawn(console, titles, shape, is_head=True)
        yield Text("─" * (room if is_stacked else sum(widths) + gaps), style=self._title_style)
        for row in self._rows:
            if isinstance(row, Text):
                yield from row.wrap(console, room, overflow="fold")
            else:
                yield from self._drawn(console, row, shape)

    def _all_rows(self) -> list[_Row]:
        """Return the titles and the rows below them."""
        titles = _Row(tuple(_styled(title, self._title_style) for title in self._titles), 0)
        return [titles, *(row for row in self._rows if isinstance(row, _Row))]

    def _drawn(
        self, console: Console, row: _Row, shape: _Shape, *, is_head: bool = False
    ) -> Iterator[Text]:
        """Yield the lines of a row; those of titles stand at the foot of the highest."""
        widths = shape.widths
        cells = [
            _wrapped(console, cell, width - (0 if number else row.indent))
            for number, (cell, width) in enumerate(zip(row.cells, widths, strict=True))
        ]
        indent = row.indent
        if shape.is_stacked:
            yield from (Text(" " * indent).append_text(line) for line in cells[0])
            if not any(row.cells[1:]):
                return
            indent, cells, widths = indent + _INDENT, cells[1:], widths[1:]
        if is_head:
            highest = max(map(len, cells))
            cells = [[Text()] * (highest - len(lines)) + lines for lines in cells]
        flush = self._right[1:] if shape.is_stacked else self._right
        for parts in zip_longest(*cells):
            line = Text(" " * indent)
            for number, (part, width, is_right) in enumerate(
                zip(parts, widths, flush, strict=True)
            ):
                part_text = part or Text()
                room = width - (indent if number == 0 and not shape.is_stacked else 0)
                padding = " " * max(room - part_text.cell_len, 0)
                line.append(padding if is_right else "").append_text(part_text).append(
                    "" if is_right else padding
                )
                line.append(" " * shape.gap)
            line.rstrip()
            yield line


def fitted(natural: Sequence[int], minimum: Sequence[int], room: int) -> list[int]:
    """Widths that fill at most the room: the widest shrink first, none below its least while all of those fit."""
    if sum(natural) <= room:
        return list(natural)
    if sum(minimum) > room:
        natural, minimum = minimum, [1] * len(minimum)
    widths = list(minimum)
    for maximum in range(max(natural), 0, -1):
        widths = [
            min(width, max(needed, maximum)) for width, needed in zip(natural, minimum, strict=True)
        ]
        if sum(widths) <= room:
            break
    for number, width in enumerate(natural):
        if sum(widths) < room and widths[number] < width:
            widths[number] += 1
    return widths


def _extent(rows: Sequence[_Row], column: int, parts: Callable[[str], list[str]]) -> int:
    """Return the widest part of a column's cells, at least 1."""
    spans = [
        Text(part).cell_len + (0 if column else row.indent)
        for row in rows
        for part in parts(row.cells[column].plain)
    ]
    return max([1, *spans])


def _lines_of(text: str) -> list[str]:
    return text.split("\n")


def _wrapped(console: Console, cell: Text, width: int) -> list[Text]:
    lines = list(cell.wrap(console, max(width, 1), overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def _styled(text: Text, style: str) -> Text:
    copy = text.copy()
    copy.stylize(style)
    return copy
