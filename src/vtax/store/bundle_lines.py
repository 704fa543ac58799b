"""The lines of a bundle within bounds: however many, however long, little of them is in memory at once.

A line of up to SHORT_BYTES is decoded as it is, since JSON of that size needs little memory whatever it holds. Of the
longer ones, a run and a trial are decoded when few lists and objects are in them; an output is unpacked and packed
piece by piece. No other row is longer.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from vtax.store.run import COMPRESSION, MAX_UNPACKED
from vtax.study import limits

SHORT_BYTES = 1 << 18
LONG_BYTES: Mapping[str, int] = {"run": 4 << 20, "trial": 1 << 20}  # a trial with its samples
OUTPUT_BYTES = 100 << 20  # two outputs of 8 MiB, of which JSON makes up to six bytes a character
MAX_BYTES = 4 << 30  # uncompressed
MAX_ROWS: Mapping[str, int] = {
    "session": 10_000, "platform": limits.MAX_PLATFORMS, "cell": limits.MAX_CELLS, "metric": 20_000,
    "guest": 1_000_000, "trial": 2_000_000, "output": 4_000_000, "measurement": 10_000_000, "counter": 20_000_000,
    "warning": 1_000_000,
}  # fmt: skip
_BEGUN_WITH = ("run", "session", "platform", "cell", "metric")  # rows that a run is opened with, all at once
_MAX_BEGUN_WITH_BYTES = 32 << 20
_MAX_BEGUN_WITH_VALUES = 1_000_000
_MAX_CONTAINERS = 50_000  # lists and objects in a long line
_PIECE_BYTES = 1 << 16
_FIRST_TEXT, _BETWEEN, _END = b'"stdout": "', ', "stderr": "', "}}\n"
_OF_OUTPUT = b'{"output": {'
_LONGEST_CUT = 12  # characters: an escape of a surrogate pair
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F]")
_TOO_LARGE = "it is larger than a bundle may be"


class Unpacked(Protocol):
    """A file that is unpacked as it is read."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, or its first `size` bytes; empty at the end."""


class Digest(Protocol):
    """A hash of what was read."""

    def update(self, data: bytes, /) -> None:
        """Add bytes to it."""


