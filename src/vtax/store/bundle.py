"""A bundle: one run in a file, for another host or for keeping. gzip of lines of JSON, each ended by a line break.

The first line is {"vtax": "bundle/1", "schema": of the store, "anonymized": flag}. Then one line a row, {TABLE:
{COLUMN: value}}, as `transfer` orders them; a reference is the number of a row among those of its table, from 1;
outputs are text, of which long ones go on in lines {"more": {"stdout": text, "stderr": text}}. The last line is
{"sha256": of all bytes before it, uncompressed}. The same run makes the same bytes, except for the compression of
another zlib.

A bundle is read within bounds, its values are checked and cleaned as those of a store, and nothing in it names a
file. The hash shows damage; it does not show who made the bundle.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.host.foreign_file import open_foreign
from vtax.store import schema
from vtax.store.annotations import COLUMNS
from vtax.store.bundle_lines import MAX_BYTES, TEXTS, Bounds, decoded, in_pieces, joined, lines_of
from vtax.store.provenance import IMPORTED
from vtax.store.run import unpack, unpacked
from vtax.store.transfer import Row

FORMAT = "bundle/1"
_MAX_HEADER_BYTES = 1000
_MAGIC = b"\x1f\x8b"  # of gzip
_AT_ONCE_BYTES = 1 << 18  # that are hashed and compressed at once
A_BUNDLE = "a bundle"
_HINT = "name a bundle that vtax export wrote"
_ENCODER = json.JSONEncoder(allow_nan=False)


def write_bundle(path: Path, rows: Iterable[Row], *, is_anonymized: bool = False) -> str:
    """Write the rows of a run, see `as_text`; returns the SHA-256. Raises ValueError for what no bundle holds."""
    digest = hashlib.sha256()
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as stream:
        for lines in _pieces(_lines(rows, is_anonymized=is_anonymized)):
            digest.update(lines)
            stream.write(lines)
        stream.write(_line({"sha256": digest.hexdigest()}))
    return digest.hexdigest()


def sha256_of(rows: Iterable[Row]) -> str:
    """Return the SHA-256 of these rows of a store without tags and notes: equal of two copies of a run."""
    digest = hashlib.sha256()
    for table, row in rows:
        for name in TEXTS:
            if name in row:
                row[name] = hashlib.sha256(unpacked(row[name])).hexdigest()
        if table == "run":
            row["provenance"] = _without_import(row["provenance"])
            for name in COLUMNS:
                del row[name]
        digest.update(_line({table: row}))
    return digest.hexdigest()


def _pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines joined to pieces, since a call for every line would take most of the time."""
    waiting, size = list[bytes](), 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _AT_ONCE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _lines(rows: Iterable[Row], *, is_anonymized: bool) -> Iterator[bytes]:
    """Yield the lines but the last. Raises ValueError for what no bundle may have."""
    bounds = Bounds()
    yield _line({"vtax": FORMAT, "schema": schema.BUNDLE_VERSION, "anonymized": is_anonymized})
    for table, row in in_pieces(rows):
        line = _line({table: row})
        bounds.add_line(line)
        bounds.add_row(table, line)
        yield line


def as_text(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows of a store as a bundle has them: outputs are text, and no import into that store is mentioned."""
    for table, row in rows:
        if table == "output":
            for name in TEXTS:
                row[name] = unpack(row[name])
        elif table == "run":
            row["provenance"] = _without_import(row["provenance"])
        yield table, row


def _without_import(provenance: dict[str, Any]) -> dict[str, Any]:
    return {name: facts for name, facts in provenance.items() if name != IMPORTED}


def _line(value: dict[str, Any]) -> bytes:
    return _ENCODER.encode(value).encode() + b"\n"


class Bundle:
    """A bundle that is read once. sha256: its hash, after its rows were read; empty before.

    follows_links: as of `host.foreign_file.opened`.
    Raises BadInput for what is no bundle, or is of another schema.
    """

    def __init__(self, path: Path, *, follows_links: bool = True) -> None:
        self.path = path
        self.sha256 = ""
        self._follows_links = follows_links
        with _refused(path), self._opened() as stream:
            (header,) = decoded([stream.readline(_MAX_HEADER_BYTES) or b"null"])
        kind, version = header.get("vtax"), header.get("schema")
        if (
            not isinstance(kind, str)
            or not kind.startswith("bundle/")
            or not isinstance(version, str)
        ):
            raise _no_bundle(path)
        if kind != FORMAT or version != schema.BUNDLE_VERSION:
            raise BadInput(
                f"the bundle is of another vtax: {one_line(kind, 20)}, schema {one_line(version, 20)}; "
                f"this one reads {FORMAT}, schema {schema.BUNDLE_VERSION}",
                where=str(path),
                hint="import it with the vtax that wrote it",
            )
        self.is_anonymized = header.get("anonymized") is True

    def rows(self) -> Iterator[Row]:
        """Yield the rows as they are in the file, neither checked nor cleaned; at the end the hash is compared.

        Outputs are packed, as a store has them. Raises BadInput.
        """
        with _refused(self.path), self._opened() as stream:
            yield from joined(self._rows(stream))

    def _rows(self, stream: gzip.GzipFile) -> Iterator[Row]:
        bounds = Bounds()
        header = stream.readline(_MAX_HEADER_BYTES)
        digest = hashlib.sha256(header)
        bounds.add_line(header)
        end: object = None
        for lines in lines_of(stream, bounds):
            for line, row in zip(lines, decoded(lines), strict=True):
                if end is not None:
                    raise ValueError("something follows its end")
                if "sha256" in row and len(row) == 1:
                    end = row["sha256"]
                    continue
                digest.update(line)
                table, values = _row(row)
                bounds.add_row(table, line)
                yield table, values
        if end is None:
            raise ValueError("its end is missing")
        if end != digest.hexdigest():
            raise ValueError("its SHA-256 is not that of its content")
        self.sha256 = digest.hexdigest()

    @contextmanager
    def _opened(self) -> Iterator[gzip.GzipFile]:
        """Yield the file, unpacked as it is read. Raises OSError, BadInput."""
        with open_foreign(
            self.path, A_BUNDLE, MAX_BYTES, hint=_HINT, follows_links=self._follows_links
        ) as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise _no_bundle(self.path)
            file.seek(0)
            with gzip.GzipFile("", "rb", fileobj=file) as stream:
                yield stream


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Raise one BadInput for whatever a bundle cannot be read for."""
    try:
        yield
    except FileNotFoundError:
        raise BadInput(
            "there is no such file", where=str(path), hint="vtax export writes bundles"
        ) from None
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = str(error) if type(error) is ValueError else "it cannot be unpacked"
        raise BadInput(
            f"the bundle is damaged: {reason}",
            where=str(path),
            hint="copy it again, or export the run again",
        ) from error


def _no_bundle(path: Path) -> BadInput:
    return BadInput("this is not a bundle of vtax", where=str(path), hint="vtax export writes one")


def _row(line: dict[str, Any]) -> Row:
    """Return a line's object as a row. Raises ValueError."""
    if len(line) != 1:
        raise ValueError("a line is no row")
    ((table, row),) = line.items()
    if not isinstance(row, dict):
        raise ValueError("a line is no row")
    return table, row
