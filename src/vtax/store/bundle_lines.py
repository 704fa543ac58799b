"""The lines of a bundle within bounds: however many, however long, little of them is in memory at once.

Lines of up to SHORT_BYTES together are decoded as they are, since JSON of that size needs little memory whatever it
holds. A run and a trial may be longer, where few lists and objects are in them. The texts of an output are in pieces, a
line each.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from vtax.foreign_data import parse_json
from vtax.limits import BUNDLE, BUNDLE_LINE, DOCUMENT
from vtax.store.run import COMPRESSION, MAX_UNPACKED
from vtax.store.transfer import Row
from vtax.study import limits

SHORT_BYTES = BUNDLE_LINE.size_bytes
LONG_BYTES: Mapping[str, int] = {"run": 4 << 20, "trial": 1 << 20}  # a trial with its samples
MAX_BYTES = BUNDLE.size_bytes  # uncompressed
MAX_ROWS: Mapping[str, int] = {
    "session": 10_000,
    "platform": limits.MAX_PLATFORMS,
    "cell": limits.MAX_CELLS,
    "metric": 20_000,
    "guest": 1_000_000,
    "trial": 2_000_000,
    "output": 4_000_000,
    "measurement": 10_000_000,
    "counter": 20_000_000,
    "warning": 1_000_000,
}
TEXTS = ("stdout", "stderr")
"""Columns of an output that a store has packed and a bundle as text."""
_MORE = "more"  # in place of a table: the next piece of the texts of the output before it
_PIECE_CHARS = 16_000  # of one text, of which JSON makes up to six bytes a character
# rows that a run is opened with, all at once
_BEGUN_WITH = ("run", "session", "platform", "cell", "metric")
_MAX_BEGUN_WITH_BYTES = 32 << 20
_MAX_BEGUN_WITH_VALUES = 1_000_000
_MAX_CONTAINERS = 50_000  # lists and objects in a long line
_TOO_LARGE = "it is larger than a bundle may be"


class Unpacked(Protocol):
    """A file that is unpacked as it is read."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, or its first `size` bytes; empty at the end."""


class Bounds:
    """Counts of one bundle so far."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._bytes = 0
        self._begun_with_bytes = 0
        self._begun_with_values = 0

    def add_line(self, line: bytes) -> None:
        """Count a line that is not decoded yet. Raises ValueError for one too many, and for one that is too large."""
        self._bytes += len(line)
        if self._bytes > MAX_BYTES:
            raise ValueError(_TOO_LARGE)
        if len(line) <= SHORT_BYTES:
            return
        table = ""
        for name in LONG_BYTES:
            if line.startswith(f'{{"{name}": '.encode()):
                table = name
        if not table:
            raise ValueError(_TOO_LARGE)
        if len(line) > LONG_BYTES[table]:
            raise ValueError(f"a row of {table} is larger than it may be")
        if line.count(b"{") + line.count(b"[") > _MAX_CONTAINERS:
            raise ValueError(f"a row of {table} has more values than it may have")

    def add_row(self, table: str, line: bytes) -> None:
        """Count the row of a line. Raises ValueError for one too many."""
        count = self._rows[table] = self._rows.get(table, 0) + 1
        if count > MAX_ROWS.get(table, count):
            raise ValueError(f"it has more than {MAX_ROWS[table]} rows of {table}")
        if table in _BEGUN_WITH:
            self._begun_with_bytes += len(line)
            self._begun_with_values += line.count(b",") + line.count(b"{") + line.count(b"[")
            if (
                self._begun_with_bytes > _MAX_BEGUN_WITH_BYTES
                or self._begun_with_values > _MAX_BEGUN_WITH_VALUES
            ):
                raise ValueError(_TOO_LARGE)


def lines_of(unpacked: Unpacked, bounds: Bounds) -> Iterator[list[bytes]]:
    """Yield the lines of a bundle, as many at once as may be decoded together. Raises ValueError."""
    longest = max(LONG_BYTES.values()) + 1
    waiting, size = list[bytes](), 0
    for line in iter(lambda: unpacked.readline(longest), b""):
        bounds.add_line(line)
        if not line.endswith(b"\n"):
            raise ValueError("its end is missing")
        if size + len(line) > SHORT_BYTES and waiting:
            yield waiting
            waiting, size = [], 0
        waiting.append(line)
        size += len(line)
    if waiting:
        yield waiting


def in_pieces(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows as lines have them: the texts of an output in pieces. `joined` puts them together again."""
    for table, row in rows:
        if table != "output":
            yield table, row
            continue
        longest = max(len(row[name]) for name in TEXTS)
        for start in range(0, max(1, longest), _PIECE_CHARS):
            texts = {name: row[name][start : start + _PIECE_CHARS] for name in TEXTS}
            yield (_MORE, texts) if start else (table, {**row, **texts})


def joined(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of lines, outputs packed as a store has them. Raises ValueError."""
    output: _Output | None = None
    for table, row in rows:
        if table == _MORE and output is not None:
            output.add(row)
            continue
        if output is not None:
            yield "output", output.row()
        output = _Output(row) if table == "output" else None
        if output is None:
            yield table, row
    if output is not None:
        yield "output", output.row()


class _Output:
    """A row whose texts are packed piece by piece. Raises ValueError for what is no text, or is too long."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row
        self._packers = {name: zlib.compressobj(COMPRESSION) for name in TEXTS}
        self._packed = {name: bytearray() for name in TEXTS}
        self._sizes = dict.fromkeys(TEXTS, 0)
        self.add(row)

    def add(self, texts: Mapping[str, Any]) -> None:
        """Pack the next piece of each text."""
        for name in TEXTS:
            text = texts.get(name)
            if not isinstance(text, str):
                raise ValueError("an output is no text")
            data = text.encode("utf-8", "surrogatepass")
            self._sizes[name] += len(data)
            if self._sizes[name] > MAX_UNPACKED:
                raise ValueError("an output is larger than it may be")
            self._packed[name] += self._packers[name].compress(data)

    def row(self) -> dict[str, Any]:
        """Return it whole."""
        row = dict(self._row)
        for name in TEXTS:
            row[name] = bytes(self._packed[name] + self._packers[name].flush())
        return row


def decoded(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return lines as objects: all are decoded at once, since a call for every line takes twice as long. Raises ValueError."""
    text = b"[%b]" % b",".join(lines)
    try:
        values = parse_json(text.decode(), levels=DOCUMENT.depth + 1, parse_constant=_no_number)
    except ValueError as error:
        raise ValueError("a line is no JSON") from error
    if len(values) != len(lines) or not all(isinstance(value, dict) for value in values):
        raise ValueError("a line is no row")
    return values  # type: ignore[no-any-return]


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")