class Bounds:
    """What one bundle has of rows so far."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._bytes = 0
        self._begun_with_bytes = 0
        self._begun_with_values = 0

    def add_bytes(self, count: int) -> None:
        """Raise ValueError when there are too many."""
        self._bytes += count
        if self._bytes > MAX_BYTES:
            raise ValueError(_TOO_LARGE)

    def add_row(self, table: str, line: bytes) -> None:
        """Count a row. line: empty of one that is read in pieces. Raises ValueError for one too many or too large."""
        count = self._rows[table] = self._rows.get(table, 0) + 1
        if count > MAX_ROWS.get(table, count):
            raise ValueError(f"it has more than {MAX_ROWS[table]} rows of {table}")
        if table in _BEGUN_WITH:
            self._begun_with_bytes += len(line)
            self._begun_with_values += line.count(b",") + line.count(b"{") + line.count(b"[")
            if self._begun_with_bytes > _MAX_BEGUN_WITH_BYTES or self._begun_with_values > _MAX_BEGUN_WITH_VALUES:
                raise ValueError(_TOO_LARGE)
        if len(line) > SHORT_BYTES and table != "output":
            if len(line) > LONG_BYTES.get(table, SHORT_BYTES):
                raise ValueError(f"a row of {table} is larger than it may be")
            if line.count(b"{") + line.count(b"[") > _MAX_CONTAINERS:
                raise ValueError(f"a row of {table} has more values than it may have")


class Lines:
    """The lines of a bundle, read once. digest: of the bytes that were read."""

    def __init__(self, unpacked: Unpacked, digest: Digest) -> None:
        self._unpacked = unpacked
        self._digest = digest
        self._waiting = b""
        self.bounds = Bounds()

    def __iter__(self) -> Iterator[bytes | dict[str, Any]]:
        """Yield each line; in place of a long one of an output its row, outputs packed. Raises ValueError."""
        while line := self._piece(SHORT_BYTES + 1):
            if line.endswith(b"\n"):
                yield line
            elif line.startswith(_OF_OUTPUT):
                yield self._output(line)
            elif table := next((each for each in LONG_BYTES if line.startswith(f'{{"{each}": '.encode())), ""):
                yield self._long(line, LONG_BYTES[table])
            else:
                raise ValueError(_TOO_LARGE if len(line) > SHORT_BYTES else "its end is missing")

    def _piece(self, size: int) -> bytes:
        """At most `size` bytes of a line. What was read before it joins the digest."""
        self._digest.update(self._waiting)
        line = self._waiting = self._unpacked.readline(size)
        self.bounds.add_bytes(len(line))
        return line

    def _pieces(self) -> Iterator[str]:
        """Yield the rest of a line of an output."""
        size = SHORT_BYTES
        while piece := self._piece(_PIECE_BYTES):
            size += len(piece)
            if size > OUTPUT_BYTES:
                raise ValueError(_TOO_LARGE)
            yield piece.decode("ascii")
            if piece.endswith(b"\n"):
                return
        raise ValueError("its end is missing")

    def _long(self, first: bytes, limit: int) -> bytes:
        found = [first]
        size = len(first)
        while not found[-1].endswith(b"\n"):
            if not (piece := self._piece(SHORT_BYTES)):
                raise ValueError("its end is missing")
            found.append(piece)
            size += len(piece)
            if size > limit:
                raise ValueError(_TOO_LARGE)
        return b"".join(found)

    def _output(self, first: bytes) -> dict[str, Any]:
        """Return the row of an output whose columns come in the order in which they are written."""
        head, found, rest = first.partition(_FIRST_TEXT)
        if not found:
            raise ValueError("a row of output is larger than it may be")
        row = decoded(head + _FIRST_TEXT + b'", "stderr": ""}}')
        text = _Text(rest.decode("ascii"), self._pieces())
        row["output"]["stdout"] = text.packed()
        text.skip(_BETWEEN)
        row["output"]["stderr"] = text.packed()
        text.skip(_END)
        return row


class _Text:
    """JSON that is read piece by piece. Raises ValueError for what is none."""

    def __init__(self, first: str, pieces: Iterator[str]) -> None:
        self._waiting = first
        self._pieces = pieces

    def packed(self) -> bytes:
        """Return the string up to its closing quote, as `store.run.pack` makes it."""
        packer, found, size = zlib.compressobj(COMPRESSION), list[bytes](), 0
        is_whole = False
        while not is_whole:
            text, is_whole = self._decoded()
            data = text.encode("utf-8", "surrogatepass")
            size += len(data)
            if size > MAX_UNPACKED:
                raise ValueError("an output is larger than it may be")
            found.append(packer.compress(data))
            if not is_whole:
                self._waiting += self._next()
        return b"".join((*found, packer.flush()))

    def skip(self, expected: str) -> None:
        """Go on after these characters."""
        while len(self._waiting) < len(expected):
            self._waiting += self._next()
        if not self._waiting.startswith(expected):
            raise ValueError("a line is no row")
        self._waiting = self._waiting[len(expected) :]

    def _next(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration:
            raise ValueError("a line is no row") from None

    def _decoded(self) -> tuple[str, bool]:
        """Return (what is there of the string, whether its closing quote is). What may be half an escape waits."""
        waiting = self._waiting
        if (whole := _string(f'"{waiting}')) is not None:
            self._waiting = waiting[whole[1] - 1 :]
            return whole[0], True
        for cut in range(_LONGEST_CUT + 1):
            at = len(waiting) - cut
            part = _string(f'"{waiting[:at]}"') if at >= 0 else None
            if part is None or part[1] != at + 2:
                continue
            ends_in_half = "\ud800" <= part[0][-1:] <= "\udbff"
            if ends_in_half and (cut < 6 or _LOW_SURROGATE.match(waiting, at)):
                continue
            self._waiting = waiting[at:]
            return part[0], False
        raise ValueError("a line is no JSON")


def _string(text: str) -> tuple[str, int] | None:
    """Return (the JSON string that a text begins with, where it ends); None when it does not."""
    try:
        found: tuple[str, int] = _DECODER.raw_decode(text)
    except ValueError:
        return None
    return found


def decoded(line: bytes) -> dict[str, Any]:
    """Return a line as an object. Raises ValueError."""
    try:
        found = _DECODER.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError("a line is no JSON") from error
    if not isinstance(found, dict):
        raise ValueError("a line is no row")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


_DECODER = json.JSONDecoder(parse_constant=_no_number)
