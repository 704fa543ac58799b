"""Digits alike within a column of a table: each figure says by itself how many it has, a column how many all have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from vtax.report import document as doc
from vtax.report.renderers import numbers

_Figure = doc.Mean | doc.Relative
_Kind = tuple[object, ...]


def aligned(table: doc.Table) -> doc.Table:
    """Return a table in whose columns figures of one kind have as many decimals, as far as each can be read so;
    unchanged where each row has a unit of its own."""
    if any(column.key == "unit" for column in table.columns):
        return table
    columns = [_decimals_in(table, n) for n in range(len(table.columns))]

    def row_of(row: doc.TableRow) -> doc.TableRow:
        cells = []
        for n, cell in enumerate(row.cells):
            cells.append(_mapped(cell, lambda figure, n=n: _with(figure, columns[n])))  # type: ignore[misc]
        return replace(row, cells=tuple(cells))

    groups = [replace(group, rows=tuple(map(row_of, group.rows))) for group in table.groups]
    return replace(table, groups=tuple(groups))


def _decimals_in(table: doc.Table, column: int) -> dict[_Kind, int]:
    """Return the decimals of the figures of each kind: of means the most, of shares the fewest that one has."""
    of: dict[_Kind, list[int]] = {}
    rooms: dict[_Kind, int] = {}
    for group in table.groups:
        for row in group.rows:
            for figure in _figures(row.cells[column]) if column < len(row.cells) else ():
                kind, decimals = _own(figure)
                if isinstance(figure, doc.Mean) and math.isfinite(figure.mean):
                    room = numbers.most_decimals(figure.mean, figure.scale)
                    rooms[kind] = min(rooms.get(kind, room), room)
                if decimals is not None:
                    of.setdefault(kind, []).append(decimals)
    by_kind = {kind: min(decimals) for kind, decimals in of.items()}
    for kind, room in rooms.items():
        by_kind[kind] = min(max(of.get(kind, [room])), room)
    return by_kind


def _own(figure: _Figure) -> tuple[_Kind, int | None]:
    """Return what figures have in common that are read beside each other, and the decimals that one has alone."""
    if isinstance(figure, doc.Mean):
        decimals = numbers.mean_decimals(figure.mean, figure.half_width, figure.scale)
        return ("mean", figure.scale), decimals
    kind, decimals = numbers.relative_decimals(
        figure.estimate, figure.low, figure.high, figure.is_of
    )
    is_times = kind in ("slower", "faster", "times")
    return (figure.is_of == "amount", is_times), decimals


def _with(figure: _Figure, columns: dict[_Kind, int]) -> _Figure:
    kind, _ = _own(figure)
    return replace(figure, decimals=columns.get(kind))


def _mapped(inline: doc.Inline, change: Callable[[_Figure], _Figure]) -> doc.Inline:
    """Return a text with its figures changed."""
    if isinstance(inline, doc.Mean | doc.Relative):
        return change(inline)
    if isinstance(inline, doc.Styled):
        return replace(inline, text=_mapped(inline.text, change))
    if isinstance(inline, doc.Joined):
        return replace(inline, parts=tuple(_mapped(part, change) for part in inline.parts))
    return inline


def _figures(inline: doc.Inline) -> Iterator[_Figure]:
    if isinstance(inline, doc.Mean | doc.Relative):
        yield inline
    elif isinstance(inline, doc.Styled):
        yield from _figures(inline.text)
    elif isinstance(inline, doc.Joined):
        for part in inline.parts:
            yield from _figures(part)
